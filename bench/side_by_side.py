#!/usr/bin/env python3
"""Times a product and what follows it: torch, torch.compile, Triton's kernel, and gemm_ladder.

    python bench/side_by_side.py --json side_by_side.json
    python bench/side_by_side.py --json side_by_side.json --bench ./gemm_bench     cuBLASLt, too
    python bench/side_by_side.py --json gated.json --epilogue gated,silu --compile gated,silu
    python bench/side_by_side.py --json groups.json --groups bench/groups/experts_8.txt

bf16, act(A B^T + bias), A B^T + residual, or silu(gate) * value of the columns of A B^T: the first half
and the second in torch, neighbours in ours. All ways take turns, A B C A B C, on buffers that rotate
over more than twice L2; a ratio is taken within a turn. Each result is checked against double
precision first, on some rows. Needs torch on a GPU. With triton the kernel of scripts/triton_gemm.py
runs, too: plain, and on B with contiguous rows. --bench runs gemm_bench on the same shapes: its
baseline is the better of cuBLAS and cuBLASLt. torch.compile begins no search after --seconds.

--groups, repeatable, times the groups of a mixture of experts in place of that: ours in one launch,
torch._grouped_mm where this torch has it, and a loop of torch.mm.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SHAPES = ((8192, 8192, 8192), (4096, 14336, 4096), (512, 14336, 4096))
EPILOGUES = ("plain", "bias", "bias,gelu", "residual", "gated,silu")
TURNS, WARM_TURNS, TURN_MS = 20, 3, 6.0
Way = Callable[[int], Any]


def milliseconds(torch: Any, call: Way, first: int, calls: int) -> float:
    """The time of one call, the mean of `calls` queued ones; call(i) takes the i-th buffers."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for i in range(calls):
        call(first + i)
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / calls


