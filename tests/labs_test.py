"""The labs: each solution passes its lab, and each start, the solution before, fails by counters.

In the simulator; with `nvcc` as argument: that nvcc compiles the bare files, without a warning.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import lab  # noqa: E402

LABS = lab.load_labs()
FILES = [LABS[0].start, *(each.solution for each in LABS)]
PLAIN = [*FILES, ROOT / "labs/v10/wmma.cu"]  # which nvcc alone can compile


class Files(unittest.TestCase):
    def test_are_short_and_plain(self) -> None:
        for file in PLAIN:
            with self.subTest(file.name):
                lines = file.read_text(encoding="utf-8").splitlines()
                self.assertLessEqual(len(lines), 150)
                self.assertLessEqual(max(map(len, lines)), 100)
                included = {line for line in lines if line.startswith('#include "')}
                self.assertEqual(included, {'#include "../main.h"'})
                self.assertEqual(lines[-1], '#include "../main.h"')


class Grading(unittest.TestCase):
    reports: dict[Path, lab.Report]

    @classmethod
    def setUpClass(cls) -> None:
        cls.reports = dict(zip(FILES, lab.look(FILES)))

    def test_solutions_pass(self) -> None:
        for each in LABS:
            with self.subTest(each.id):
                self.assertTrue(lab.grade(each, self.reports[each.solution]))

    def test_starts_fail_by_counters_alone(self) -> None:
        for each in LABS:
            with self.subTest(each.id):
                report = self.reports[each.start]
                self.assertEqual((report.wrong, report.findings), ([], []))
                self.assertFalse(all(goal.reached(report.counters) for goal in each.goals))

    def test_tables_tell_the_starts_counters(self) -> None:
        for each in LABS:
            for goal in each.goals:
                with self.subTest(each.id, counter=goal.counter):
                    value = goal.value(self.reports[each.start].counters)
                    self.assertAlmostEqual(value, goal.start, places=6)


class Nvcc(unittest.TestCase):
    def test_compiles_each_file(self) -> None:
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
        if nvcc is None:
            self.skipTest("no nvcc")
        for file in PLAIN:
            with self.subTest(file.name):
                flags = ["-std=c++17", "-arch=sm_80", "-Werror=all-warnings", "-Xptxas=-v"]
                command = [nvcc, *flags, str(file), "-o", "/dev/null"]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotRegex(done.stderr, r"[1-9]\d* bytes (stack frame|spill)")


if __name__ == "__main__":
    chosen = ["Nvcc"] if sys.argv[1:] == ["nvcc"] else ["Files", "Grading"]
    unittest.main(defaultTest=chosen, argv=sys.argv[:1])
