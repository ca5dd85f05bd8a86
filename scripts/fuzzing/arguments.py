"""Random arguments of gemm_ladder's functions, and what these compute, for fuzz_python.py."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

from fuzzing.arrays import (
    ACTIVATIONS,
    E4M3,
    F32,
    FP8,
    LEAST,
    ROUNDOFF,
    SMOOTH,
    TYPES,
    WIDE,
    Array,
    formula,
    numbers_of,
    spread,
    torch,
)

EDGES = (0, 1, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)
COARSE = {"fast_sums": 2.0**-7, "tf32": 2.0**-9, "fp8": 2.0**-9}  # of the sum of |a b|

# Arguments of each function: name, extents, type and layouts. "#" is a list, "?" there at times; j the
# result's columns; t the type of a and b, c the result's, f float.
ARGUMENTS = {
    "matmul": "a Amk t *, b Bkn t *, bias? n c, row_bias? m c, scale_rows? m f, scale_columns? n f",
    "batched_matmul": "a# mk t *, b# kn t *, out#? mj c",
    "grouped_matmul": "a mk t *, b gkn t *, out? mj c",
    "scaled_mm": "a mk t *, b kn t *, scale_a pq f *, scale_b rs f *, bias? n c, out? mj c",
    "quantise": "x mk t",
    "torch.matmul": "a mk t ~, b kn t ~, c? mj t ~, bias? n t, gradient mj t ~",
}
OPERANDS = ("a", "b", "scale_a", "scale_b", "x")  # the rest have names
STRANGE = ("columns", "gaps", "one row", "one column")  # layouts that are refused, or right
LAYOUTS = {"": ("rows",), "*": ("rows", "rows", "columns"), "~": ("rows", "rows", *STRANGE)}
OF_NUMPY = ("upside down", "mirrored", "bytes", "unaligned")  # torch has no such views


class Arguments:
    """A call's arguments, chosen at random, and what it should give."""

    function, dtype, of_c, coarse = "", F32, F32, 0.0

    def __init__(self, kind: str, seed: int, number: int) -> None:
        self.kind, self.random = kind, random.Random(f"{kind} {seed} {number}")
        self.numpy = np.random.default_rng([seed, number])
        self.may_refuse = self.must_refuse = False
        self.odd = 0.05 if kind in ("numpy", "torch") and self.chance(0.5) else 0.0  # an argument
        self.integers = self.chance(0.5)  # of which all sums are exact
        self.arrays: list[Array] = []
        self.given: list[Any] = []
        self.named: dict[str, Any] = {}

    def __repr__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self.named.items()]
        return f"{self.function}({', '.join([*map(repr, self.given), *named])})"

    # Arguments

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choice(self, *values: Any) -> Any:
        return self.random.choice(values)

    def size(self) -> int:
        return self.choice(*EDGES, *[self.random.randint(1, 200) for _ in range(6)])

    def number(self) -> float:
        return self.choice(0.0, 1.0, -2.0, 0.5) if self.integers else self.random.uniform(-2, 2)

    def array(
        self, name: str, shape: Any, dtype: str, layouts: Any = ("rows",), count: int = 0
    ) -> Any:
        """One, which may be odd; or a list of `count` that are alike."""
        layout, memory, many, shape = self.choice(*layouts), None, name[-1] == "#", [*shape]
        if not many and self.chance(self.odd):
            self.may_refuse = True
            layout = self.choice(*STRANGE, *(OF_NUMPY if self.kind == "numpy" else ()))
        elif (
            not self.must_refuse  # two wrong arguments may fit each other
            and not many
            and name not in ("c", "x", "scale_a", "scale_b")
            and self.chance(self.odd)
        ):
            wrong_shape, self.must_refuse = name == "out" or self.chance(0.5), True
            shape[-2 if name == "b" else -1] += self.choice(1, 2, 64) if wrong_shape else 0
            dtype = dtype if wrong_shape else self.choice(*(x for x in TYPES if x != dtype))
        elif name == "out" and self.chance(self.odd * 4):  # it may overlap what is read
            memory, self.may_refuse = self.choice(*self.arrays).memory, True
        how = (layout, self.choice(0, 0, 0, 1, 3, 8, 16), self.choice(0, 0, 8, 5), self.chance(0.3),
               self.choice(0, 0, 0, 8, 16, 1, 3))  # fmt: skip
        of_torch, each = self.kind != "numpy", range(count if many else 1)
        found = [Array(shape, dtype, how, of_torch, memory) for _ in each]
        self.arrays += found
        for x in found:
            if name[:3] != "out" or "beta" in self.named:
                integers = self.numpy.integers(-2, 3, x.view.shape).astype(float)
                x.view[...] = integers if self.integers else self.numpy.uniform(-1, 1, x.view.shape)
            is_out, is_read = name[:3] == "out", name in (*OPERANDS, "bias")
            if self.kind == "numpy" and self.chance(self.odd if is_out else 0.1 * is_read):
                x.given = x.view.view()
                x.given.flags.writeable = False
                self.must_refuse |= is_out
        return found if many else found[0]

    def arguments(self, count: int = 0, **dims: Any) -> None:
        types = {"t": self.dtype, "c": self.of_c, "f": F32}
        for told in ARGUMENTS[self.function].split(", "):
            name, letters, of, layouts = (told + " ").split(" ")[:4]
            if name[-1] == "?" and self.chance(0.7):
                continue
            name, shape = name.rstrip("?"), [dims[x] for x in letters if dims[x] is not None]
            x = self.array(name, shape, types[of], LAYOUTS[layouts], count)
            if name in ("a#", "b#") and self.chance(0.2):
                x = x[:1] * count
            name = name.rstrip("#")
            if name in OPERANDS and self.function != "torch.matmul":
                self.given.append(x)
            else:
                self.named[name] = x

    def begin(
        self, function: str, types: Any, faces: bool = True, gates: float = 0.15
    ) -> dict[str, Any]:
        """Types, alpha, the activation and extents."""
        self.function, self.dtype, named = function, self.choice(*types), self.named
        self.of_c = "bfloat16" if self.dtype in FP8 else self.dtype
        self.coarse = COARSE["fp8"] if self.dtype in FP8 else 0.0
        if faces and self.chance(0.25):
            self.of_c = F32 if self.chance(0.5) and self.dtype != FP8[1] else self.of_c
            if self.chance(self.odd):
                self.of_c, self.may_refuse = self.choice(*WIDE), True
            of_face = TYPES[self.of_c] if self.kind == "numpy" else getattr(torch, self.of_c)
            named["out_dtype"] = self.choice(self.of_c, of_face)
        if function != "scaled_mm" and self.chance(0.4):
            named["alpha"] = (
                self.choice(math.nan, math.inf) if self.chance(self.odd) else self.number()
            )
        if function != "scaled_mm" and self.chance(0.4):
            named["activation"] = self.choice(*[*ACTIVATIONS][1:])
            named["slope"] = self.choice(0.25, 0.0, -0.5, 2.0)
        m, n, k = self.size(), self.size(), self.size()
        if self.chance(gates):
            named["gated"], n = True, n + n % 2
        return {"m": m, "n": n, "k": k, "j": n // 2 if "gated" in named else n}

    def wanted(self, a: Any, b: Any) -> tuple[Any, Any]:
        """In double, and how far off the result may be: so many roundings of all that is added."""
        how = {name: numbers_of(x) for name, x in self.named.items()}
        u, name, slope = ROUNDOFF[self.of_c], how.get("activation"), how.get("slope", 0.01)
        how |= {"row_bias": how.get("row_bias", np.zeros(1))[:, None], "a": a, "b": b}
        how["alpha"] = how.get("alpha", 1.0) * how.get("scale_rows", np.ones(1))[:, None]
        how["alpha"] = how["alpha"] * how.get("scale_columns", 1.0)
        if self.named.get("alpha") == 0 or a.shape[-1] == 0:  # 0, whatever multiplies it
            how |= {"alpha": 0.0, "a": 0 * np.nan_to_num(a), "b": 0 * np.nan_to_num(b)}
        if "residual" in how:
            how["beta"] = how.get("beta") or 1.0
        how["c"] = how.get("residual", how.get("c", how.get("out"))) if how.get("beta") else 0.0
        y = formula(how, lambda x: ACTIVATIONS[name](x, slope))
        terms = ("a", "b", "c", "alpha", "beta", "bias", "row_bias", "gated")
        sizes = {name: np.abs(how[name]) for name in terms if name in how}
        sizes["bias"] = sizes.get("bias", 0.0) + LEAST[self.of_c] / u
        share = 0.0 if self.integers else self.coarse or (a.shape[-1] + 16) * 2.0**-23
        share += 2 * u + (2.0**-18 if name in SMOOTH else 0)
        size = formula(sizes, lambda x: x * max(1.13, abs(slope)))
        return y, share * (1 + ("gated" in how)) * size + LEAST[self.of_c]


def quantised(values: Any, dtype: str, block: Any, blocks: Any) -> tuple[Any, Any]:
    """The numbers and scales of floats, as one expects them bit for bit, with bounds of 0."""
    largest = np.float32(448 if dtype == E4M3 else 57344)
    most = np.where(np.isfinite(values), np.abs(values), np.float32(0))
    for axis, step in enumerate(block if values.size else ()):
        most = np.maximum.reduceat(most, range(0, most.shape[axis], step), axis)
    most = most if values.size else np.zeros(blocks, np.float32)
    scales = np.where(most > 0, most / largest, np.float32(1))
    q = np.clip(values / spread(scales, block[0], block[1], values.shape), -largest, largest)
    return [q.astype(TYPES[dtype]).astype(float), scales], [0 * np.abs(values), 0 * scales]
