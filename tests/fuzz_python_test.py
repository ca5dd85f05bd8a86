"""scripts/fuzz_python.py finds what it is for: a library that does one thing wrong, at times."""

from __future__ import annotations

import contextlib
import io
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import fuzz_python

real = fuzz_python.gemm.matmul


def fuzz(*args: str) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        with mock.patch("sys.argv", ["fuzz_python.py", *args]):
            try:
                return fuzz_python.main(), out.getvalue()
            except SystemExit as end:
                return int(end.code or 0), out.getvalue()


def faulty(fault: str) -> Any:
    def matmul(a: Any, b: Any, **named: Any) -> Any:
        if fault == "taken":
            named = {name: x for name, x in named.items() if name != "bias"}
        elif fault == "raises":
            raise KeyError("a")
        elif fault == "lines":
            raise ValueError("no\nreally")
        elif fault == "refused":
            raise ValueError("no")
        try:
            got = real(a, b, **named)
        except ValueError:
            if fault == "late" and "out" in named and named["out"].size:
                named["out"].flat[0] = 7
            raise
        if got.size and fault == "wrong":
            got.flat[-1] *= got.dtype.type(1.1)
        if fault == "input" and a.size and a.flags.writeable:
            a.flat[0] = 3.5
        if fault == "beside" and "out" in named and got.size:
            ends = np.lib.array_utils.byte_bounds
            if ends(got)[0] >= ends(got.base)[0] + 4:  # else the first bytes are an element
                got.base[:4] = 0
        return got

    return matmul


class Finds(unittest.TestCase):
    def test_each(self) -> None:
        for fault, told in {
            "wrong": "1 of .* numbers wrong: at",
            "raises": "'a'",
            "lines": "the error is no line of text",
            "refused": "refused: ValueError: no",
            "late": "byte .* changed in the memory of",
            "input": "byte .* changed in the memory of",
            "beside": "byte .* changed in the memory of",
            "taken": "wrong: at|was not refused",
        }.items():
            with self.subTest(fault=fault):
                with mock.patch.object(fuzz_python.gemm, "matmul", faulty(fault)):
                    self.assertRegex(self.first(), told)

    def first(self) -> str:
        """The first failure of 400 cases."""
        for number in range(400):
            try:
                fuzz_python.Case("numpy", 1, number).run()
            except Exception as failure:
                return str(failure)
        return "none"

    def test_the_script_tells(self) -> None:
        for matmul, status, told in (
            (
                faulty("raises"),
                1,
                r"FAILURE --only numpy --seed 1 --case 5: KeyError: 'a'; matmul\(",
            ),
            (real, 0, "seed 1: numpy 1 calls, 0 failures"),
        ):
            with mock.patch.object(fuzz_python.gemm, "matmul", matmul):
                got, out = fuzz("--only", "numpy", "--seed", "1", "--case", "5")
            self.assertEqual(got, status, out)
            self.assertRegex(out, told)

    def test_options(self) -> None:
        for args in (["--minutes", "0"], ["--minutes", "nan"], ["--only", "x"], ["--case", "x"]):
            self.assertEqual(fuzz(*args)[0], 2)


if __name__ == "__main__":
    unittest.main()
