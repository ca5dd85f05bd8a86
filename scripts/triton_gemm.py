#!/usr/bin/env python3
"""Times a GEMM in Triton beside cuBLAS, on a GPU: C = A B in f16 or f32, as stored.

    scripts/triton_gemm.py --dtype f16 --size 1024,2048,512:8192:256 --json triton.json

The kernel is of the usual design: a tile of C a program, programs in groups of rows, offsets that wrap
around in M and N, a mask in K, block sizes tuned for each shape. The result is checked against
torch.matmul's first. Then both run in turn, A B A B, on buffers that rotate over more than twice L2; the
ratio is taken pair by pair. Needs Python packages torch and triton, which this repository does not
install. The JSON has the names and counters of ./gemm_bench's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from typing import Any, Callable

try:
    import torch
    import triton
    import triton.language as tl
except ImportError as error:
    if __name__ != "__main__":
        raise
    print(f"triton_gemm.py needs torch and triton: {error}", file=sys.stderr)
    sys.exit(2)

# (BM, BN, BK, warps, stages)
TILES = (
    *((128, 256, 64, 8, 3), (128, 256, 64, 8, 4), (256, 128, 64, 8, 3), (128, 128, 64, 4, 4)),
    *((128, 128, 32, 4, 4), (64, 128, 32, 4, 4), (128, 64, 32, 4, 4), (64, 64, 64, 4, 4)),
    *((32, 128, 64, 4, 4), (128, 32, 64, 4, 4), (64, 32, 64, 2, 5), (32, 64, 64, 2, 5)),
    *((32, 32, 32, 4, 4), (128, 128, 64, 8, 3)),
)
CONFIGS = [
    triton.Config({"BM": bm, "BN": bn, "BK": bk, "GROUP_M": 8}, num_warps=warps, num_stages=stages)
    for bm, bn, bk, warps, stages in TILES
]
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
PAIRS, CALLS = 40, 10


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_kernel(
    A,
    B,
    C,
    M,
    N,
    K,
    lda,
    a_step,  # from one k to the next
    ldb,  # likewise
    b_step,  # from one column to the next
    ldc,
    EXACT: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    # Which tile: groups of GROUP_M rows of tiles, the last with fewer.
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group, within = tl.program_id(0) // (GROUP_M * tiles_n), tl.program_id(0) % (GROUP_M * tiles_n)
    rows = min(tiles_m - group * GROUP_M, GROUP_M)
    m = (group * GROUP_M + within % rows) * BM + tl.arange(0, BM)
    n = within // rows * BN + tl.arange(0, BN)
    # [region pointers]
    k = tl.arange(0, BK)
    a = A + (m % M)[:, None] * lda + k[None, :] * a_step
    b = B + k[:, None] * ldb + (n % N)[None, :] * b_step
    # [/region pointers]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        a_tile = tl.load(a, mask=k[None, :] < left, other=0.0)
        b_tile = tl.load(b, mask=k[:, None] < left, other=0.0)
        if EXACT:
            acc = tl.dot(a_tile, b_tile, acc, input_precision="ieee")
        else:
            acc = tl.dot(a_tile, b_tile, acc)
        a += BK * a_step
        b += BK * ldb
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(C + m[:, None] * ldc + n[None, :], acc.to(C.dtype.element_ty), mask=inside)


def gemm(a: Any, b: Any, c: Any) -> None:
    (m, k), n = a.shape, b.shape[1]
    gemm_kernel[lambda t: (triton.cdiv(m, t["BM"]) * triton.cdiv(n, t["BN"]),)](
        *(a, b, c, m, n, k, *a.stride(), *b.stride(), c.stride(0)), EXACT=a.dtype == torch.float32
    )


def milliseconds(call: Callable[[int], None], first: int) -> float:
    """The time of one call, the mean of CALLS queued ones; call(i) takes the i-th buffers."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for i in range(CALLS):
        call(first + i)
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / CALLS


def measure(dtype: str, size: int) -> dict[str, Any]:
    of_a_set = 3 * size * size * TYPES[dtype].itemsize
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    count = max(2, min(64, 2 * l2 // of_a_set + 1))

    def random() -> list[Any]:
        return [
            torch.empty(size, size, device="cuda", dtype=TYPES[dtype]).uniform_(-1, 1)
            for _ in range(count)
        ]

    a, b, c = random(), random(), random()

    def ours(i: int) -> None:
        gemm(a[i % count], b[i % count], c[i % count])

    def cublas(i: int) -> None:
        torch.matmul(a[i % count], b[i % count], out=c[i % count])

    wanted = a[0].double() @ b[0].double() if size <= 4096 else (a[0] @ b[0]).double()
    ours(0)
    error = float((c[0].double() - wanted).abs().max())
    allowed = (0.05 if dtype == "f16" else 0.4 if dtype == "bf16" else 1e-3) * (size / 1024) ** 0.5
    if not error <= allowed:
        print(f"{dtype} {size}: error {error:.3g}, {allowed:.3g} allowed", file=sys.stderr)
        sys.exit(1)
    for _ in range(20):  # warm up
        milliseconds(ours, 0), milliseconds(cublas, 0)
    pairs = [(milliseconds(ours, i), milliseconds(cublas, i)) for i in range(PAIRS)]
    work = 2e-9 * size**3
    speeds = sorted(work / t for t, _ in pairs)
    return {
        "name": f"triton/{dtype}/nn/{size}x{size}x{size}",
        "TFLOPS": statistics.median(speeds),
        "TFLOPS_p10": speeds[PAIRS // 10],
        "TFLOPS_p90": speeds[PAIRS * 9 // 10],
        "baseline_TFLOPS": statistics.median(work / t for _, t in pairs),
        "ratio": statistics.median(t / own for own, t in pairs),
        "max_error": error,
        "config": str(gemm_kernel.best_config),
        **{"m": size, "n": size, "k": size},
    }


def sizes_of(text: str) -> list[int]:
    """1024,2048 or 512:8192:256, or both."""
    found: list[int] = []
    for part in text.split(","):
        first, _, rest = part.partition(":")
        last, _, step = rest.partition(":")
        found += range(int(first), int(last) + 1, int(step)) if rest else [int(first)]
    return sorted(set(found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dtype", default="f16", help="f16, bf16, f32, or some of them")
    parser.add_argument("--size", default="1024,2048,4096,8192,16384")
    parser.add_argument("--json", required=True, help="the file to write")
    args = parser.parse_args()
    if unknown := set(args.dtype.split(",")) - TYPES.keys():
        parser.error(f"no type '{unknown.pop()}'; known: {', '.join(TYPES)}")
    if not torch.cuda.is_available():
        print("triton_gemm.py needs a GPU", file=sys.stderr)
        sys.exit(2)
    torch.backends.cuda.matmul.allow_tf32 = False
    context = {
        "gpu": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "cuda": torch.version.cuda,
    }
    entries = []
    for dtype in args.dtype.split(","):
        for size in sizes_of(args.size):
            entries.append(measure(dtype, size))
            last = entries[-1]
            print(f"{last['name']:32} {last['TFLOPS']:7.1f} TFLOPS, {last['ratio']:.3f} of cuBLAS")
    with open(args.json, "w", encoding="utf-8") as file:
        json.dump({"context": context, "benchmarks": entries}, file, indent=1)


if __name__ == "__main__":
    main()
