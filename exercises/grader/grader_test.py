"""Attempts that exit, crash, loop, fork, write or lie: each ends in one true sentence.

Needs GRADE_MISDEEDS, the path of the program of misdeeds/ex03_transposed/work.cu, EXERCISE_GRADER and
EXERCISES_GIVEN.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid
from pathlib import Path

ROOT = Path(__file__).parents[2]
GRADE = ROOT / "scripts" / "grade.sh"
GRADER, GIVEN = os.environ["EXERCISE_GRADER"], os.environ["EXERCISES_GIVEN"]
MISDEEDS = os.environ["GRADE_MISDEEDS"]
LIMIT = 3  # seconds
PASSED = "== ex03_transposed: passed, 7 of 7 checks."

WHERE = {
    "first": r"before main\(\) began",
    "static": r"before main\(\) began",
    "launch": r"at M = \d+, N = \d+, K = \d+",
    "kernel": r"at M = \d+, N = \d+, K = \d+",
}
ENDED = r"The program ended by itself \(exit {}\) {{}}; it was not judged\."
CRASHED = r"The program crashed {}: "
REFUSED = CRASHED + r"it tried to start another process or to write to a file \(SIGSYS\)"
LIED = r"The program wrote to the judge's channel {}; it was not judged\."
STOPPED = rf"The program was stopped {{}}, after {LIMIT} seconds: it did not end\."
ABORTED = CRASHED + r"aborted \(SIGABRT\)"
SEGFAULT = CRASHED + r"segmentation fault \(SIGSEGV\)"

# What is done, where, and the sentence; {} stands for the place.
CASES = [
    *[(place, deed, ENDED.format(0)) for place in ("static", "launch", "kernel")
      for deed in ("exit", "_exit", "quick_exit", "verdict on stdout")],
    *[(place, deed, LIED) for place in ("first", "static", "launch", "kernel")
      for deed in ("forge", "forge in form")],
    *[(place, "exit 7", ENDED.format(7)) for place in ("static", "launch", "kernel")],
    *[(place, deed, sentence) for place in ("static", "launch", "kernel") for deed, sentence in (
        ("abort", ABORTED),
        ("throw 42, noexcept", ABORTED),
        ("segfault", SEGFAULT),
        ("stack overflow", SEGFAULT),
        ("divide", CRASHED + r"arithmetic error \(SIGFPE\)"),
        ("loop", STOPPED),
        ("print and loop", STOPPED),
        ("fork", REFUSED),
        ("exec", REFUSED),
        ("fork and wait", REFUSED),
        ("daemon", REFUSED),
        ("fork bomb", REFUSED),
        ("write a file", REFUSED),
        ("append to a file", REFUSED),
        ("kill the grader", STOPPED),
    )],
    *[(place, deed, r"\d of \d checks failed\.") for place in ("launch", "kernel")
      for deed in ("throw 42", "throw error")],
    ("static", "throw 42", ABORTED),
    ("launch", "stop", STOPPED),
    ("kernel", "print forever", STOPPED),
    ("kernel", "fill memory", r"The program was stopped .*, because it used more than 0.5 GiB of memory\."),
    *[("first", deed, REFUSED) for deed in ("fork", "daemon", "write a file")],
    # What finds nothing to call: neither a verdict nor a list of tests is in the program.
    *[("launch", deed, r"1 of \d checks failed\.") for deed in ("wrong above 100",)],
    ("static", "hand in twice", r"exercises/.*/work\.cu: more than one line"),
    ("static", "another form", r"exercises/.*/work\.cu hands in another function than start\.cu: f32 leaky_relu, not f32"),
    ("launch", "compute on the host", r"[1-9] of \d checks failed\."),
]  # fmt: skip


def grade(
    program: str,
    kind: str,
    exercise: str,
    limit: int = LIMIT,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GRADER, "grade", program, kind, exercise, str(limit), "0.5"],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT + 60,
        env={**os.environ, **(environment or {})},
        cwd=ROOT,
    )


def processes_with(mark: str) -> list[str]:
    """Who has that text in the environment; a process that has ended has none."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark.encode() in environment.read_bytes():
                found.append(environment.parent.name)
        except OSError:
            continue
    return found


