#!/usr/bin/env python3
"""Times sharded products with a process for each GPU: gemm_ladder's, NCCL and a product, torch's own.

    torchrun --nproc-per-node 2 bench/ranks.py --json ranks.json

All ways take turns, A B C A B C, on the same operands. A sample is several calls in a row on all ranks,
and its time is that of the rank that takes longest. A ratio is taken within a turn. Each way's result is
checked first, on 64 rows, against double precision.

  ours              gemm_ladder.AllGatherGemm, GemmReduceScatter and GemmAllReduce
  one process       the same, called by rank 0 for all GPUs
  nccl, cublas      NCCL's collective and torch.mm, one after the other
  nccl, ours        NCCL's collective and gemm_ladder.matmul, one after the other
  torch             torch.ops.symm_mem.fused_all_gather_matmul and fused_matmul_reduce_scatter
                    of all-reduce torch.mm and torch.ops.symm_mem.two_shot_all_reduce_
  torch native      the first of these with TORCH_SYMM_MEM_ENABLE_NATIVE_ASYNC_TP
  torch one shot    of all-reduce torch.mm and torch.ops.symm_mem.one_shot_all_reduce

The serial time is that of the faster of the two ways with NCCL. NVLink multicast stays off. All-reduce
has shapes of its own unless --shapes is given: layers of 8192 x 8192 and 28672 x 8192, sharded along K.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
os.environ["NCCL_NVLS_ENABLE"] = "0"

import torch
import torch.distributed as dist

import gemm_ladder

SHAPES = "8192x8192x8192,2048x8192x8192,8192x28672x8192,4096x4096x4096"
REDUCED_M, REDUCED_N, REDUCED_K = (16, 32, 64, 128, 256, 512, 2048, 8192), 8192, (8192, 28672)
NATIVE = "TORCH_SYMM_MEM_ENABLE_NATIVE_ASYNC_TP"
SERIAL = ("nccl, cublas", "nccl, ours")
KINDS = {
    "all_gather": gemm_ladder.AllGatherGemm,
    "reduce_scatter": gemm_ladder.GemmReduceScatter,
    "all_reduce": gemm_ladder.GemmAllReduce,
}
WARM_TURNS, SAMPLE_MS, MOST_CALLS, ROWS = 2, 12.0, 200, 32
Way = Callable[[], Any]


class Operands:
    """One rank's matrices, and the ways of one collective."""

    def __init__(self, collective: str, m: int, n: int, k: int, layout: str) -> None:
        self.collective, self.shape, self.layout = collective, (m, n, k), layout
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.gathers = collective == "all_gather"
        self.reduces = collective == "all_reduce"
        self.own = m if self.reduces else m // self.ranks  # rows that A or C has
        self.a = self.random(self.own if self.gathers else m, k)
        self.b = self.weights()
        self.c = self.random(m if self.gathers else self.own, n)
        self.whole = self.random(m, k if self.gathers else n)  # what NCCL gathers or scatters
        self.kept: list[Any] = []  # products of ours

    def random(self, rows: int, cols: int, device: Any = "cuda") -> Any:
        """Numbers from -1 to 1."""
        return torch.empty(rows, cols, device=device, dtype=torch.bfloat16).uniform_(-1, 1)

    def weights(self, device: Any = "cuda") -> Any:
        _, n, k = self.shape
        return self.random(n, k, device).t() if self.layout == "nt" else self.random(k, n, device)

    def product(self, **named: Any) -> Any:
        made = KINDS[self.collective](*self.shape, torch.bfloat16, layout=self.layout, **named)
        self.kept.append(made)
        return made

    def ours(self) -> Way:
        product = self.product(group=dist.group.WORLD)
        return lambda: product(self.a, self.b, out=self.c)

    def one_process(self) -> Way:
        if self.rank != 0:
            return lambda: None
        product = self.product(ranks=self.ranks)
        devices = [torch.device("cuda", i) for i in range(self.ranks)]
        rows, cols = self.a.shape
        a = [self.a] + [self.random(rows, cols, d) for d in devices[1:]]
        b = [self.b] + [self.weights(d) for d in devices[1:]]
        c = [torch.empty_like(self.c, device=d) for d in devices]
        self.kept.append(c)
        return lambda: product(a, b, out=c)

    def nccl(self, multiply: Callable[..., Any]) -> Way:
        def gather() -> Any:
            dist.all_gather_into_tensor(self.whole, self.a)
            multiply(self.whole, self.b, out=self.c)
            return self.c

        def scatter() -> Any:
            multiply(self.a, self.b, out=self.whole)
            dist.reduce_scatter_tensor(self.c, self.whole)
            return self.c

        def reduce() -> Any:
            multiply(self.a, self.b, out=self.c)
            dist.all_reduce(self.c)
            return self.c

        return {"all_gather": gather, "reduce_scatter": scatter, "all_reduce": reduce}[
            self.collective
        ]

    def torchs_sum(self, one_shot: bool) -> Way:
        import torch.distributed._symmetric_memory as symm_mem

        group = dist.group.WORLD.group_name
        part = symm_mem.empty(*self.c.shape, dtype=torch.bfloat16, device="cuda")
        symm_mem.rendezvous(part, group)
        ops = torch.ops.symm_mem
        reduce = ops.one_shot_all_reduce if one_shot else ops.two_shot_all_reduce_

        def way() -> Any:
            torch.mm(self.a, self.b, out=part)
            return reduce(part, "sum", group)

        return way

    def torchs(self, native: bool) -> Way:
        group = dist.group.WORLD.group_name

        def gather() -> Any:
            if native:
                os.environ[NATIVE] = "1"
            ops = torch.ops.symm_mem
            _, (c,) = ops.fused_all_gather_matmul(self.a, [self.b], gather_dim=0, group_name=group)
            os.environ.pop(NATIVE, None)
            return c

        def scatter() -> Any:
            return torch.ops.symm_mem.fused_matmul_reduce_scatter(
                self.a, self.b, "sum", scatter_dim=0, group_name=group
            )

        return gather if self.gathers else scatter

    def ways(self) -> dict[str, Callable[[], Way]]:
        found: dict[str, Callable[[], Way]] = {
            "ours": self.ours,
            "one process": self.one_process,
            "nccl, cublas": lambda: self.nccl(torch.mm),
            "nccl, ours": lambda: self.nccl(gemm_ladder.matmul),
            "torch": lambda: self.torchs_sum(False) if self.reduces else self.torchs(False),
        }
        if self.gathers:
            found["torch native"] = lambda: self.torchs(True)
        if self.reduces:
            found["torch one shot"] = lambda: self.torchs_sum(True)
        return found

    def wanted(self) -> tuple[Any, Any]:
        """Rows of this rank's C, and what they are in double precision."""
        m = self.shape[0]
        if self.gathers:
            whole = torch.empty(m, self.shape[2], device="cuda", dtype=torch.bfloat16)
            dist.all_gather_into_tensor(whole, self.a)
            rows = torch.cat([torch.arange(ROWS), torch.arange(m - ROWS, m)]).cuda()
            return rows, whole[rows].double() @ self.b.double()
        last = max(0, self.own - ROWS)
        edge = torch.cat([torch.arange(min(ROWS, self.own)), torch.arange(last, self.own)]).cuda()
        if self.reduces:
            total = self.a[edge].double() @ self.b.double()
            dist.all_reduce(total)
            return edge, total
        rows = torch.cat([edge + rank * self.own for rank in range(self.ranks)])
        total = self.a[rows].double() @ self.b.double()
        dist.all_reduce(total)
        return edge, total.view(self.ranks, len(edge), -1)[self.rank]


