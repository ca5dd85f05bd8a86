"""The labs: each solution passes its lab; each start, the solution before, fails by counters, and a
solution with a mistake by what it breaks.

In the simulator; with `nvcc` as argument: that nvcc compiles the bare files, without a warning.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import lab  # noqa: E402

PTX = ROOT / "src/device/ptx"
LABS = lab.load_labs()
FILES = [LABS[0].start, *(each.solution for each in LABS)]
PLAIN = [*FILES, ROOT / "labs/v10/wmma.cu"]  # which nvcc alone can compile
HOPPER = '#include "../hopper.h"'
MOST = 8  # files on a page of the microscope

STOPPED = (
    r"results block 0: deadlock: .*lacks 16384 bytes of those announced ok type: f16 "
    "- counters: not judged, the run stopped$"
)
MAP_A, TEMPORARY = "tensor_map(a.base, M, K, a.ld, BM)", "AlignedRows(A, M, K, lda, stream).base"
# A mistake in a lab's solution, and what the grading says of it.
MISTAKES = (
    ("v5", "(N | K | lda", "(K | lda", "wrong at 128 x 129 x 128 with lda = 136, ldb = 136, ldc"),
    ("v5", "(N | K | lda", "(N | lda", "wrong at 128 x 128 x 135 with lda = 136, ldb = 128, ldc"),
    ("v5", "ldb | ldc)", "ldb)", "with lda = 128, ldb = 128, ldc = 129: .* counters: not judged"),
    ("v5", " | (size_t)C)", ")", r"C one element past .*mistake\d+\.cu:44\), which"),
    ("v8", "fetch(k0 + BK);", "fetch(k0 + BK), commit(stage ^ 1);", r"FAILED loads\.ahead: 0"),
    ("v17t", "sizeof s.A +", "2 * sizeof s.A +", STOPPED),
    ("v17t", "mbarrier_wait(&s.full, k_tile % 2);", "", "TMA load at .* wait for its mbarrier"),
    ("v17w", "sizeof s.B[0]", "0", "they are in columns 64 to 127 of every 128 ok"),
    ("v17w", "sizeof s.B[0]", "65536", "up to byte 81935, .*leading 65536, stride 1024, swizzled"),
    ("v18", "  }\n  __syncthreads();", "  }", "thread 0 .* writes at .*nothing orders the two"),
    ("v18", MAP_A, f"[&] {{ return {MAP_A.replace('a.base', TEMPORARY)}; }}()", "has been freed"),
    ("v18", "phase % 2", "k_tile % 2", "nobody has waited for its mbarrier"),
    ("v19", "if (k_tile > 0 && tid == 0)", "if (false)", "deadlock: .*lacks 1 of 1 arrivals"),
    ("v19", "wgmma_wait<1>", "wgmma_wait<0>", r"FAILED products\.idle_steps"),
    ("v24", "setmaxnreg_inc<232>", "setmaxnreg_inc<240>", "want 66560 .*them 64512 at most"),
    ("v24", "if (k_tiles > 0) mbarrier_wait", "mbarrier_wait", "512 x 512 x 0: .*deadlock"),
    ("v24", "if (k_tiles > 0) mbarrier_wait", "if (false) mbarrier_wait", "nobody has written yet"),
)


def instructions(text: str) -> set[str]:
    """The PTX of a header's asm statements."""
    statements = re.findall(r'(?:asm volatile|ASM)\(\s*((?:"[^"]*"\s*)+)', text)
    return {"".join(re.findall(r'"([^"]*)"', each)) for each in statements} - {""}


def look(wanted: list[tuple[Path, str]]) -> dict[tuple[Path, str], lab.Report]:
    """Reports of files at shapes, of several files at once."""
    reports: dict[tuple[Path, str], lab.Report] = {}
    for shape in sorted({shape for _, shape in wanted}):
        files = list(dict.fromkeys(file for file, its in wanted if its == shape))
        for some in (files[i : i + MOST] for i in range(0, len(files), MOST)):
            reports |= zip([(file, shape) for file in some], lab.look(some, shape))
    return reports