def left_over(mark: str) -> list[str]:
    end = time.monotonic() + 5  # who was killed is gone when it runs next
    while (found := processes_with(mark)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


class Misdeeds(unittest.TestCase):
    def misdeed(
        self, place: str, deed: str
    ) -> tuple[subprocess.CompletedProcess[str], float, list[str]]:
        mark = uuid.uuid4().hex
        begin = time.monotonic()
        environment = {"MISDEED": f"{place}:{deed}", "MARK": mark}
        run = grade(MISDEEDS, "work", "ex03_transposed", environment=environment)
        return run, time.monotonic() - begin, left_over(mark)

    def test_each_ends_in_one_sentence(self) -> None:
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = pool.map(lambda case: self.misdeed(*case[:2]), CASES)
            for (place, deed, sentence), (run, seconds, left) in zip(CASES, runs, strict=True):
                with self.subTest(place=place, deed=deed):
                    last = run.stdout.splitlines()[-1]
                    wanted = rf"== ex03_transposed: not passed\. {sentence.format(WHERE[place])}"
                    self.assertRegex(last, wanted)
                    self.assertEqual(run.returncode, 1)
                    self.assertEqual(run.stdout.count("== ex03_transposed: not passed"), 1)
                    self.assertNotRegex(run.stdout, r"[^\n\t\x20-\x7e]")
                    self.assertLess(len(run.stdout), 3 << 20)
                    self.assertLess(seconds, LIMIT + 10)
                    self.assertEqual(left, [], "processes left")

    def test_the_same_attempt_passes_without(self) -> None:
        run, _, left = self.misdeed("nowhere", "nothing")
        self.assertEqual(run.stdout.splitlines()[-1], PASSED)
        self.assertEqual((run.returncode, left), (0, []))

    def test_what_was_printed_is_not_lost(self) -> None:
        run, _, _ = self.misdeed("kernel", "print and loop")
        self.assertIn("ex03_transposed, work.cu\n  | before the loop\n== ", run.stdout)

    def test_what_it_can_do_that_is_harmless_changes_nothing(self) -> None:
        for deed in ("delete a file", "open a socket", "lift its limits"):
            run, _, _ = self.misdeed("static", deed)
            self.assertEqual(run.stdout.splitlines()[-1], PASSED)
        self.assertTrue(Path(__file__).is_file())

    def test_nothing_that_judges_is_in_the_program(self) -> None:
        symbols = subprocess.run(
            ["nm", "-C", MISDEEDS], check=True, capture_output=True, text=True
        ).stdout
        self.assertIn("gemm::grading::add(", symbols)
        self.assertNotRegex(symbols, r"gemm::(grading::(Grader|Test|tests)|own::Attempt)\b")

    def test_what_is_thrown_is_told(self) -> None:
        run, _, _ = self.misdeed("launch", "throw error")
        self.assertIn("launch() threw an exception: no such tile", re.sub(r"\s+", " ", run.stdout))
        run, _, _ = self.misdeed("launch", "throw 42")
        self.assertIn("launch() threw something that is no", re.sub(r"\s+", " ", run.stdout))

    def test_ended_grader_takes_the_attempt_along(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number.name):
                mark = uuid.uuid4().hex
                run = subprocess.Popen(
                    [GRADER, "grade", MISDEEDS, "work", "ex03_transposed"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env={**os.environ, "MISDEED": "kernel:print and loop", "MARK": mark},
                )
                assert run.stdout is not None
                run.stdout.readline()  # it has begun
                run.send_signal(number)
                run.communicate(timeout=10)
                self.assertEqual(run.returncode, -number)
                self.assertEqual(left_over(mark), [])


class Sources(unittest.TestCase):
    """What a file may not be, by the text alone: the grader refuses it before it is run."""

    def refused(self, text: str, exercise: str = "ex09_bias") -> str:
        with tempfile.TemporaryDirectory() as folder:
            to = Path(folder, "exercises", exercise)
            shutil.copytree(ROOT / "exercises" / exercise, to)
            (to / "work.cu").write_text(text)
            run = subprocess.run(
                [GRADER, "grade", GIVEN, "work", exercise],
                check=False, capture_output=True, text=True, cwd=folder,
            )  # fmt: skip
            self.assertEqual(run.returncode, 1)
            return run.stdout.splitlines()[-1]

    def test_includes(self) -> None:
        for line in (
            '#include "solution.cu"',
            '# include "../ex09_bias/solution.cu"',
            "#include <../exercises/ex09_bias/solution.cu>",
            '%:include "solution.cu"',
            '#inc\\\nlude "solution.cu"',
            '#inc\\ \nlude "solution.cu"',
            '/**/ # /* */ include "solution.cu"',
            '#/*\n// */ include "solution.cu"',
            '#define FILE "solution.cu"\n#include FILE',
            '#include_next "solution.cu"',
            '#import "solution.cu"',
            '#include "grader/grader.h"',
            '#include "grader/submission.h"',
            '#include "device/../../exercises/ex09_bias/solution.cu"',
            '#include "/tmp/solution.cu"',
            'asm(".incbin \\"solution.o\\"");',
        ):
            with self.subTest(line=line):
                self.assertRegex(self.refused(f"{line}\nint x;\n"), "it may include the standard's")

    def test_what_exercises_include(self) -> None:
        for exercise in sorted((ROOT / "exercises").glob("ex*/")):
            text = (exercise / "start.cu").read_text() + "// we include <what we need>\n"
            with self.subTest(exercise=exercise.name):
                # The program of given files has no work.cu: so far the source is taken.
                self.assertIn("hands in nothing", self.refused(text, exercise.name))

    def test_copied_solution(self) -> None:
        for exercise, copied in (("ex09_bias", True), ("ex02_checker", False)):
            text = (ROOT / "exercises" / exercise / "solution.cu").read_text()
            self.assertEqual("a copy of solution.cu" in self.refused(text, exercise), copied)


class Given(unittest.TestCase):
    def last(self, kind: str, exercise: str) -> tuple[str, int]:
        run = grade(GIVEN, kind, exercise, 60)
        return run.stdout.splitlines()[-1], run.returncode

    def test_start_and_solution(self) -> None:
        hint = "A hint: exercises/ex01_beta_zero/hint.md"
        self.assertEqual(
            self.last("start", "ex01_beta_zero"),
            (f"== ex01_beta_zero: not passed. 2 of 2 checks failed. {hint}", 1),
        )
        self.assertEqual(
            self.last("solution", "ex01_beta_zero"),
            ("== ex01_beta_zero: passed, 3 of 3 checks.", 0),
        )

    def test_nothing_handed_in(self) -> None:
        last, status = self.last("work", "ex01_beta_zero")
        self.assertRegex(last, r"not passed\. exercises/ex01_beta_zero/work\.cu hands in nothing")
        self.assertEqual(status, 1)

    def test_bad_command(self) -> None:
        def status(*command: str | Path) -> tuple[int, str]:
            run = subprocess.run(command, check=False, capture_output=True, text=True)
            return run.returncode, run.stderr

        for limit in ("0", "x", "nan"):
            self.assertEqual(status(GRADER, "grade", GIVEN, "start", "ex01", limit)[0], 2)
            self.assertEqual(
                status(GRADE, "--limit", limit, "ex01"),
                (2, f"--limit {limit}: allowed are 1 to 99999 seconds\n"),
            )
        self.assertEqual(
            status(GRADE, "--begin"),
            (2, "no option --begin; there are: --solution --start --limit --help\n"),
        )
        self.assertEqual(
            status(GRADER, "grade", "/nonexistent", "start", "ex01"),
            (3, "/nonexistent: No such file or directory\n"),
        )


if __name__ == "__main__":
    unittest.main()
