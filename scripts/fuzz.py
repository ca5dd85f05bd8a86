#!/usr/bin/env python3
"""Runs gemm_bench on random commands, for as long as asked, in the simulator.

scripts/fuzz.py --minutes 60                 random seed; it is printed
scripts/fuzz.py --minutes 5 --only cli       a class alone: rungs, layouts, inspect, shapes, cli, tuning
scripts/fuzz.py --seed 7 --case 123          one command again

What must hold: exit status 0 (something was verified, nothing wrong), 2 (one line on stderr) or 3;
no crash, no sanitizer's report, every byte text; JSON that is JSON and agrees with the table; no
findings by --inspect; the same output a second time. A failure is shrunk to the smallest command
that shows it. Exit status 0: no failure, 1: some, 2: bad options.

GEMM_BENCH names another executable, as of a build with sanitizers.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import math
import os
import secrets
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path

from fuzzing import check
from fuzzing.cases import COPY_TUNING, KINDS, Case, Program, make
from fuzzing.check import Runner, Violation
from fuzzing.shrink import shrink

ROOT = Path(__file__).resolve().parent.parent
TWICE = 4  # every fourth command of a class is run a second time
SHRUNK = 2  # failures of one form that are shrunk and shown; more are counted
PROGRESS = 60  # seconds between two lines where there is no terminal


class Fuzzer:
    def __init__(
        self, runner: Runner, program: Program, seed: int, kinds: tuple[str, ...], shrink: float
    ) -> None:
        self.runner, self.program, self.seed, self.kinds = runner, program, seed, kinds
        self.shrink = shrink  # seconds for one failure
        self.lock = threading.Lock()  # of what follows
        self.cases: Counter[str] = Counter()
        self.statuses: defaultdict[str, Counter[int]] = defaultdict(Counter)
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.failures: Counter[str] = Counter()
        self.forms: Counter[tuple[str, str]] = Counter()

    def judge(self, case: Case, twice: bool) -> tuple[Violation | None, float]:
        """What does not hold, and the seconds that one run takes."""
        result = self.runner.run(case)
        with self.lock:
            self.statuses[case.kind][result.status] += 1
            self.seconds[case.kind] += result.seconds
        found = check.violation(case, result, self.program)
        if found is None and twice:
            found = check.difference(case, result, self.runner.run(case))
        return found, result.seconds

    def one(self, number: int) -> None:
        try:
            self.try_one(number)
        except Exception as e:
            raise RuntimeError(f"seed {self.seed}, case {number}") from e

    def try_one(self, number: int) -> None:
        case = make(self.seed, number, self.kinds, self.program)
        found, seconds = self.judge(case, number // len(self.kinds) % TWICE == 0)
        with self.lock:
            self.cases[case.kind] += 1
            if found is None:
                return
            self.failures[case.kind] += 1
            self.forms[found.form] += 1
            if self.forms[found.form] > SHRUNK:
                return
        form = found.form

        def still_fails(smaller: Case) -> bool:
            again, longer = self.judge(smaller, form[0] == "twice")
            # Fewer words may ask for more work.
            return again is not None and again.form == form and longer < 2 * seconds + 1

        smallest = shrink(case, still_fails, self.shrink)
        last = self.judge(smallest, form[0] == "twice")[0] or found
        with self.lock:
            clear_progress()
            print(f"\nFAILURE ({last.name}): {last.detail}")
            print(f"# --seed {self.seed} --only {','.join(self.kinds)} --case {number}")
            print(smallest.shell(), flush=True)

    def line(self, seconds: float) -> str:
        classes = ", ".join(f"{kind} {self.cases[kind]}" for kind in dict.fromkeys(self.kinds))
        failures = sum(self.failures.values())
        minutes = f"{seconds // 60:.0f}:{seconds % 60:02.0f}"
        return f"{minutes}  {sum(self.cases.values())} commands ({classes}), {failures} failures"

    def summary(self, seconds: float) -> str:
        rows = [f"{'class':<9}{'commands':>9}{'failures':>9}{'seconds':>9}   runs by exit status"]
        for kind in dict.fromkeys(self.kinds):
            statuses = ", ".join(f"{s}: {n}" for s, n in sorted(self.statuses[kind].items()))
            rows.append(
                f"{kind:<9}{self.cases[kind]:>9}{self.failures[kind]:>9}"
                f"{self.seconds[kind]:>9.0f}   {statuses}"
            )
        for form, count in self.forms.items():
            if count > SHRUNK:
                rows.append(f"{count} failures of one form: {form[0]}: {form[1]}")
        return "\n".join(["", *rows, "", f"{self.line(seconds)}, seed {self.seed}"])


def clear_progress() -> None:
    if sys.stderr.isatty():
        print("\r\033[2K", end="", file=sys.stderr, flush=True)


def fuzz(fuzzer: Fuzzer, minutes: float, workers: int, numbers: list[int] | None) -> None:
    begin = time.monotonic()
    end = begin + 60 * minutes
    shown = begin
    todo = iter(numbers) if numbers is not None else itertools.count()
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        running: set[concurrent.futures.Future[None]] = set()
        while True:
            while len(running) < workers and (numbers is not None or time.monotonic() < end):
                number = next(todo, None)
                if number is None:
                    break
                running.add(pool.submit(fuzzer.one, number))
            if not running:
                return
            done, running = concurrent.futures.wait(running, 1, concurrent.futures.FIRST_COMPLETED)
            for future in done:
                future.result()  # an error of this script ends it
            now = time.monotonic()
            if sys.stderr.isatty():
                print(f"\r{fuzzer.line(now - begin)}\033[K", end="", file=sys.stderr, flush=True)
            elif now > shown + PROGRESS:
                shown = now
                print(fuzzer.line(now - begin), flush=True)


def a_number(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise ValueError(text)
    return value


def some_kinds(text: str) -> tuple[str, ...]:
    kinds = tuple(text.split(","))
    if not set(kinds) <= set(KINDS):
        raise argparse.ArgumentTypeError(f"'{text}': choose from {', '.join(KINDS)}")
    return kinds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=a_number, default=1, help="how long (1)")
    parser.add_argument("--seed", type=int, help="for the same commands again")
    parser.add_argument("--only", type=some_kinds, default=KINDS, help="classes, by commas")
    parser.add_argument("--case", type=int, help="only the command of this number")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="(all cores)")
    parser.add_argument("--shrink", type=float, default=60, help="seconds a failure (60)")
    parser.add_argument("--timeout", type=a_number, default=60, help="seconds a command (60)")
    args = parser.parse_args()

    bench = Path(os.environ.get("GEMM_BENCH", ROOT / "gemm_bench")).resolve()
    if not bench.is_file():
        parser.error(f"no executable '{bench}': build it, or let GEMM_BENCH name it")
    beside = Path(os.environ.get("COPY_TUNING", bench.parent / "tests" / COPY_TUNING))
    copy_tuning = beside.resolve() if beside.is_file() else None
    kinds = args.only
    if copy_tuning is None and "tuning" in kinds:
        print(f"no executable '{beside}', without which the class tuning is left out")
        kinds = tuple(kind for kind in kinds if kind != "tuning")
    seed = args.seed if args.seed is not None else secrets.randbelow(10**9)
    print(f"seed {seed}, {args.workers} workers", flush=True)

    fuzzer = Fuzzer(
        Runner(bench, copy_tuning, args.timeout), check.ask(bench), seed, kinds, args.shrink
    )
    begin = time.monotonic()
    numbers = None if args.case is None else [args.case]
    for number in (signal.SIGINT, signal.SIGTERM):  # both end it with its summary
        signal.signal(number, signal.default_int_handler)
    try:
        fuzz(fuzzer, args.minutes, max(1, args.workers), numbers)
    except KeyboardInterrupt:
        pass
    clear_progress()
    print(fuzzer.summary(time.monotonic() - begin))
    return 1 if fuzzer.failures else 0


if __name__ == "__main__":
    sys.exit(main())
