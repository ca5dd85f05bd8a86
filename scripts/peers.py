#!/usr/bin/env python3
"""Judges kernels of other projects that are on this machine: a table, and one JSON for figures.

  scripts/peers.sh --sgemm-cuda ~/SGEMM_CUDA --sgemm-practice ~/NVIDIA_SGEMM_PRACTICE
  scripts/peers.sh --sgemm-cuda ~/SGEMM_CUDA --size 4096 --json peers.json   (a GPU)
  scripts/peers.sh --python --dtype bf16 --layout nt --shapes peers --json peers.json --plot peers.svg
  scripts/peers.sh --python triton,quack --size 4096                         some of bench/peers

Kernels are theirs, as cloned; only the launch is written here, as their own programs have it. Without a
GPU they run in the simulator: what is right, and where. With one, also what share of cuBLAS each
reaches. --python judges what is installed of bench/peers, ours among them, and wants a GPU for theirs;
what is not there is named with its reason. --plot is the picture of scripts/compare.py.

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
from statistics import geometric_mean
from typing import Any

from common.ladder import ROOT, BadInput, fail
from compare import SUFFIXES, Parser

BENCH = ROOT / "gemm_bench"
PEERS = {
    path.stem.removeprefix("with_"): path
    for path in sorted((ROOT / "bench/peers").glob("with_*.py"))
}
EXAMPLES = ("cutlass", "cutile")  # clones that files of bench/peers ask for


@dataclass(frozen=True)
class Kernel:
    """A kernel of another project: its file there, and a file that gives it the form of ours."""

    name: str
    file: str
    adapter: str


def sgemm(name: str, file: str, kernel: str, grid: str, threads: str, before: str = "") -> Kernel:
    """A bare kernel: rows without gaps, inputs that are not const. `before`: lines that its project
    has in another file."""
    adapter = (
        "#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))\n"
        f'{before}#include "{file}"\n'
        "void gemm(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C) {\n"
        f"  {kernel}<<<dim3({grid}), dim3({threads})>>>(M, N, K, alpha, A, B, beta, C);\n"
        "}\n"
    )
    return Kernel(name, file, adapter)


def columns(bn: int, bm: int) -> str:
    return f"CEIL_DIV(N, {bn}), CEIL_DIV(M, {bm})"


def rows(bm: int, bn: int) -> str:
    return f"CEIL_DIV(M, {bm}), CEIL_DIV(N, {bn})"


def tiles(number: int, file: str, kernel: str) -> Kernel:
    return sgemm(f"sgemm_cuda_{number}", f"src/kernels/{file}.cuh", f"{kernel}<128, 128, 8, 8, 8>", columns(128, 128), "256")  # fmt: skip


SGEMM_CUDA = [
    sgemm("sgemm_cuda_1", "src/kernels/1_naive.cuh", "sgemm_naive", rows(32, 32), "32, 32"),
    sgemm("sgemm_cuda_2", "src/kernels/2_kernel_global_mem_coalesce.cuh", "sgemm_global_mem_coalesce<32>", rows(32, 32), "32 * 32"),
    sgemm("sgemm_cuda_3", "src/kernels/3_kernel_shared_mem_blocking.cuh", "sgemm_shared_mem_block<32>", rows(32, 32), "32 * 32"),
    sgemm("sgemm_cuda_4", "src/kernels/4_kernel_1D_blocktiling.cuh", "sgemm1DBlocktiling<64, 64, 8, 8>", columns(64, 64), "512"),
    tiles(5, "5_kernel_2D_blocktiling", "sgemm2DBlocktiling"),
    tiles(6, "6_kernel_vectorize", "sgemmVectorize"),
    tiles(7, "7_kernel_resolve_bank_conflicts", "sgemmResolveBankConflicts"),
    tiles(8, "8_kernel_bank_extra_col", "sgemmResolveBankExtraCol"),
    sgemm("sgemm_cuda_9", "src/kernels/9_kernel_autotuned.cuh", "sgemmAutotuned<128, 128, 16, 8, 8>", columns(128, 128), "K9_NUM_THREADS"),
    sgemm("sgemm_cuda_10", "src/kernels/10_kernel_warptiling.cuh", "sgemmWarptiling<128, 128, 16, 64, 64, 4, 8, 4, 128>", columns(128, 128), "128"),
    sgemm("sgemm_cuda_11", "src/kernels/11_kernel_double_buffering.cuh", "sgemmDoubleBuffering<128, 256, 16, 32, 128, 1, 8, 8, 256>", columns(256, 128), "256", "const int WARPSIZE = 32;\n"),
    sgemm("sgemm_cuda_12", "src/kernels/12_kernel_double_buffering.cuh", "runSgemmDoubleBuffering2<128, 128, 16, 64, 64, 4, 8, 4, 128>", columns(128, 128), "128", "const int WARPSIZE = 32;\n"),
]  # fmt: skip
SGEMM_PRACTICE = [
    sgemm("sgemm_practice_1", "src/kernel/kernel_1.cuh", "mysgemm_v1", rows(32, 32), "32, 32"),
    sgemm("sgemm_practice_2", "src/kernel/kernel_2.cuh", "mysgemm_v2<32>", rows(32, 32), "1024"),
    sgemm("sgemm_practice_3", "src/kernel/kernel_3.cuh", "mysgemm_v3<64, 64, 8, 8>", rows(64, 64), "512"),
    *[
        sgemm(f"sgemm_practice_{i}", f"src/kernel/kernel_{i}.cuh", f"mysgemm_v{i}<128, 128, 8, 8, 8>", rows(128, 128), "256")
        for i in (4, 5, 6, 7)
    ],
]  # fmt: skip
WITH_LD = "const float* A, int lda, const float* B, int ldb, float beta, float* C, int ldc"
# An HGEMM by CUTLASS's builders for Hopper: a tile of 128 x 256 x 64 in clusters of two.
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
# The basic example is of columns, so C^T = B^T A^T.
CUTLASS = [Kernel("cutlass_basic_gemm", "examples/00_basic_gemm/basic_gemm.cu", f"""
#define main main_of_the_example
#include "examples/00_basic_gemm/basic_gemm.cu"
#undef main
cudaError_t gemm(int M, int N, int K, float alpha, {WITH_LD}) {{
  return CutlassSgemmNN(N, M, K, alpha, B, ldb, A, lda, beta, C, ldc);
}}
"""), Kernel("cutlass_hgemm", "include/cutlass/gemm/device/gemm_universal_adapter.h", CUTLASS_HGEMM)]  # fmt: skip


def gemm_optimization(clone: Path) -> list[Kernel]:
    """A file a kernel, each with a launcher of one form. Those from 07 on take half alone, and round
    their sums to it."""
    found = []
    for path in sorted(clone.glob("src/0[0-6]*.cu")):
        launcher = re.search(r"launch_gemm_kernel_(\w+)", path.read_text(errors="replace"))
        if launcher:
            file = f"src/{path.name}"
            found.append(Kernel(f"gemm_optimization_{launcher[1]}", file, f"""
