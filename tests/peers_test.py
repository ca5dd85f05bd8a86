"""scripts/peers.py, and bench/peers with stand-ins for packages: NumPy in place of torch and GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import peers  # noqa: E402

MM = "def mm(a, b, out):\n    out[...] = a.astype('f8') @ b.astype('f8')\n"
STREAM = """
class cuda:
    def current_stream():
        return cuda
    cuda_stream = 0
"""
CUTE = """
class compile:
    def __init__(self, kernel, a, b, c, clusters, stream):
        self.kernel = kernel
    def __call__(self, a, b, c, stream):
        self.kernel(a.x, b.x, c.x)
"""
DLPACK = """
class from_dlpack:
    def __init__(self, x, assumed_align):
        self.x = x
    def mark_layout_dynamic(self, leading_dim):
        assert self.x.stride(leading_dim) == 1
        return self
"""
KERNEL = """
from torch import mm
class HopperWgmmaGemmPersistentKernel:
    def __init__(self, *options):
        pass
    def __call__(self, a, b, c):
        mm(a[..., 0], b[..., 0].T, out=c[..., 0])
"""
PACKAGES = {
    "torch.py": MM + STREAM,
    "triton_gemm.py": "from torch import mm as gemm",
    "quack/gemm_interface.py": "from torch import mm as gemm",
    "deep_gemm.py": "from torch import mm\ndef bf16_gemm_nt(a, b, d): mm(a, b.T, d)",
    "cuda/tile.py": "def launch(stream, grid, kernel, args): kernel(*args)",
    "cuda/bindings/driver.py": "CUstream = int",
    "cutlass/__init__.py": "Float32 = float",
    "cutlass/cute/__init__.py": CUTE,
    "cutlass/cute/runtime.py": DLPACK,
    "cutlass/utils.py": "class HardwareInfo:\n    def get_max_active_clusters(self, of): return 66",
}
CLONES = {
    "samples/MatMul.py": "from torch import mm\ndef matmul_kernel(a, b, c, *tile): mm(a, b, c)",
    "examples/python/CuTeDSL/cute/hopper/kernel/dense_gemm/dense_gemm_persistent.py": KERNEL,
}
# NumPy's arrays have no stride().
AS_TORCH = f"""
import numpy as np
from gemm_ladder.judge import _load
function = _load("{ROOT}/bench/peers/with_cute_dsl.py:cute_dsl")
class Tensor(np.ndarray):
    def stride(self, i):
        return self.strides[i] // self.itemsize
def cute_dsl(a, b, out):
    function(*(x.view(Tensor) for x in (a, b, out)))
