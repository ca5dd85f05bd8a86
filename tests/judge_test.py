"""gemm_ladder.judge on NumPy functions, in the simulator: the right one, wrong ones and cheats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).parents[1]

FUNCTIONS = """
import os, sys
import numpy as np

def right(a, b):
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(a.dtype)

def with_out(a, b, out):
    out[...] = (a.astype(np.float64) @ b.astype(np.float64)).astype(out.dtype)

def half_sums(a, b):
    return (a.astype(np.float16) @ b.astype(np.float16)).astype(a.dtype)

def transposed(a, b):
    return right(a, b).T.copy()

def tf32(a, b):
    cut = lambda x: ((x.view(np.uint32) + 0x1000) & ~np.uint32(0x1fff)).view(np.float32)
    return right(cut(np.ascontiguousarray(a)), cut(np.ascontiguousarray(b)))

kept = {}
def by_shape(a, b):
    return kept.setdefault((a.shape, b.shape, a[0, 0], b[0, 0]), right(a, b))

def changes_a(a, b):
    c = right(a, b)
    a[0, 0] = 0
    return c

def nothing(a, b, out):
    pass

def wrong_shape(a, b):
    return right(a, b)[:-1]

def raises(a, b):
    raise RuntimeError("not today")

def sys_exit(a, b):
    sys.exit(0)

def os_exit(a, b):
    os._exit(0)

def contiguous(a, b, out):
    flat = np.frombuffer(a.base if a.base is not None else a, np.float32)
    out[...] = right(flat[: a.size].reshape(a.shape), b)
"""

CASES = {
    "half_sums": (1, r"WRONG: sums of integers"),
    "transposed": (1, r"likely: the result is transposed"),
    "tf32": (1, r"WRONG: .*bit for bit"),
    "by_shape": (1, r"have changed"),
    "changes_a": (1, r"A is an input, and was overwritten"),
    "nothing": (1, r"likely: C is not written"),
    "wrong_shape": (1, r"the result is \(63, 64\), not \(64, 64\)"),
    "raises": (1, r"the function raised RuntimeError: not today"),
    "sys_exit": (1, r"the function raised SystemExit"),
    "os_exit": (1, r"the function ended its process \(exit 0\) before it was judged"),
}


class Judge(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name, "functions.py")
        self.file.write_text(FUNCTIONS)

    def judge(self, function: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "gemm_ladder.judge", f"{self.file}:{function}",
             "--backend", "simulator", *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python"), "OPENBLAS_NUM_THREADS": "1"},
            capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip

    def test_right_ones(self) -> None:
        out = self.file.parent / "out.json"
        for function, dtype in (("right", "float32"), ("right", "f16"), ("with_out", "f16_f32")):
            for layout in ("nn", "nt"):
                done = self.judge(
                    function, "--dtype", dtype, "--layout", layout, "--shapes", "64,33x65x40",
                    "--json", str(out),
                )  # fmt: skip
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("2 verified, 0 wrong, 0 skipped", done.stdout)
        names = [b["name"] for b in json.loads(out.read_text())["benchmarks"]]
        self.assertEqual(names, [f"with_out/f16_f32/nt/{s}" for s in ("64x64x64", "33x65x40")])

    def test_each_wrong_one_is_named(self) -> None:
        for function, (status, sentence) in CASES.items():
            with self.subTest(function):
                done = self.judge(function, "--shapes", "64")
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                self.assertRegex(done.stdout + done.stderr, sentence)

    def test_rows_without_gaps_alone(self) -> None:
        self.assertEqual(self.judge("contiguous", "--shapes", "64").returncode, 1)
        done = self.judge("contiguous", "--shapes", "64", "--contiguous")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_bad_input(self) -> None:
        for arguments, sentence in (
            (("missing",), "has no function 'missing'"),
            (("right", "--dtype", "int8"), "allowed are float32"),
            (("right", "--shapes", "64x"), "want 4096, 512x64x128"),
        ):
            done = self.judge(*arguments)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn(sentence, done.stderr)


if __name__ == "__main__":
    unittest.main()
