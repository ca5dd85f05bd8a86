#!/usr/bin/env python3
"""Judges kernels of other projects that are on this machine: a table, and one JSON for figures.

  scripts/peers.sh --sgemm-cuda ~/SGEMM_CUDA --sgemm-practice ~/NVIDIA_SGEMM_PRACTICE
  scripts/peers.sh --sgemm-cuda ~/SGEMM_CUDA --size 4096 --json peers.json   (a GPU)
  scripts/peers.sh --torch --dtype bf16 --layout nt --size 4096              (a GPU, and torch)
  scripts/peers.sh --cutlass ~/cutlass --size 4096                           (a Hopper)

Kernels are theirs, as cloned; only the launch is written here, as their own programs have it. Without a
GPU they run in the simulator: what is right, and where. With one, also what share of cuBLAS each
reaches. scripts/compare.py peers.json --plot peers.svg draws the JSON.

Exit status: 0, also where kernels are wrong: that is what the table says; 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common.ladder import ROOT, BadInput, fail

BENCH = ROOT / "gemm_bench"
# How both ladders are called: rows without gaps, and inputs that are not const.
SIGNATURE = "void gemm(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C)"
ARGUMENTS = "(M, N, K, alpha, A, B, beta, C)"


@dataclass(frozen=True)
class Kernel:
    """A kernel of another project: its file there, its name with template arguments, its launch."""

    name: str
    file: str
    kernel: str
    grid: str  # blocks along x and y
    threads: str
    before: str = ""  # lines that its project has in another file
    whole: str = ""  # the adapter, where it is no launch

    def adapter(self) -> str:
        return self.whole or (
            "#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))\n"
            f'{self.before}#include "{self.file}"\n'
            f"{SIGNATURE} {{\n"
            f"  {self.kernel}<<<dim3({self.grid}), dim3({self.threads})>>>{ARGUMENTS};\n"
            "}\n"
        )


def columns(bn: int, bm: int) -> str:
    return f"CEIL_DIV(N, {bn}), CEIL_DIV(M, {bm})"


def rows(bm: int, bn: int) -> str:
    return f"CEIL_DIV(M, {bm}), CEIL_DIV(N, {bn})"


def tiles(number: int, file: str, kernel: str) -> Kernel:
    return Kernel(f"sgemm_cuda_{number}", f"src/kernels/{file}.cuh", f"{kernel}<128, 128, 8, 8, 8>", columns(128, 128), "256")  # fmt: skip


SGEMM_CUDA = [
    Kernel("sgemm_cuda_1", "src/kernels/1_naive.cuh", "sgemm_naive", rows(32, 32), "32, 32"),
    Kernel("sgemm_cuda_2", "src/kernels/2_kernel_global_mem_coalesce.cuh", "sgemm_global_mem_coalesce<32>", rows(32, 32), "32 * 32"),
    Kernel("sgemm_cuda_3", "src/kernels/3_kernel_shared_mem_blocking.cuh", "sgemm_shared_mem_block<32>", rows(32, 32), "32 * 32"),
    Kernel("sgemm_cuda_4", "src/kernels/4_kernel_1D_blocktiling.cuh", "sgemm1DBlocktiling<64, 64, 8, 8>", columns(64, 64), "512"),
    tiles(5, "5_kernel_2D_blocktiling", "sgemm2DBlocktiling"),
    tiles(6, "6_kernel_vectorize", "sgemmVectorize"),
    tiles(7, "7_kernel_resolve_bank_conflicts", "sgemmResolveBankConflicts"),
    tiles(8, "8_kernel_bank_extra_col", "sgemmResolveBankExtraCol"),
    Kernel("sgemm_cuda_9", "src/kernels/9_kernel_autotuned.cuh", "sgemmAutotuned<128, 128, 16, 8, 8>", columns(128, 128), "K9_NUM_THREADS"),
    Kernel("sgemm_cuda_10", "src/kernels/10_kernel_warptiling.cuh", "sgemmWarptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>", columns(128, 128), "128"),
    Kernel("sgemm_cuda_11", "src/kernels/11_kernel_double_buffering.cuh", "sgemmDoubleBuffering<128, 256, 16, 32, 128, 1, 8, 8, 256>", columns(256, 128), "256", "const int WARPSIZE = 32;\n"),
    Kernel("sgemm_cuda_12", "src/kernels/12_kernel_double_buffering.cuh", "runSgemmDoubleBuffering2<128, 128, 16, 64, 64, 4, 8, 4, 128>", columns(128, 128), "128", "const int WARPSIZE = 32;\n"),
]  # fmt: skip
SGEMM_PRACTICE = [
    Kernel("sgemm_practice_1", "src/kernel/kernel_1.cuh", "mysgemm_v1", rows(32, 32), "32, 32"),
    Kernel("sgemm_practice_2", "src/kernel/kernel_2.cuh", "mysgemm_v2<32>", rows(32, 32), "1024"),
    Kernel("sgemm_practice_3", "src/kernel/kernel_3.cuh", "mysgemm_v3<64, 64, 8, 8>", rows(64, 64), "512"),
    *[
        Kernel(f"sgemm_practice_{i}", f"src/kernel/kernel_{i}.cuh", f"mysgemm_v{i}<128, 128, 8, 8, 8>", rows(128, 128), "256")
        for i in (4, 5, 6, 7)
    ],
]  # fmt: skip

# The SGEMM of CUTLASS's defaults, and an HGEMM by its builders for Hopper: a tile of 128 x 256 x 64 in
# clusters of two.
CUTLASS_SGEMM = """#include "cutlass/gemm/device/gemm.h"
cudaError_t gemm(int M, int N, int K, float alpha, const float* A, int lda, const float* B, int ldb,
                 float beta, float* C, int ldc, cudaStream_t stream) {
  using Row = cutlass::layout::RowMajor;
  cutlass::gemm::device::Gemm<float, Row, float, Row, float, Row, float,
                              cutlass::arch::OpClassSimt, cutlass::arch::Sm80> product;
  const auto status = product({{M, N, K}, {A, lda}, {B, ldb}, {C, ldc}, {C, ldc}, {alpha, beta}},
                              nullptr, stream);
  return status == cutlass::Status::kSuccess ? cudaGetLastError() : cudaErrorInvalidValue;
}
"""
CUTLASS_HGEMM = """#define NDEBUG  // an assert between wgmma would serialise them
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"

