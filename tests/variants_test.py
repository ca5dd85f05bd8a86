"""Variants on the command line: --variant, --explain, --tune. VARIANT_BENCH is the path of a
gemm_bench whose only rung is tests/extra/v99_variants.cu."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

VARIANTS = ["1 column", "2 columns", "4 columns"]
SIM = ("--backend", "sim")


def bench(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [os.environ["VARIANT_BENCH"], *args], capture_output=True, text=True, timeout=300
    )


class Variants(unittest.TestCase):
    def entries(self, *args: str) -> list[dict]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "run.json")
            run = bench(*SIM, *args, "--json", str(file))
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            return json.loads(file.read_text())["benchmarks"]

    def test_all_run_each(self) -> None:
        found = self.entries("--variant", "all", "--shape", "33x18x5", "--dtype", "f32")
        name = "v99_variants/f32/nn/33x18x5"
        self.assertEqual([e["name"] for e in found], [f"{name}/variant:{v}" for v in VARIANTS])
        self.assertEqual([e["label"] for e in found], [f"variant {v}" for v in VARIANTS])
        self.assertTrue(all(e["verified"] == 1 for e in found))

    def test_what_does_not_fit_is_skipped(self) -> None:
        shapes = ("--shape", "33x17x5", "--shape", "33x18x5")
        found = self.entries("--variant", "2 columns", *shapes, "--dtype", "f32")
        self.assertIn("variant 2 columns does not take this problem", found[0]["error_message"])
        self.assertEqual(found[1]["verified"], 1)

    def test_the_rung_chooses(self) -> None:
        for shape, variant in (("33x17x5", "1 column"), ("256x256x5", "4 columns")):
            for entry in self.entries("--shape", shape):
                self.assertEqual(entry["label"], f"variant {variant}")
                self.assertNotIn("variant:", entry["name"])

    def test_explain(self) -> None:
        run = bench(*SIM, "--explain", "--shape", "33x17x5", "--shape", "4096x4096x8")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("33x17x5: 1 column\n    165 threads of 4 columns for 132 SMs", run.stdout)
        self.assertIn("4096x4096x8: 4 columns\n", run.stdout)
        self.assertNotIn("verified", run.stdout)

    def test_inspect(self) -> None:
        run = bench("--inspect", "--variant", "4 columns", "--dtype", "f32", "--size", "32")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("v99_variants", run.stdout)

    def refused(self, *args: str, names: str) -> None:
        with self.subTest(args=args):
            run = bench(*args)
            self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)
            self.assertRegex(run.stderr, names)

    def test_refused(self) -> None:
        self.refused(*SIM, "--variant", "9 columns", names="1 column.*2 columns.*4 columns.*all")
        self.refused(*SIM, "--tune", names="simulator has no time")
        self.refused("--tune", "--json", "x.json", names="--json")
        self.refused("--tune", "--explain", names="--explain")
        self.refused(*SIM, "--tune", "first", names="simulator has no time")
        self.refused(*SIM, "--tune=first", names="simulator has no time")
        self.refused("--tune", "last", names="bad --tune 'last'.*first")
        for flag in ("--inspect", "--explain", "--list", "--verify-only", "--no-tune-cache"):
            self.refused("--tune", "first", flag, names=f"{flag} does not go with --tune first")
        self.refused("--tune", "first", "--variant", "all", names="--variant")


if __name__ == "__main__":
    if not os.environ.get("VARIANT_BENCH"):
        sys.exit("set VARIANT_BENCH to the path of variant_bench")
    unittest.main()
