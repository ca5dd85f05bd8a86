"""Attempts that exit, crash, loop, fork or lie: each ends in one true sentence, and nothing is left.

Needs GRADE_MISDEEDS, the path of the executable of misdeeds/ex03_transposed/work.cu, and
EXERCISE_GRADER.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import signal
import subprocess
import sys
import time
import unittest
import uuid
from pathlib import Path

SUPERVISE = Path(__file__).parent / "supervise.py"
GRADE = SUPERVISE.parents[2] / "scripts" / "grade.sh"
MISDEEDS, GIVEN = os.environ["GRADE_MISDEEDS"], os.environ["EXERCISE_GRADER"]
LIMIT = 3  # seconds

WHERE = {
    "first": r"before main\(\) began",
    "static": r"before main\(\) began",
    "launch": r"at M = \d+, N = \d+, K = \d+",
    "kernel": r"at M = \d+, N = \d+, K = \d+",
}
ENDED = r"The program ended by itself \(exit {}\) {{}}; it was not graded\."
CRASHED = r"The program crashed {}: "
STARTED = r"The program was stopped .*, because it started another process\."
REFUSED = CRASHED + r"it tried to start another process \(SIGSYS\), which is not allowed\."
STOPPED = rf"The program was stopped {{}}, after {LIMIT} seconds: it did not end\."
ABORTED = CRASHED + r"aborted \(SIGABRT\)"
SEGFAULT = CRASHED + r"segmentation fault \(SIGSEGV\)"

# What is done, where, and the sentence; {} stands for the place.
CASES = [
    *[(place, deed, ENDED.format(0)) for place in ("static", "launch", "kernel")
      for deed in ("exit", "_exit", "quick_exit", "exec", "verdict on stdout", "forge")],
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
        ("fork and wait", REFUSED),
        ("daemon", REFUSED),
        ("fork bomb", REFUSED),
    )],
    *[(place, deed, r"\d of \d checks failed\.") for place in ("launch", "kernel")
      for deed in ("throw 42", "throw error")],
    ("static", "throw 42", ABORTED),
    ("launch", "stop", STOPPED),
    ("kernel", "print forever", STOPPED),
    ("kernel", "fill memory", r"The program was stopped .*, because it used more than 0.5 GiB of memory\."),
    # The second net, for what starts before verdict.cpp's rule or where the system has no such rule.
    *[("first", deed, STARTED) for deed in ("fork", "fork and wait", "daemon")],
]  # fmt: skip


def supervise(
    command: list[str], environment: dict[str, str], limit: int = LIMIT
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SUPERVISE, "--limit", str(limit), "--memory", "0.5", *command],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT + 60,
        env={**os.environ, **environment},
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
        run = supervise([MISDEEDS, "work", "ex03_transposed"], environment)
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
        self.assertEqual(run.stdout.splitlines()[-1], "== ex03_transposed: passed, 6 of 6 checks.")
        self.assertEqual((run.returncode, left), (0, []))

    def test_what_was_printed_is_not_lost(self) -> None:
        run, _, _ = self.misdeed("kernel", "print and loop")
        self.assertIn("ex03_transposed, work.cu\nbefore the loop\n== ", run.stdout)

    def test_what_is_thrown_is_told(self) -> None:
        run, _, _ = self.misdeed("launch", "throw error")
        self.assertIn("launch() threw an exception: no such tile", re.sub(r"\s+", " ", run.stdout))
        run, _, _ = self.misdeed("launch", "throw 42")
        self.assertIn("launch() threw something that is no", re.sub(r"\s+", " ", run.stdout))

    def test_killed_supervisor_takes_the_attempt_along(self) -> None:
        run, _, left = self.misdeed("launch", "kill the supervisor")
        self.assertEqual((run.returncode, left), (-signal.SIGKILL, []))

    def test_interrupted_supervisor_takes_the_attempt_along(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number.name):
                mark = uuid.uuid4().hex
                run = subprocess.Popen(
                    [sys.executable, SUPERVISE, MISDEEDS, "work", "ex03_transposed"],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env={**os.environ, "MISDEED": "kernel:print and loop", "MARK": mark},
                )
                assert run.stdout is not None
                run.stdout.readline()  # it has begun
                run.send_signal(number)
                text, _ = run.communicate(timeout=10)
                self.assertEqual(run.returncode, 128 + number)
                self.assertNotIn("Traceback", text)
                self.assertEqual(left_over(mark), [])


class Given(unittest.TestCase):
    def last(self, *args: str) -> tuple[str, int]:
        run = supervise([GIVEN, *args], {}, 60)
        return run.stdout.splitlines()[-1], run.returncode

    def test_start_and_solution(self) -> None:
        hint = "A hint: exercises/ex01_beta_zero/hint.md"
        self.assertEqual(
            self.last("start", "ex01_beta_zero"),
            (f"== ex01_beta_zero: not passed. 2 of 2 checks failed. {hint}", 1),
        )
        self.assertEqual(
            self.last("solution", "ex01_beta_zero"),
            ("== ex01_beta_zero: passed, 2 of 2 checks.", 0),
        )

    def test_nothing_handed_in(self) -> None:
        last, status = self.last("work", "ex01_beta_zero")
        self.assertRegex(last, r"not passed\. exercises/ex01_beta_zero/work\.cu hands in nothing")
        self.assertEqual(status, 1)

    def test_bad_command(self) -> None:
        def status(*command: str | Path) -> tuple[int, str]:
            run = subprocess.run(command, check=False, capture_output=True, text=True)
            return run.returncode, run.stderr

        for args in (["--limit", "0"], ["--limit", "x"], ["--limit", "nan"]):
            self.assertEqual(status(SUPERVISE, *args, GIVEN, "start", "ex01_beta_zero")[0], 2)
            self.assertEqual(
                status(GRADE, *args, "ex01"),
                (2, f"--limit {args[1]}: allowed are 1 to 99999 seconds\n"),
            )
        self.assertEqual(
            status(GRADE, "--begin"),
            (2, "no option --begin; there are: --solution --start --limit --help\n"),
        )
        self.assertEqual(
            status(SUPERVISE, "/nonexistent", "start", "ex01"),
            (3, "/nonexistent: No such file or directory\n"),
        )


if __name__ == "__main__":
    unittest.main()
