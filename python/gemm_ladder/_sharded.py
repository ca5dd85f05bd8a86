"""AllGatherGemm and GemmReduceScatter: products whose operands lie on several devices of one host."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Optional

from ._arrays import CupyArrays, Extent, Stored, kind_of, layout
from ._library import (
    COLLECTIVES,
    SIMULATOR,
    TYPES,
    Library,
    ShardedOperands,
    ShardedProblem,
    cuda,
    gpu_count,
    simulator,
)
from ._matmul import type_code


def _library_and_devices(
    ranks: int, devices: Optional[Sequence[int]], backend: Optional[str]
) -> tuple[Library, list[int]]:
    if backend not in (None, "simulator", "gpu"):
        raise ValueError(f'backend is {backend!r}: allowed are "simulator", "gpu" and None')
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
    ) -> None:
        if layout not in ("nn", "nt"):
            raise ValueError(f"layout is {layout!r}: allowed are nn and nt")
        self._library, self._devices = _library_and_devices(ranks, devices, backend)
        self.m, self.n, self.k, self.ranks, self.layout = m, n, k, ranks, layout
        self._type = type_code(dtype, 0)
        problem = ShardedProblem(
            size=ctypes.sizeof(ShardedProblem),
            collective=COLLECTIVES.index(self._collective),
            **{"m": m, "n": n, "k": k, "type": self._type},
            **{"op_b": int(layout == "nt"), "ranks": ranks},
        )
        library, made = self._library, ctypes.c_void_p()
        numbers = (ctypes.c_int * ranks)(*self._devices)
        library.check(
            library.sharded_create(
                ctypes.addressof(problem),
                ctypes.addressof(numbers),
                None if rung is None else rung.encode(),
                ctypes.addressof(made),
            )
        )
        # Destroyed with this object, and at exit. Used and closed by one thread at a time.
        self._handle = made.value or 0
        self._lock = threading.Lock()
        self._kept: list[Any] = []  # arrays of a call that failed: a GPU may still use them
        self._destroy = weakref.finalize(self, library.sharded_destroy, self._handle)
        self._shards = [self._shard(problem, rank) for rank in range(ranks)]

    def _shard(self, problem: ShardedProblem, rank: int) -> slice:
        first, rows = ctypes.c_int64(), ctypes.c_int64()
        addresses = ctypes.addressof(first), ctypes.addressof(rows)
        status = self._library.shard_rows(ctypes.addressof(problem), rank, *addresses)
        self._library.check(status)
        return slice(first.value, first.value + rows.value)

    def shard(self, rank: int) -> slice:
        """The rows that are this rank's: x[shard(rank)] of a matrix of m rows."""
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

    def __call__(
        self, a: Sequence[Any], b: Sequence[Any], *, out: Optional[Sequence[Any]] = None
    ) -> list[Any]:
        self._open()
        for name, arrays in (("a", a), ("b", b), ("out", out)):
            if arrays is not None and len(arrays) != self.ranks:
                raise ValueError(f"{name} has {len(arrays)} matrices: one a rank, {self.ranks}")
        kind = kind_of(a[0], "a[0]")
        if isinstance(kind, CupyArrays):
            raise TypeError("a[0] is a CuPy array: allowed are NumPy arrays and torch tensors")
        operands = (ShardedOperands * self.ranks)()
        results: list[Any] = []
        extents: list[list[Extent]] = []
        for rank in range(self.ranks):
            own = self._shards[rank].stop - self._shards[rank].start
            gathers = self._collective == "all_gather"
            rows_a, rows_c = (own, self.m) if gathers else (self.m, own)
            left = self._stored(kind, a[rank], f"a[{rank}]", rows_a, self.k)
            right = self._stored(kind, b[rank], f"b[{rank}]", self.k, self.n, self.layout == "nt")
            if out is None:
                result = kind.empty(rows_c, self.n, b[rank], None)
            else:
                result = out[rank]
            target = self._stored(kind, result, f"out[{rank}]", rows_c, self.n)
            if not kind.writable(result):
                raise ValueError(f"out[{rank}] cannot be written to")
            if kind.needs_gradient(a[rank], b[rank], result):
                raise ValueError("sharded products keep no gradient: call under torch.no_grad()")
            library, device, stream = kind.place(a[rank], b[rank], result, None)
            if device != self._devices[rank]:
                raise ValueError(
                    f"a[{rank}] is {_place(device)}, and rank {rank} {_place(self._devices[rank])}"
                )
            pointers = [kind.pointer(x) for x in (a[rank], b[rank], result)]
            extents.append([Extent(x, p) for x, p in zip((left, right, target), pointers)])
            operands[rank] = ShardedOperands(
                size=ctypes.sizeof(ShardedOperands),
                **dict(zip("abc", pointers)),
                **{"lda": left.ld, "ldb": right.ld, "ldc": target.ld, "stream": stream},
            )
            results.append(result)
        if out is not None:
            _check_overlap(extents)
        with self._lock:
            status = self._library.sharded_run(self._open(), ctypes.addressof(operands))
        if status:
            if status not in (1, 2):  # a bad argument and an unsupported call queue nothing
                self._kept += [*a, *b, *results]
            self._library.check(status)
        return results

    def _stored(
        self, kind: Any, x: Any, name: str, rows: int, cols: int, transposed: bool = False
    ) -> Stored:
        if kind_of(x, name) is not kind:
            raise TypeError(f"a[0] and {name} must be of one kind: a[0] is one of {kind.name}")
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
        return stored

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


def _check_overlap(extents: list[list[Extent]]) -> None:
    """extents: A, B and C of each rank."""
    for rank, (_, _, c) in enumerate(extents):
        for other, (a, b, c_of_other) in enumerate(extents):
            for name, x in (("a", a), ("b", b), ("out", c_of_other)):
                if c.overlaps(x) and not (name == "out" and other == rank):
                    raise ValueError(f"out[{rank}] lies in the memory of {name}[{other}]")


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