class Operands:
    """Buffers of one shape, as many as more than twice L2 takes."""

    def __init__(self, torch: Any, m: int, n: int, k: int) -> None:
        def random(*shape: int) -> Any:
            return torch.empty(*shape, device="cuda", dtype=torch.bfloat16).uniform_(-1, 1)

        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        count = max(2, min(16, 2 * l2 // (2 * (m * k + n * k + 2 * m * n)) + 1))
        self.count = count
        self.a = [random(m, k) for _ in range(count)]
        self.weights = [random(n, k) for _ in range(count)]
        self.residual = [random(m, n) for _ in range(count)]
        self.out = [torch.empty_like(self.residual[0]) for _ in range(count)]
        self.bias = random(n)

    def interleaved(self) -> list[Any]:
        """The weights, with the first half's and the second half's rows by turns."""
        from gemm_ladder import interleave_gate

        halves = [w.chunk(2) for w in self.weights]
        return [interleave_gate(gate, value, axis=0) for gate, value in halves]


def in_torch(torch: Any, epilogue: str) -> Callable[..., Any]:
    """The product as one writes it in torch: a function of a, weights, bias and residual."""
    linear, gelu = torch.nn.functional.linear, torch.nn.functional.gelu

    def gated(a: Any, w: Any, bias: Any, residual: Any) -> Any:
        gate, value = linear(a, w).chunk(2, -1)
        return torch.nn.functional.silu(gate) * value

    return {
        "plain": lambda a, w, bias, residual: linear(a, w),
        "bias": lambda a, w, bias, residual: linear(a, w, bias),
        "bias,gelu": lambda a, w, bias, residual: gelu(linear(a, w, bias), approximate="tanh"),
        "residual": lambda a, w, bias, residual: linear(a, w) + residual,
        "gated,silu": gated,
    }[epilogue]


def triton_kernel(x: Operands) -> Way:
    """The kernel of scripts/triton_gemm.py, which reads B by rows."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from triton_gemm import gemm

    by_rows = [w.t().contiguous() for w in x.weights]

    def call(i: int) -> Any:
        i %= x.count
        gemm(x.a[i], by_rows[i], x.out[i])
        return x.out[i]

    return call


def ways_of(torch: Any, x: Operands, epilogue: str, compiled: bool) -> dict[str, Way]:
    import gemm_ladder

    eager = in_torch(torch, epilogue)
    options: dict[str, Any] = {}
    if "bias" in epilogue:
        options["bias"] = x.bias
    if "gelu" in epilogue:
        options["activation"] = "gelu"
    weights, out = x.weights, x.out
    if epilogue == "gated,silu":
        options |= {"activation": "silu", "gated": True}
        weights = x.interleaved()
        out = [y.view(-1)[: y.numel() // 2].view(y.shape[0], -1) for y in x.out]

    def ours(i: int) -> Any:
        i %= x.count
        residual = {"residual": x.residual[i]} if epilogue == "residual" else {}
        return gemm_ladder.matmul(x.a[i], weights[i].t(), out=out[i], **options, **residual)

    def of(function: Callable[..., Any]) -> Way:
        def call(i: int) -> Any:
            i %= x.count
            return function(x.a[i], x.weights[i], x.bias, x.residual[i])

        return call

    ways = {"ours": ours, "torch": of(eager)}
    if compiled:
        ways["torch.compile"] = of(torch.compile(eager, mode="max-autotune-no-cudagraphs"))
    if epilogue == "plain" and importlib.util.find_spec("triton") is not None:
        ways["triton, nn"] = triton_kernel(x)
    return ways


def check(torch: Any, x: Operands, epilogue: str, name: str, way: Way) -> float:
    """The largest error in 64 rows of the first buffers; ends the program if it is too large."""
    a, w, bias = x.a[0][:64].double(), x.weights[0].double(), x.bias.double()
    wanted = in_torch(torch, epilogue)(a, w, bias, x.residual[0][:64].double())
    error = float((way(0)[:64].double() - wanted).abs().max())
    allowed = float(wanted.abs().max()) / 64  # torch rounds to 8 bits before the epilogue and after
    if not error <= allowed:
        print(f"{name}, {epilogue}: error {error:.3g}, {allowed:.3g} allowed", file=sys.stderr)
        sys.exit(1)
    return error


class Groups:
    """A mixture of experts: a file of gemm_bench --groups, and as many buffers as twice L2 takes."""

    def __init__(self, torch: Any, file: str) -> None:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        sizes = [list(map(int, line.split("#")[0].split())) for line in lines]
        sizes = [s for s in sizes if s]
        if not sizes or any(len(s) != 3 or s[1:] != sizes[0][1:] for s in sizes):
            print(f"{file}: want lines of M N K, of one N and one K", file=sys.stderr)
            sys.exit(2)
        self.rows = [s[0] for s in sizes]
        self.m, (self.n, self.k) = sum(self.rows), sizes[0][1:]
        self.ends = torch.tensor(self.rows, device="cuda").cumsum(0).to(torch.int32)
        experts = len(self.rows)
        bytes_each = 2 * (self.m * self.k + experts * self.n * self.k + self.m * self.n)
        l2 = torch.cuda.get_device_properties(0).L2_cache_size
        self.count = max(2, min(16, 2 * l2 // bytes_each + 1))

        def random(*shape: int) -> Any:
            return torch.empty(*shape, device="cuda", dtype=torch.bfloat16).uniform_(-1, 1)

        self.a = [random(self.m, self.k) for _ in range(self.count)]
        self.weights = [random(experts, self.n, self.k) for _ in range(self.count)]
        self.out = [random(self.m, self.n) for _ in range(self.count)]

    def ways(self, torch: Any) -> dict[str, Way]:
        import gemm_ladder

        def ours(i: int) -> Any:
            i %= self.count
            weights = self.weights[i].transpose(1, 2)
            return gemm_ladder.grouped_matmul(self.a[i], weights, self.ends, out=self.out[i])

        def grouped_mm(i: int) -> Any:
            i %= self.count
            return torch._grouped_mm(self.a[i], self.weights[i].transpose(1, 2), offs=self.ends)

        def loop(i: int) -> Any:
            i %= self.count
            first = 0
            for expert, rows in enumerate(self.rows):
                end = first + rows
                weight = self.weights[i][expert].t()
                torch.mm(self.a[i][first:end], weight, out=self.out[i][first:end])
                first = end
            return self.out[i]

        ways: dict[str, Way] = {"ours": ours, "loop of torch.mm": loop}
        if hasattr(torch, "_grouped_mm"):
            ways["torch._grouped_mm"] = grouped_mm
        return ways

    def check(self, name: str, way: Way) -> float:
        """The largest error in the first and last row of each group, of the first buffers."""
        got, worst, largest, first = way(0).double(), 0.0, 0.0, 0
        for expert, rows in enumerate(self.rows):
            for row in {first, first + rows - 1} if rows else ():
                wanted = self.a[0][row].double() @ self.weights[0][expert].double().t()
                worst = max(worst, float((got[row] - wanted).abs().max()))
                largest = max(largest, float(wanted.abs().max()))
            first += rows
        if not worst <= largest / 128:
            print(f"{name}: error {worst:.3g}, {largest / 128:.3g} allowed", file=sys.stderr)
            sys.exit(1)
        return worst


def measure_groups(torch: Any, file: str) -> list[Any]:
    x = Groups(torch, file)
    ways = x.ways(torch)
    errors = {name: x.check(name, way) for name, way in ways.items()}
    shape, place = (x.m, x.n, x.k), f"{x.m}x{x.n}x{x.k}/groups:{len(x.rows)}"
    return timed(torch, ways, errors, shape, {name: f"{name}/bf16/nt/{place}" for name in ways})


def measure(torch: Any, x: Operands, shape: Any, epilogue: str, compiled: bool) -> list[Any]:
    ways = ways_of(torch, x, epilogue, compiled)
    errors = {name: check(torch, x, epilogue, name, way) for name, way in ways.items()}
    m, n, k = shape
    names = {name: f"{name}/bf16/nt/{m}x{n}x{k}/epilogue:{epilogue}" for name in ways}
    return timed(torch, ways, errors, shape, names)


def timed(
    torch: Any, ways: dict[str, Way], errors: dict[str, float], shape: Any, names: dict[str, str]
) -> list[Any]:
    """All ways by turns; an entry each, under these names."""
    work = 2e-9 * shape[0] * shape[1] * shape[2]
    calls = max(1, round(TURN_MS / (work / 600)))
    turns = []
    for turn in range(WARM_TURNS + TURNS):
        turns.append({name: milliseconds(torch, w, turn, calls) for name, w in ways.items()})
    turns = turns[WARM_TURNS:]
    entries = []
    for name in ways:
        speeds = sorted(work / turn[name] for turn in turns)
        m, n, k = shape
        entries.append(
            {
                "name": names[name],
                "TFLOPS": statistics.median(speeds),
                "TFLOPS_p10": speeds[TURNS // 10],
                "TFLOPS_p90": speeds[TURNS * 9 // 10],
                "ratio_of_ours": statistics.median(turn[name] / turn["ours"] for turn in turns),
                "max_error": errors[name],
                **{"m": m, "n": n, "k": k},
            }
        )
        last = entries[-1]
        print(f"{last['name']:58} {last['TFLOPS']:6.1f} TFLOPS, ours {last['ratio_of_ours']:.3f}x")
    return entries


def of_gemm_bench(bench: str, epilogue: str) -> list[Any]:
    """Entries of gemm_bench's own JSON: v28 beside the better of cuBLAS and cuBLASLt."""
    shapes = str(ROOT / "bench/shapes/epilogue.txt")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.json"
        command = [bench, "--quick", "--kernel", "v28", "--shapes", shapes, "--json", str(path)]
        if epilogue != "plain":
            command += ["--epilogue", epilogue]
        if epilogue == "residual":
            command += ["--beta", "1"]
        subprocess.run(command, check=True)
        return list(json.loads(path.read_text(encoding="utf-8"))["benchmarks"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", required=True, help="the file to write")
    parser.add_argument("--bench", metavar="GEMM_BENCH", help="also runs this gemm_bench")
    parser.add_argument(
        "--epilogue", default=";".join(EPILOGUES), help="those to time, by semicolons; all"
    )
    parser.add_argument("--compile", default="bias,gelu;residual", help="epilogues, by semicolons")
    parser.add_argument("--seconds", type=float, default=70, help="after which none is compiled")
    parser.add_argument("--groups", action="append", metavar="FILE", help="a mixture of experts")
    args = parser.parse_args()
    wanted = args.epilogue.split(";")
    if not set(wanted) <= set(EPILOGUES):
        print(f"--epilogue {args.epilogue}: allowed are {';'.join(EPILOGUES)}", file=sys.stderr)
        sys.exit(2)
    try:
        import torch
    except ImportError as error:
        print(f"side_by_side.py needs torch: {error}", file=sys.stderr)
        sys.exit(2)
    if not torch.cuda.is_available():
        print("side_by_side.py needs a GPU", file=sys.stderr)
        sys.exit(2)
    began = time.monotonic()
    context = {"gpu": torch.cuda.get_device_name(0), "torch": torch.__version__}
    result: dict[str, Any] = {"context": context, "benchmarks": [], "gemm_bench": []}

    def keep() -> None:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")

    for file in args.groups or ():
        result["benchmarks"] += measure_groups(torch, file)
        keep()
    for shape in () if args.groups else SHAPES:
        operands = Operands(torch, *shape)
        for epilogue in wanted:
            in_time = time.monotonic() - began < args.seconds
            compiled = in_time and epilogue in args.compile.split(";")
            result["benchmarks"] += measure(torch, operands, shape, epilogue, compiled)
            keep()
    for epilogue in wanted if args.bench and not args.groups else ():
        result["gemm_bench"] += of_gemm_bench(args.bench, epilogue)
        keep()


if __name__ == "__main__":
    main()
