"""Sharded products with a process for each GPU, against torch. Needs two GPUs or more; else skipped.

    torchrun --nproc-per-node 2 tests/python_torch_ranks_test.py
    python tests/python_torch_ranks_test.py                      starts torchrun for two of them
    python tests/python_torch_ranks_test.py --gone ended         rank 1 has ended
    python tests/python_torch_ranks_test.py --gone absent        rank 1 makes no call

With PYTHONPATH=python and GEMM_LADDER_LIBRARIES=build/src/library, or after pip install. Inputs are -1,
0 and 1: every partial sum is exact, so results are compared bit for bit.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any, Optional

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("no torch")
    sys.exit(77)

import gemm_ladder

KINDS = gemm_ladder.AllGatherGemm, gemm_ladder.GemmReduceScatter, gemm_ladder.GemmAllReduce
SHAPES = (  # m of all ranks, n, k
    *((512, 384, 256), (4096, 2048, 1024), (2048, 8192, 2048)),  # aligned
    *((300, 200, 136), (1000, 77, 65), (33, 130, 200), (1, 1, 1), (2050, 1001, 333)),
)


class Problem:
    """Matrices of all ranks, which each rank can make: from a seed."""

    def __init__(
        self, product: Any, dtype: Any, layout: str, seed: int, rank: Optional[int] = None
    ) -> None:
        self.product, self.rank = product, dist.get_rank() if rank is None else rank
        generator = torch.Generator(device="cuda").manual_seed(seed)

        def integers(rows: int, cols: int) -> Any:
            x = torch.randint(-1, 2, (rows, cols), device="cuda", generator=generator)
            return x.to(dtype)

        m, n, k, ranks = product.m, product.n, product.k, product.ranks
        self.gathers = isinstance(product, gemm_ladder.AllGatherGemm)
        self.a_of_all = [integers(m, k) for _ in range(1 if self.gathers else ranks)]
        shape = (n, k) if layout == "nt" else (k, n)
        self.b_of_all = [integers(*shape) for _ in range(ranks)]
        if layout == "nt":
            self.b_of_all = [b.t() for b in self.b_of_all]
        rows = product.shard(self.rank)
        self.a = self.a_of_all[0][rows] if self.gathers else self.a_of_all[self.rank]
        self.b = self.b_of_all[self.rank]
        self.dtype = dtype

    def wanted(self) -> Any:
        if self.gathers:
            return (self.a_of_all[0].float() @ self.b.float()).to(self.dtype)
        reduces = isinstance(self.product, gemm_ladder.GemmAllReduce)
        rows = slice(None) if reduces else self.product.shard()
        parts = [a[rows].float() @ b.float() for a, b in zip(self.a_of_all, self.b_of_all)]
        return sum(parts[1:], parts[0]).to(self.dtype)


def check(name: str, got: Any, wanted: Any) -> None:
    if got.shape != wanted.shape or not torch.equal(got, wanted):
        count = int((got != wanted).sum()) if got.shape == wanted.shape else -1
        raise AssertionError(f"rank {dist.get_rank()}: {name}: {count} elements are wrong")


def test_shapes() -> None:
    for kind in KINDS:
        for m, n, k in SHAPES:
            for dtype, layout in ((torch.bfloat16, "nn"), (torch.float16, "nt")):
                name = f"{kind.__name__} {m}x{n}x{k} {dtype} {layout}"
                with kind(m, n, k, dtype, layout=layout, group=dist.group.WORLD) as product:
                    problems = [Problem(product, dtype, layout, seed) for seed in range(4)]
                    got = [product(p.a, p.b) for p in problems]  # nobody waits in between
                    for p, c in zip(problems, got):
                        check(name, c, p.wanted())


def test_streams() -> None:
    """What comes after a call may overwrite its operands; the result comes before it."""
    for kind in KINDS:
        product = kind(2048, 4096, 2048, torch.bfloat16, group=dist.group.WORLD)
        p = Problem(product, torch.bfloat16, "nn", 7)
        wanted, out = p.wanted(), torch.full_like(p.wanted(), float("nan"))
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(5):
                a, b = p.a.clone(), p.b.clone()
                if dist.get_rank() == 1:  # this rank's operands come late
                    a.fill_(float("nan"))
                    torch.cuda._sleep(20_000_000)
                    a.copy_(p.a)
                product(a, b, out=out)
                a.fill_(float("nan"))
                b.fill_(float("nan"))
                got = out.clone()
                out.fill_(float("nan"))
        stream.synchronize()
        check(f"{kind.__name__} on a stream", got, wanted)
        product.close()


def test_two_products_by_turns() -> None:
    """As the two layers of an MLP; with NCCL's collectives in the same stream."""
    m, n, k, half = 1024, 512, 768, torch.float16
    gather = gemm_ladder.AllGatherGemm(m, n, k, half, group=dist.group.WORLD)
    scatter = gemm_ladder.GemmReduceScatter(m, k, n, half, group=dist.group.WORLD)
    for seed in range(6):
        p, q = Problem(gather, half, "nn", seed), Problem(scatter, half, "nn", seed + 50)
        c = gather(p.a, p.b)
        total = torch.ones(1, device="cuda")
        dist.all_reduce(total)
        d = scatter(q.a, q.b)
        check("gather", c, p.wanted())
        check("scatter", d, q.wanted())
        assert total.item() == dist.get_world_size()
    told = gather.explain()
    assert told.startswith(f"m03_peer_copies on GPU {torch.cuda.current_device()}, rank "), told