"""
LAUNCHER = """
#include "of_include.h"
template <typename T> __global__ void product(size_t m, size_t n, size_t k, T alpha, const T* A, size_t lda,
                                              const T* B, size_t ldb, T beta, T* C, size_t ldc) {
  const size_t i = blockIdx.x, j = threadIdx.x;
  T sum = 0;
  for (size_t x = 0; x < k; ++x) sum += A[i * lda + x] * B[x * ldb + j];
  C[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * C[i * ldc + j]);
}
template <typename T> void launch_gemm_kernel_v00(size_t m, size_t n, size_t k, const T* alpha, const T* A, size_t lda,
    const T* B, size_t ldb, const T* beta, T* C, size_t ldc, cudaStream_t stream) {
  product<<<m, n, 0, stream>>>(m, n, k, *alpha, A, lda, B, ldb, *beta, C, ldc);
}
"""


class Peers(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, files: dict[str, str], folder: str) -> Path:
        for name, text in files.items():
            path = self.root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return self.root / folder

    def run_python(self, *arguments: object, status: int = 0, path: Path = ROOT) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{path}", "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        if status == 2:
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            return done.stderr
        return done.stdout

    def peers(self, *arguments: object, status: int = 0, path: Path = ROOT) -> str:
        return self.run_python(ROOT / "scripts/peers.py", *arguments, status=status, path=path)

    def test_each_is_judged_where_its_package_is(self) -> None:
        packages, clones = self.write(PACKAGES, "packages"), self.write(CLONES, "clones")
        report = self.root / "peers.json"
        names = [name for name in peers.PEERS if name != "cute_dsl"]
        for layout in ("nn", "nt"):
            told = self.peers(
                "--python", ",".join(names), "--dtype", "f16", "--layout", layout, "--json", report,
                "--shapes", "64,40x24x56", "--cutile", clones, path=packages,
            )  # fmt: skip
            for name in names:
                self.assertIn(f"| {name} | verified |", told)
            self.assertNotIn("not judged", told)
            found = [entry["name"] for entry in json.loads(report.read_text())["benchmarks"]]
            shapes = ("64x64x64", "40x24x56")
            self.assertEqual(found, [f"{n}/f16/{layout}/{s}" for n in names for s in shapes])

    def test_cute_dsl(self) -> None:
        packages, clones = self.write(PACKAGES, "packages"), self.write(CLONES, "clones")
        file = self.write({"as_torch.py": AS_TORCH}, "function") / "as_torch.py"
        os.environ["PEERS_CUTLASS"] = str(clones)
        self.addCleanup(os.environ.pop, "PEERS_CUTLASS")
        for layout in ("nn", "nt"):
            self.run_python("-m", "gemm_ladder.judge", f"{file}:cute_dsl", "--contiguous", "--backend",
                            "simulator", "--layout", layout, "--shapes", "64,40x24x56", path=packages)  # fmt: skip

    def test_what_is_missing_is_named(self) -> None:
        shapes = self.write({"two.txt": "16,24x40x56\n"}, "shapes") / "two.txt"
        told = self.peers("--python", "--shapes", shapes)
        self.assertIn("| gemm_ladder | verified |", told)
        last = told.splitlines()[-1]
        for reason in (
            "cute_dsl (No module named 'cutlass')",
            "cutile (No module named 'cuda')",
            "deep_gemm (No module named 'deep_gemm')",
            "quack (No module named 'quack')",
            "torch, triton (No module named 'torch')",
        ):
            self.assertIn(reason, last)
        self.assertTrue(last.startswith("not judged: "))
        packages = self.write(PACKAGES, "packages")
        told = self.peers("--python", "cutile", status=2, path=packages)
        self.assertIn("cutile (want --cutile DIR, a clone that has samples/MatMul.py)", told)
        told = self.peers("--python", "cute_dsl", "--cutlass", packages, status=2, path=packages)
        self.assertIn("No such file or directory", told)

    def test_a_wrong_one_is_a_verdict(self) -> None:
        stand_in = self.write({"torch.py": "def mm(a, b, out): out[...] = 0"}, "packages")
        told = self.peers("--python", "torch", "--shapes", "64,32", path=stand_in)
        self.assertRegex(told, r"\| torch \| 2 of 2: ")

    def test_a_clone(self) -> None:
        files = {
            "src/00_first.cu": LAUNCHER,
            "src/cuda_gemm_utils.cu": "",
            "include/of_include.h": "",
        }
        done = subprocess.run(
            [sys.executable, "-c", "import os, pathlib, peers; peers.BENCH = pathlib.Path(os.environ['GEMM_BENCH']); peers.main()",
             "--gemm-optimization", self.write(files, "clone"), "--size", "64"],
            env={**os.environ, "PYTHONPATH": str(ROOT / "scripts"), "XDG_CACHE_HOME": str(self.root)},
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        wanted = r"\| gemm_optimization_v00 \| verified \| verified \| no limit found"
        self.assertRegex(done.stdout, wanted)

    def test_bad_input_is_one_line(self) -> None:
        for arguments, sentence in (
            ((), "nothing to judge"),
            (("--python", "nope"), "--python nope: allowed are cute_dsl, cutile, deep_gemm"),
            (("--python", "--beta", "1"), "--python takes no "),
            (("--python", "--size", "x"), "invalid int value"),
            (("--python", "gemm_ladder", "--dtype", "int8"), "dtype is 'int8': allowed are"),
            (("--python", "gemm_ladder", "--shapes", "64x"), "shapes has '64x'"),
            (("--python", "--json", self.root / "no/x.json"), "no/x.json: no such folder"),
            (("--python", "--plot", "x.bmp"), "--plot x.bmp: want .png"),
            (("--gemm-optimization", self.root), "has no kernels: want a clone"),
            (("--sgemm-cuda", self.root), "has no src/kernels/1_naive.cuh: want a clone"),
            (("--python", "gemm_ladder", "--plot", self.root / "x.svg"), "nothing in it was timed"),
        ):
            with self.subTest(sentence):
                self.assertIn(sentence, self.peers(*arguments, status=2))


if __name__ == "__main__":
    unittest.main()
