"""Arrays of fuzz_python.py: how they lie in memory, and what is computed of them, in double."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None

F32, F16, E4M3 = "float32", "float16", "float8_e4m3fn"
FP8, WIDE = (E4M3, "float8_e5m2"), (F32, F16, "bfloat16")
TYPES = {t: np.dtype(getattr(np, t, None) or getattr(ml_dtypes, t)) for t in (*WIDE, *FP8)}
ROUNDOFF = dict(zip(WIDE, (2.0**-24, 2.0**-11, 2.0**-8)))
LEAST = dict(zip(WIDE, (2.0**-126, 2.0**-24, 2.0**-126)))  # what may be lost near 0
SMOOTH = ("gelu", "gelu_erf", "silu")
ACTIVATIONS: dict[str | None, Any] = {
    None: lambda x, slope: x,
    "relu": lambda x, slope: np.where(x < 0, 0.0, x),
    "leaky_relu": lambda x, slope: np.where(x < 0, x * slope, x),
    "gelu": lambda x, slope: (
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    "gelu_erf": lambda x, slope: 0.5 * x * np.vectorize(math.erfc, [float])(-x / math.sqrt(2)),
    "silu": lambda x, slope: x / (1 + np.exp(-x)),
}


class Failure(Exception):
    """What does not hold."""


class Array:
    """A view of memory that else holds NaN. `given`: what the library gets."""

    def __init__(
        self, shape: Any, dtype: str, how: Any, of_torch: bool, memory: Any = None
    ) -> None:
        (layout, pad, apart, heads, first), of = how, TYPES[dtype]
        of = of.newbyteorder(">") if layout == "bytes" and of.kind == "f" else of
        count, rows, cols = (1, 1, *shape)[-3:]
        row, column = {
            "columns": (1, rows + pad), "gaps": (2 * cols + pad, 2), "one row": (0, 1),
            "one column": (cols + pad, 0), "upside down": (-cols - pad, 1), "mirrored": (cols + pad, -1),
        }.get(layout, (cols + pad, 1))  # fmt: skip
        strides = [max(rows * abs(row), cols * abs(column)) + apart, row, column]
        if len(shape) == 3 and layout == "rows" and heads:  # as heads of attention
            strides[:2] = cols, count * cols + pad
        strides = strides[3 - len(shape) :]
        ends = [max(extent - 1, 0) * stride for extent, stride in zip(shape, strides)]
        first -= sum(min(0, end) for end in ends)
        size = (first + sum(max(0, end) for end in ends) + 2) * of.itemsize // 4 * 4 + 4
        if memory is None or memory.size < size:  # it begins at a multiple of 256 bytes
            memory = np.full(size + 256, 0xFF, np.uint8)
            memory = memory[-memory.ctypes.data % 256 :][:size]
        in_bytes = [stride * of.itemsize for stride in strides]
        self.place = first * of.itemsize + (layout == "unaligned"), in_bytes
        self.memory, self.told = memory, f"{dtype} {list(shape)} {layout}, {strides} at {first}"
        self.view = self.given = np.ndarray(shape, of, memory, *self.place)
        if of_torch:
            of_type = torch.from_numpy(memory).view(getattr(torch, dtype))
            self.given = of_type.as_strided(shape, strides, first)

    def __repr__(self) -> str:
        return f"<{self.told}>"

    def mark(self, written: Any) -> None:
        """1 for each byte of its elements."""
        shape, (offset, strides) = (*self.view.shape, self.view.itemsize), self.place
        np.ndarray(shape, np.uint8, written, offset, (*strides, 1))[...] = 1


def formula(v: dict[str, Any], activation: Any) -> Any:
    """What is computed, of NumPy's arrays or torch's."""
    a, b = v["a"], v["b"]
    finite = not isinstance(a, np.ndarray) or np.isfinite(np.abs(a) @ np.abs(b)).all()
    # BLAS may leave out what is multiplied by 0.
    x = a @ b if finite else np.einsum("...ik,...kj->...ij", a, b)
    x = v.get("alpha", 1.0) * x + v.get("beta", 0.0) * v.get("c", 0.0)
    x = x + v.get("bias", 0.0) + v.get("row_bias", 0.0)
    return activation(x[..., ::2]) * x[..., 1::2] if "gated" in v else activation(x)


def spread(scales: Any, high: int, wide: int, shape: Any) -> Any:
    """Each block's scale at each of its elements."""
    return scales.repeat(high, 0)[: shape[0]].repeat(wide, 1)[:, : shape[1]]


def given_of(x: Any) -> Any:
    return [given_of(y) for y in x] if isinstance(x, list) else getattr(x, "given", x)


def numbers_of(x: Any) -> Any:
    """In double; what is no array as it is."""
    if hasattr(x, "detach"):
        return x.detach().float().double().numpy()
    x = x.view if isinstance(x, Array) else x
    return x.astype(float) if isinstance(x, np.ndarray) else x


def close(got: list[Any], want: tuple[Any, Any], of_c: str) -> None:
    """Refuses what is further from the numbers wanted than their bounds."""
    wanted, bounds = want
    if not isinstance(wanted, list):
        one = len(got) == 1 and got[0].ndim == wanted.ndim
        wanted, bounds = ([wanted], [bounds]) if one else (list(wanted), list(bounds))
    if [x.shape for x in got] != [x.shape for x in wanted]:
        raise Failure(f"shapes {[x.shape for x in got]}, not {[x.shape for x in wanted]}")
    for x, y, bound in zip(got, wanted, bounds):
        right = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound)
        if of_c == F16:
            right |= (np.abs(y) + bound >= 65504) & (x == np.sign(y) * math.inf)
        for at in map(tuple, np.argwhere(~right)[:1].tolist()):
            told = f"at {at} {x[at]:.9g}, not {y[at]:.9g} +- {bound[at]:.2g}"
            raise Failure(f"{(~right).sum()} of {x.size} numbers wrong: {told}")