namespace of_cutlass {
using namespace cutlass;
using Row = layout::RowMajor;
using Block = cute::Shape<cute::_128, cute::_256, cute::_64>;
using Cluster = cute::Shape<cute::_2, cute::_1, cute::_1>;
using Store = epilogue::collective::CollectiveBuilder<
    arch::Sm90, arch::OpClassTensorOp, Block, Cluster, epilogue::collective::EpilogueTileAuto,
    float, float, half_t, Row, 8, half_t, Row, 8,
    epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
using Multiply = gemm::collective::CollectiveBuilder<
    arch::Sm90, arch::OpClassTensorOp, half_t, Row, 8, half_t, Row, 8, float, Block, Cluster,
    gemm::collective::StageCountAutoCarveout<int(sizeof(Store::SharedStorage))>,
    gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
using Kernel = gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Multiply, Store>;
using Product = gemm::device::GemmUniversalAdapter<Kernel>;
}  // namespace of_cutlass

cudaError_t gemm(int M, int N, int K, float alpha, const half* A, int lda, const half* B, int ldb,
                 float beta, half* C, int ldc, cudaStream_t stream) {
  using namespace cutlass;
  using of_cutlass::Kernel;
  const Kernel::StrideA rows_a{lda, {}, 0};
  const Kernel::StrideB rows_b{{}, ldb, 0};
  const Kernel::StrideC rows_c{ldc, {}, 0};
  const auto a = reinterpret_cast<const half_t*>(A), b = reinterpret_cast<const half_t*>(B);
  const auto c = reinterpret_cast<half_t*>(C);
  const auto status = of_cutlass::Product().run(
      {cutlass::gemm::GemmUniversalMode::kGemm, {M, N, K, 1}, {a, rows_a, b, rows_b},
       {{alpha, beta}, c, rows_c, c, rows_c}},
      nullptr, stream);
  return status == Status::kSuccess ? cudaGetLastError() : cudaErrorInvalidValue;
}
"""
CUTLASS = [
    Kernel("cutlass_sgemm", "cutlass/gemm/device/gemm.h", "", "", "", whole=CUTLASS_SGEMM),
    Kernel("cutlass_hgemm", "cutlass/gemm/device/gemm.h", "", "", "", whole=CUTLASS_HGEMM),
]


def run(command: list[str], include: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "CPATH": str(include)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def verdict(entry: dict[str, Any]) -> str:
    message = str(entry.get("error_message", ""))
    if message:
        return re.split(r"[:;,]", message)[0].lower()[:40]
    return f"{entry['ratio']:.3f} of cuBLAS" if "ratio" in entry else "verified"


class Table:
    def __init__(self, options: argparse.Namespace, rest: list[str]) -> None:
        self.options, self.rest = options, rest  # `rest`: gemm_bench's
        self.entries: list[dict[str, Any]] = []
        self.context: dict[str, Any] = {}

    def bench(self, adapter: Path, include: Path, *more: str) -> tuple[str, str]:
        """What was found out about the kernel, and the verdict at the size."""
        with tempfile.TemporaryDirectory() as there:
            report = Path(there, "report.json")
            done = run(
                [str(BENCH), "--kernel", str(adapter), "--size", str(self.options.size),
                 "--json", str(report), *self.rest, *more], include)  # fmt: skip
            if not report.exists():
                last = (done.stderr.strip().splitlines() or ["?"])[-1]
                return "", re.sub(r"\S*/", "", last.partition(" compile: ")[2] or last)
            found = json.loads(report.read_text())
        self.context = found["context"]
        self.entries += found["benchmarks"]
        says = done.stdout.splitlines()[0].partition("), ")[2].partition("; at ")[0]
        says = re.sub("reads C although.*with --beta 1 ", "reads C where beta is 0; else ", says)
        says = re.sub("([NK]) is a multiple of", r"\1 of", says.replace(" only", ""))
        says = re.sub(r"block \d+: |thread \d+ \(warp \d+, lane \d+\) and ", "", says)
        return says, verdict(found["benchmarks"][0])

    def microscope(self, adapter: Path, include: Path) -> str:
        done = run(
            [str(BENCH), "--kernel", str(adapter), "--inspect", "--size", "128", "--beta", "0.5"],
            include,
        )
        kinds = re.findall(r"^      ([a-z][a-z ]*?)(?: \(\d+ times\))?:", done.stdout, re.MULTILINE)
        return ", ".join(dict.fromkeys(kinds)) or {0: "nothing"}.get(done.returncode, "-")

    def judge(self, kernels: list[Kernel], clone: Path) -> None:
        with tempfile.TemporaryDirectory() as there:
            for kernel in kernels:
                if not (clone / kernel.file).is_file():
                    raise BadInput(f"{clone} has no {kernel.file}: want a clone of that project")
                adapter = Path(there, kernel.name + ".cu")
                adapter.write_text(kernel.adapter())
                says, first = self.bench(adapter, clone)
                second = self.bench(adapter, clone, "--beta", "0.5")[1] if says else "-"
                seen = self.microscope(adapter, clone) if says else "-"
                self.row(kernel.name, first, second, says or "-", seen)

    def torch(self) -> None:
        with tempfile.TemporaryDirectory() as there:
            report = Path(there, "report.json")
            done = subprocess.run(
                [sys.executable, "-m", "gemm_ladder.judge", f"{ROOT / 'scripts' / 'peers_torch.py'}:torch_mm",
                 "--dtype", self.options.dtype, "--layout", self.options.layout,
                 "--shapes", str(self.options.size), "--json", str(report)],
                capture_output=True, text=True, check=False,
                env={"PYTHONPATH": str(ROOT / "python"), **os.environ},
            )  # fmt: skip
            if not report.exists():
                raise BadInput((done.stderr.strip().splitlines() or ["torch.mm: no result"])[-1])
            found = json.loads(report.read_text())
        self.context = self.context or found["context"]
        self.entries += found["benchmarks"]
        self.row("torch_mm", verdict(found["benchmarks"][0]), "-", "-", "-")

    @staticmethod
    def row(*cells: str) -> None:
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/peers.sh", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--sgemm-cuda", type=Path, help="a clone of siboehm/SGEMM_CUDA")
    parser.add_argument("--sgemm-practice", type=Path, help="one of wangzyon/NVIDIA_SGEMM_PRACTICE")
    parser.add_argument("--cutlass", type=Path, help="one of NVIDIA/cutlass; wants a Hopper")
    parser.add_argument("--torch", action="store_true", help="torch.mm, on a GPU")
    parser.add_argument("--dtype", default="f32", help="of torch.mm")
    parser.add_argument("--layout", default="nn", help="of torch.mm")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--json", type=Path, help="where all results go")
    options, rest = parser.parse_known_args()
    include = options.cutlass and options.cutlass / "include"
    peers = ((SGEMM_CUDA, options.sgemm_cuda), (SGEMM_PRACTICE, options.sgemm_practice), (CUTLASS, include))  # fmt: skip
    if not (options.torch or any(clone for _, clone in peers)):
        raise BadInput("nothing to judge: want a clone, as --sgemm-cuda DIR, or --torch")
    table = Table(options, rest)
    table.row("kernel", f"{options.size}", "beta 0.5", "found out", "microscope finds")
    table.row(*["---"] * 5)
    for kernels, clone in peers:
        if clone is not None:
            table.judge(kernels, clone.resolve())
    if options.torch:
        table.torch()
    if options.json:
        options.json.write_text(
            json.dumps({"context": table.context, "benchmarks": table.entries}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        fail(error)
