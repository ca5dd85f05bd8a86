"""What a call from Python takes until it returns: gemm_ladder, its operator, and torch.mm.

  python bench/python_call.py                      on a GPU, with torch: calls that only launch
  python bench/python_call.py --host               no GPU, no torch: Python's part alone
  python bench/python_call.py --json FILE          the figures as JSON, too

On a GPU the queue is drained before it fills, so that no call waits for a kernel. --host multiplies
matrices without rows, so that the time is that of Python, of ctypes and of the library's checks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

BATCH, SAMPLES = 50, 400  # calls between two drains of the queue; such batches


def microseconds(call: Callable[[], Any], drain: Callable[[], Any]) -> dict[str, float]:
    """Percentiles of one call's time. Each sample is one call."""
    times = []
    for _ in range(SAMPLES // 10):
        call()
    for _ in range(SAMPLES):
        drain()
        for _ in range(BATCH):
            begin = time.perf_counter_ns()
            call()
            times.append((time.perf_counter_ns() - begin) / 1000)
    cuts = statistics.quantiles(times, n=10)
    return {"p10": round(cuts[0], 2), "p50": round(cuts[4], 2), "p90": round(cuts[8], 2)}


def on_host() -> dict[str, dict[str, float]]:
    import numpy

    import gemm_ladder

    a, b = numpy.ones((0, 64), numpy.float32), numpy.ones((64, 64), numpy.float32)
    out = numpy.empty_like(a)
    return {
        "gemm_ladder.matmul": microseconds(lambda: gemm_ladder.matmul(a, b), int),
        "gemm_ladder.matmul, out": microseconds(lambda: gemm_ladder.matmul(a, b, out=out), int),
        "numpy.matmul": microseconds(lambda: numpy.matmul(a, b), int),
    }


def on_gpu(size: int) -> dict[str, dict[str, float]]:
    import torch

    import gemm_ladder
    from gemm_ladder.torch import matmul as operator

    def of(dtype: Any) -> dict[str, dict[str, float]]:
        a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
        out = torch.empty_like(a)
        calls: dict[str, Callable[[], Any]] = {
            "torch.mm": lambda: torch.mm(a, b),
            "torch.mm, out": lambda: torch.mm(a, b, out=out),
            "gemm_ladder.matmul": lambda: gemm_ladder.matmul(a, b),
            "gemm_ladder.matmul, out": lambda: gemm_ladder.matmul(a, b, out=out),
            "gemm_ladder.torch.matmul": lambda: operator(a, b),
        }
        name = str(dtype).removeprefix("torch.")
        return {
            f"{what}, {name}": microseconds(call, torch.cuda.synchronize)
            for what, call in calls.items()
        }

    return {**of(torch.float32), **of(torch.float16)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--host", action="store_true", help="Python's part alone, without a GPU")
    parser.add_argument("--size", type=int, default=256, help="of the square matrices on a GPU")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    figures = on_host() if args.host else on_gpu(args.size)
    for name, f in figures.items():
        print(f"{name:42} p50 {f['p50']:6.2f} us   p10 {f['p10']:6.2f}   p90 {f['p90']:6.2f}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"unit": "us", "calls": figures}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
