#!/usr/bin/env python3
"""Calls gemm_ladder with random arguments, for as long as asked, in the simulator.

scripts/fuzz_python.py --minutes 60              random seed; it is printed
scripts/fuzz_python.py --only torch              a class alone: numpy, torch, gradients, compile
scripts/fuzz_python.py --only numpy --seed 7 --case 123    one call again

What must hold: a result is within its bound of NumPy's in double precision, a gradient of torch's;
what torch.compile makes has eager's results; a call of valid arguments is taken; an error is one
line of text, of a documented type; no byte changes but of out's elements, and none after an error;
the same call again has the same bits. Memory beside the elements holds NaN. Exit status 0: no
failure, 1: some, 2: bad options. Without torch its three classes are left out.

GEMM_LADDER_LIBRARIES names another folder of libraries than build/src/library.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import random
import secrets
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("GEMM_LADDER_LIBRARIES", str(ROOT / "build/src/library"))

import gemm_ladder as gemm  # noqa: E402

try:
    import torch

    import gemm_ladder.torch as ours

    torch.set_num_threads(1)
except ImportError:
    torch = None

KINDS = ("numpy", "torch", "gradients", "compile") if torch else ("numpy",)
COMPILED = 100  # every hundredth number is compiled, which takes long
EDGES = (0, 1, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)
FP8 = ("float8_e4m3fn", "float8_e5m2")
WIDE = ("float32", "float16", "bfloat16")
TYPES = {t: np.dtype(getattr(np, t, None) or getattr(ml_dtypes, t)) for t in (*WIDE, *FP8)}
ROUNDOFF = dict(zip(WIDE, (2.0**-24, 2.0**-11, 2.0**-8)))
LEAST = dict(zip(WIDE, (2.0**-126, 2.0**-24, 2.0**-126)))  # what may be lost near 0
FP8_SUMS, FAST_SUMS, TF32, APPROXIMATE = 2.0**-9, 2.0**-7, 2.0**-9, 2.0**-8  # of the sum of |a b|
STRANGE = ("columns", "gaps", "one row", "one column")  # layouts that are refused, or right
OF_NUMPY = ("upside down", "mirrored", "bytes", "unaligned")  # torch has no such views
TYPED = ("a", "b", "bias", "row_bias", "scale_rows", "scale_columns", "residual")
WRONG_WORDS = (("alpha", 1e39), ("beta", "x"), ("activation", "tanh"), ("slope", None),
               ("compute", "fast"), ("backend", "tpu"), ("out_dtype", "int8"))  # fmt: skip
rungs = functools.cache(lambda: gemm.rungs("simulator"))


class Failure(Exception):
    """What does not hold."""


class Array:
    """A view of memory that else holds NaN. `given`: what the library gets."""

    def __init__(self, case: Case, shape: Any, dtype: str, layout: str, memory: Any) -> None:
        chance, kind = case.random, TYPES[dtype]
        rows, cols = (1, *shape)[-2:]
        pad, step = chance.choice((0, 0, 0, 1, 3, 8, 16)), 2 if layout == "gaps" else 1
        strides = [1, rows + pad] if layout == "columns" else [cols * step + pad, step]
        strides.insert(0, max(rows * strides[0], cols * strides[1]) + chance.choice((0, 0, 8, 5)))
        if len(shape) == 3 and layout == "rows" and chance.random() < 0.3:  # as heads of attention
            strides[:2] = cols, shape[0] * cols + pad
        strides = strides[3 - len(shape) :]
        for axis, names in ((-2, ("one row", "upside down")), (-1, ("one column", "mirrored"))):
            if layout in names and len(shape) >= -axis:
                strides[axis] *= -names.index(layout)
        ends = [(extent - 1) * stride for extent, stride in zip(shape, strides)]
        first = chance.choice((0, 0, 0, 8, 16, 1, 3)) - sum(min(0, end) for end in ends)
        size = (first + sum(max(0, end) for end in ends) + 2) * kind.itemsize
        if memory is None or memory.size < size:  # it begins at a multiple of 256 bytes
            memory = np.full(size // 4 * 4 + 260, 0xFF, np.uint8)
            memory = memory[-memory.ctypes.data % 256 :][: size // 4 * 4 + 4]
        kind = kind.newbyteorder(">") if layout == "bytes" and kind.kind == "f" else kind
        in_bytes = [stride * kind.itemsize for stride in strides]
        offset = first * kind.itemsize + (layout == "unaligned")
        self.memory, self.told = memory, f"{dtype} {list(shape)} {layout}, {strides} at {first}"
        self.view = self.given = np.ndarray(shape, kind, memory, offset, in_bytes)
        self.bytes = (*shape, kind.itemsize), np.uint8, None, offset, (*in_bytes, 1)
        if case.kind != "numpy":
            of_type = torch.from_numpy(memory).view(getattr(torch, dtype))
            self.given = of_type.as_strided(shape, strides, first)

    def __repr__(self) -> str:
        return f"<{self.told}>"

    def numbers(self) -> Any:
        return self.view.astype(np.float64)

    def mark(self, written: Any) -> None:
        """1 for each byte of memory that is of its elements."""
        shape, kind, _, offset, strides = self.bytes
        np.ndarray(shape, kind, written, offset, strides)[...] = 1


class Case:
    def __init__(self, kind: str, seed: int, number: int) -> None:
        self.kind, self.random = kind, random.Random(f"{kind} {seed} {number}")
        self.numpy = np.random.default_rng([seed, number])
        self.may_refuse = self.must_refuse = False
        self.odd = 0.05 if kind in ("numpy", "torch") and self.chance(0.5) else 0.0  # an argument
        self.integers = self.chance(0.5)  # of which all sums are exact
        self.arrays: dict[int, Array] = {}
        self.told = self.function = ""
        self.given: list[Any] = []
        self.named: dict[str, Any] = {}  # arrays, and what is none
        self.dtype, self.of_c, self.coarse = "float32", "float32", 0.0

    def __repr__(self) -> str:
        named = [f"{name}={value!r}" for name, value in self.named.items()]
        return f"{self.function}({', '.join([*map(repr, self.given), *named])}) {self.told}"

    # Arguments

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choice(self, *values: Any) -> Any:
        return self.random.choice(values)

    def size(self) -> int:
        return self.choice(*EDGES, *[self.random.randint(1, 200) for _ in range(6)])

    def sizes(self, gates: float = 0.15) -> tuple[int, int, int]:
        m, n, k = self.size(), self.size(), self.size()
        if self.chance(gates):
            self.named["gated"], n = True, n + n % 2
        return m, n, k

    def array(self, name: str, shape: Any, dtype: str, *layouts: str, memory: Any = None) -> Array:
        layout, shape = self.choice(*(layouts or ("rows",))), list(shape)
        if self.chance(self.odd):
            self.may_refuse = True
            layout = self.choice(*STRANGE, *(OF_NUMPY if self.kind == "numpy" else ()))
        elif name in (*TYPED, "out") and not self.must_refuse and self.chance(self.odd):
            self.must_refuse = True
            if name == "out" or self.chance(0.5):
                shape[-2 if name == "b" else -1] += self.choice(1, 2, 64)
            else:
                dtype = self.choice(*(x for x in TYPES if x != dtype))
        x = Array(self, tuple(shape), dtype, layout, memory)
        self.arrays[id(x)] = x
        if name != "out" or self.named.get("beta"):
            integers = self.numpy.integers(-2, 3, x.view.shape).astype(float)
            x.view[...] = integers if self.integers else self.numpy.uniform(-1, 1, x.view.shape)
        if self.kind == "numpy" and name in ("a", "b", "bias", "x") and self.chance(0.1):
            x.given = read_only(x.view)
        return x

    def number(self) -> float:
        return self.choice(0.0, 1.0, -2.0, 0.5) if self.integers else self.random.uniform(-2, 2)

    def result_type(self) -> None:
        self.of_c = "bfloat16" if self.dtype in FP8 else self.dtype
        if self.chance(0.25):
            if self.chance(0.5) and self.dtype != "float8_e5m2":
                self.of_c = "float32"
            if self.chance(self.odd):
                self.of_c, self.may_refuse = self.choice(*WIDE), True
            of_face = TYPES[self.of_c] if self.kind == "numpy" else getattr(torch, self.of_c)
            self.named["out_dtype"] = self.choice(self.of_c, of_face)

    def epilogue(self) -> None:
        if self.chance(0.4):
            self.named["alpha"] = self.number() if self.chance(0.95) else math.nan
        if self.chance(0.4):
            of_all = ("relu", "leaky_relu", "gelu", "gelu_erf", "silu")
            self.named["activation"] = self.choice(*of_all)
            self.named["slope"] = self.choice(0.25, 0.0, -0.5, 2.0)

    def out(self, shape: Any) -> None:
        memory = None
        if self.chance(self.odd * 4):  # it may overlap what is read
            memory, self.may_refuse = self.choice(*self.arrays.values()).memory, True
        x = self.named["out"] = self.array("out", shape, self.of_c, memory=memory)
        if self.kind == "numpy" and self.chance(self.odd):
            x.given, self.must_refuse = read_only(x.view), True

    # Calls: each returns what computes the numbers that are wanted, and their bounds

    def matmul(self) -> Callable[[], Any]:
        m, n, k = self.sizes()
        gated, dtype = "gated" in self.named, self.choice(*WIDE, self.choice(*TYPES))
        self.dtype, self.coarse = dtype, FP8_SUMS if dtype in FP8 else 0.0
        count = self.choice(0, 1, 2, 3) if self.chance(0.2) else None
        batch, lead = () if count is None else (count,), [(), ()]
        if batch:
            lead = self.choice([batch, batch], [batch, ()], [batch, (1,)], [(), batch])
        a = self.array("a", (*lead[0], m, k), dtype, "rows", "rows", "columns")
        b = self.array("b", (*lead[1], k, n), dtype, "rows", "rows", "columns")
        self.given = [a, b]
        self.result_type()
        self.epilogue()
        c_type, of_c = self.of_c, (*batch, m, n // 2 if gated else n)
        for name in TYPED[2:6]:
            if self.chance(0.2):
                length, of = m if "row" in name else n, "float32" if "scale" in name else c_type
                self.named[name] = self.array(name, (length,), of)
        addend = self.choice(None, None, "c", "out" if batch else "residual", "out")
        if addend and not gated:
            self.named["beta"] = self.number()
            if addend != "out":
                self.named[addend] = self.array(addend, of_c, c_type)
        if addend == "residual" and self.chance(0.1) and not gated:
            self.named["out"] = self.named["residual"]
        elif (addend == "out" and not gated) or self.chance(0.4):
            self.out(of_c)
        if dtype == "float32" and self.chance(0.1):
            self.named["compute"], self.coarse, self.may_refuse = "tf32", TF32, True
        elif dtype in FP8 and self.chance(0.3):
            self.named["compute"], self.coarse = "fast_sums", FAST_SUMS
        if self.chance(0.15):
            rung = self.choice(*([r for r in rungs() if r.dtype == dtype] * 9 + rungs()))
            self.named["rung"], self.may_refuse = rung.id, True
            self.coarse = APPROXIMATE if rung.approximate else self.coarse
        elif self.chance(self.odd):
            name, value = self.choice(*WRONG_WORDS, ("rung", "v99"), ("rung", "V6 "))
            self.named[name], self.must_refuse = value, True
        smooth = self.named.get("activation") in ("gelu", "gelu_erf", "silu")
        if not smooth and self.coarse in (0.0, FP8_SUMS, FAST_SUMS) and self.chance(0.1):
            for x in (a.view, b.view):
                if x.size:
                    at = tuple(self.random.randrange(extent) for extent in x.shape)
                    x[at] = self.choice(math.nan, math.inf, -math.inf, 0.0)
        return lambda: self.wanted(*map(numbers_of, self.given))

    def batched_matmul(self) -> Callable[[], Any]:
        m, n, k = self.sizes()
        self.dtype, count, odd = self.choice(*TYPES), self.choice(0, 1, 2, 3, 4), self.odd
        self.coarse = FP8_SUMS if self.dtype in FP8 else 0.0
        self.result_type()
        self.epilogue()
        columns, self.odd = n // 2 if "gated" in self.named else n, 0.0

        def alike(name: str, shape: Any, dtype: str, layout: str) -> list[Array]:
            state, found = self.random.getstate(), []
            for _ in range(count):
                self.random.setstate(state)
                found.append(self.array(name, shape, dtype, layout))
            return found if self.chance(0.8) or name == "out" else found[:1] * count

        self.given = [alike("a", (m, k), self.dtype, self.choice("rows", "columns"))]
        self.given.append(alike("b", (k, n), self.dtype, self.choice("rows", "columns")))
        if self.chance(0.5):
            self.named["out"] = alike("out", (m, columns), self.of_c, "rows")
            if count and self.chance(4 * odd):
                self.named["out"][0], self.may_refuse = self.choice(*self.arrays.values()), True

        def want() -> Any:
            pairs = [self.wanted(*map(numbers_of, pair)) for pair in zip(*self.given)]
            return [y for y, _ in pairs], [bound for _, bound in pairs]

        return want

    def grouped_matmul(self) -> Callable[[], Any]:
        m, n, k = self.sizes(gates=0)
        self.dtype, count = self.choice(*TYPES), self.choice(0, 1, 2, 3, 5)
        self.coarse = FP8_SUMS if self.dtype in FP8 else 0.0
        self.result_type()
        self.epilogue()
        self.may_refuse |= self.named.get("activation") == "gelu_erf"  # the library's limit
        ends = np.sort(self.numpy.integers(0, m + 1, count)).astype(self.choice("int32", "int64"))
        self.given = [self.array("a", (m, k), self.dtype, "rows", "rows", "columns")]
        self.given.append(self.array("b", (count, k, n), self.dtype, "rows", "columns"))
        self.given.append(ends if self.kind == "numpy" else torch.from_numpy(ends))
        if self.chance(0.6):
            self.out((m, n))

        def want() -> Any:
            a, b, out = *map(numbers_of, self.given[:2]), self.named.get("out")
            y, bound = np.zeros((m, n)), np.zeros((m, n))
            y[...] = 0 if out is None else out.numbers()
            for x, i, j in zip(b, (0, *ends), ends):
                y[i:j], bound[i:j] = self.wanted(a[i:j], x)
            return y, bound

        return want

    def scaled_mm(self) -> Callable[[], Any]:
        m, n, k = self.size(), self.size(), self.choice(self.size(), 100 + self.size() * 2)
        scales, fast = self.choice("tensor", "row", "block"), self.chance(0.3)
        self.dtype = FP8[0] if scales == "block" else self.choice(*FP8)
        blocks, high = -(-k // 128), -(-n // 128)
        of_a, of_b, both = (m, blocks), (blocks, high), ("rows", "columns")
        if scales != "block":
            of_a, of_b = ((1, 1), (1, 1)) if scales == "tensor" else ((m, 1), (1, n))
        self.given = [self.array("a", (m, k), self.dtype, *both)]
        self.given.append(self.array("b", (k, n), self.dtype, *both))
        self.given.append(self.array("scale_a", of_a, "float32", *both))
        self.given.append(self.array("scale_b", of_b, "float32", *both))
        self.result_type()
        if self.chance(0.3):
            self.named["bias"] = self.array("bias", (n,), self.of_c)
        if self.chance(0.4):
            self.out((m, n))
        if fast and scales != "block":
            self.named["use_fast_accum"] = True
        self.coarse = FAST_SUMS if fast else FP8_SUMS

        def want() -> Any:
            a, b, sa, sb = map(numbers_of, self.given)
            if scales == "block":
                sa = sa.repeat(128, 1)[:, :k]
                sb = sb.repeat(128, 0)[:k].repeat(128, 1)[:, :n]
            return self.wanted(sa * a, sb * b)

        return want

    def quantise(self) -> Callable[[], Any]:
        rows, cols = self.size(), self.choice(self.size(), 200 + self.size())
        of, kind = self.choice(*FP8), self.choice("tensor", "row", "1x128", "128x128")
        x = self.array("x", (rows, cols), self.choice(*WIDE))
        x.view[...] = x.view * x.view.dtype.type(2.0 ** self.random.randint(-10, 10))
        for odd in (math.nan, math.inf, -math.inf):
            if x.view.size and self.chance(0.1):
                x.view[self.random.randrange(rows), self.random.randrange(cols)] = odd
        self.given, self.named = [x, kind], {"dtype": of}
        high = {"tensor": rows or 1, "128x128": 128}.get(kind, 1)
        wide = 128 if "x" in kind else cols or 1
        blocks = -(-rows // high), -(-cols // wide)
        if "x" not in kind:  # a scale of nothing is 1
            blocks = (1 if kind == "tensor" else rows), 1

        def want() -> Any:
            values, largest = x.view.astype(np.float32), np.float32(448 if of == FP8[0] else 57344)
            scales, q = np.ones(blocks, np.float32), np.zeros((rows, cols), np.float32)
            for i, j in np.ndindex(blocks):
                part = np.s_[i * high : (i + 1) * high, j * wide : (j + 1) * wide]
                most = np.abs(values[part][np.isfinite(values[part])]).max(initial=0)
                scales[i, j] = most / largest if most else 1
                q[part] = np.clip(values[part] / scales[i, j], -largest, largest)
            return [q.astype(TYPES[of]).astype(float), scales], [0 * q, 0 * scales]

        return want

    def wanted(self, a: Any, b: Any) -> tuple[Any, Any]:
        """In double, and how far off the result may be: by the roundings of sums, of the sum before
        an epilogue pass, and of the result."""
        how = {name: numbers_of(x) for name, x in self.named.items()}
        alpha, u = how.get("alpha", 1.0), ROUNDOFF[self.of_c]
        product, sums = a @ b, np.abs(a) @ np.abs(b)
        if not np.isfinite(sums).all():  # BLAS may leave out what is multiplied by 0
            product = np.einsum("...ik,...kj->...ij", a, b)
        scale: Any = how.get("scale_rows", np.ones(1))[:, None] * how.get("scale_columns", 1.0)
        scale = alpha * scale
        product, sums = (x * y if alpha else np.zeros_like(x * y)
                         for x, y in ((product, scale), (sums, np.abs(scale))))  # fmt: skip
        x, size, beta = product, np.abs(product), how.get("beta", 0.0)
        if beta or "residual" in how:
            addend: Any = how.get("residual", how.get("c", how.get("out")))
            addend = addend * (beta or 1.0)
            x, size = x + addend, size + np.abs(addend)
        error = u * np.maximum(np.abs(product), np.abs(x)) + LEAST[self.of_c]
        for addend in (how.get("bias", 0.0), how.get("row_bias", np.zeros(1))[:, None]):
            x, size = x + addend, size + np.abs(addend)
        if not self.integers:
            error += (self.coarse or (a.shape[-1] + 16) * 2.0**-23) * sums + 2.0**-21 * size
        y, more = activated(x, how.get("activation"), how.get("slope", 0.01))
        through = max(1.13, abs(how.get("slope", 0.0))) * error + more
        if "gated" in how:
            gate, value, slip = y[..., ::2], x[..., 1::2], error[..., 1::2]
            through = through[..., ::2] * (np.abs(value) + slip) + np.abs(gate) * slip
            y = gate * value
        return y, through + u * np.abs(y) + LEAST[self.of_c]

    # The judgement

    def run(self) -> None:
        with np.errstate(all="ignore"):
            {"gradients": self.gradients, "compile": self.compiled}.get(self.kind, self.called)()

    def called(self) -> None:
        rare = "batched_matmul", "grouped_matmul", "scaled_mm", "quantise"
        self.function = self.choice(*["matmul"] * 6, *rare)
        want = getattr(self, self.function)()
        out = self.named.get("out", [])
        outs = out if isinstance(out, list) else [out]
        memories = list({id(x.memory): x.memory for x in self.arrays.values()}.values())
        before = [memory.copy() for memory in memories]
        wanted = None if self.must_refuse else want()
        got = self.once()
        for memory, was in zip(memories, before):
            written = np.zeros_like(memory)
            for x in outs if got is not None else []:
                if x.memory is memory:
                    x.mark(written)
            for changed in np.flatnonzero((memory != was) & (written == 0))[:1]:
                told = ", ".join(x.told for x in self.arrays.values() if x.memory is memory)
                raise Failure(f"byte {changed} changed in the memory of {told}")
            memory[...] = was
        if got is not None:
            y, bound = wanted or ([], [])
            close(got, y, bound, self.of_c)
            again = self.once() or []
            if not all(map(lambda x, y: np.array_equal(x, y, True), got, again)):
                raise Failure("the same call again has other bits")

    def once(self) -> list[Any] | None:
        """The result's numbers; None where it is refused as documented."""
        try:
            named = {name: given_of(x) for name, x in self.named.items()}
            got = getattr(gemm, self.function)(*map(given_of, self.given), **named)
        except (ValueError, TypeError, gemm.BadArgument, gemm.Unsupported) as error:
            told = str(error)
            if not told.isprintable() or not 0 < len(told) < 400:
                raise Failure(f"the error is no line of text: {told!r}") from None
            if not self.may_refuse and not self.must_refuse:
                raise Failure(f"refused: {type(error).__name__}: {told}") from None
            return None
        if self.must_refuse:
            raise Failure("was not refused")
        if self.function == "grouped_matmul" and "out" not in named:
            got[max(self.given[2], default=0) :] = 0  # rows of no group hold anything
        results = got if isinstance(got, (list, tuple)) else [got]
        for i, x in enumerate(results if self.function != "quantise" else ()):
            out = named.get("out")
            if out is not None and x is not (out[i] if isinstance(out, list) else out):
                raise Failure("the result is not out")
            if out is None and str(x.dtype).rpartition(".")[2] != self.of_c:
                raise Failure(f"the result is {x.dtype}, not {self.of_c}")
        return [numbers_of(x) for x in results]

    # torch's own: gradients, and compiled calls

    def operator(self) -> tuple[dict[str, Any], Any]:
        """Arguments of the operator: leaves by name; and a gradient of its result."""
        m, n, k = self.sizes(gates=0.25)
        gated = "gated" in self.named
        self.dtype = self.of_c = self.choice(*WIDE)
        layouts = ("rows", "rows", *STRANGE)
        arrays = {"a": self.array("a", (m, k), self.dtype, *layouts)}
        arrays["b"] = self.array("b", (k, n), self.dtype, *layouts)
        self.epilogue()
        if math.isnan(self.named.get("alpha", 1.0)):
            self.named["alpha"] = 1.0
        if not gated and self.chance(0.4):
            self.named["beta"] = self.number()
            arrays["c"] = self.array("c", (m, n), self.dtype, *layouts)
        if self.chance(0.4):
            arrays["bias"] = self.array("bias", (n,), self.dtype, "rows", "gaps")
        seed = self.array("gradient", (m, n // 2 if gated else n), self.dtype, *layouts)
        self.function, self.named = "torch.matmul", {**self.named, **arrays}
        leaves = {name: x.given.detach().requires_grad_() for name, x in arrays.items()}
        return leaves, seed.given

    def gradients(self) -> None:
        leaves, seed = self.operator()
        how = {name: x for name, x in self.named.items() if name not in leaves}
        y = self.choice(ours, gemm).matmul(**leaves, **how)
        a, b = (self.named[name].numbers() for name in "ab")
        close([numbers_of(y)], *self.wanted(a, b), self.of_c)

        exact = {name: x.detach().double().requires_grad_() for name, x in leaves.items()}
        alpha, beta, slope = how.get("alpha", 1.0), how.get("beta", 0.0), how.get("slope", 0.0)
        x = alpha * exact["a"] @ exact["b"] + exact.get("bias", 0.0) + beta * exact.get("c", 0.0)
        others = x - alpha * exact["a"] @ exact["b"]
        size = 1 + abs(alpha) * (abs(a) @ abs(b)) + np.abs(numbers_of(others))
        gate = x[:, ::2] if "gated" in how else x
        right = ours._activated(gate, how.get("activation", ""), slope)
        right = right * x[:, 1::2] if "gated" in how else right
        u, gate = ROUNDOFF[self.dtype], gate.detach()
        if how.get("activation") in ("relu", "leaky_relu"):  # none of a sign that rounding may turn
            near = gate.abs() < torch.from_numpy(8 * u * (size[:, ::2] if "gated" in how else size))
            seed = seed.masked_fill(near & (gate != 0) if self.integers else near, 0)
        got = torch.autograd.grad(y, list(leaves.values()), seed)
        wanted = torch.autograd.grad(right, list(exact.values()), seed.double())
        # How far: a few roundings of what is multiplied and added, whatever its sign.
        g = np.abs(numbers_of(seed))
        if "gated" in how:
            g = (g * np.maximum(size[:, ::2], size[:, 1::2])).repeat(2, 1)
        g = g * size * max(1, abs(slope)) + 2.0**-12
        sizes = {"a": abs(alpha) * g @ abs(b).T, "b": abs(alpha) * abs(a).T @ g}
        sizes |= {"c": abs(beta) * g, "bias": g.sum(0)}
        for name, mine, theirs in zip(leaves, got, wanted):
            self.told = f"gradient of {name}"
            bound = 16 * u * sizes[name] + LEAST[self.dtype] + 1e-9
            close([numbers_of(mine)], theirs.numpy(), bound, self.of_c)

    def compiled(self) -> None:
        """Functions of several shapes, compiled once for each set of other arguments."""
        torch._dynamo.reset()
        functions: dict[str, Any] = {}
        way = {"backend": self.choice("aot_eager", "aot_eager", "inductor")}
        way |= {"dynamic": self.choice(None, True)}
        for _ in range(3):
            self.named = {}
            leaves, seed = self.operator()
            self.told = f"{way}"
            how = {name: x for name, x in self.named.items() if name not in leaves}

            def block(how: Any = how, **given: Any) -> Any:
                return ours.matmul(**given, **how) * 2

            made = torch.compile(block, fullgraph=True, **way)
            function, found = functions.setdefault(f"{list(leaves)} {how}", made), []
            for call in (block, function):
                y = call(**leaves)
                found.append([y, *torch.autograd.grad(y, list(leaves.values()), seed)])
            for mine, theirs in zip(*found):
                if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
                    raise Failure(f"{mine.dtype} {mine.shape}, not {theirs.dtype} {theirs.shape}")
                want = numbers_of(theirs)
                bound = 16 * ROUNDOFF[self.dtype] * np.abs(want).max(initial=1e-2)
                close([numbers_of(mine)], want, np.full(want.shape, bound), self.of_c)


def read_only(x: Any) -> Any:
    y = x.view()
    y.flags.writeable = False
    return y


def given_of(x: Any) -> Any:
    return [given_of(y) for y in x] if isinstance(x, list) else getattr(x, "given", x)


def numbers_of(x: Any) -> Any:
    """In double; what is no array as it is."""
    if isinstance(x, Array):
        return x.numbers()
    if torch and isinstance(x, torch.Tensor):
        return x.detach().float().double().numpy()
    return x.astype(float) if isinstance(x, np.ndarray) else x


def close(got: list[Any], wanted: Any, bounds: Any, of_c: str) -> None:
    if not isinstance(wanted, list):
        wanted, bounds = [wanted], [bounds]
    if [x.shape for x in got] != [x.shape for x in wanted]:
        raise Failure(f"shapes {[x.shape for x in got]}, not {[x.shape for x in wanted]}")
    for x, y, bound in zip(got, wanted, bounds):
        right = (x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= bound)
        if of_c == "float16":
            right |= (np.abs(y) + bound >= 65504) & (x == np.sign(y) * math.inf)
        for at in map(tuple, np.argwhere(~right)[:1].tolist()):
            told = f"at {at} {x[at]:.9g}, not {y[at]:.9g} +- {bound[at]:.2g}"
            raise Failure(f"{(~right).sum()} of {x.size} numbers wrong: {told}")


def activated(x: Any, name: str | None, slope: float) -> tuple[Any, Any]:
    """In double, and how far the function in single precision may be off."""
    off = 2.0**-19 * np.abs(x) if name in ("gelu", "gelu_erf", "silu") else np.zeros_like(x)
    if name in ("relu", "leaky_relu"):
        return np.where(x < 0, x * slope if name == "leaky_relu" else 0.0, x), off
    if name == "gelu":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), off
    if name == "gelu_erf":
        return 0.5 * x * np.vectorize(math.erfc, otypes=[float])(-x / math.sqrt(2)), off
    return (x / (1 + np.exp(-x)) if name == "silu" else x), off


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1, help="how long (1)")
    parser.add_argument("--seed", type=int, help="for the same calls again")
    parser.add_argument("--only", default=",".join(KINDS), help="classes, by commas")
    parser.add_argument("--case", type=int, help="only the call of this number")
    args = parser.parse_args()
    kinds = args.only.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--only is '{args.only}': allowed are {', '.join(KINDS)}")
    if not 0 < args.minutes < math.inf:
        parser.error(f"--minutes is {args.minutes}: allowed is more than 0")
    try:
        rungs()
    except gemm.Error as error:
        parser.error(str(error))
    seed = args.seed if args.seed is not None else secrets.randbelow(10**9)
    print(f"seed {seed}", flush=True)
    calls, failures, number = Counter[str](), Counter[str](), args.case or 0
    begin = shown = time.monotonic()

    def line() -> str:
        told = ", ".join(f"{kind} {calls[kind]}" for kind in kinds)
        minutes = (time.monotonic() - begin) / 60
        return f"{minutes:.1f} minutes, seed {seed}: {told} calls, {failures.total()} failures"

    while time.monotonic() < begin + 60 * args.minutes:
        for kind in kinds:
            if kind == "compile" and number % COMPILED and args.case is None:
                continue
            case = Case(kind, seed, number)
            calls[kind] += 1
            try:
                case.run()
            except Exception as error:
                failures[kind] += 1
                told = error if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
                again = f"--only {kind} --seed {seed} --case {number}"
                print(f"FAILURE {again}: {' '.join(f'{told}; {case}'.split())}", flush=True)
        number += 1
        if args.case is not None:
            break
        if time.monotonic() > shown + 60:
            shown = time.monotonic()
            print(line(), flush=True)
    print(line())
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