def agree(problem: str) -> str:
    """The first rank's problem, on all of them; empty: no rank has one."""
    told: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(told, problem, group=HOST)
    return next((f"rank {rank}: {why}" for rank, why in enumerate(told) if why), "")


HOST: Any = None  # the group of gloo: a barrier without kernels


def prepare(x: Operands) -> tuple[dict[str, Way], dict[str, float], dict[str, str]]:
    """The ways that run here and are right; their errors; why others do not run."""
    rows, wanted = x.wanted()
    allowed = float(wanted.abs().max()) / 64
    ways: dict[str, Way] = {}
    errors: dict[str, float] = {}
    skipped: dict[str, str] = {}
    for name, make in x.ways().items():
        problem, error = "", 0.0
        try:
            way = make()
            x.c.fill_(float("nan"))
            got = way()
            torch.cuda.synchronize()
            if name != "one process":
                error = float((got[rows].double() - wanted).abs().max())
                if not error <= allowed:
                    problem = f"WRONG: error {error:.3g}, {allowed:.3g} allowed"
        except Exception as raised:
            problem = f"{type(raised).__name__}: {str(raised).splitlines()[0][:200]}"
        problem = agree(problem)
        if "WRONG" in problem:
            sys.exit(f"{name}, {x.collective}, {x.shape}: {problem}")
        if problem:
            skipped[name] = problem
            continue
        ways[name], errors[name] = way, error
    return ways, errors, skipped