def said_of(its: lab.Lab, report: lab.Report) -> str:
    """What the grading prints, as one line."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        lab.grade(its, report)
    return " ".join(said.getvalue().split())


class Files(unittest.TestCase):
    def test_are_short_and_plain(self) -> None:
        for file in PLAIN:
            with self.subTest(file.name):
                lines = file.read_text(encoding="utf-8").splitlines()
                self.assertLessEqual(len(lines), 150)
                self.assertLessEqual(max(map(len, lines)), 100)
                included = {line for line in lines if line.startswith('#include "')} - {HOPPER}
                self.assertEqual(included, {'#include "../main.h"'})
                self.assertEqual(lines[-1], '#include "../main.h"')

    def test_instructions_are_those_of_the_rungs(self) -> None:
        theirs = "".join(p.read_text(encoding="utf-8") for p in PTX.glob("*.cuh"))
        mine = instructions((ROOT / "labs/hopper.h").read_text(encoding="utf-8"))
        self.assertGreater(len(mine), 10)
        product = {each for each in mine if each.startswith("wgmma.mma_async")}  # a macro's there
        self.assertEqual(mine - product - instructions(theirs), set())


class CommandLine(unittest.TestCase):
    def test_options_may_stand_before_the_file(self) -> None:
        command = [sys.executable, "scripts/lab.py", "v2", "--predict", "1", "no_such.cu"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no file no_such.cu", done.stderr)


class Grading(unittest.TestCase):
    reports: dict[tuple[Path, str], lab.Report]

    @classmethod
    def setUpClass(cls) -> None:
        cls.reports = look([(f, each.shape) for each in LABS for f in (each.start, each.solution)])

    def test_solutions_pass(self) -> None:
        for each in LABS:
            with self.subTest(each.id):
                self.assertTrue(lab.grade(each, self.reports[each.solution, each.shape]))

    def test_starts_fail_by_counters_alone(self) -> None:
        for each in LABS:
            with self.subTest(each.id):
                report = self.reports[each.start, each.shape]
                self.assertEqual((report.wrong, report.findings), ([], []))
                self.assertFalse(all(goal.reached(report.counters) for goal in each.goals))

    def test_tables_tell_the_starts_counters(self) -> None:
        for each in LABS:
            for goal in each.goals:
                with self.subTest(each.id, counter=goal.counter):
                    value = goal.value(self.reports[each.start, each.shape].counters)
                    self.assertAlmostEqual(value, goal.start, places=6)

    def test_mistakes_are_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            wrong: dict[tuple[Path, str], tuple[lab.Lab, str]] = {}
            for i, (name, right, mistake, sentence) in enumerate(MISTAKES):
                its = lab.find_lab(name)
                text = its.solution.read_text(encoding="utf-8")
                self.assertIn(right, text)
                file = Path(folder) / f"mistake{i}.cu"
                file.write_text(text.replace(right, mistake), encoding="utf-8")
                wrong[file, its.shape] = its, sentence
            for key, report in look(list(wrong)).items():
                its, sentence = wrong[key]
                with self.subTest(its.id, sentence=sentence):
                    self.assertRegex(said_of(its, report), sentence)


class Lines(unittest.TestCase):
    def test_copies_of_a_and_b_have_their_own(self) -> None:
        start = lab.find_lab("v4").start
        with lab.Run([start], lab.SHAPE, "--inspect") as run:
            (seen,) = run.result()[1]
        loads = [
            each for each in seen["lines"] if each["access"] == "load" and each["memory"] in "AB"
        ]
        sectors = {each["memory"]: each["sectors"] / each["requests"] for each in loads}
        self.assertEqual(sectors, {"A": 1, "B": 16})
        self.assertEqual(len({each["line"] for each in loads}), 2)


class Nvcc(unittest.TestCase):
    def test_compiles_each_file(self) -> None:
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
        if nvcc is None:
            self.skipTest("no nvcc")
        for file in PLAIN:
            with self.subTest(file.name):
                arch = "sm_90a" if HOPPER in file.read_text(encoding="utf-8") else "sm_80"
                flags = ["-std=c++17", f"-arch={arch}", "-Werror=all-warnings", "-Xptxas=-v"]
                command = [nvcc, *flags, str(file), "-o", "/dev/null"]
                done = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotRegex(done.stderr, r"[1-9]\d* bytes (stack frame|spill)")


if __name__ == "__main__":
    chosen = ["Nvcc"] if sys.argv[1:] == ["nvcc"] else ["Files", "CommandLine", "Lines", "Grading"]
    unittest.main(defaultTest=chosen, argv=sys.argv[:1])
