"""Kernels of a user's own: what the judge says of right ones, limited ones, wrong ones and cheats.

In the simulator. Files are compiled when they are asked for, and kept in a folder of the test's.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import bench_process

ROOT = Path(__file__).parents[1]
FILES = ROOT / "tests" / "own"
CACHE = tempfile.TemporaryDirectory()
WHERE = r"(before gemm was called|at M = \d+, N = \d+, K = \d+)"
ENDED = rf"The program ended by itself \(exit 0\) {WHERE}; it was not judged\."
CRASHED = rf"The program crashed {WHERE}: "
REFUSED = CRASHED + r"it tried to start another process or to write to a file \(SIGSYS\)"

# What the kernel does, and the sentence about it.
CHEATS = {
    "exit": ENDED,
    "_exit": ENDED,
    "exit with a verdict": ENDED,
    "exit before main": ENDED,
    "write before main": REFUSED,
    "abort": CRASHED + r"aborted \(SIGABRT\)",
    "throw": "not today",
    "throw 42": "threw something that is no std::exception",
    "segfault": CRASHED + r"segmentation fault",
    "stack overflow": CRASHED + r"segmentation fault",
    "fault in a kernel": CRASHED + r"segmentation fault",
    "loop": rf"The program was stopped {WHERE}, after [\d.]+ seconds: it did not end\.",
    "fork": REFUSED,
    "system": REFUSED,
    "write a file": REFUSED,
    "forge": rf"The program wrote to the judge's channel {WHERE}|it did not end",
    "kill the judge": r"elements wrong.*likely: C is not written",
    "fill memory": r"used more than [\d.]+ GiB of memory",
    "on the host": "gemm launched no kernel",
    "a thread, later": "left a thread of its own running",
    "another stream": "launched on another stream than the call's",
    "the default stream": "launched on another stream than the call's",
    "nothing": r"elements wrong.*likely: C is not written",
    "kept by pointer": r"elements wrong",
    "kept by shape": r"have changed.*elements wrong.*keeps a result",
    "right at first": r"elements wrong",
    "changes A": r"A is an input, and was overwritten.*writes to A or B",
    "beyond C": r"1 elements outside C overwritten",
    "before C": r"1 elements outside C overwritten",
    "ignores ld": r"elements wrong.*elements outside C overwritten.*ldc, or an edge, is not kept to",
    "ignores alpha": r"elements wrong.*does not keep to lda, ldb, ldc, alpha or beta",
    "ignores beta": r"elements wrong.*does not keep to lda, ldb, ldc, alpha or beta",
    "every second row": r"every second row: a row stride is off",
    "last k": r"the last k-tile is left out",
    "TF32": r"bit for bit: .* elements wrong|rounds",
    "bfloat16": r"bit for bit: .* elements wrong|rounds",
    "sums in half": r"bit for bit: .* elements wrong",
    "integers": r"elements wrong.*rounds",
    "too many threads": r"a block of 64 x 32 x 1 threads",
    "returns an error": "cudaErrorInvalidValue",
}


def bench(*arguments: str, cheat: str = "") -> subprocess.CompletedProcess[str]:
    return bench_process.run(
        "GEMM_BENCH",
        "--backend",
        "sim",
        *arguments,
        env={"XDG_CACHE_HOME": CACHE.name, "CHEAT": cheat},
    )


class Cheats(unittest.TestCase):
    def test_each_is_refused_in_a_sentence(self) -> None:
        for cheat, sentence in CHEATS.items():
            with self.subTest(cheat):
                done = bench("--kernel", "tests/own/cheats.cu", "--size", "64", cheat=cheat)
                said = done.stdout + done.stderr
                if "before main" in cheat:  # nothing can be called
                    self.assertEqual(done.returncode, 2, said)
                    self.assertRegex(done.stderr, sentence)
                    continue
                self.assertEqual(done.returncode, 1, said)
                verdict = re.search(r"^cheats .*WRONG: (.*)$", done.stdout, re.MULTILINE)
                self.assertIsNotNone(verdict, said)
                assert verdict is not None
                self.assertRegex(verdict[1], sentence)
                self.assertIn("0 verified, 1 wrong", done.stdout.splitlines()[-1])

    def test_the_same_file_is_right_without(self) -> None:
        done = bench("--kernel", "tests/own/cheats.cu", "--size", "64")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no limit found", done.stdout)
        self.assertIn("1 verified, 0 wrong, 0 skipped", done.stdout)


SIGNATURE = "int M, int N, int K, const float* A, const float* B, float* C"
# Whole tiles of 32 x 32 alone, and no C.
WHOLE_TILES = f"""
__global__ void product({SIGNATURE}) {{
  __shared__ float sA[32][32], sB[32][32];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + x;
  float sum = 0;
  for (int k0 = 0; k0 < K; k0 += 32) {{
    sA[y][x] = A[row * K + k0 + x];
    sB[y][x] = B[(k0 + y) * N + col];
    __syncthreads();
    for (int k = 0; k < 32; ++k) sum += sA[y][k] * sB[k][x];
    __syncthreads();
  }}
  C[row * N + col] = sum;
}}
"""
CALL = f"""
void gemm({SIGNATURE}) {{
  dim3 gridDim((N + 31) / 32, (M + 31) / 32), blockDim(32, 32);
  product<<<gridDim, blockDim>>>(M, N, K, A, B, C);
}}
"""


class Files(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, text: str, name: str = "mine.cu") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def refused(self, sentence: str, *arguments: str) -> None:
        done = bench(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], sentence)

    def test_beside_a_rung_and_in_json(self) -> None:
        out = self.folder / "out.json"
        done = bench(
            "--kernel", "tests/own/tiled.cu,v2", "--dtype", "f32", "--shape", "33x65x40", "--json", str(out)
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        names = [b["name"] for b in json.loads(out.read_text())["benchmarks"]]
        self.assertEqual(
            names, ["v02_block_tile/f32/nn/33x65x40", "tiled/f32/nn/33x65x40"], done.stdout
        )

    def test_what_it_supports_is_found_and_said(self) -> None:
        mine = self.file(WHOLE_TILES + CALL)
        done = bench("--kernel", mine, "--shape", "64x96x32", "--shape", "65x64x64")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(
            done.stdout,
            r"f32 gemm\(M, N, K, A, B, C\), right where M is a multiple of 32, N is a multiple of 32, "
            r"K is a multiple of 32 only; at 257 x 256 x 256: ",
        )
        self.assertIn("is right at multiples of 32 in M only, not at 65", done.stdout)
        self.assertIn("1 verified, 0 wrong, 1 skipped", done.stdout)
        self.refused(
            "is right at multiples of 32 in K only", "--kernel", mine, "--shape", "32x32x33"
        )
        self.refused(
            "takes alpha = 1 and beta = 0 only", "--kernel", mine, "--size", "32", "--beta", "1"
        )
        self.refused(
            "takes rows without gaps only", "--kernel", mine, "--size", "32", "--ld-pad", "8"
        )
        self.refused("N, N operands only", "--kernel", mine, "--size", "32", "--op", "nt")

    def test_squares_and_short_sums_alone(self) -> None:
        rows = WHOLE_TILES.replace("row * N + col] = sum", "row * M + col] = sum")
        for text, sentence in (
            (rows, "right where M = N, M is a multiple of 32, K is a multiple of 32 only"),
            (
                rows.replace("row * K", "row * M"),
                "right where M = N = K, M is a multiple of 32 only",
            ),
            (
                WHOLE_TILES.replace("k0 < K", "k0 < 1000 && k0 < K"),
                "right where M is a multiple of 32, N is a multiple of 32, K is a multiple of 32, "
                "K is at most 1024 only",
            ),
        ):
            mine = self.file(text + CALL)
            done = bench("--kernel", mine, "--size", "64", "--shape", "64x96x2048")
            self.assertIn(sentence, done.stdout.splitlines()[0])
            self.assertIn("1 verified, 0 wrong, 1 skipped", done.stdout, sentence)

    def test_reading_c_where_beta_is_0(self) -> None:
        text = WHOLE_TILES.replace("const float* B, float*", "const float* B, float beta, float*")
        text = text.replace("] = sum;", "] = sum + beta * C[row * N + col];")
        call = CALL.replace("const float* B, float*", "const float* B, float beta, float*")
        call = call.replace("A, B, C)", "A, B, beta, C)").replace(
            "K, const", "K, float alpha, const"
        )
        mine = self.file(text + call)
        done = bench("--kernel", mine, "--size", "64")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("likely: C is read although beta is 0, and 0 * NaN is NaN", done.stdout)
        self.assertIn("reads C although beta is 0", done.stdout.splitlines()[0])

    def test_bounds_of_more_threads_than_a_block_has(self) -> None:
        mine = self.file(
            WHOLE_TILES.replace("void product", "void __launch_bounds__(2048) product")
        )
        self.refused(r"mine\.cu:\d+: __launch_bounds__ names more threads", "--kernel", mine)

    def test_a_compilers_words_have_the_users_lines(self) -> None:
        mine = self.file(WHOLE_TILES + "\n\nint broken = ;\n" + CALL)
        line = (WHOLE_TILES + "\n\n").count("\n") + 1
        self.refused(rf"mine\.cu:{line}: expected primary-expression", "--kernel", mine)

    def test_what_the_simulator_has_not_is_named_with_its_line(self) -> None:
        text = WHOLE_TILES.replace(
            "  C[row", '  asm volatile("bar.sync 0;" ::: "memory");\n  C[row'
        )
        line = text[: text.index("asm")].count("\n") + 1
        done = bench("--kernel", self.file(text + CALL), "--size", "32")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"mine\.cu:{line}: the simulator cannot run inline PTX")
        mine = self.file("\n#include <mma.h>\n" + WHOLE_TILES + CALL)
        done = bench("--kernel", mine)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.splitlines()[-1], r"mine\.cu:2: .*no nvcuda::wmma")

    def test_mma_sync_as_inline_ptx(self) -> None:
        """Operands in an order of the file's own, an index within them, and C apart from D."""
        text = """
#include <cuda_fp16.h>
__device__ unsigned pair(half x, half y) {
  half2 both = __halves2half2(x, y);
  return *(unsigned*)&both;
}
__global__ void tile(const half* A, const half* B, half* C, int K, int N) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  const half *a = A + (blockIdx.y * 16 + g) * K, *b = B + blockIdx.x * 8 + g;
  float d[4] = {}, e[4];
  for (int k = 2 * t; k < K; k += 16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%6, %7, %8, %9}, {%4, %5}, {%10, %10, %11, %11};"
        : "=f"(e[0]), "=f"(e[1]), "=f"(e[2]), "=f"(e[3])
        : "r"(pair(b[k * N], b[(k + 1) * N])), "r"(pair(b[(k + 8) * N], b[(k + 9) * N])),
          "r"(pair(a[k], a[k + 1])), "r"(pair(a[8 * K + k], a[8 * K + k + 1])),
          "r"(pair(a[k + 8], a[k + 9])), "r"(pair(a[8 * K + k + 8], a[8 * K + k + 9])),
          "f"(0.0f), "f"(threadIdx.x == 99 ? 1.0f : 0.0f));
    for (int i = 0; i < 4; ++i) d[i] += e[i];
  }
  for (int i = 0; i < 4; ++i)
    C[(blockIdx.y * 16 + g + i / 2 * 8) * N + blockIdx.x * 8 + 2 * t + i % 2] = d[i];
}
void gemm(int M, int N, int K, const half* A, const half* B, half* C) {
  tile<<<dim3(N / 8, M / 16), 32>>>(A, B, C, K, N);
}
"""
        done = bench("--kernel", self.file(text), "--size", "32")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        other = self.file(text.replace("m16n8k16.row", "m16n8k8.row"))
        done = bench("--kernel", other, "--size", "32")
        self.assertRegex(done.stdout, r"mine\.cu:12: the simulator cannot run inline PTX")

    def test_a_file_without_gemm(self) -> None:
        mine = self.file(WHOLE_TILES + CALL.replace("gemm(", "multiply("))
        self.refused("has no function gemm that can be called: want void gemm", "--kernel", mine)
        self.refused("has no function gemm", "--kernel", self.file("void gemm(float*, int) {}"))

    def test_a_copy_of_a_rung(self) -> None:
        rung = (ROOT / "kernels" / "v02_block_tile.cu").read_text(encoding="utf-8")
        self.refused(r"copy of a rung.*new_rung\.py", "--kernel", self.file(rung))

    def test_names(self) -> None:
        self.refused("no such file", "--kernel", "no/such.cu")
        self.refused("v2 is .* name.*; rename the file", "--kernel", self.file("", "v2.cu"))
        self.refused("letters, digits and _", "--kernel", self.file("", "my-kernel.cu"))
        (self.folder / "b").mkdir()
        both = self.file("", "one.cu") + "," + self.file("", "b/one.cu")
        self.refused("two files of the name one", "--kernel", both)

    def test_half_dynamic_shared_memory_and_an_included_file(self) -> None:
        kernel = WHOLE_TILES.replace("float*", "__nv_bfloat16*")
        kernel = kernel.replace(
            "__shared__ float sA[32][32], sB[32][32];",
            "extern __shared__ __align__(16) unsigned char memory[];\n"
            "  auto sA = (float (*)[32])memory, sB = (float (*)[32])(memory + 4096);",
        )
        self.file(
            kernel.replace("] = sum;", "] = __ushort_as_bfloat16(__bfloat16_as_ushort(sum));"),
            "kernel.cuh",
        )
        call = CALL.replace("float*", "__nv_bfloat16*").replace("blockDim>>>", "blockDim, 8192>>>")
        mine = self.file('#include <cuda_bf16.h>\n#include "kernel.cuh"\n' + call)
        done = bench("--kernel", mine, "--size", "64")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("bf16 gemm(M, N, K, A, B, C), right where", done.stdout)

    def test_the_microscope_finds_nothing_where_there_is_nothing(self) -> None:
        mine = self.file(WHOLE_TILES + CALL)
        done = bench("--kernel", mine + ",tests/own/tiled.cu", "--inspect", "--size", "64")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for name in ("mine", "tiled"):
            self.assertRegex(done.stdout, rf"(?m)^{name} .*all 4 .* \| ok")

    def test_vectors_of_shared_memory_are_aligned_as_on_a_gpu(self) -> None:
        text = WHOLE_TILES.replace(
            "sum += sA[y][k] * sB[k][x];",
            "sum += ((float4*)&sA[y][k & ~3])->x * 0 + sA[y][k] * sB[k][x];",
        )
        done = bench("--kernel", self.file(text + CALL), "--inspect", "--size", "64")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_race_is_named_by_its_lines(self) -> None:
        text = WHOLE_TILES.replace("    __syncthreads();\n  }", "  }")
        done = bench("--kernel", self.file(text + CALL), "--inspect", "--size", "64")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"race.*mine\.cu:10.*mine\.cu:[78]\b")

    def test_an_inspection_that_its_kernel_ends(self) -> None:
        done = bench("--kernel", "tests/own/cheats.cu", "--inspect", "--size", "32", cheat="exit")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("before the inspection was done", done.stderr)


if __name__ == "__main__":
    unittest.main()
