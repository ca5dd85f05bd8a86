"""AllGatherGemm, GemmReduceScatter and GemmAllReduce: products whose operands lie on several devices of one host.

The devices are of this process, or each has a process of its own.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Optional

from . import _ranks
from ._arrays import CupyArrays, Extent, Stored, kind_of, layout
from ._library import (
    BACKENDS,
    COLLECTIVES,
    CURRENT_DEVICE,
    SIMULATOR,
    TYPES,
    Library,
    Rank,
    ShardedOperands,
    ShardedProblem,
    choice,
    cuda,
    gpu_count,
    integer,
    library_and_device,
    listed,
    rung_name,
    simulator,
    small_integer,
    tell_of_simulator,
)
from ._matmul import keep, type_code


def _library_and_devices(
    ranks: int, devices: Optional[Sequence[int]], backend: Optional[str]
) -> tuple[Library, list[int]]:
    choice("backend", backend, BACKENDS)
    if devices is not None and backend == "simulator":
        raise ValueError('devices are GPUs: backend="simulator" has none')
    if devices is not None and len(devices) != ranks:
        raise ValueError(f"there are {len(devices)} devices: ranks is {ranks}")
    if devices is not None or backend == "gpu" or (backend is None and gpu_count() >= ranks):
        return cuda(), list(range(ranks) if devices is None else devices)
    return simulator(), [SIMULATOR] * ranks


class _ShardedGemm:
    _collective = ""

    def __init__(
        self,
        m: int,
        n: int,
        k: int,
        dtype: Any,
        *,
        ranks: int = 2,
        layout: str = "nn",
        devices: Optional[Sequence[int]] = None,
        rung: Optional[str] = None,
        backend: Optional[str] = None,
        group: Any = None,
        rank: Optional[int] = None,
        exchange: Optional[_ranks.Exchange] = None,
        device: Optional[int] = None,
        time_limit: int = _ranks.TIME_LIMIT,
    ) -> None:
        choice("layout", layout, ("nn", "nt"))
        m, n, k = integer("m", m), integer("n", n), integer("k", k)
        ranks = small_integer("ranks", ranks)
        time_limit = small_integer("time_limit", time_limit)
        rank = None if rank is None else small_integer("rank", rank)
        device = None if device is None else small_integer("device", device)
        if devices is not None:
            devices = [small_integer(f"devices[{i}]", x) for i, x in enumerate(devices)]
        if (rank is None) != (exchange is None) or (group is not None and rank is not None):
            raise ValueError("one process for each rank: give group, or rank and exchange")
        if group is not None:
            rank, ranks, exchange = _ranks.of_group(group, time_limit)
        self._apart = rank is not None
        if self._apart and devices is not None:
            raise ValueError("devices is of one process for all ranks: give device")
        if not self._apart and device is not None:
            raise ValueError("device is of one process for each rank: give devices")
        self.m, self.n, self.k, self.ranks, self.layout = m, n, k, ranks, layout
        self._type = type_code(dtype, 0)
        problem = ShardedProblem(
            size=ctypes.sizeof(ShardedProblem),
            collective=COLLECTIVES.index(self._collective),
            **{"m": m, "n": n, "k": k, "type": self._type},
            **{"op_b": int(layout == "nt"), "ranks": ranks},
        )
        made, name = ctypes.c_void_p(), rung_name(rung)
        addresses = ctypes.addressof(problem), ctypes.addressof(made)
        if exchange is not None and rank is not None:
            self._here = [rank]
            library, place = library_and_device(backend)
            if place == CURRENT_DEVICE:
                place = _current_gpu() if device is None else device
            self._library, self._devices = library, [place]
            callback = _ranks.Callback(exchange, ranks)
            own = Rank(
                **{"size": ctypes.sizeof(Rank), "rank": rank, "device": place},
                **{"time_limit": time_limit, "exchange": callback.function},
            )
            status = library.sharded_create_rank(
                addresses[0], ctypes.addressof(own), name, addresses[1]
            )
            if callback.raised is not None:
                raise callback.raised
        else:
            self._here = list(range(ranks))
            self._library, self._devices = _library_and_devices(ranks, devices, backend)
            library, numbers = self._library, (ctypes.c_int * ranks)(*self._devices)
            status = library.sharded_create(
                addresses[0], ctypes.addressof(numbers), name, addresses[1]
            )
        library.check(status)
        # Destroyed with this object, and at exit. Used and closed by one thread at a time.
        self._handle = made.value or 0
        self._lock = threading.Lock()
        self._kept: list[Any] = []  # arrays of a call that failed: a GPU may still use them
        self._stored_as: dict[Any, Stored] = {}  # what _stored has found
        self._destroy = weakref.finalize(self, library.sharded_destroy, self._handle)
        self._shards = [self._shard(problem, rank) for rank in range(ranks)]

    def _shard(self, problem: ShardedProblem, rank: int) -> slice:
        first, rows = ctypes.c_int64(), ctypes.c_int64()
        addresses = ctypes.addressof(first), ctypes.addressof(rows)
        status = self._library.shard_rows(ctypes.addressof(problem), rank, *addresses)
        self._library.check(status)
        return slice(first.value, first.value + rows.value)

    def shard(self, rank: Optional[int] = None) -> slice:
        """The rows that are this rank's: x[shard(rank)] of a matrix of m rows.

        None: of this process's rank, where each has one.
        """
        if rank is None:
            if not self._apart:
                raise ValueError("rank is missing: this process has all of them")
            rank = self._here[0]
        rank = small_integer("rank", rank)
        if not 0 <= rank < self.ranks:
            raise ValueError(f"rank is {rank}: allowed are 0 to {self.ranks - 1}")
        return self._shards[rank]

    def explain(self) -> str:
        """Which kernel, and where: one line."""
        text = ctypes.create_string_buffer(1000)
        address = ctypes.addressof(text)
        with self._lock:
            status = self._library.sharded_explain(self._open(), address, len(text))
        self._library.check(status)
        return text.value.decode()

    def close(self) -> None:
        """Waits for what was queued, 60 seconds at most, and frees the devices' memory."""
        with self._lock:
            if self._destroy.detach() is None:  # closed before
                return
            status = self._library.sharded_destroy(self._handle)
        self._library.check(status)
        self._kept.clear()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> int:
        if not self._destroy.alive:
            raise ValueError("the product has been closed")
        return self._handle

    def __call__(self, a: Any, b: Any, *, out: Any = None) -> Any:
        self._open()
        if self._apart:
            return self._run([a], [b], None if out is None else [out])[0]
        a, b = listed("a", a), listed("b", b)
        out = None if out is None else listed("out", out)
        for name, arrays in (("a", a), ("b", b), ("out", out)):
            if arrays is not None and len(arrays) != self.ranks:
                raise ValueError(f"{name} has {len(arrays)} matrices: one a rank, {self.ranks}")
        return self._run(a, b, out)

    def _name(self, name: str, i: int) -> str:
        return name if self._apart else f"{name}[{i}]"

    def _run(self, a: Sequence[Any], b: Sequence[Any], out: Optional[Sequence[Any]]) -> list[Any]:
        """Runs the product on the ranks of this process."""
        kind = kind_of(a[0], self._name("a", 0))
        if isinstance(kind, CupyArrays):
            name = self._name("a", 0)
            raise TypeError(f"{name} is a CuPy array: allowed are NumPy arrays and torch tensors")
        operands = (ShardedOperands * len(self._here))()
        results: list[Any] = []
        extents: list[list[Extent]] = []
        for i, rank in enumerate(self._here):
            names = [self._name(x, i) for x in ("a", "b", "out")]
            own = self._shards[rank].stop - self._shards[rank].start
            rows_a = own if self._collective == "all_gather" else self.m
            rows_c = own if self._collective == "reduce_scatter" else self.m
            left = self._stored(kind, a[i], names[0], rows_a, self.k)
            right = self._stored(kind, b[i], names[1], self.k, self.n, self.layout == "nt")
            if out is None:
                result = kind.empty(rows_c, self.n, b[i], None)
            else:
                result = out[i]
            target = self._stored(kind, result, names[2], rows_c, self.n)
            if not kind.writable(result):
                raise ValueError(f"{names[2]} cannot be written to")
            if kind.needs_gradient(a[i], b[i], result):
                raise ValueError("sharded products keep no gradient: call under torch.no_grad()")
            library, device, stream = kind.place(a[i], b[i], result, None)
            if device != self._devices[i]:
                raise ValueError(
                    f"{names[0]} is {_place(device)}, and rank {rank} {_place(self._devices[i])}"
                )
            pointers = [kind.pointer(x) for x in (a[i], b[i], result)]
            extents.append([Extent(x, p) for x, p in zip((left, right, target), pointers)])
            operands[i] = ShardedOperands(
                size=ctypes.sizeof(ShardedOperands),
                **dict(zip("abc", pointers)),
                **{"lda": left.ld, "ldb": right.ld, "ldc": target.ld, "stream": stream},
            )
            results.append(result)
        if out is not None:
            self._check_overlap(extents)
        tell_of_simulator(self._devices[0], self.m * self.n * self.k * len(self._here))
        with self._lock:
            status = self._library.sharded_run(self._open(), ctypes.addressof(operands))
        if status:
            if status not in (1, 2):  # a bad argument and an unsupported call queue nothing
                self._kept += [*a, *b, *results]
            self._library.check(status)
        for x in out or ():
            kind.written(x)
        return results

    def _check_overlap(self, extents: list[list[Extent]]) -> None:
        """extents: A, B and C of each rank here."""
        for rank, (_, _, c) in enumerate(extents):
            for other, (a, b, c_of_other) in enumerate(extents):
                for name, x in (("a", a), ("b", b), ("out", c_of_other)):
                    if c.overlaps(x) and not (name == "out" and other == rank):
                        out, of = self._name("out", rank), self._name(name, other)
                        raise ValueError(f"{out} lies in the memory of {of}")

    def _stored(
        self, kind: Any, x: Any, name: str, rows: int, cols: int, transposed: bool = False
    ) -> Stored:
        if kind_of(x, name) is not kind:
            first = self._name("a", 0)
            raise TypeError(
                f"{first} and {name} must be of one kind: {first} is one of {kind.name}"
            )
        key = (name, kind.key(x))
        if (known := self._stored_as.get(key)) is not None:
            return known
        stored = Stored(kind, x, name)
        if (stored.rows, stored.cols) != (rows, cols):
            raise ValueError(f"{name} is {stored.rows} x {stored.cols}: wanted is {rows} x {cols}")
        if stored.type != self._type:
            raise TypeError(f"{name} is {TYPES[stored.type]}: wanted is {TYPES[self._type]}")
        strides = kind.strides(x)
        shape = (cols, rows, *strides[::-1]) if transposed else (rows, cols, *strides)
        found = layout(*shape)
        if found is None or found[0] != 0:
            told = "columns" if transposed else "rows"
            raise ValueError(f"the {told} of {name} must be contiguous{_advice(name, transposed)}")
        stored.op, stored.ld = int(transposed), found[1]
        return keep(self._stored_as, key, stored)

    def __repr__(self) -> str:
        try:
            told = self.explain()
        except ValueError:
            told = "closed"
        shape = f"{self.m} x {self.n} x {self.k}, {TYPES[self._type]}"
        return f"{type(self).__name__}({shape}: {told})"