def sample(way: Way, calls: int) -> float:
    """Milliseconds of a call on this rank, in the mean of `calls` queued ones."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    dist.barrier(group=HOST)
    begin.record()
    for _ in range(calls):
        way()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / calls


def measure(x: Operands, turns: int) -> list[Any]:
    ways, errors, skipped = prepare(x)
    work = 2e-9 * x.shape[0] * x.shape[1] * x.shape[2]  # of one GPU
    calls = min(MOST_CALLS, max(2, round(SAMPLE_MS / (work / 600))))
    times = [[sample(way, calls) for way in ways.values()] for _ in range(WARM_TURNS + turns)]
    longest = torch.tensor(times[WARM_TURNS:], dtype=torch.float64)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX, group=HOST)
    of = {name: longest[:, i].tolist() for i, name in enumerate(ways)}
    serial = min((of[w] for w in SERIAL if w in of), key=statistics.median)
    m, n, k = x.shape
    entries = []
    for name in x.ways():
        entry: dict[str, Any] = {
            "name": f"{name}/bf16/{x.layout}/{x.collective}/{m}x{n}x{k}/gpus:{x.ranks}"
        }
        if name in skipped:
            entry["skipped"] = skipped[name]
        else:
            ms = sorted(of[name])
            ratios = sorted(s / t for s, t in zip(serial, of[name]))
            low, high = len(ms) // 10, len(ms) * 9 // 10
            entry |= {"ms": statistics.median(ms), "ms_p10": ms[low], "ms_p90": ms[high]}
            entry |= {"speedup": statistics.median(ratios)}
            entry |= {"speedup_p10": ratios[low], "speedup_p90": ratios[high]}
            entry |= {"TFLOPS": work / entry["ms"], "max_error": errors[name], "calls": calls}
        entries.append(entry)
    return entries


def problems(given: Optional[str], ranks: int) -> list[tuple[str, tuple[int, int, int]]]:
    """Collectives and their M, N and K of a rank."""
    found = []
    for shape in (given or SHAPES).split(","):
        m, n, k = map(int, shape.split("x"))
        found += [(one, (m, n, k)) for one in KINDS if given or one != "all_reduce"]
    if given:
        return found
    layers = [(m, REDUCED_N, k // ranks) for k in REDUCED_K for m in REDUCED_M]
    return found + [("all_reduce", layer) for layer in layers]


def driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def show(entries: list[Any]) -> None:
    for e in entries:
        what = (
            f"skipped: {e['skipped']}"
            if "skipped" in e
            else f"{e['ms']:8.3f} ms {e['TFLOPS']:6.0f} TFLOPS a GPU   {e['speedup']:5.3f} x serial "
            f"({e['speedup_p10']:.2f} - {e['speedup_p90']:.2f})"
        )
        print(f"{e['name']:62} {what}", flush=True)


def main() -> None:
    global HOST
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", required=True, help="the file to write")
    parser.add_argument("--shapes", help="MxNxK, by commas; M divides by 32 a rank")
    parser.add_argument("--layout", default="nn", choices=("nn", "nt"), help="of B")
    parser.add_argument("--turns", type=int, default=15)
    args = parser.parse_args()
    if "WORLD_SIZE" not in os.environ or torch.cuda.device_count() < int(os.environ["WORLD_SIZE"]):
        print("ranks.py needs torchrun, and a GPU for each process", file=sys.stderr)
        sys.exit(2)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    HOST = dist.new_group(backend="gloo")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch.distributed._symmetric_memory as symm_mem

        symm_mem.enable_symm_mem_for_group(dist.group.WORLD.group_name)
    torch.manual_seed(dist.get_rank())
    result: dict[str, Any] = {
        "context": {
            "gpu": torch.cuda.get_device_name(),
            "gpus": dist.get_world_size(),
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "driver": driver(),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
            "gemm_ladder": gemm_ladder.__version__,
            "conditions": "one host, a process for each GPU, NVLink multicast off, L2 warm",
            "command_line": " ".join(sys.argv),
        },
        "benchmarks": [],
    }
    for collective, (m, n, k) in problems(args.shapes, dist.get_world_size()):
        x = Operands(collective, m, n, k, args.layout)
        entries = measure(x, args.turns)
        for kept in x.kept:
            if hasattr(kept, "close"):
                kept.close()
        del x
        result["benchmarks"] += entries
        if dist.get_rank() == 0:
            show(entries)
            text = json.dumps(result, indent=1) + "\n"
            Path(args.json).write_text(text, encoding="utf-8")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
