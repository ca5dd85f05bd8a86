"""Every header of src/, include/ and a rung compiles by itself, and all of src/device and src/tile can be
included in one file: for the simulator, traced, and by nvcc for the GPU. Arguments: the C++ compiler, the build folder, nvcc
or an empty string, and CUDA's include folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
GPU = (SRC / "harness/gpu", SRC / "sharded/gpu")  # these include CUDA's own headers
FOR_NVRTC = SRC / "jit" / "stand_ins"  # in place of headers that it does not have
HEADERS = sorted(
    p for p in SRC.rglob("*") if p.suffix in (".h", ".cuh") and not p.is_relative_to(FOR_NVRTC)
)
PUBLIC = sorted((ROOT / "include").rglob("*.h*"))
DEVICE = [p for p in HEADERS if p.is_relative_to(SRC / "device") or p.is_relative_to(SRC / "tile")]
OF_RUNGS = sorted((ROOT / "kernels").glob("v*/*.cuh"))

cxx, build, nvcc = "g++", "build", ""
cuda_includes: list[str] = []


def include(headers: list[Path]) -> str:
    return "".join(f'#include "{h}"\n' for h in headers)


def errors(source: str, command: list[str]) -> str:
    """What the compiler says of a file with this text; empty: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "headers.cu" if command[0] == nvcc else "headers.cpp")
        file.write_text(source)
        run = subprocess.run([*command, str(file)], capture_output=True, text=True)
        return (run.stderr or "failed") if run.returncode != 0 else ""


def by_host(source: str, *flags: str) -> str:
    folders = [f"-I{SRC}", f"-I{ROOT / 'include'}", f"-I{build}"]
    strict = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    command = [cxx, *strict, "-fno-strict-aliasing", "-fsyntax-only", *folders, *flags]
    return errors(source, command)


class Headers(unittest.TestCase):
    def test_each_compiles_by_itself(self) -> None:
        def alone(header: Path) -> str:
            flags = [f"-isystem{d}" for d in cuda_includes] if header.parent in GPU else []
            return by_host(include([header]), *flags)

        headers = [h for h in HEADERS + OF_RUNGS + PUBLIC if cuda_includes or h.parent not in GPU]
        self.assertGreater(len(headers), 50)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for header, found in zip(headers, pool.map(alone, headers)):
                with self.subTest(header=str(header.relative_to(ROOT))):
                    self.assertEqual(found, "")

    def test_device_headers_go_together(self) -> None:
        self.assertEqual(by_host(include(DEVICE)), "")
        self.assertEqual(by_host(include(DEVICE[::-1]), "-DGEMM_SIM_TRACED"), "")

    def test_device_headers_go_together_on_the_gpu(self) -> None:
        if not nvcc:
            self.skipTest("built without a CUDA toolkit")
        command = [nvcc, "-std=c++20", "-arch=sm_90a", "-ptx", "-o", os.devnull, f"-I{SRC}"]
        self.assertEqual(errors(include(DEVICE), command), "")


if __name__ == "__main__":
    cxx, build, nvcc, *cuda_includes = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