def _advice(name: str, transposed: bool) -> str:
    if not name.startswith("b"):
        return ""
    return ': layout="nn" takes it as it is' if transposed else ': layout="nt" takes it as it is'


def _place(device: int) -> str:
    return "in host memory" if device == SIMULATOR else f"on GPU {device}"


def _current_gpu() -> int:
    """torch's, where torch is in use: its thread has it, and CUDA's of another thread is another."""
    import sys

    torch = sys.modules.get("torch")
    return CURRENT_DEVICE if torch is None else torch.cuda.current_device()


class AllGatherGemm(_ShardedGemm):
    """Each rank gathers all rows of A, and multiplies them by its own B.

        gemm = AllGatherGemm(m, n, k, "bfloat16", ranks=2)
        c = gemm(a, b)  # lists, by rank

    a[i] has the rows shard(i) of A, b[i] is k x n, and c[i] m x n: all rows of A times b[i]. A product
    may be called again and again, with other matrices.

    layout "nt" means that each b[i] is a transposed view, stored n x k. devices are GPUs by rank: 0, 1
    and so on unless given. backend: None computes on GPUs where there are as many, else in the
    simulator. rung is one of m1 to m3. On GPUs a, b and c[i] are torch tensors of devices[i]; the call is
    queued on torch's current stream of each, and returns. out, a list, receives the results.

    With a process for each rank, such as torchrun's:

        gemm = AllGatherGemm(m, n, k, "bfloat16", group=torch.distributed.group.WORLD)
        c = gemm(a, b)  # this rank's tensors

    a has the rows shard() of A. All ranks make the same objects and the same calls, in the same order.
    The GPU is torch's current one, or device. In place of group, rank, ranks and exchange take any
    launcher: exchange(mine) returns what each rank has told, by rank, as mpi4py's allgather does.
    time_limit: seconds that a product waits for other ranks once it has begun.
    """

    _collective = "all_gather"


class GemmReduceScatter(_ShardedGemm):
    """Each rank multiplies its A by its B, and keeps its rows of the sum of all ranks' products.

    gemm = GemmReduceScatter(m, n, k, "bfloat16", ranks=2)
    c = gemm(a, b)

    a[i] is m x k, b[i] k x n, and c[i] has the rows shard(i) of the sum. All else is as of
    AllGatherGemm. rung is one of m1 and m4.
    """

    _collective = "reduce_scatter"


class GemmAllReduce(_ShardedGemm):
    """Each rank multiplies its A by its B, and has the whole sum of all ranks' products.

    gemm = GemmAllReduce(m, n, k, "bfloat16", ranks=2)
    c = gemm(a, b)

    a[i] is m x k, b[i] k x n, and c[i] m x n: the same bits for every i. All else is as of
    AllGatherGemm. rung is one of m1, m4 and m5.
    """

    _collective = "all_reduce"
