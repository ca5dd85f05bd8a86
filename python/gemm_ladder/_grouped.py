"""grouped_matmul: products of different heights, the groups of a mixture of experts, in one call."""

from __future__ import annotations

import ctypes
from typing import Any, Optional

from ._arrays import Extent, Stored, kind_of, run_by_copies
from ._library import BACKENDS, BYTES, TYPES, Library, choice, real, tell_of_simulator
from ._matmul import (
    Prepared,
    _check_overlap,
    _prepared,
    epilogue_of,
    first_matrix,
    keep,
    type_code,
)


class PreparedGroups(Prepared):
    """A problem of groups that has been checked once. Its m is the rows of all of them."""

    __slots__ = ("groups",)

    def __init__(self, kind: Any, a: Any, b: Any, out: Any, out_dtype: Any) -> None:
        if len(b.shape) != 3:
            raise ValueError(f"b has {len(b.shape)} dimensions: wanted are 3, a matrix each group")
        first, self.groups, stride = first_matrix(kind, b, "b")
        super().__init__(kind, a, first, out, out_dtype, "exact")
        self.problem.batch, self.problem.stride_b = self.groups, stride
        self.problem.m *= self.groups > 0  # a batch of 0 would be one
        self.bytes[1] = self.extents(0, 0, 0)[1].bytes

    def extents(self, *pointers: int) -> list[Extent]:
        found = super().extents(*pointers)
        if self.groups == 0:
            found[1].bytes = 0
        elif self.groups > 1 and found[1].bytes:
            found[1].bytes += (self.groups - 1) * self.problem.stride_b * BYTES[self.b.type]
            found[1].pitch = 0  # there may be gaps between the matrices
        return found

    def check_overlap(self, a: int, b: int, c: int) -> None:
        if c < b + self.bytes[1] and b < c + self.bytes[2]:
            raise ValueError("out lies in the memory of b, which is read meanwhile")
        _check_overlap(self, a, b, c)


def _ends(kind: Any, offsets: Any, groups: int, a: Any) -> Any:
    """The offsets as contiguous int32, where a is. On a GPU nothing waits for them."""
    if kind_of(offsets, "offsets") is not kind:
        raise TypeError(f"a and offsets must be of one kind: a is one of {kind.name}")
    if tuple(offsets.shape) != (groups,):
        shape = " x ".join(map(str, offsets.shape)) or "of a number"
        raise ValueError(f"offsets has the shape {shape}: wanted is {groups}, an end each group")
    if getattr(offsets, "device", None) != getattr(a, "device", None):
        raise ValueError(f"offsets is on {offsets.device} and a on {a.device}: move it there")
    return kind.int32(offsets, a.shape[0])


def grouped_matmul(
    a: Any,
    b: Any,
    offsets: Any,
    *,
    alpha: float = 1.0,
    activation: Optional[str] = None,
    slope: float = 0.01,
    out: Any = None,
    out_dtype: Any = None,
    backend: Optional[str] = None,
) -> Any:
    """activation(alpha * a_i @ b[i]) for the groups a_i of a's rows, as a mixture of experts has them.

    a is m x k, b a matrix of k x n for each group; a view such as weights.transpose(1, 2) is taken as
    it is. Group i has the rows of a from offsets[i - 1], or 0, to before offsets[i], and the result's
    same rows are its product. offsets holds int32 or int64 that rise up to at most m; a group may have
    no rows. Rows from the last offset on belong to no group and are not written: in a new result they
    hold anything. On a GPU offsets are read there, when the kernel runs.
    """
    kind = kind_of(a, "a")
    for name, x in (("b", b), ("out", out)):
        if x is not None and kind_of(x, name) is not kind:
            raise TypeError(f"a and {name} must be of one kind: a is one of {kind.name}")
    choice("backend", backend, BACKENDS)
    epilogue = epilogue_of(real("alpha", alpha), 0.0, activation, real("slope", slope))
    code = None if out_dtype is None else type_code(out_dtype, 0)
    if kind.needs_gradient(a, b, out):
        raise ValueError("groups keep no gradient: call under torch.no_grad()")
    key = ("groups", kind.key(a), kind.key(b), None if out is None else kind.key(out), code)
    prepared: Any = _prepared.get(key)
    if prepared is None:
        prepared = keep(_prepared, key, PreparedGroups(kind, a, b, out, code))
    ends = _ends(kind, offsets, prepared.groups, a)
    pa, pb = kind.pointer(a), kind.pointer(b)
    if out is None:
        result = prepared.empty(kind, a)
    elif not kind.writable(out):
        raise ValueError("out cannot be written to")
    else:
        result = out
    pc = kind.pointer(result)
    if out is not None:
        prepared.check_overlap(pa, pb, pc)
    place = kind.place(a, b, result, backend)

    numbers = prepared.address, ctypes.addressof(epilogue)
    pe = kind.pointer(ends)
    stored = Stored.__new__(Stored)
    stored.rows, stored.cols, stored.op, stored.ld = 1, prepared.groups, 0, prepared.groups
    stored.type = TYPES.index("float32")  # of as many bytes
    extents = [*prepared.extents(pa, pb, pc), Extent(stored, pe)]
    if out is not None and extents[2].overlaps(extents[3]):
        raise ValueError("out overlaps offsets, which are read meanwhile")
    if place is None:

        def run(library: Library, device: int, *on_gpu: int) -> None:
            library.check(library.grouped_matmul(*numbers, *on_gpu, None, device))

        # Rows of no group keep what they hold: C is copied there, too.
        run_by_copies(extents, True, run)
    else:
        library, device, stream = place
        tell_of_simulator(device, prepared.work)
        status = library.grouped_matmul(*numbers, pa, pb, pc, pe, stream, device)
        if status:
            library.check(status)
    if out is not None:
        kind.written(out)
    return result