def test_one_process_has_all_ranks() -> None:
    """Rank 0 calls the kernels for all GPUs."""
    if dist.get_rank() != 0:
        return
    devices = [torch.device("cuda", i) for i in range(dist.get_world_size())]
    for kind in KINDS:
        for m, n, k in SHAPES:
            product = kind(m, n, k, torch.bfloat16, ranks=len(devices))
            p = Problem(product, torch.bfloat16, "nn", 3, rank=0)
            b = [x.to(d) for x, d in zip(p.b_of_all, devices)]
            for _ in range(3):
                if p.gathers:
                    a = [p.a_of_all[0][product.shard(i)].to(d) for i, d in enumerate(devices)]
                    wanted = [(p.a_of_all[0].float() @ x.float()).to(p.dtype) for x in p.b_of_all]
                else:
                    a = [x.to(d) for x, d in zip(p.a_of_all, devices)]
                    total = sum(x.float() @ y.float() for x, y in zip(p.a_of_all, p.b_of_all))
                    reduces = kind is gemm_ladder.GemmAllReduce
                    rows = [slice(None) if reduces else product.shard(i) for i in range(len(b))]
                    wanted = [total[own].to(p.dtype) for own in rows]
                for i, c in enumerate(product(a, b)):
                    name = f"one process, {kind.__name__} {m}x{n}x{k}, rank {i}"
                    check(name, c.to("cuda"), wanted[i])
            product.close()


def test_memory_comes_back() -> None:
    def make() -> None:
        gemm_ladder.AllGatherGemm(8192, 512, 8192, "bfloat16", group=dist.group.WORLD).close()
        dist.barrier()

    make()
    make()
    free = torch.cuda.mem_get_info()[0]
    for _ in range(4):
        make()
    lost = free - torch.cuda.mem_get_info()[0]
    assert lost < 200 << 20, f"{lost >> 20} MiB have not come back"


def refused(kind: Any, text: str, call: Any) -> None:
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"nothing was refused: {text}")


def test_refuses() -> None:
    rank, world = dist.get_rank(), dist.group.WORLD
    make = gemm_ladder.AllGatherGemm
    text = "the ranks disagree: m is 64 on rank 0 and 65 on rank 1"
    refused(gemm_ladder.BadArgument, text, lambda: make(64 + rank, 8, 8, "float16", group=world))
    kind = gemm_ladder.BadArgument if rank == 1 else gemm_ladder.RankFailed
    rung = "m1" if rank == 1 else "m3"
    text = 'there is no rung "m1"'
    refused(kind, text, lambda: make(64, 8, 8, "float16", group=world, rung=rung))
    text = "have the same GPU"
    same = lambda: make(64, 8, 8, "float16", group=world, device=0)  # noqa: E731
    refused(gemm_ladder.BadArgument, text, same)
    product = make(64, 8, 8, "float16", group=world)
    p = Problem(product, torch.float16, "nn", 1)
    refused(ValueError, "wanted is", lambda: product(p.a[:3], p.b))
    on_other = p.a.to(f"cuda:{(torch.cuda.current_device() + 1) % torch.cuda.device_count()}")
    refused(ValueError, "move them to one", lambda: product(on_other, p.b))
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    c = product(p.a, p.b)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        graph.capture_begin()
        refused(gemm_ladder.Unsupported, "is captured", lambda: product(p.a, p.b, out=c))
        graph.capture_end()
    check("after what was refused", product(p.a, p.b), p.wanted())


def gone(how: str) -> None:
    """Rank 1 is not there any more: this rank's GPU gives up within the time limit."""
    product = gemm_ladder.AllGatherGemm(
        4096, 4096, 4096, "bfloat16", group=dist.group.WORLD, time_limit=6
    )
    p = Problem(product, torch.bfloat16, "nn", 1)
    check("while all are there", product(p.a, p.b), p.wanted())
    torch.cuda.synchronize()
    dist.barrier()
    if dist.get_rank() != 0:
        sys.stdout.flush()
        if how == "absent":
            time.sleep(12)
        os._exit(0)
    time.sleep(1)
    c = torch.empty_like(p.wanted())
    began = time.monotonic()
    product(p.a, p.b, out=c)
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        waited, told = time.monotonic() - began, str(error).splitlines()[0]
    else:
        raise AssertionError("the product has ended without rank 1")
    assert waited < 10, f"waited {waited:.1f} s"
    try:
        product(p.a, p.b, out=c)
        raise AssertionError("another call was taken")
    except gemm_ladder.Error as error:
        print(f"{how}: after {waited:.1f} s: {told}; then {type(error).__name__}: {error}")
    sys.stdout.flush()
    os._exit(0)  # nothing can be freed any more


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gone", choices=("ended", "absent"))
    how = parser.parse_args().gone
    if torch.cuda.device_count() < 2:
        print("needs two GPUs")
        sys.exit(77)
    if "WORLD_SIZE" not in os.environ:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        os.execv(sys.executable, [sys.executable, *launcher, *sys.argv])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # NCCL's own watchdog would end the process before ours has told why.
    dist.init_process_group("gloo" if how else "cpu:gloo,cuda:nccl")
    torch.backends.cuda.matmul.allow_tf32 = False
    if how is not None:
        gone(how)
    tests = [f for name, f in sorted(globals().items()) if name.startswith("test_")]
    for test in tests:
        began = time.monotonic()
        test()
        torch.cuda.synchronize()
        dist.barrier()
        if dist.get_rank() == 0:
            print(f"{test.__name__}: right, {time.monotonic() - began:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
