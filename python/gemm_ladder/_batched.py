"""batched_matmul: products of one shape whose matrices lie anywhere, in one call."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Optional

from ._arrays import kind_of, run_by_copies
from ._library import BACKENDS, Library, Problem, choice, flag, listed, real, tell_of_simulator
from ._matmul import Prepared, _prepared, epilogue_of, keep, type_code


def _check_alike(kind: Any, name: str, arrays: Sequence[Any], a: Any) -> None:
    """One shape, type and strides, and one device: that of the first array of a."""
    for i, x in enumerate(arrays):
        if kind_of(x, f"{name}[{i}]") is not kind:
            raise TypeError(f"a[0] and {name}[{i}] must be of one kind: a[0] is of {kind.name}")
        if kind.key(x) != kind.key(arrays[0]):
            raise ValueError(
                f"{name}[{i}] has another shape, type or strides than {name}[0]: all products "
                "have one shape"
            )
        if getattr(x, "device", None) != getattr(a, "device", None):
            raise ValueError(f"{name}[{i}] is on {x.device} and a[0] on {a.device}: move it there")


def _check_apart(prepared: Prepared, pointers: list[list[int]]) -> None:
    """No result overlaps another one or an operand, of whichever product."""
    places = {}  # once each, but for results
    for i, of_product in enumerate(zip(*pointers)):
        for name, extent in zip(("a", "b", "out"), prepared.extents(*of_product)):
            if extent.bytes:
                places[extent.first, name, i if name == "out" else -1] = extent
    near: list[Any] = []  # those that end behind the first byte of the next
    for (first, name, i), extent in sorted(places.items()):
        near = [x for x in near if x[2].first + x[2].bytes > first]
        for other, j, of_other in near:
            if "out" in (name, other) and extent.overlaps(of_other):
                (name, i), (other, j) = sorted([(name, i), (other, j)], reverse=True)
                told = f"out[{j}]" if other == "out" else f"a matrix of {other}"
                raise ValueError(f"out[{i}] overlaps {told}: each result has memory of its own")
        near.append((name, i, extent))


def _pointers(pointers: Sequence[int]) -> Any:
    return (ctypes.c_void_p * len(pointers))(*pointers)


def batched_matmul(
    a: Sequence[Any],
    b: Sequence[Any],
    *,
    alpha: float = 1.0,
    activation: Optional[str] = None,
    slope: float = 0.01,
    gated: bool = False,
    out: Optional[Sequence[Any]] = None,
    out_dtype: Any = None,
    backend: Optional[str] = None,
) -> list[Any]:
    """[activation(alpha * a[i] @ b[i]) for i in range(len(a))], planned once.

    a and b are lists of as many matrices, wherever they lie: all of a have one shape, one type and
    one layout in memory, and so have all of b. An array may be in a list several times. out, a list,
    receives the results: none of them may overlap another one, or any a or b. Else they are the parts
    of one new array. Where matrices lie at equal distances the call is one of a batch, as of matmul
    in three dimensions; else each product is a launch. alpha, activation, slope, gated and out_dtype
    are those of matmul.
    """
    a, b = listed("a", a), listed("b", b)
    out = None if out is None else listed("out", out)
    count = len(a)
    if len(b) != count or (out is not None and len(out) != count):
        lengths = f"a has {count} matrices and b {len(b)}"
        if out is not None:
            lengths += f", out {len(out)}"
        raise ValueError(lengths + ": as many of each are wanted")
    choice("backend", backend, BACKENDS)
    gated = flag("gated", gated)
    code = None if out_dtype is None else type_code(out_dtype, 0)
    epilogue = epilogue_of(real("alpha", alpha), 0.0, activation, real("slope", slope))
    if count == 0:
        return []
    kind = kind_of(a[0], "a[0]")
    _check_alike(kind, "a", a, a[0])
    _check_alike(kind, "b", b, a[0])
    if out is not None:
        _check_alike(kind, "out", out, a[0])
    if kind.needs_gradient(*a, *b, *(out or ())):
        raise ValueError("batches keep no gradient: call under torch.no_grad()")
    first = None if out is None else out[0]
    of_out = None if first is None else kind.key(first)
    key = ("list", kind.key(a[0]), kind.key(b[0]), of_out, code, gated)
    prepared = _prepared.get(key)
    if prepared is None:
        made = Prepared(kind, a[0], b[0], first, code, "exact", gated)
        prepared = keep(_prepared, key, made)
    if out is None:
        m, n = prepared.m, prepared.columns
        results = list(kind.empty(count * m, n, a[0], prepared.new_type).reshape((count, m, n)))
    else:
        if not all(kind.writable(x) for x in out):
            raise ValueError("out cannot be written to")
        results = list(out)
    pointers = [[kind.pointer(x) for x in arrays] for arrays in (a, b, results)]
    if out is not None:
        _check_apart(prepared, pointers)
    problem = Problem.from_buffer_copy(prepared.problem)
    problem.batch = count
    numbers = ctypes.addressof(problem), ctypes.addressof(epilogue)

    def run(library: Library, device: int, *of_all: int) -> None:
        arrays = [_pointers(of_all[i::3]) for i in range(3)]
        addresses = [ctypes.addressof(x) for x in arrays]
        library.check(library.batched_matmul(*numbers, *addresses, stream, device))

    stream = None
    of_all = [pointer for of_product in zip(*pointers) for pointer in of_product]
    place = kind.place(a[0], b[0], results[0], backend)
    if place is None:
        extents = [x for of_product in zip(*pointers) for x in prepared.extents(*of_product)]
        run_by_copies(extents, True, run, results=tuple(range(2, 3 * count, 3)))
    else:
        library, device, stream = place
        tell_of_simulator(device, count * prepared.work)
        run(library, device, *of_all)
    for x in out or ():
        kind.written(x)
    return results
