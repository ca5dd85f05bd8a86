"""FP8: quantise and scaled_mm."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Optional

from ._arrays import Extent, Stored, kind_of, run_by_copies
from ._library import (
    BACKENDS,
    BYTES,
    SCALE_OF,
    TYPES,
    Library,
    Quantisation,
    choice,
    flag,
    tell_of_simulator,
)
from ._matmul import matmul, type_code

BLOCK = 128


def _blocks(extent: int) -> int:
    return -(-extent // BLOCK)


def quantise(
    x: Any,
    scales: str = "tensor",
    *,
    dtype: Any = "float8_e4m3fn",
    backend: Optional[str] = None,
) -> tuple[Any, Any]:
    """(q, s) with x = q * s but for rounding: FP8 numbers, and float32 scales that fit the largest.

    x is a matrix of float32, float16 or bfloat16 whose rows are contiguous. scales says what has one
    in common, and s has the shape that scaled_mm takes for a of these rows: "tensor" (1 x 1), "row"
    (rows x 1), "1x128" (rows x columns / 128) or "128x128" (rows / 128 x columns / 128). b of
    scaled_mm has scales along k, too: quantise the transposed b, and give it q.T and s.T. Infinities
    become the largest number of the type; NaN stays NaN.
    """
    kind = kind_of(x, "x")
    choice("scales", scales, SCALE_OF)
    choice("backend", backend, BACKENDS)
    stored = Stored(kind, x, "x")
    if BYTES[stored.type] == 1:
        raise TypeError(f"x is {TYPES[stored.type]}, and so it is quantised")
    if stored.op and stored.rows and stored.cols:
        raise ValueError("x is transposed: its rows must be contiguous")
    rows, cols, code = stored.rows, stored.cols, type_code(dtype, 0)
    if BYTES[code] != 1:
        raise TypeError(f"dtype is {TYPES[code]}: allowed are {TYPES[3]} and {TYPES[4]}")
    q = kind.empty(rows, cols, x, code)
    shape = {
        "tensor": (1, 1),
        "row": (rows, 1),
        "1x128": (_blocks(cols), rows),
        "128x128": (_blocks(rows), -(-_blocks(cols) // 4) * 4),
    }[scales]
    s = kind.empty(*shape, x, TYPES.index("float32"))
    quantisation = Quantisation(
        size=ctypes.sizeof(Quantisation),
        scale_of=SCALE_OF.index(scales),
        **{"rows": rows, "cols": cols, "ldx": stored.ld, "ldq": max(cols, 1)},
        **{"type_x": stored.type, "type_q": code, "ld_scales": shape[1]},
    )

    def run(library: Library, device: int, px: int, ps: int, pq: int) -> None:
        library.check(library.quantise(ctypes.addressof(quantisation), px, pq, ps, stream, device))

    stream = None
    place = kind.place(x, q, s, backend)
    if place is None:
        extents = [Extent(stored, kind.pointer(x))]
        extents += [Extent(Stored(kind, y, "result"), kind.pointer(y)) for y in (s, q)]
        run_by_copies(extents, False, run, results=(1, 2))
    else:
        library, device, stream = place
        tell_of_simulator(device, 64 * rows * cols)  # an element takes as long
        run(library, device, kind.pointer(x), kind.pointer(s), kind.pointer(q))
    if scales == "1x128":
        s = s.T
    return q, s[:, : _blocks(cols)] if scales == "128x128" else s


def scaled_mm(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    *,
    bias: Any = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
    out: Any = None,
    rung: Optional[str] = None,
    backend: Optional[str] = None,
) -> Any:
    """(scale_a * a) @ (scale_b * b) + bias of FP8 matrices, by the conventions of torch._scaled_mm.

    Scales are float32: one number for each matrix; m x 1 and 1 x n, for rows of a and columns of b;
    or of blocks, m x (k / 128) for each 1 x 128 of a, and (k / 128) x (n / 128) for each 128 x 128 of
    b. Blocks are taken as they are where a's scales are contiguous along m and b's along k, as
    quantise makes them, and else copied. out_dtype is bfloat16 or float32. use_fast_accum keeps 14
    bits of the sums, which is faster; not with blocks.
    """
    kind = kind_of(a, "a")
    use_fast_accum = flag("use_fast_accum", use_fast_accum)
    for name, x in (("scale_a", scale_a), ("scale_b", scale_b)):
        if kind_of(x, name) is not kind:
            raise TypeError(f"a and {name} must be of one kind: a is one of {kind.name}")
        if kind.type_name(x) != "float32":
            raise TypeError(f"{name} is {kind.type_name(x)}: wanted is float32")
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ValueError("a and b have two dimensions: call once for each product")
    (m, k), n = a.shape, b.shape[1]
    shape_a, shape_b = tuple(scale_a.shape), tuple(scale_b.shape)
    given: dict[str, Any] = {"bias": bias, "out": out, "rung": rung, "backend": backend}
    given |= {"out_dtype": out_dtype, "compute": "fast_sums" if use_fast_accum else "exact"}
    if math.prod(shape_a) == math.prod(shape_b) == 1:
        return matmul(a, b, **given, **_one_scale(kind, m, a, scale_a, scale_b))
    if shape_a == (m, 1) and shape_b == (1, n):
        vectors = {"scale_rows": _vector(kind, scale_a), "scale_columns": _vector(kind, scale_b)}
        return matmul(a, b, **given, **vectors)
    if shape_a == (m, _blocks(k)) and shape_b == (_blocks(k), _blocks(n)):
        if use_fast_accum:
            raise ValueError("use_fast_accum does not go with scales of blocks: sums end with them")
        given["compute"] = "block_scales"
        blocks = {"scales_a": _rows(kind, scale_a.T), "scales_b": _rows(kind, scale_b.T)}
        return matmul(a, b, **given, **blocks)
    raise ValueError(
        f"scales are {_shape(shape_a)} and {_shape(shape_b)}: wanted are one number each, "
        f"{m} x 1 and 1 x {n}, or {m} x {_blocks(k)} and {_blocks(k)} x {_blocks(n)}"
    )


def _is_torch(kind: Any) -> bool:
    return hasattr(kind, "torch")


def _one_scale(kind: Any, m: int, a: Any, scale_a: Any, scale_b: Any) -> dict[str, Any]:
    """What scales whole matrices: a number. From device memory a row each: to read it would wait."""
    if kind.name == "CuPy arrays":
        return {"scale_rows": kind.numpy.broadcast_to(scale_a * scale_b, (1, m)).reshape(-1).copy()}
    if _is_torch(kind) and a.is_cuda:
        return {"scale_rows": (scale_a * scale_b).reshape(1).expand(m).contiguous()}
    return {"alpha": (scale_a * scale_b).item()}


def _rows(kind: Any, x: Any) -> Any:
    """The matrix, or a copy whose rows are contiguous."""
    stored = Stored(kind, x, "scales")
    return _contiguous(kind, x) if stored.op else x


def _vector(kind: Any, x: Any) -> Any:
    """The elements in a row, copied where they have gaps."""
    return _contiguous(kind, x).reshape(-1)


def _contiguous(kind: Any, x: Any) -> Any:
    return x.contiguous() if _is_torch(kind) else kind.numpy.ascontiguousarray(x)


def _shape(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape)) or "a number"