#include "{file}"
#include "src/cuda_gemm_utils.cu"
void gemm(int M, int N, int K, float alpha, {WITH_LD}, cudaStream_t stream) {{
  {launcher[0]}(M, N, K, &alpha, A, lda, B, ldb, &beta, C, ldc, stream);
}}
"""))  # fmt: skip
    return found


INCLUDES = (".", "include", "tools/util/include", "examples/common")  # of clones


def run(command: list[str], include: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "CPATH": ":".join(str(include / folder) for folder in INCLUDES)},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )


def verdict(entries: list[dict[str, Any]]) -> str:
    wrong = [message for e in entries if (message := str(e.get("error_message", "")))]
    if wrong:
        of = f"{len(wrong)} of {len(entries)}: " if len(entries) > 1 else ""
        return of + re.split(r"[:;,]", wrong[0])[0].lower()[:40]
    ratios = [e["ratio"] for e in entries if "ratio" in e]
    return f"{geometric_mean(ratios):.3f} of cuBLAS" if ratios else "verified"


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
        return says, verdict(found["benchmarks"])

    def microscope(self, adapter: Path, include: Path) -> str:
        done = run(
            [str(BENCH), "--kernel", str(adapter), "--inspect", "--size", "128", "--beta", "0.5"],
            include,
        )
        kinds = re.findall(r"^      ([a-z][a-z ]*?)(?: \(\d+ times\))?:", done.stdout, re.MULTILINE)
        return ", ".join(dict.fromkeys(kinds)) or {0: "nothing"}.get(done.returncode, "-")

    def judge(self, kernels: list[Kernel], clone: Path) -> None:
        if not kernels:
            raise BadInput(f"{clone} has no kernels: want a clone of that project")
        with tempfile.TemporaryDirectory() as there:
            for kernel in kernels:
                if not (clone / kernel.file).is_file():
                    raise BadInput(f"{clone} has no {kernel.file}: want a clone of that project")
                adapter = Path(there, kernel.name + ".cu")
                adapter.write_text(kernel.adapter)
                says, first = self.bench(adapter, clone)
                second = self.bench(adapter, clone, "--beta", "0.5")[1] if says else "-"
                seen = self.microscope(adapter, clone) if says else "-"
                self.row(kernel.name, first, second, says or "-", seen)

    def python(self, names: list[str]) -> None:
        """Functions of bench/peers, each in a process of its own."""
        o, reasons = self.options, dict[str, list[str]]()
        paths = [str(ROOT / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {**os.environ, "PYTHONPATH": ":".join(paths)}
        env |= {f"PEERS_{e.upper()}": str(c.resolve()) for e in EXAMPLES if (c := getattr(o, e))}
        for name in names:
            with tempfile.TemporaryDirectory() as there:
                report = Path(there, "report.json")
                done = subprocess.run(
                    [sys.executable, "-m", "gemm_ladder.judge", f"{PEERS[name]}:{name}", "--contiguous",
                     "--dtype", o.dtype, "--layout", o.layout, "--shapes", o.shapes or str(o.size),
                     "--json", str(report), *self.rest],
                    capture_output=True, text=True, errors="replace", check=False, env=env,
                )  # fmt: skip
                if not report.exists():
                    last = (done.stderr.strip().splitlines() or ["no result"])[-1]
                    why = re.sub(r"^judge: (\S+\.py: \w+: )?", "", last)
                    reasons.setdefault(why, []).append(name)
                    continue
                found = json.loads(report.read_text())
            self.context = self.context or found["context"]
            self.entries += found["benchmarks"]
            self.row(name, verdict(found["benchmarks"]), "-", "-", "-")
        told = "; ".join(f"{', '.join(who)} ({why})" for why, who in reasons.items())
        if not self.entries:
            raise BadInput(f"nothing was judged: {told}")
        if told:
            print(f"not judged: {told}", flush=True)

    @staticmethod
    def row(*cells: str) -> None:
        print("| " + " | ".join(cells) + " |", flush=True)


def named(spec: str) -> list[str]:
    names = spec.split(",") if spec != "all" else list(PEERS)
    if unknown := [name for name in names if name not in PEERS]:
        raise BadInput(f"--python {unknown[0]}: allowed are {', '.join(PEERS)}")
    return names


def main() -> int:
    parser = Parser(
        prog="scripts/peers.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )  # fmt: skip
    parser.add_argument("--sgemm-cuda", type=Path, help="a clone of siboehm/SGEMM_CUDA")
    parser.add_argument("--sgemm-practice", type=Path, help="one of wangzyon/NVIDIA_SGEMM_PRACTICE")
    parser.add_argument("--gemm-optimization", type=Path, help="of leimao/CUDA-GEMM-Optimization")
    parser.add_argument("--cutlass", type=Path, help="of NVIDIA/cutlass: C++, or for --python")
    parser.add_argument("--cutile", type=Path, help="of NVIDIA/cutile-python, for --python")
    parser.add_argument("--python", nargs="?", const="all", metavar="NAMES", help=", ".join(PEERS))
    parser.add_argument("--dtype", default="f32", help="of --python")
    parser.add_argument("--layout", default="nn", help="of --python")
    parser.add_argument("--shapes", help="of --python: a file, a set of bench/shapes, 512x64x128")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--json", type=Path, help="where all results go")
    parser.add_argument("--plot", type=Path, help="one picture of them: .svg, .png or .html")
    options, rest = parser.parse_known_args()
    clones = {
        "sgemm_cuda": lambda clone: SGEMM_CUDA,
        "sgemm_practice": lambda clone: SGEMM_PRACTICE,
        "gemm_optimization": gemm_optimization,
        "cutlass": lambda clone: CUTLASS,
    }
    if options.python:
        del clones["cutlass"]  # the clone is for its other example
    given = {name: clone for name in clones if (clone := getattr(options, name))}
    if not (given or options.python):
        raise BadInput("nothing to judge: want --python, or a clone such as --sgemm-cuda DIR")
    names = named(options.python) if options.python else []
    if names and (unknown := set(rest) - {"--quick", "--verify-only"}):
        raise BadInput(f"--python takes no {min(unknown)} (--help lists what is allowed)")
    if options.plot and options.plot.suffix not in SUFFIXES:
        raise BadInput(f"--plot {options.plot}: want {', '.join(SUFFIXES)}")
    for path in filter(None, (options.json, options.plot)):
        if not path.absolute().parent.is_dir():
            raise BadInput(f"{path}: no such folder")
    table = Table(options, rest)
    table.row(
        "kernel", options.shapes or f"{options.size}", "beta 0.5", "found out", "microscope finds"
    )
    table.row(*["---"] * 5)
    for name, clone in given.items():
        table.judge(clones[name](clone), clone.resolve())
    if names:
        table.python(names)
    with tempfile.TemporaryDirectory() as there:
        report = options.json or Path(there, "peers.json")
        report.write_text(
            json.dumps({"context": table.context, "benchmarks": table.entries}, indent=1) + "\n"
        )
        if options.plot:
            drawing = [sys.executable, str(ROOT / "scripts/compare.py"), str(report), "--quiet"]
            return subprocess.run([*drawing, "--plot", str(options.plot)], check=False).returncode
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        fail(error)
