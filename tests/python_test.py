"""The Python package as pip installs it, on NumPy arrays in the simulator. Argument: the folder of the
libraries that have been built. tests/python_torch_test.py has the rest, for machines with torch."""

from __future__ import annotations

import functools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings
import weakref
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
libraries = ROOT / "build/src/library"
gemm: Any = None  # gemm_ladder, once it is installed


def install(target: Path) -> None:
    """pip install, with the simulator's library as it was built: compiles nothing."""
    options = {
        "build-dir": target / "build",
        "cmake.define.GEMM_PYTHON_PREBUILT": libraries,
        "cmake.define.GEMM_CUDA": "OFF",
    }
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--no-cache-dir", ROOT]
    for name, value in options.items():
        command += ["--config-settings", f"{name}={value}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)


def matrix(rows: int, cols: int, dtype: Any = np.float32, seed: int = 1) -> np.ndarray:
    random = np.random.default_rng([rows, cols, seed])
    return random.uniform(-1, 1, (rows, cols)).astype(dtype)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64)


class Base(unittest.TestCase):
    def close(self, got: np.ndarray, wanted: np.ndarray, bound: float = 1e-3) -> None:
        """Within `bound` of the largest element, which a sum's rounding grows with."""
        self.assertEqual(got.shape, wanted.shape)
        error = np.abs(got.astype(np.float64) - wanted)
        self.assertTrue(
            bool(np.all(error <= bound * np.abs(wanted).max(initial=1))), error.max(initial=0)
        )

    def refuses(
        self, error: type[Exception], text: str, call: Any, *args: Any, **named: Any
    ) -> None:
        with self.assertRaisesRegex(error, text) as caught:
            call(*args, **named)
        self.assertEqual(len(str(caught.exception).splitlines()), 1)


class Fp8(Base):
    E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2

    def codes(self, dtype: Any) -> np.ndarray:
        """All finite numbers of the type, ten of each, the largest among them first."""
        every = np.arange(256, dtype=np.uint8).view(dtype)
        finite = every[np.isfinite(every.astype(np.float32))]
        return np.tile(np.sort(finite)[::-1], (10, 1))

    def test_every_code_comes_back(self) -> None:
        for dtype in (self.E4M3, self.E5M2):
            for x_type in (np.float32, np.float16, ml_dtypes.bfloat16):
                for scale in (1.0, 0.25):
                    for kind in ("tensor", "row"):
                        with self.subTest(dtype=dtype, x=x_type, scale=scale, kind=kind):
                            codes = self.codes(dtype)
                            x = (codes.astype(np.float32) * scale).astype(x_type)
                            q, s = gemm.quantise(x, kind, dtype=dtype)
                            self.assertEqual(q.dtype, dtype)
                            np.testing.assert_array_equal(s, np.full(s.shape, scale, np.float32))
                            np.testing.assert_array_equal(
                                q.astype(np.float32), x.astype(np.float32) / scale
                            )

    def test_what_is_not_finite(self) -> None:
        x = matrix(3, 200) * 100
        x[0, 0], x[1, 1], x[2, 150] = np.nan, np.inf, -np.inf
        finite = np.abs(np.where(np.isfinite(x), x, 0))
        q, s = gemm.quantise(x)
        self.assertEqual(s[0, 0], np.float32(finite.max()) / np.float32(448))
        self.assertTrue(np.isnan(q[0, 0].astype(np.float32)))
        self.assertEqual((float(q[1, 1]), float(q[2, 150])), (448.0, -448.0))
        q, s = gemm.quantise(np.zeros((5, 300), np.float32), "1x128")
        self.assertTrue((s == 1).all() and (q.astype(np.float32) == 0).all())

    def test_scales_are_of_their_elements(self) -> None:
        for rows, cols in ((1, 1), (130, 300), (257, 128), (3, 5000)):
            x = matrix(rows, cols) * np.exp(matrix(rows, cols, seed=2) * 5)
            for kind, (height, width) in {
                "tensor": (rows, cols),
                "row": (1, cols),
                "1x128": (1, 128),
                "128x128": (128, 128),
            }.items():
                with self.subTest(rows=rows, cols=cols, kind=kind):
                    q, s = gemm.quantise(x.astype(np.float32), kind)
                    x = x.astype(np.float32)
                    self.assertEqual(s.shape, (-(-rows // height), -(-cols // width)))
                    for i, j in np.ndindex(s.shape):
                        part = np.s_[i * height : (i + 1) * height, j * width : (j + 1) * width]
                        scale = np.abs(x[part]).max() / np.float32(448)
                        self.assertEqual(s[i, j], scale)
                        wanted = np.clip(x[part] / scale, -448, 448).astype(self.E4M3)
                        np.testing.assert_array_equal(q[part].view(np.uint8), wanted.view(np.uint8))

    def test_quantise_refuses(self) -> None:
        x = matrix(4, 5)
        self.refuses(ValueError, "scales is 'block'.*1x128", gemm.quantise, x, "block")
        self.refuses(ValueError, "x is transposed", gemm.quantise, x.T)
        self.refuses(TypeError, "so it is quantised", gemm.quantise, x.astype(self.E4M3))
        self.refuses(TypeError, "dtype is float16", gemm.quantise, x, dtype=np.float16)

    def scaled(self, x: np.ndarray, s: np.ndarray) -> np.ndarray:
        """What the numbers stand for."""
        height, width = -(-x.shape[0] // s.shape[0]), -(-x.shape[1] // s.shape[1])
        height = height if height in (1, x.shape[0]) else 128
        width = width if width in (1, x.shape[1]) else 128
        spread = np.repeat(np.repeat(s.astype(np.float64), height, 0), width, 1)
        return x.astype(np.float64) * spread[: x.shape[0], : x.shape[1]]

    def test_scaled_mm(self) -> None:
        for m, n, k in ((64, 48, 256), (130, 200, 300), (5, 129, 1000)):
            a = matrix(m, k) * np.exp(matrix(m, k, seed=2) * 2).astype(np.float32)
            w = matrix(n, k) * np.exp(matrix(n, k, seed=3) * 2).astype(np.float32)
            for of_a, of_b, fast in (
                ("tensor", "tensor", False),
                ("tensor", "tensor", True),
                ("row", "row", False),
                ("1x128", "128x128", False),
            ):
                for out_dtype, bound in ((None, 2.0**-7), ("float32", 2.0 ** (-7 if fast else -9))):
                    if out_dtype is None and fast:
                        continue
                    with self.subTest(m=m, n=n, k=k, scales=of_a, fast=fast, out=out_dtype):
                        qa, sa = gemm.quantise(a, of_a)
                        qw, sw = gemm.quantise(w, of_b)
                        c = gemm.scaled_mm(
                            qa, qw.T, sa, sw.T, out_dtype=out_dtype, use_fast_accum=fast
                        )
                        self.assertEqual(c.dtype, np.float32 if out_dtype else ml_dtypes.bfloat16)
                        wanted = self.scaled(qa, sa) @ self.scaled(qw, sw).T
                        self.close(c, wanted, bound)

    def test_scaled_mm_copies_scales_that_lie_otherwise(self) -> None:
        (qa, sa), (qw, sw) = (
            gemm.quantise(matrix(40, 300), "1x128"),
            gemm.quantise(matrix(200, 300, seed=2), "128x128"),
        )
        a = gemm.scaled_mm(qa, qw.T, sa, sw.T)
        b = gemm.scaled_mm(qa, qw.T, np.ascontiguousarray(sa), np.ascontiguousarray(sw.T))
        np.testing.assert_array_equal(a, b)
        (qa, sa), (qw, sw) = (gemm.quantise(matrix(9, 40, seed=i), "row") for i in (1, 2))
        apart = np.zeros((9, 3), np.float32)
        apart[:, :1] = sa
        b = gemm.scaled_mm(qa, qw.T, apart[:, :1], sw.T)
        np.testing.assert_array_equal(gemm.scaled_mm(qa, qw.T, sa, sw.T), b)

    def test_scaled_mm_with_bias_and_rung(self) -> None:
        qa, sa = gemm.quantise(matrix(32, 64))
        qw, sw = gemm.quantise(matrix(48, 64, seed=2))
        bias = matrix(1, 48, ml_dtypes.bfloat16, seed=3)[0]
        c = gemm.scaled_mm(qa, qw.T, sa, sw, bias=bias, rung="v31")
        wanted = self.scaled(qa, sa) @ self.scaled(qw, sw).T + bias.astype(np.float64)
        self.close(c, wanted, 2.0**-6)

    def test_scaled_mm_refuses(self) -> None:
        qa, sa = gemm.quantise(matrix(40, 300), "1x128")
        qw, sw = gemm.quantise(matrix(200, 300), "128x128")
        self.refuses(ValueError, "scales are 40 x 3 and 1 x 1: wanted", gemm.scaled_mm,
                     qa, qw.T, sa, np.ones((1, 1), np.float32))  # fmt: skip
        self.refuses(ValueError, "use_fast_accum", gemm.scaled_mm, qa, qw.T, sa, sw.T,
                     use_fast_accum=True)  # fmt: skip
        self.refuses(TypeError, "scale_a is float64", gemm.scaled_mm, qa, qw.T,
                     sa.astype(np.float64), sw.T)  # fmt: skip
        self.refuses(gemm.BadArgument, "scales_a is a null pointer", gemm.matmul, qa, qw.T,
                     compute="block_scales")  # fmt: skip


class Matmul(Base):
    def test_by_the_planned_rung(self) -> None:
        for dtype in (np.float32, np.float16):
            with self.subTest(dtype=dtype):
                a, b = matrix(512, 768, dtype), matrix(768, 896, dtype)
                c = gemm.matmul(a, b)
                self.assertEqual(c.dtype, dtype)
                self.close(c, product(a, b))

    def test_types(self) -> None:
        a, b = matrix(40, 24, ml_dtypes.bfloat16), matrix(24, 33, ml_dtypes.bfloat16)
        self.assertEqual(gemm.matmul(a, b).dtype, ml_dtypes.bfloat16)
        self.close(gemm.matmul(a, b), product(a, b), 2.0**-8)
        self.close(gemm.matmul(a, b, out_dtype="float32"), product(a, b), 1e-6)
        a, b = matrix(40, 24, np.float16), matrix(24, 33, np.float16)
        self.close(gemm.matmul(a, b, out_dtype=np.float32), product(a, b), 1e-6)
        a, b = matrix(40, 24), matrix(24, 33)
        error = np.abs(gemm.matmul(a, b, compute="tf32") - product(a, b)).max()
        self.assertTrue(1e-6 < error < 1e-2, error)

    def test_layouts_and_ragged_shapes(self) -> None:
        for m, n, k in ((1, 1, 1), (33, 17, 5), (70, 1, 129), (1, 65, 7)):
            for dtype in (np.float32, np.float16):
                for layout in ("nn", "nt", "tn", "tt"):
                    with self.subTest(shape=(m, n, k), dtype=dtype, layout=layout):
                        a = matrix(k, m, dtype).T if layout[0] == "t" else matrix(m, k, dtype)
                        b = matrix(n, k, dtype).T if layout[1] == "t" else matrix(k, n, dtype)
                        self.close(gemm.matmul(a, b), product(a, b), 2e-3)

    def test_batches(self) -> None:
        def batch(count: int, rows: int, cols: int, dtype: Any, seed: int = 1) -> np.ndarray:
            return np.stack([matrix(rows, cols, dtype, seed + i) for i in range(count)])

        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            # Rows and matrices in whole 16 bytes, one launch for halves; and not, a launch each.
            for m, n, k in ((65, 72, 40), (33, 17, 5)):
                a, b = batch(3, m, k, dtype), batch(3, k, n, dtype, 9)
                bound = 2.0**-7 if dtype == ml_dtypes.bfloat16 else 2e-3
                for x, y in (
                    (a, b),
                    (a, b[1]),
                    (a[0], b),
                    (a[:1], b),
                    (a, b[2:]),
                    (a[:1], b[:1]),
                    (batch(3, k, m, dtype).transpose(0, 2, 1), b),
                    (np.broadcast_to(a[0], (3, m, k)), b),
                ):
                    with self.subTest(dtype=dtype, a=x.strides, b=y.strides):
                        self.close(gemm.matmul(x, y), product(x, y), bound)
        # Heads of attention: (position, head, feature), a batch along the middle.
        q, k = matrix(48, 4 * 32, np.float16), matrix(48, 4 * 32, np.float16, 2)
        heads_q, heads_k = (x.reshape(48, 4, 32).transpose(1, 0, 2) for x in (q, k))
        scores = gemm.matmul(heads_q, heads_k.transpose(0, 2, 1))
        self.close(scores, product(heads_q, heads_k.transpose(0, 2, 1)), 2e-3)
        out = np.zeros((48, 4, 32), np.float16)
        gemm.matmul(scores, heads_k, out=out.transpose(1, 0, 2))
        self.close(out.transpose(1, 0, 2), product(scores, heads_k), 2e-3)
        # c, out, a rung, and batches of nothing.
        a, b, c = batch(2, 20, 12, np.float32), matrix(12, 9), batch(2, 20, 9, np.float32, 5)
        self.close(gemm.matmul(a, b, beta=2, c=c), product(a, b) + 2.0 * c, 1e-5)
        out = c.copy()
        self.assertIs(gemm.matmul(a, b, beta=2, out=out, rung="v6"), out)
        self.close(out, product(a, b) + 2.0 * c, 1e-5)
        self.assertEqual(gemm.matmul(a[:0], b).shape, (0, 20, 9))
        none = batch(2, 9, 9, np.float32)[:0]  # no matrix has no memory to share
        self.assertIs(gemm.matmul(none, none, out=none), none)
        # Vectors of the epilogue are the same for all products.
        bias, rows = matrix(1, 9, seed=3)[0], matrix(1, 20, seed=4)[0]
        got = gemm.matmul(a, b, bias=bias, scale_rows=rows)
        self.close(got, rows[:, None] * product(a, b) + bias, 1e-5)
        self.refuses(ValueError, "a batch takes no residual", gemm.matmul, a, b, residual=c)
        self.refuses(ValueError, "out overlaps bias", gemm.matmul, a, b, bias=out[1, 3], out=out)
        self.assertIn("of 32 products", str(gemm.plan(512, 512, 512, "float16", batch=32)))
        self.refuses(ValueError, "batch is 0", gemm.plan, 1, 1, 1, batch=0)
        self.refuses(ValueError, "out lies in the memory of a", gemm.matmul, c, b[:9], out=c)

    def test_gates(self) -> None:
        m, n, k = 37, 24, 40  # n: of the result
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            bound = 2.0**-6 if dtype == ml_dtypes.bfloat16 else 4e-3
            a, gate, value = matrix(m, k, dtype), matrix(k, n, dtype, 2), matrix(k, n, dtype, 3)
            b = gemm.interleave_gate(gate, value)
            self.assertEqual(b.shape, (k, 2 * n))
            opened = product(a, gate)
            wanted = opened / (1 + np.exp(-opened)) * product(a, value)
            self.close(gemm.matmul(a, b, activation="silu", gated=True), wanted, bound)
            transposed = gemm.interleave_gate(gate.T.copy(), value.T.copy(), axis=0).T
            self.close(gemm.matmul(a, transposed, activation="silu", gated=True), wanted, bound)
            out = np.zeros((m, n + 3), dtype)[:, :n]
            rung = None if dtype == ml_dtypes.bfloat16 else "v1"  # v1 has no bf16
            self.assertIs(gemm.matmul(a, b, gated=True, out=out, rung=rung), out)
            self.close(out, opened * product(a, value), bound)
        a, b = matrix(m, k), matrix(k, 2 * n, seed=4)
        bias = matrix(1, 2 * n, seed=5)[0]
        x = product(a, b) + bias
        wanted = np.maximum(x[:, ::2], 0) * x[:, 1::2]
        self.close(gemm.matmul(a, b, bias=bias, activation="relu", gated=True), wanted, 1e-5)
        batch = np.stack([a, -a])
        self.assertEqual(gemm.matmul(batch, b, gated=True).shape, (2, m, n))
        self.assertGreater(gemm.plan(m, 2 * n, k, gated=True).workspace, 0)
        for error, text, named in (
            (ValueError, "it takes no beta, c and residual", {"c": a, "beta": 1.0}),
            (ValueError, "it takes no beta, c and residual", {"residual": b}),
            (ValueError, "out is 37 x 48, and the product 37 x 24", {"out": np.zeros((m, 2 * n))}),
            (ValueError, "bias has the shape 24: wanted is 48", {"bias": bias[:n]}),
        ):
            if "out" in named:
                named["out"] = named["out"].astype(np.float32)
            self.refuses(error, text, gemm.matmul, a, b, gated=True, **named)
        self.refuses(ValueError, "b has 47 columns", gemm.matmul, a, b[:, 1:].copy(), gated=True)
        self.refuses(ValueError, "wanted is one shape", gemm.interleave_gate, a, b)
        self.refuses(ValueError, "axis is 2: allowed are 0 to 1", gemm.interleave_gate, a, a, 2)

    def test_rows_keep_their_bits(self) -> None:
        m, n, k = 200, 64, 1100
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            a, b = matrix(m, k, dtype), matrix(k, n, dtype, 2)
            whole = gemm.matmul(a, b, invariant=True)
            for first, end in ((0, 1), (128, 131), (64, m)):
                some = gemm.matmul(a[first:end], b, invariant=True)
                self.assertEqual(some.tobytes(), whole[first:end].tobytes())
            bias, scale = matrix(1, n, dtype, 3)[0], matrix(1, n, np.float32, 4)[0]
            given = {"bias": bias, "scale_columns": scale, "alpha": 1.5, "beta": 0.7}
            given |= {"activation": "gelu", "invariant": True}
            rows, c = matrix(m, n, dtype, 5), matrix(m, n, dtype, 6)
            full = gemm.matmul(a, b, c=c, out=rows, **given)
            some = gemm.matmul(a[:3], b, c=c[:3], **given)
            self.assertEqual(some.tobytes(), full[:3].tobytes())
            batch = gemm.matmul(a.reshape(2, m // 2, k), b, invariant=True)
            self.assertEqual(batch.tobytes(), whole.tobytes())
            self.close(whole, product(a, b), 2.0**-6)
        self.assertNotIn("parts", gemm.plan(16, 4096, 8192, "float16", invariant=True).explanation)
        q = np.zeros((16, 16), ml_dtypes.float8_e4m3fn)
        self.refuses(
            gemm.Unsupported, "keeps the bits of rows", gemm.matmul, q, q.T, invariant=True
        )
        x = q.astype(np.float32)
        with self.assertRaisesRegex(gemm.Unsupported, "v06_.* does not keep"):
            gemm.matmul(x, x, rung="v6", invariant=True)

    def test_lists_of_matrices(self) -> None:
        m, n, k = 33, 24, 40
        for dtype in (np.float32, np.float16):
            a = [matrix(m, k, dtype, seed) for seed in range(5)]
            b = [matrix(k, n, dtype, 9)] * 5  # one for all
            wanted = [product(x, y) for x, y in zip(a, b)]
            for got, want in zip(gemm.batched_matmul(a, b), wanted):
                self.assertEqual(got.dtype, dtype)
                self.close(got, want)
            stacked = np.stack(a)
            out = [np.zeros((m, n), dtype) for _ in a]
            got = gemm.batched_matmul(list(stacked), b, alpha=2, activation="relu", out=out)
            for x, y, want in zip(got, out, wanted):
                self.assertIs(x, y)
                self.close(x, np.maximum(2 * want, 0))
        self.assertEqual(gemm.batched_matmul(a, b, gated=True)[4].shape, (m, n // 2))
        self.assertEqual(gemm.batched_matmul(a, b, out_dtype="float32")[0].dtype, np.float32)
        self.assertEqual(gemm.batched_matmul([], []), [])
        refused = [
            (ValueError, "a has 5 matrices and b 4", (a, b[1:])),
            (ValueError, r"a\[1\] has another shape, type or strides", ([a[0], a[1][:9]], b[:2])),
            (TypeError, r"b\[1\] is a list", (a[:2], [b[0], [1.0]])),
            (ValueError, "a's columns must be b's rows", ([b[0]], b[:1])),
        ]
        for error, text, arguments in refused:
            self.refuses(error, text, gemm.batched_matmul, *arguments)
        square = [matrix(n, n)]
        self.refuses(
            ValueError,
            r"out\[0\] overlaps a matrix of a",
            gemm.batched_matmul,
            square,
            square,
            out=square,
        )

    def test_groups(self) -> None:
        m, n, k = 150, 40, 24
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            for integers in (np.int32, np.int64):
                a = matrix(m, k, dtype)
                b = np.stack([matrix(k, n, dtype, seed) for seed in range(5)])
                ends = np.array([0, 70, 70, 73, 130], integers)
                for right in (b, b.transpose(0, 2, 1).copy().transpose(0, 2, 1)):
                    out = matrix(m, n, dtype, 9)
                    was = out.copy()
                    self.assertIs(gemm.grouped_matmul(a, right, ends, out=out), out)
                    wanted = was.astype(np.float64)  # rows of no group stay
                    wanted[:70], wanted[70:73] = product(a[:70], b[1]), product(a[70:73], b[3])
                    wanted[73:130] = product(a[73:130], b[4])
                    self.close(out, wanted, 1e-2)
                    got = gemm.grouped_matmul(a, right, ends, activation="relu", alpha=-1)
                    self.assertEqual(got.dtype, a.dtype)
                    self.close(got[:130], np.maximum(-wanted[:130], 0), 1e-2)
        halves = a.astype(np.float16), b.astype(np.float16)
        self.assertEqual(gemm.grouped_matmul(*halves, ends, out_dtype="float32").dtype, np.float32)
        self.assertEqual(gemm.grouped_matmul(a[:0], b, ends * 0).shape, (0, n))
        refused = [
            (ValueError, "b has 2 dimensions: wanted are 3", (a, b[0], ends)),
            (ValueError, "offsets has the shape 4: wanted is 5", (a, b, ends[:4])),
            (TypeError, "offsets is float64: wanted are int32 and int64", (a, b, ends * 1.0)),
            (TypeError, "offsets is a list", (a, b, [0, 70, 70, 73, 130])),
            (ValueError, "a's columns must be b's rows", (a[:, 1:], b, ends)),
        ]
        for error, text, arguments in refused:
            self.refuses(error, text, gemm.grouped_matmul, *arguments)
        square = np.stack([matrix(n, n), matrix(n, n)])
        overlapping = (square[0], square, np.array([n, n]))
        self.refuses(
            ValueError, "lies in the memory of b", gemm.grouped_matmul, *overlapping, out=square[1]
        )

    def test_parts_of_matrices(self) -> None:
        a, b, c = matrix(50, 60), matrix(60, 50), np.full((40, 70), 7, np.float32)
        part = c[3:23, 10:40]
        result = gemm.matmul(a[5:25, 8:48], b[1:41, 2:32], out=part)
        self.assertIs(result, part)
        self.close(part, product(a[5:25, 8:48], b[1:41, 2:32]))
        part[...] = 7
        self.assertTrue(bool(np.all(c == 7)))
        self.close(
            gemm.matmul(a.T[8:48, 5:25], b.T[2:22, 1:31]), product(a.T[8:48, 5:25], b.T[2:22, 1:31])
        )
        # Side by side in one matrix: they do not overlap.
        wide = matrix(20, 60)
        wanted = product(wide[:, :20], wide[:, 20:40])
        gemm.matmul(wide[:, :20], wide[:, 20:40], out=wide[:, 40:])
        self.close(wide[:, 40:], wanted)

    def test_empty(self) -> None:
        self.assertEqual(gemm.matmul(matrix(0, 5), matrix(5, 3)).shape, (0, 3))
        self.assertTrue(bool(np.all(gemm.matmul(matrix(4, 0), matrix(0, 3)) == 0)))
        c = matrix(4, 3)
        self.close(gemm.matmul(matrix(4, 0), matrix(0, 3), beta=2, c=c), 2.0 * c)

    def test_alpha_beta_activation(self) -> None:
        a, b, c = matrix(30, 20), matrix(20, 25), matrix(30, 25, seed=2)
        x = 0.5 * product(a, b) + 2.0 * c
        by_name = {
            None: x,
            "relu": np.maximum(x, 0),
            "leaky_relu": np.where(x > 0, x, 0.2 * x),
            "gelu": 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
            "gelu_erf": 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))),
            "silu": x / (1 + np.exp(-x)),
        }
        before = c.copy()
        for name, wanted in by_name.items():
            with self.subTest(activation=name):
                how = {"alpha": 0.5, "beta": 2, "activation": name, "slope": 0.2}
                self.close(gemm.matmul(a, b, c=c, **how), wanted, 1e-5)
                self.assertTrue(bool(np.all(c == before)))
                out = c.copy()
                self.close(gemm.matmul(a, b, out=out, **how), wanted, 1e-5)
                out = np.full_like(c, np.nan)
                self.close(gemm.matmul(a, b, c=c, out=out, **how), wanted, 1e-5)
        out = np.full_like(c, np.nan)
        self.close(gemm.matmul(a, b, out=out), product(a, b), 1e-5)  # beta = 0 reads nothing

    def test_operands(self) -> None:
        a, b, residual = matrix(30, 20), matrix(20, 25), matrix(40, 28, seed=2)[3:33, 1:26]
        bias, row_bias = matrix(1, 25, seed=3)[0], matrix(1, 30, seed=4)[0]
        rows, columns = matrix(1, 30, seed=5)[0], matrix(1, 25, seed=6)[0]
        x = product(a, b)
        scaled = rows[:, None] * x * columns
        for how, wanted in (
            ({"bias": bias}, x + bias),
            ({"row_bias": row_bias}, x + row_bias[:, None]),
            ({"residual": residual}, x + residual),
            ({"residual": residual, "beta": 2, "alpha": 0.5}, 0.5 * x + 2.0 * residual),
            ({"scale_rows": rows, "scale_columns": columns}, scaled),
            (
                {"scale_rows": rows, "scale_columns": columns, "bias": bias, "residual": residual},
                scaled + bias + residual,
            ),
            ({"bias": bias, "activation": "relu", "rung": "v6"}, np.maximum(x + bias, 0)),
        ):
            with self.subTest(operands=sorted(how)):
                self.close(gemm.matmul(a, b, **how), wanted, 1e-5)
                out = np.full_like(matrix(30, 25), np.nan)
                self.close(gemm.matmul(a, b, out=out, **how), wanted, 1e-5)
        out = np.array(residual)
        self.close(gemm.matmul(a, b, residual=out, out=out), x + residual, 1e-5)
        half = [y.astype(np.float16) for y in (a, b, bias, residual)]
        got = gemm.matmul(half[0], half[1], bias=half[2], residual=half[3], activation="relu")
        self.assertEqual(got.dtype, np.float16)
        wanted = product(half[0], half[1]) + half[2].astype(float) + half[3].astype(float)
        self.close(got, np.maximum(wanted, 0))
        got = gemm.matmul(half[0], half[1], bias=bias, out_dtype="float32")
        self.close(got, product(half[0], half[1]) + bias, 1e-5)

    def test_wrong_operands(self) -> None:
        a, b, c = matrix(6, 4), matrix(4, 5), matrix(6, 5)
        row, column = c[0], c[:, 0]
        for error, text, named in (
            (ValueError, "bias has the shape 6: wanted is 5", {"bias": np.array(column)}),
            (ValueError, "bias has the shape 6 x 5: wanted is 5", {"bias": c}),
            (ValueError, "row_bias has the shape 5: wanted is 6", {"row_bias": row}),
            (ValueError, "row_bias has gaps", {"row_bias": column}),
            (TypeError, "bias is float16: wanted is float32", {"bias": row.astype(np.float16)}),
            (TypeError, "scale_rows is float64", {"scale_rows": np.ones(6)}),
            (TypeError, "bias is a list", {"bias": [1.0]}),
            (ValueError, "residual is 4 x 5, and the product 6 x 5", {"residual": b}),
            (ValueError, "residual is transposed", {"residual": matrix(5, 6).T}),
            (ValueError, "c and residual are the same", {"residual": c, "c": c}),
        ):
            with self.subTest(text=text):
                self.refuses(error, text, gemm.matmul, a, b, **named)
        big = matrix(7, 5)
        self.refuses(
            ValueError, "out overlaps residual", gemm.matmul, a, b, residual=big[1:], out=big[:6]
        )

    def test_by_a_rung(self) -> None:
        a, b = matrix(70, 20), matrix(20, 65)
        for rung in ("v1", "v6", "v08_double_buffer"):
            self.close(gemm.matmul(a, b, rung=rung), product(a, b), 1e-5)
        odd = np.zeros(70 * 20 + 1, np.float32)[1:].reshape(70, 20)  # aligned to its elements alone
        odd[...] = a
        self.close(gemm.matmul(odd, b, rung="v6"), product(a, b), 1e-5)
        self.refuses(gemm.BadArgument, 'no rung "v99"', gemm.matmul, a, b, rung="v99")
        self.refuses(gemm.Unsupported, "no kernel of this type", gemm.matmul, a, b, rung="v24")
        self.refuses(TypeError, "rung is a int", gemm.matmul, a, b, rung=6)

    def test_threads(self) -> None:
        inputs = [(matrix(40 + i, 30, seed=i), matrix(30, 20 + i, seed=i)) for i in range(4)]
        results: dict[int, np.ndarray] = {}

        def work(i: int) -> None:
            for _ in range(3):
                results[i] = gemm.matmul(*inputs[i], activation="relu")

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, (a, b) in enumerate(inputs):
            self.close(results[i], np.maximum(product(a, b), 0), 1e-5)

    def test_errors(self) -> None:
        a, b = matrix(6, 4), matrix(4, 5)
        half, locked = a.astype(np.float16), np.zeros((6, 5), np.float32)
        locked.flags.writeable = False
        for error, text, *args, named in (
            (TypeError, "a is a list: allowed are NumPy arrays", [[1.0]], b, {}),
            (TypeError, "b is a list", a, [[1.0]], {}),
            (TypeError, "out is a list", a, b, {"out": [[1.0]]}),
            (TypeError, "c is a list", a, b, {"beta": 1, "c": [[1.0]]}),
            (TypeError, "a is float64: allowed are float32", a.astype(float), b, {}),
            (TypeError, "other byte order", a.astype(">f4"), b, {}),
            (TypeError, "a is float16 and b float32", half, b, {}),
            (ValueError, "a is 6 x 4 and b 6 x 4", a, a, {}),
            (ValueError, "a has 4 dimensions", a[None, None], b, {}),
            (ValueError, "a has 1 dimensions", a[0], b, {}),
            (ValueError, "a has 2 matrices and b 3", np.stack([a] * 2), np.stack([b] * 3), {}),
            (ValueError, "strides", np.stack([a] * 2)[::-1], b, {}),
            (ValueError, "out has 2 dimensions", a[None], b, {"out": matrix(6, 5)}),
            (ValueError, "out has 2 matrices", a[None], b, {"out": np.stack([matrix(6, 5)] * 2)}),
            (ValueError, "strides .* contiguous", matrix(12, 8)[::2, ::2], b, {}),
            (ValueError, "strides", a[:, ::-1], b, {}),
            (ValueError, "strides", np.broadcast_to(a[0], (6, 4)), b, {}),
            (ValueError, "activation is 'tanh'", a, b, {"activation": "tanh"}),
            (ValueError, "beta is 1, and there is neither", a, b, {"beta": 1}),
            (ValueError, "c is 4 x 5", a, b, {"beta": 1, "c": b}),
            (TypeError, "c is float16", a, b, {"beta": 1, "c": np.zeros((6, 5), np.float16)}),
            (ValueError, "out is 4 x 5", a, b, {"out": b}),
            (ValueError, "out is transposed", a, b, {"out": matrix(5, 6).T}),
            (ValueError, "out cannot be written", a, b, {"out": locked}),
            (ValueError, "backend is 'tpu'", a, b, {"backend": "tpu"}),
            (ValueError, "compute is 'fast'", a, b, {"compute": "fast"}),
            (gemm.Unsupported, "no kernel takes", half, half.T, {"compute": "tf32"}),
            (gemm.NoDevice, "no kernels for GPUs", a, b, {"backend": "gpu"}),
            (TypeError, "alpha is .two.: wanted is a number", a, b, {"alpha": "two"}),
        ):
            with self.subTest(text=text):
                self.refuses(error, text, gemm.matmul, *args, **named)
        square = matrix(5, 5)
        self.refuses(ValueError, "out overlaps a", gemm.matmul, square, matrix(5, 5), out=square)
        self.refuses(ValueError, "out overlaps b", gemm.matmul, matrix(5, 5), square.T, out=square)


KINDS = "AllGatherGemm", "GemmReduceScatter", "GemmAllReduce"


class Sharded(Base):
    """In the simulator: integers, whose sums are exact, against a product in double precision."""

    @staticmethod
    def operands(product: Any, seed: int, dtype: Any, pad: int = 0) -> tuple[list, list]:
        random = np.random.default_rng(seed)

        def integers(rows: int, cols: int) -> np.ndarray:
            stored = random.integers(-1, 2, (rows, cols + pad)).astype(dtype)
            return stored[:, :cols]

        gathers = isinstance(product, gemm.AllGatherGemm)
        a, b = [], []
        for rank in range(product.ranks):
            own = product.shard(rank)
            a.append(integers(own.stop - own.start if gathers else product.m, product.k))
            b_t = product.layout == "nt"
            x = integers(product.n, product.k).T if b_t else integers(product.k, product.n)
            b.append(x)
        return a, b

    def wanted(self, product: Any, a: list, b: list) -> list:
        a, b = [[x.astype(np.float64) for x in arrays] for arrays in (a, b)]
        if isinstance(product, gemm.AllGatherGemm):
            return [np.concatenate(a) @ x for x in b]
        total = sum(x @ y for x, y in zip(a, b))
        if isinstance(product, gemm.GemmAllReduce):
            return [total] * product.ranks
        return [total[product.shard(rank)] for rank in range(product.ranks)]

    def exact(self, got: list, wanted: list) -> None:
        self.assertEqual(len(got), len(wanted))
        for x, y in zip(got, wanted):
            np.testing.assert_array_equal(x.astype(np.float64), y)


class SeveralDevices(Sharded):
    """One caller for all of them."""

    def test_products(self) -> None:
        for ranks, (m, n, k), layout, dtype, pad in (
            (2, (150, 72, 80), "nn", np.float16, 0),
            (2, (33, 77, 65), "nt", ml_dtypes.bfloat16, 3),
            (4, (100, 40, 48), "nt", np.float16, 0),
            (8, (40, 9, 33), "nn", ml_dtypes.bfloat16, 8),
        ):
            for kind in (getattr(gemm, name) for name in KINDS):
                with self.subTest(kind=kind.__name__, ranks=ranks, layout=layout, pad=pad):
                    with kind(m, n, k, dtype, ranks=ranks, layout=layout) as product:
                        for seed in (1, 2):
                            a, b = self.operands(product, seed, dtype, pad)
                            self.exact(product(a, b), self.wanted(product, a, b))

    def test_into_parts_of_a_matrix(self) -> None:
        product = gemm.GemmReduceScatter(100, 24, 40, "float16", rung="m1")
        a, b = self.operands(product, 3, np.float16)
        whole = np.full((100, 30), 7, np.float16)
        out = [whole[product.shard(rank), :24] for rank in range(2)]
        got = product(a, b, out=out)
        self.assertIs(got[1], out[1])
        self.exact([whole[:, :24]], [np.concatenate(self.wanted(product, a, b))])
        self.assertTrue((whole[:, 24:] == 7).all())

    def test_what_it_tells(self) -> None:
        product = gemm.AllGatherGemm(100, 24, 40, "bfloat16")
        self.assertEqual(product.explain(), "m03_peer_copies on 2 simulated devices")
        self.assertEqual([product.shard(0), product.shard(1)], [slice(0, 64), slice(64, 100)])
        told = "AllGatherGemm(100 x 24 x 40, bfloat16: m03_peer_copies on 2 simulated devices)"
        self.assertEqual(repr(product), told)
        product.close()
        product.close()
        self.assertIn("closed", repr(product))
        self.refuses(ValueError, "has been closed", product, [], [])

    def test_refuses(self) -> None:
        make = gemm.AllGatherGemm
        self.refuses(gemm.BadArgument, "ranks is 9: allowed", make, 8, 8, 8, "float16", ranks=9)
        self.refuses(gemm.BadArgument, "m is 0: allowed", make, 0, 8, 8, "float16")
        self.refuses(gemm.BadArgument, "type is 0: allowed", make, 8, 8, 8, "float32")
        self.refuses(gemm.BadArgument, 'no rung "m4"', make, 8, 8, 8, "float16", rung="m4")
        self.refuses(TypeError, "the type int8", make, 8, 8, 8, "int8")
        self.refuses(ValueError, "layout is 'tn'", make, 8, 8, 8, "float16", layout="tn")
        self.refuses(ValueError, "backend is 'cpu'", make, 8, 8, 8, "float16", backend="cpu")
        self.refuses(ValueError, "there are 1 devices", make, 8, 8, 8, "float16", devices=[0])
        product = make(100, 24, 40, "float16")
        a, b = self.operands(product, 4, np.float16)
        self.refuses(ValueError, "a has 1 matrices: one a rank, 2", product, a[:1], b)
        self.refuses(TypeError, r"a\[0\] is a list", product, [[], []], b)
        self.refuses(TypeError, r"b\[1\] is a list", product, a, [b[0], []])
        self.refuses(ValueError, r"a\[1\] is 64 x 40: wanted is 36 x 40", product, [a[0]] * 2, b)
        wide = [x.astype(np.float32) for x in b]
        self.refuses(TypeError, r"b\[0\] is float32: wanted is float16", product, a, wide)
        turned = [np.asfortranarray(x) for x in b]
        text = r'the rows of b\[0\] must be contiguous: layout="nt"'
        self.refuses(ValueError, text, product, a, turned)
        out = [np.empty((100, 24), np.float16)] * 2
        text = r"out\[0\] lies in the memory of out\[1\]"
        self.refuses(ValueError, text, product, a, b, out=out)
        fixed = np.empty((100, 24), np.float16)
        fixed.flags.writeable = False
        text = r"out\[1\] cannot be written to"
        self.refuses(ValueError, text, product, a, b, out=[out[0], fixed])
        self.exact(product(a, b), self.wanted(product, a, b))

    @staticmethod
    def watched(product: Any, status: int = 0) -> list[str]:
        """What the library is called for from now on. A call takes a while; status: of a run."""
        library, told = product._library, []

        def run(*args: Any) -> int:
            told.append("run")
            time.sleep(0.2)
            done = library.sharded_run(*args)
            told.append("run ended")
            return status or done

        def destroy(handle: int) -> int:
            told.append("destroy")
            return library.sharded_destroy(handle) if told.count("destroy") == 1 else 0

        product._library = SimpleNamespace(
            sharded_run=run, sharded_destroy=destroy, check=library.check
        )
        return told

    def test_two_threads_close(self) -> None:
        product = gemm.AllGatherGemm(100, 24, 40, "float16")
        told = self.watched(product)

        class Slow:  # both threads have asked whether it is alive before one goes on
            both = threading.Barrier(2)
            of = product._destroy

            @property
            def alive(self) -> bool:
                try:
                    self.both.wait(timeout=0.5)
                except threading.BrokenBarrierError:
                    pass
                return self.of.alive

            def detach(self) -> Any:
                time.sleep(0.1)
                return self.of.detach()

        product._destroy = Slow()
        threads = [threading.Thread(target=product.close) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(told, ["destroy"])

    def test_close_waits_for_a_call(self) -> None:
        product = gemm.AllGatherGemm(100, 24, 40, "float16")
        a, b = self.operands(product, 5, np.float16)
        told = self.watched(product)
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(product(a, b)))
        thread.start()
        while not told:
            time.sleep(0.01)
        product.close()
        thread.join()
        self.assertEqual(told, ["run", "run ended", "destroy"])
        self.exact(results[0], self.wanted(product, a, b))

    def test_arrays_of_a_failed_call_live_until_it_is_closed(self) -> None:
        for status, kept in ((1, False), (5, True)):
            product = gemm.AllGatherGemm(100, 24, 40, "float16")
            a, b = self.operands(product, 5, np.float16)
            told = self.watched(product, status)
            alive = weakref.ref(a[0])
            with self.assertRaises(gemm.Error):
                product(a, b)
            del a
            self.assertEqual(alive() is not None, kept)
            product.close()
            self.assertIsNone(alive())
            self.assertEqual(told, ["run", "run ended", "destroy"])


class RanksOfTheirOwn(Sharded):
    """A caller for each rank: threads here, which meet as processes do through their launcher."""

    @staticmethod
    def in_threads(ranks: int, work: Any) -> list:
        """work(rank, exchange) of each rank, or what it raised."""
        parts: list = [b""] * ranks
        barrier = threading.Barrier(ranks, timeout=20)
        results: list = [None] * ranks

        def run(rank: int) -> None:
            def exchange(mine: bytes) -> list[bytes]:
                parts[rank] = mine
                barrier.wait()
                told = list(parts)
                barrier.wait()
                return told

            try:
                results[rank] = work(rank, exchange)
            except Exception as error:
                results[rank] = error

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def product_of(self, kind: Any, ranks: int, layout: str, dtype: Any, pad: int) -> None:
        """Three calls in a row."""
        m, n, k = 150, 40, 72
        named = {"ranks": ranks, "layout": layout, "backend": "simulator"}
        whole = kind(m, n, k, dtype, **named)
        given = [self.operands(whole, seed, dtype, pad) for seed in (1, 2, 3)]

        def work(rank: int, exchange: Any) -> list:
            with kind(m, n, k, dtype, rank=rank, exchange=exchange, **named) as product:
                self.assertEqual(product.shard(), whole.shard(rank))
                return [product(a[rank], b[rank]) for a, b in given]

        results = self.in_threads(ranks, work)
        for i, (a, b) in enumerate(given):
            self.exact([r[i] for r in results], self.wanted(whole, a, b))

    def test_products(self) -> None:
        for ranks, layout, dtype, pad in (
            (2, "nn", np.float16, 0),
            (4, "nt", ml_dtypes.bfloat16, 3),
        ):
            for kind in (getattr(gemm, name) for name in KINDS):
                with self.subTest(kind=kind.__name__, ranks=ranks, layout=layout, pad=pad):
                    self.product_of(kind, ranks, layout, dtype, pad)

    def test_what_it_tells(self) -> None:
        def work(rank: int, exchange: Any) -> str:
            make = gemm.AllGatherGemm
            return repr(make(100, 24, 40, "bfloat16", rank=rank, exchange=exchange))

        told = (
            "AllGatherGemm(100 x 24 x 40, bfloat16: m03_peer_copies on 2 simulated devices, rank "
        )
        self.assertEqual(self.in_threads(2, work), [f"{told}{rank} of 2)" for rank in range(2)])

    def test_one_refuses(self) -> None:
        def work(rank: int, exchange: Any) -> Any:
            rung = "m1" if rank == 1 else None
            make = gemm.GemmReduceScatter
            return make(100, 24, 40, "float16", rank=rank, exchange=exchange, rung=rung)

        first, second = self.in_threads(2, work)
        self.assertIsInstance(first, gemm.RankFailed)
        self.assertIsInstance(second, gemm.BadArgument)
        self.assertEqual(str(first), f"rank 1 failed: {second}")

    def test_one_does_not_come(self) -> None:
        def work(rank: int, exchange: Any) -> Any:
            given = {"rank": rank, "exchange": exchange, "time_limit": 1}
            product = gemm.AllGatherGemm(100, 24, 40, "float16", **given)
            x = np.zeros((product.shard().stop - product.shard().start, 40), np.float16)
            return product(x, np.zeros((40, 24), np.float16)) if rank == 0 else product

        error, product = self.in_threads(2, work)
        self.assertIsInstance(error, gemm.RankFailed)
        self.assertEqual(str(error), "not all ranks have come within 1 s")
        text = "rank 0 failed: not all ranks"
        self.refuses(
            gemm.RankFailed,
            text,
            product,
            np.zeros((36, 40), np.float16),
            np.zeros((40, 24), np.float16),
        )

    def test_refuses(self) -> None:
        def make(exchange: Any = None, **named: Any) -> Any:
            return gemm.AllGatherGemm(8, 8, 8, "float16", exchange=exchange, **named)

        def broken(mine: bytes) -> list[bytes]:
            raise OSError("the launcher is gone")

        one = "one process for each rank: give group, or rank and exchange"
        self.refuses(ValueError, one, make, rank=0)
        self.refuses(ValueError, one, make, broken)
        self.refuses(OSError, "the launcher is gone", make, broken, rank=0)
        text = r"exchange returned \[3\] bytes: wanted are \d+ of each rank"
        self.refuses(ValueError, text, make, lambda mine: [b"abc"], rank=0)
        self.refuses(ValueError, "give device", make, broken, rank=0, devices=[0, 1])
        self.refuses(ValueError, "give devices", make, device=1)
        self.refuses(ValueError, "rank is missing", make().shard)


class Planning(Base):
    def test_plan(self) -> None:
        plan = gemm.plan(4096, 4096, 4096, "float16")
        self.assertRegex(plan.kernel, r"^v\d+\w*_\w+$")
        self.assertTrue(plan.variant and str(plan).startswith(f"{plan.kernel} {plan.variant}: "))
        self.assertEqual(gemm.plan(64, 64, 64, np.float32, rung="v6").kernel, "v06_bank_conflicts")
        # Rows that TMA cannot address are copied first.
        self.assertGreater(gemm.plan(4096, 4097, 4097, "bfloat16").workspace, 4096 * 4097)
        self.assertEqual(gemm.plan(64, 64, 64, "f16", out_dtype="f32", layout="nt").variant, "")
        self.refuses(ValueError, "layout is 'nx'", gemm.plan, 1, 1, 1, layout="nx")
        self.refuses(TypeError, "the type float64", gemm.plan, 1, 1, 1, np.float64)
        self.refuses(gemm.BadArgument, "m is -1", gemm.plan, -1, 1, 1)
        self.refuses(gemm.NoDevice, "no kernels for GPUs", gemm.plan, 1, 1, 1, backend="gpu")

    def test_what_was_measured_is_planned(self) -> None:
        tuned = {"gpu": "NVIDIA H200", "rung": "v27_engine", "dtype": "f16", "ops": "nn",
                 "shape": [96, 64, 32], "ld_pad": 0, "revision": "",
                 "variants": [{"name": "128x256", "tflops": 1}]}  # fmt: skip
        estimated = gemm.plan(96, 64, 32, "float16").variant
        x, y = np.ones((96, 32), "f2"), np.ones((32, 64), "f2")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "tuning.json")
            file.write_text(json.dumps({"format": 1, "measured": [tuned]}))
            gemm.use_tuning(file)
            self.assertEqual(gemm.plan(96, 64, 32, "float16").variant, "128x256")
            self.assertTrue((gemm.matmul(x, y) == 32).all())
            self.refuses(gemm.BadArgument, "there is no file", gemm.use_tuning, f"{file}s")
            self.refuses(TypeError, "int", gemm.use_tuning, 3)
        gemm.use_tuning("")
        self.assertEqual(gemm.plan(96, 64, 32, "float16").variant, estimated)

    def test_rungs(self) -> None:
        rungs = gemm.rungs()
        self.assertEqual((rungs[0].id, rungs[0].dtype), ("v1", "float32"))
        self.assertTrue(all(r.runs and r.idea for r in rungs))
        self.assertEqual(
            {r.dtype for r in rungs},
            {"float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"},
        )
        self.assertEqual(gemm.gpu_count(), 0)
        self.assertEqual(gemm.__version__, (ROOT / "VERSION").read_text().strip())

    def test_inspect(self) -> None:
        counters = gemm.inspect("v6", 128)
        self.assertEqual((counters["m"], counters["blocks"], counters["findings"]), (128, 1, []))
        self.assertEqual(
            counters["global_loads"]["requests"], 256
        )  # 2 x 128 x 32 float4 / 32 lanes
        self.assertIn(
            "f16/nt/64x32x16", gemm.inspect("v17t", (64, 32, 16), "f16", layout="nt")["name"]
        )
        self.refuses(gemm.BadArgument, "v99", gemm.inspect, "v99")


class WhatUsersTripOver(Base):
    """Kinds of faults that other libraries' users have reported, each over all places where it may be."""

    def calls(self, x: np.ndarray) -> dict[str, Any]:
        """A call of each function, of a square matrix."""
        return {
            "matmul": lambda: gemm.matmul(x, x),
            "batch": lambda: gemm.matmul(x[None], x),
            "rung": lambda: gemm.matmul(x, x, rung="v6"),
            "batched_matmul": lambda: gemm.batched_matmul([x], [x])[0],
            "grouped_matmul": lambda: gemm.grouped_matmul(x, x[None], np.array([len(x)])),
            "quantise": lambda: gemm.quantise(x)[1],
            "sharded": lambda: gemm.AllGatherGemm(
                16, 16, 16, "float16", ranks=2, backend="simulator"
            )([np.ones((16, 16), "f2"), np.ones((0, 16), "f2")], [np.ones((16, 16), "f2")] * 2)[0],
        }  # fmt: skip

    def in_a_child(self, call: Any) -> str:
        """What it returns, or raises, as text; a child that takes 20 seconds hangs."""
        mine, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)
            try:
                told = str(call())
            except BaseException as error:
                told = f"{type(error).__name__}: {error}"
            os.write(theirs, told.encode())
            os._exit(0)
        os.close(theirs)
        with os.fdopen(mine) as told_there:
            told = told_there.read()
        self.assertEqual(os.waitpid(pid, 0)[1], 0, "the child hangs")
        return told

    def test_fork(self) -> None:
        calls = self.calls(np.ones((64, 64), np.float32))
        for name, call in calls.items():
            with self.subTest(call=name):
                before = str(call())
                self.assertEqual(self.in_a_child(call), before)
                self.assertEqual(str(call()), before)
        # While another thread computes, and a child of a child.
        large = matrix(500, 500)
        busy = threading.Thread(target=lambda: gemm.matmul(large, large))
        busy.start()
        self.assertEqual(self.in_a_child(calls["matmul"]), str(calls["matmul"]()))
        self.assertEqual(
            self.in_a_child(lambda: self.in_a_child(calls["matmul"])), str(calls["matmul"]())
        )
        busy.join()
        # A child that ends as a program does.
        told = subprocess.run(
            [sys.executable, "-c", "import os, numpy, gemm_ladder as g; x = numpy.eye(9, dtype='f')\n"
             "g.matmul(x, x); pid = os.fork(); g.matmul(x, x)\n"
             "if pid: print(os.waitpid(pid, 0)[1])"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        self.assertEqual((told.stdout, told.stderr), ("0\n", ""))

    def test_fork_of_a_sharded_product(self) -> None:
        one = np.ones((16, 16), np.float16)
        operands = [one, one[:0]], [one, one]
        with gemm.GemmReduceScatter(16, 16, 16, "float16", ranks=2, backend="simulator") as product:
            operands = [one, one], [one, one]
            product(*operands)
            self.assertIn("made before fork", self.in_a_child(lambda: product(*operands)))
            self.assertEqual(self.in_a_child(product.close), "None")
            product(*operands)

    def test_interrupt(self) -> None:
        x = matrix(900, 900)
        half = x.astype(np.float16)
        many = [matrix(16, 16, seed=i) for i in range(6000)]
        sharded = gemm.AllGatherGemm(1024, 1024, 1024, "float16", ranks=2, backend="simulator")
        a = [np.ones((512, 1024), np.float16)] * 2
        b = [np.ones((1024, 1024), np.float16)] * 2
        for name, call in {
            "float": lambda: gemm.matmul(x, x),
            "half": lambda: gemm.matmul(half, half),
            "batch": lambda: gemm.matmul(x.reshape(9, 100, 900), x),
            "groups": lambda: gemm.grouped_matmul(x, np.stack([x, x]), np.array([400, 900])),
            "many short launches": lambda: gemm.batched_matmul(many, many[::-1]),
            "several devices": lambda: sharded(a, b),
        }.items():
            with self.subTest(call=name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                killer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
                start = time.monotonic()
                killer.start()
                with self.assertRaises(KeyboardInterrupt):
                    call()
                    time.sleep(5)  # too fast to interrupt
                self.assertLess(time.monotonic() - start, 0.2 + 0.5)
        self.close(gemm.matmul(x[:9], x[:, :9]), product(x[:9], x[:, :9]))
        # A handler that computes, and one that goes on.
        told: list[str] = []

        def computes(*_: Any) -> None:
            try:
                gemm.matmul(x, x)
            except gemm.LaunchRefused as error:
                told.append(str(error))

        before = signal.signal(signal.SIGUSR1, computes)
        try:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            self.close(gemm.matmul(x, x), product(x, x))
        finally:
            signal.signal(signal.SIGUSR1, before)
        self.assertRegex(str(told), "handler cannot compute while its thread computes")
        seen = []
        before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
        try:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
            self.close(gemm.matmul(x, x), product(x, x))
            self.assertEqual(len(seen), 1)
        finally:
            signal.signal(signal.SIGUSR1, before)

    def test_one_warning_of_the_simulator(self) -> None:
        for call in (
            "g.matmul(x, x)",
            "g.matmul(x[None], x)",
            "g.batched_matmul([x], [x])",
            "g.grouped_matmul(x, x[None], numpy.array([2048]))",
            "g.quantise(numpy.zeros((4096, 4096), 'f'))",
        ):
            with self.subTest(call=call):
                told = subprocess.run(
                    [sys.executable, "-c",
                     "import signal, numpy, warnings, gemm_ladder as g\n"
                     "x = numpy.ones((2048, 2048), 'f'); y = x[:64, :64]\n"
                     "g.matmul(y, y); print('small', flush=True); signal.alarm(1)\n"
                     "def end(*_): raise SystemExit('ended')\n"
                     f"signal.signal(signal.SIGALRM, end)\nwhile True: {call}"],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                    capture_output=True, text=True, timeout=60, check=False,
                )  # fmt: skip
                self.assertEqual(told.stdout, "small\n")
                self.assertEqual(told.stderr.count("UserWarning"), 1, told.stderr)
                self.assertIn("simulator of a GPU, which is for learning and testing", told.stderr)
                self.assertTrue(told.stderr.endswith("ended\n"), told.stderr)

    def test_subclasses_whose_elements_are_more_than_memory(self) -> None:
        class Metres(np.ndarray):
            pass

        x = matrix(8, 8)
        row = x[0].copy()
        offsets = np.array([8])
        half = x.astype(np.float16)
        sharded = gemm.GemmReduceScatter(8, 8, 8, "float16", ranks=2, backend="simulator")
        q, one = gemm.quantise(x)
        for make in (np.ma.masked_array, lambda x: x.view(Metres)):
            for name, call in {
                "a": lambda m: gemm.matmul(m(x), x),
                "b": lambda m: gemm.matmul(x, m(x)),
                "c": lambda m: gemm.matmul(x, x, c=m(x), beta=1),
                "out": lambda m: gemm.matmul(x, x, out=m(x.copy())),
                "bias": lambda m: gemm.matmul(x, x, bias=m(row)),
                "row_bias": lambda m: gemm.matmul(x, x, row_bias=m(row)),
                "residual": lambda m: gemm.matmul(x, x, residual=m(x)),
                "scale_rows": lambda m: gemm.matmul(x, x, scale_rows=m(row)),
                "scale_columns": lambda m: gemm.matmul(x, x, scale_columns=m(row)),
                r"a\[0\]": lambda m: gemm.batched_matmul([m(x)], [x]),
                r"b\[1\]": lambda m: gemm.batched_matmul([x, x], [x, m(x)]),
                r"out\[0\]": lambda m: gemm.batched_matmul([x], [x], out=[m(x.copy())]),
                "offsets": lambda m: gemm.grouped_matmul(x, x[None], m(offsets)),
                "x": lambda m: gemm.quantise(m(x)),
                "scale_a": lambda m: gemm.scaled_mm(q, q.T, m(one), one),
                "scale_b": lambda m: gemm.scaled_mm(q, q.T, one, m(one)),
                "gate": lambda m: gemm.interleave_gate(m(x), x),
                "value": lambda m: gemm.interleave_gate(x, m(x)),
                r"^a\[1\]": lambda m: sharded([half, m(half)], [half, half]),
            }.items():
                with self.subTest(argument=name):
                    self.refuses(TypeError, name + " is a (MaskedArray|Metres)", call, make)

    def test_matrices_of_numpy_are_their_elements(self) -> None:
        x, half = matrix(8, 8), np.ones((8, 8), np.float16)
        q, one = gemm.quantise(x)
        rows = gemm.quantise(x, "row")
        sharded = gemm.AllGatherGemm(8, 8, 8, "float16", ranks=2, backend="simulator")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, call in {
                "matmul": lambda m: gemm.matmul(m(x), m(x), c=m(x), beta=2),
                "residual": lambda m: gemm.matmul(x, x, residual=m(x), out=m(x.copy())),
                "batch": lambda m: gemm.matmul(x[None], m(x)),
                "list": lambda m: gemm.batched_matmul([m(x)], [m(x)])[0],
                "groups": lambda m: gemm.grouped_matmul(m(x), x[None], np.array([8])),
                "quantise": lambda m: gemm.quantise(m(x), "row")[1],
                "one scale": lambda m: gemm.scaled_mm(m(q), m(q).T, m(one), m(one)),
                "scales of rows": lambda m: gemm.scaled_mm(
                    m(rows[0]), m(rows[0]).T, m(rows[1]), m(rows[1]).T
                ),
                "gates": lambda m: gemm.interleave_gate(m(x), m(x)),
                "sharded": lambda m: sharded([m(half), half[:0]], [m(half), half])[0],
            }.items():
                with self.subTest(call=name):
                    np.testing.assert_array_equal(call(np.matrix), call(np.array))

    def test_out_is_as_it_was_after_an_error(self) -> None:
        a, b, c = matrix(6, 4), matrix(4, 5), matrix(6, 5)
        batch = {"a": np.stack([a, a]), "b": b, "c": np.stack([c, c])}
        for wrong in (
            {"activation": "tanh"},
            {"rung": "v99"},
            {"rung": "v24"},  # has no kernel of this type
            {"compute": "fast"},
            {"compute": "block_scales"},
            {"backend": "gpu"},
            {"slope": "x"},
            {"bias": c[0, :3]},
            {"bias": c[0].astype(np.float64)},
            {"scales_a": c},
            {"scale_rows": c[0]},
            {"alpha": 1e39},
            {"gated": True},
            {"out_dtype": "int8"},
        ):
            for operands in ({"a": a, "b": b, "c": c}, batch):
                with self.subTest(wrong=wrong, batch=operands is batch):
                    out = np.full((*operands["a"].shape[:-1], 5), 7, np.float32)
                    with self.assertRaises((ValueError, TypeError, gemm.Error)):
                        gemm.matmul(**operands, beta=1.0, out=out, **wrong)
                    self.assertTrue((out == 7).all())
        with self.assertRaises(ValueError):  # a chunk that is refused only when it is planned
            gemm.matmul(a, b, beta=1.0, c=c, rung="v6\n", out=out)
        out = np.empty((6, 5), np.float32)
        self.assertIs(gemm.matmul(a, b, beta=2.0, c=c, out=out), out)
        self.close(out, product(a, b) + 2.0 * c)

    def test_nothing_is_left_uninitialised(self) -> None:
        for dtype in (np.float32, np.float16):
            for rows, cols in ((5, 0), (0, 5), (0, 0)):
                x = np.zeros((rows, cols), dtype)
                for scales in ("tensor", "row", "1x128", "128x128"):
                    with self.subTest(dtype=dtype, shape=x.shape, scales=scales):
                        for _ in range(3):
                            dirty = [np.full(size, 7, np.float32) for size in (1, 5, 64)]
                            del dirty
                            self.assertTrue((gemm.quantise(x, scales)[1] == 1).all())
        for dtype in (np.float32, np.float16, ml_dtypes.bfloat16):
            a, b = np.zeros((6, 0), dtype), np.zeros((0, 8), dtype)
            for out in (np.full((6, 8), 7, dtype),):
                self.assertTrue((gemm.matmul(a, b, out=out) == 0).all())
                gemm.batched_matmul([a], [b], out=[out.__setitem__(..., 7) or out])
                self.assertTrue((out == 0).all())
                out[...] = 7
                gemm.grouped_matmul(a, b[None], np.array([4]), out=out)
                self.assertTrue((out[:4] == 0).all() and (out[4:] == 7).all())

    def test_nothing_along_k_is_zero_whatever_multiplies_it(self) -> None:
        c, factors = np.ones((6, 8), np.float16), np.full(6, np.nan, np.float32)
        a, b = np.zeros((6, 0), np.float16), np.zeros((0, 8), np.float16)
        names = [r.id for r in gemm.rungs("simulator") if r.dtype == "float16"]
        for alpha in (math.nan, math.inf):
            with self.subTest(alpha=alpha):
                for rung in (None, *names):
                    got = gemm.matmul(a, b, alpha=alpha, beta=2.0, c=c, rung=rung)
                    self.assertTrue((got == 2).all(), rung)
                    got = gemm.matmul(a, b, alpha=alpha, scale_rows=factors, rung=rung)
                    self.assertTrue((got == 0).all(), rung)
                self.assertTrue((gemm.batched_matmul([a, a], [b, b], alpha=alpha)[1] == 0).all())
                got = gemm.grouped_matmul(a, b[None], np.array([6]), alpha=alpha)
                self.assertTrue((got == 0).all())

    def test_what_is_refused_is_refused_of_no_products(self) -> None:
        def batch(count: int, **named: Any) -> Any:
            return gemm.matmul(np.zeros((count, 3, 4), "f"), matrix(4, 5), **named)

        def groups(count: int, **named: Any) -> Any:
            b = np.zeros((count, 4, 5), np.float32)
            return gemm.grouped_matmul(matrix(3, 4), b, np.zeros(count, np.int32), **named)

        for call, named in (
            (batch, {"rung": "v99"}),
            (batch, {"rung": "v24"}),
            (batch, {"out_dtype": "float16"}),
            (batch, {"compute": "fast_sums"}),
            (groups, {"out_dtype": "float16"}),
            (groups, {"activation": "gelu_erf"}),
        ):
            for count in (0, 2):
                with self.subTest(call=call.__name__, count=count, **named):
                    with self.assertRaises(gemm.Error):
                        call(count, **named)

    def test_what_is_accepted_does_not_depend_on_earlier_calls(self) -> None:
        a, b = matrix(6, 4), matrix(4, 5)
        out = np.empty((6, 5), np.float32)
        batch = np.stack([a, a])
        outs = np.empty((2, 6, 5), np.float32)
        offsets = np.array([6])
        for name, call in {
            "matmul": lambda dtype: gemm.matmul(a, b, out=out, out_dtype=dtype),
            "batch": lambda dtype: gemm.matmul(batch, b, out=outs, out_dtype=dtype),
            "list": lambda dtype: gemm.batched_matmul([a], [b], out=[out], out_dtype=dtype),
            "groups": lambda dtype: gemm.grouped_matmul(
                a, b[None], offsets, out=out, out_dtype=dtype
            ),
        }.items():
            with self.subTest(call=name):
                self.refuses(TypeError, "out is float32 and out_dtype float16", call, "float16")
                call(None)
                call("float32")
                self.refuses(TypeError, "out is float32 and out_dtype float16", call, "float16")
                self.refuses(TypeError, "the type int8", call, "int8")
                call(np.float32)
        call = functools.partial(gemm.batched_matmul, [batch], [batch.swapaxes(1, 2)])
        self.refuses(ValueError, "a has 3 dimensions", call)
        gemm.matmul(batch, batch.swapaxes(1, 2))  # a batch of these matrices
        self.refuses(ValueError, "a has 3 dimensions", call)
        low = gemm.matmul(
            -np.ones((1, 1), "f"), np.ones((1, 1), "f"), activation="leaky_relu", slope=0.0
        )
        high = gemm.matmul(
            -np.ones((1, 1), "f"), np.ones((1, 1), "f"), activation="leaky_relu", slope=-0.0
        )
        self.assertNotEqual(np.signbit(low), np.signbit(high))

    def test_sums_that_only_a_scale_makes_small_enough(self) -> None:
        for m, n in ((16, 16), (128, 64), (1, 40), (200, 256)):
            a, b = np.full((m, 4096), 4, np.float16), np.full((4096, n), 4.1, np.float16)
            wanted = np.full((m, n), 672, np.float16)
            for layout, left, right in (
                ("nn", a, b),
                ("nt", a, b.T.copy().T),
                ("tn", a.T.copy().T, b),
                ("tt", a.T.copy().T, b.T.copy().T),
            ):
                for scales in (
                    {"scale_rows": np.full(m, 0.01, np.float32)},
                    {"scale_columns": np.full(n, 0.01, np.float32)},
                    {"alpha": 0.01},
                    {"alpha": 0.01, "bias": np.zeros(n, np.float16)},
                ):
                    for more in ({}, {"activation": "relu"}, {"residual": wanted * 0}):
                        with self.subTest(
                            m=m, n=n, layout=layout, scales=list(scales), more=list(more)
                        ):
                            got = gemm.matmul(left, right, **scales, **more)
                            np.testing.assert_array_equal(got, wanted)

    def test_sums_that_only_a_scale_makes_small_enough_of_every_rung(self) -> None:
        a, b = np.full((17, 4096), 4, np.float16), np.full((4096, 34), 4.1, np.float16)
        rows = np.full(17, 0.01, np.float32)
        rungs = [r.id for r in gemm.rungs() if r.dtype == r.out_dtype == "float16" and r.runs]
        self.assertGreater(len(rungs), 20)
        for rung in rungs:
            with self.subTest(rung=rung):
                self.assertTrue((gemm.matmul(a, b, scale_rows=rows, rung=rung) == 672).all())
        transposed = [
            r.id for r in gemm.rungs() if r.dtype == r.out_dtype == "float16" and r.transposed
        ]
        at, bt = np.asfortranarray(a), np.asfortranarray(b)
        for rung in [r for r in transposed if r != "v9"]:
            for left, right in ((a, bt), (at, b), (at, bt)):
                with self.subTest(rung=rung, layout=(left is at, right is bt)):
                    got = gemm.matmul(left, right, scale_rows=rows, rung=rung)
                    self.assertTrue((got == 672).all(), got)
                    small = gemm.matmul(left / 64, right, scale_rows=rows, rung=rung)
                    self.assertTrue((small == 10.5).all(), small)
        out = np.ones((17, 34), np.float16)
        gemm.matmul(a, b, scale_rows=rows, beta=-2, out=out)
        self.assertTrue((out == 670).all())
        gated = gemm.matmul(a, b, scale_rows=rows / 40, gated=True, activation="relu")
        self.assertTrue((gated == np.float16(16.8 * 16.8)).all())

    def test_integers_that_c_would_cut(self) -> None:
        one = matrix(4, 4)
        for value in (2**64 + 64, 2**63, -(2**63) - 1, 2**32 + 64):
            for name, call in {
                "m": lambda v: gemm.plan(v, 64, 64),
                "n": lambda v: gemm.plan(64, v, 64),
                "k": lambda v: gemm.plan(64, 64, v),
                "batch": lambda v: gemm.plan(64, 64, 64, batch=v),
                "sharded m": lambda v: gemm.AllGatherGemm(v, 64, 64, "float16"),
                "ranks": lambda v: gemm.AllGatherGemm(64, 64, 64, "float16", ranks=v),
                "rank": lambda v: gemm.AllGatherGemm(
                    64, 64, 64, "float16", rank=v, exchange=lambda x: [x, x]
                ),
                "time_limit": lambda v: gemm.AllGatherGemm(64, 64, 64, "float16", time_limit=v),
                "device": lambda v: gemm.AllGatherGemm(64, 64, 64, "float16", devices=[0, v]),
                "size": lambda v: gemm.inspect("v6", v),
                "axis": lambda v: gemm.interleave_gate(one, one, v),
            }.items():
                with self.subTest(argument=name, value=value):
                    with self.assertRaises(ValueError) as caught:
                        call(value)
                    self.assertIn(str(value), str(caught.exception))
                    self.assertNotIn("\n", str(caught.exception))
        out = np.full((4, 4), 7, np.float32)
        for dtype, value in ((np.int64, 2**32 + 2), (np.int64, -(2**32)), (np.uint32, 2**32 - 1),
                             (np.uint64, 2**64 - 1)):  # fmt: skip
            offsets = np.array([value], dtype)
            self.refuses(ValueError, f"offsets has {value}", gemm.grouped_matmul, one, one[None],
                         offsets, out=out)  # fmt: skip
        self.assertTrue((out == 7).all())
        beyond = 1e39, np.float64(1e39), np.longdouble("1e4000"), Decimal("1e400")
        other = "3", b"3", np.complex64(1 + 2j), np.ma.masked, np.ma.array(2.0, mask=True)
        for name in ("alpha", "beta", "slope"):
            for values, error in ((beyond, ValueError), (other, TypeError)):
                for wrong in values:
                    with self.subTest(argument=name, value=repr(wrong)):
                        self.refuses(
                            error, name + " is ", gemm.matmul, one, one, out=out, **{name: wrong}
                        )
        with gemm.AllGatherGemm(8, 8, 8, "float16", ranks=2, backend="simulator") as sharded:
            for rank in (-1, 2, 2**32, 2**64):
                self.refuses(ValueError, f"rank is {rank}", sharded.shard, rank)

    def test_offsets_that_are_no_rows(self) -> None:
        x, out = matrix(8, 8), np.full((8, 8), 7, np.float32)
        for ends in ([-1, 8], [3, 2], [4, 9], [9, 8], [8, 2**33]):
            for dtype in ("int32", "int64", "int8", "uint16"):
                if np.array(ends).astype(dtype).tolist() == ends:
                    with self.subTest(ends=ends, dtype=dtype):
                        with self.assertRaisesRegex(ValueError, "^offsets has -?[0-9]+"):
                            offsets = np.array(ends, dtype)
                            gemm.grouped_matmul(x, np.stack([x, x]), offsets, out=out)
                        self.assertTrue((out == 7).all())

    def test_results_that_share_memory(self) -> None:
        x = [matrix(8, 8, seed=i) for i in range(3)]
        whole = np.zeros((8, 40), np.float32)
        o = [np.zeros((8, 8), np.float32) for _ in x]
        long = np.zeros((40, 8), np.float32)
        for out in (
            [o[0], o[0], o[1]],
            [o[0], o[1], o[0]],
            [whole[:, :8], whole[:, 4:12], whole[:, 20:28]],
            [whole[:, 20:28], whole[:, :8], whole[:, 4:12]],
            [long[:8], long[20:28], long[7:15]],
            [o[0], x[1], o[1]],  # of another product
            [o[0], o[1], x[0]],
        ):
            with self.subTest(out=[y.ctypes.data for y in out]):
                before = [y.copy() for y in out]
                self.refuses(ValueError, r"out\[\d\] overlaps", gemm.batched_matmul, x, x, out=out)
                for y, was in zip(out, before):
                    np.testing.assert_array_equal(y, was)
        for out in (
            o,
            [whole[:, i : i + 8] for i in (16, 0, 8)],
            [long[i : i + 8] for i in (9, 0, 30)],
        ):
            for got, y in zip(gemm.batched_matmul(x, [x[0]] * 3, out=out), x):
                self.close(got, product(y, x[0]))
        both = np.zeros((16, 8), np.float32)
        ends = both.reshape(-1).view(np.int32)[:1]
        ends[0] = 8
        self.refuses(ValueError, "out overlaps offsets", gemm.grouped_matmul, x[0], x[1][None], ends,
                     out=both[:8])  # fmt: skip

    def test_arguments_of_any_kind(self) -> None:
        x = matrix(4, 4)
        odd: list[Any] = [
            ["relu"], {}, {"a": 1}, np.ones((3, 3)), np.ones(0), 1.5, b"v6", object(), lambda: 0, "v6\n",
            "v6\0", "\x1b[31m", "\ud800", "x" * 10000, "\n", 3 + 4j, float, np.float64, "é",
            type("Control", (), {"__repr__": lambda self: "\x1b[2J\n\u2028"})(),
            type("Raises", (), {"__repr__": lambda self: 1 / 0})(),
        ]  # fmt: skip
        (q, one), half = gemm.quantise(x), np.ones((8, 8), np.float16)
        sharded = gemm.AllGatherGemm(8, 8, 8, "float16", ranks=2, backend="simulator")
        for value in odd:
            for name, call in {
                "activation": lambda v: gemm.matmul(x, x, activation=v),
                "rung": lambda v: gemm.matmul(x, x, rung=v),
                "compute": lambda v: gemm.matmul(x, x, compute=v),
                "backend": lambda v: gemm.matmul(x, x, backend=v),
                "out_dtype": lambda v: gemm.matmul(x, x, out_dtype=v),
                "list's activation": lambda v: gemm.batched_matmul([x], [x], activation=v),
                "list": lambda v: gemm.batched_matmul(v, [x]),
                "list of results": lambda v: gemm.batched_matmul([x], [x], out=v),
                "groups' activation": lambda v: gemm.grouped_matmul(
                    x, x[None], np.array([4]), activation=v
                ),
                "backend of groups": lambda v: gemm.grouped_matmul(
                    x, x[None], np.array([4]), backend=v
                ),
                "scales": lambda v: gemm.quantise(x, v),
                "backend of quantise": lambda v: gemm.quantise(x, backend=v),
                "layout": lambda v: gemm.plan(4, 4, 4, layout=v),
                "plan's rung": lambda v: gemm.plan(4, 4, 4, rung=v),
                "dtype": lambda v: gemm.plan(4, 4, 4, v),
                "backend of rungs": lambda v: gemm.rungs(v),
                "inspected rung": lambda v: gemm.inspect(v, 64),
                "inspected type": lambda v: gemm.inspect("v6", 64, v),
                "inspected layout": lambda v: gemm.inspect("v6", 64, layout=v),
                "sharded rung": lambda v: gemm.AllGatherGemm(16, 16, 16, "float16", rung=v),
                "sharded type": lambda v: gemm.AllGatherGemm(16, 16, 16, v),
                "gated": lambda v: gemm.matmul(x, x, gated=v),
                "list's gated": lambda v: gemm.batched_matmul([x], [x], gated=v),
                "plan's gated": lambda v: gemm.plan(4, 4, 4, gated=v),
                "invariant": lambda v: gemm.matmul(x, x, invariant=v),
                "use_fast_accum": lambda v: gemm.scaled_mm(q, q.T, one, one, use_fast_accum=v),
                "shard": lambda v: sharded.shard(v),
                "sharded a": lambda v: sharded(v, [half, half]),
                "sharded out": lambda v: sharded([half, half[:0]], [half, half], out=v),
            }.items():
                with self.subTest(argument=name, value=type(value).__name__):
                    with self.assertRaises((ValueError, TypeError, gemm.Error)) as caught:
                        call(value)
                    told = str(caught.exception)
                    self.assertTrue(told.isprintable() and len(told) < 400, ascii(told))
                    self.assertNotIn("ambiguous", told)
                    self.assertNotIn("unhashable", told)
                    self.assertNotIn("has no", told)
        for gated in (True, 1, np.True_):
            self.assertEqual(gemm.matmul(x, x, gated=gated).shape, (4, 2))
        self.assertEqual(gemm.inspect("v6", np.int64(64))["m"], 64)
        for rung, dtype in (("v6,v7", None), ("v6-v8", None), ("sgemm", "f32"), ("v6", "f32,f16")):
            self.refuses(ValueError, "name several", gemm.inspect, rung, 64, dtype)
        for rung, size in (("v6", 0), ("v28", (5, 0, 5)), ("v9", 64)):  # that has no counts
            self.refuses(gemm.BadArgument, f"^{rung}: skipped", gemm.inspect, rung, size)
        self.assertEqual(gemm.plan(np.int64(64), np.int32(64), np.uint8(64)).kernel[0], "v")


class WithoutParts(Base):
    """In a process of its own: what is missing is said in one line."""

    def run_python(self, code: str, **environment: str) -> str:
        path = os.pathsep.join(p for p in sys.path if p)
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": path, **environment},
        )
        return done.stdout + done.stderr

    def test_no_library(self) -> None:
        told = self.run_python(
            "import gemm_ladder; gemm_ladder.rungs()", GEMM_LADDER_LIBRARIES="/nowhere"
        )
        self.assertIn("there is no libgemm_ladder_sim.so in /nowhere", told.splitlines()[-1])

    def test_no_gpu(self) -> None:
        """The library with kernels for GPUs, on a machine that may have none."""
        if not (libraries / "libgemm_ladder.so").exists():
            self.skipTest("built without a CUDA toolkit")
        told = self.run_python(
            "import gemm_ladder, numpy\n"
            "a = numpy.eye(3, dtype=numpy.float32)\n"
            "n = gemm_ladder.gpu_count()\n"
            "try: print(numpy.all(gemm_ladder.matmul(a, a, backend='gpu') == a))\n"
            "except gemm_ladder.NoDevice as e: print(n == 0 and 'there is no GPU' in str(e))",
            GEMM_LADDER_LIBRARIES=str(libraries),
        )
        self.assertEqual(told, "True\n")

    def test_old_driver(self) -> None:
        """A driver of CUDA 12.2, of which only the version is asked."""
        if not (libraries / "libgemm_ladder.so").exists() or shutil.which("cc") is None:
            self.skipTest("built without a CUDA toolkit, or there is no cc")
        with tempfile.TemporaryDirectory() as folder:
            driver = "int cuDriverGetVersion(int *v) { *v = 12020; return 0; }"
            command = ["cc", "-shared", "-xc", "-", "-o", f"{folder}/libcuda.so.1"]
            subprocess.run(command, input=driver, text=True, check=True)
            told = self.run_python(
                "import gemm_ladder, numpy\n"
                "a = numpy.eye(3, dtype=numpy.float32)\n"
                "print(gemm_ladder.gpu_count(), gemm_ladder.plan(3, 3, 3).kernel)\n"
                "try: gemm_ladder.matmul(a, a, backend='gpu')\n"
                "except gemm_ladder.NoDevice as e: print(e)",
                GEMM_LADDER_LIBRARIES=str(libraries),
                LD_LIBRARY_PATH=folder,
            )
        self.assertRegex(
            told,
            r"\A0 \w+\nthere is no GPU: NVIDIA's driver is too old: it has CUDA 12\.2, and this "
            r"library needs 1\d\.0 or newer; .*\n\Z",
        )

    def test_one_library_that_is_the_simulator(self) -> None:
        """Built without CUDA. It is refused as a GPU's: that must not change how it asks for signals."""
        built = [libraries / f"libgemm_ladder{name}.so" for name in ("_sim", "")]
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "libgemm_ladder.so").symlink_to(next(x for x in built if x.exists()))
            told = self.run_python(
                "import gemm_ladder as g, numpy\n"
                "x = numpy.ones((600, 600), numpy.float32)\n"
                "print(g.matmul(x, x)[0, 0], g.gpu_count(), g.matmul(x, x)[0, 0])\n"
                "try: g.matmul(x, x, rung='v99')\n"
                "except g.BadArgument: print('refused')",
                GEMM_LADDER_LIBRARIES=folder,
            )
        self.assertEqual(told, "600.0 0 600.0\nrefused\n")

    def test_import_loads_little(self) -> None:
        told = self.run_python(
            "import sys, gemm_ladder; print({'torch', 'numpy', 'cupy'} & set(sys.modules))"
        )
        self.assertEqual(told, "set()\n")


if __name__ == "__main__":
    libraries = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        install(Path(folder))
        sys.path.insert(0, folder)
        import gemm_ladder as gemm

        unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
