#!/usr/bin/env python3
"""Breaks the rungs on purpose, one line at a time, and sees whether the tests notice.

    scripts/mutate.py [--only TEXT] [--sample N [--seed S]] [--jobs 2] [--json FILE]
    scripts/mutate.py --list

Each entry of scripts/common/mutations.py is a mutant: a file, a text that occurs once in it, what takes its
place, and what that breaks. For each, a copy of the sources is changed, the rungs that it concerns
are compiled for the simulator, plain and traced, and linked into the tests that the build folder
has; nothing in the tree is touched. Then, until something fails:

    tiles     tile_tests, of the tile layer's headers
    results   gemm_tests on these rungs: every shape, layout and scalar, against double precision
    findings  inspect_tests on them: races, bounds, missing waits, under both schedules of copies
    counters  inspect_tests: the traffic that a rung's idea is about

Exit status 1: a mutant survived that should be caught, or was caught though the list says that it
cannot be. An entry whose text is no longer there, or does not compile, is bad input: status 2.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from common.ladder import ROOT, BadInput, fail, find_rung, load_rungs
from common.mutations import BEYOND, CAUGHT, MUTATIONS, Mutation

TIME_LIMIT = 600  # seconds for one test program: a mutant may hang
RESULTS, INSPECTIONS, TILES = "tests/gemm_tests", "tests/inspect_tests", "tests/tile_tests"
PROGRAMS = (RESULTS, INSPECTIONS, TILES)
TILE_TEST = "tile_tests.dir/tile_test.cpp.o"
BUILDS = ("rungs_sim", "rungs_traced")
# Check, test program, filter; {} is a rung's file without its suffix.
CHECKS = (
    ("tiles", TILES, "*"),
    ("results", RESULTS, "Sim/*/{}_*"),
    ("findings", INSPECTIONS, "Sim/*/{}_*"),
    ("counters", INSPECTIONS, "Counters.*"),
)


@dataclass
class Outcome:
    mutation: Mutation
    caught_by: str  # a check; empty: it survived
    test: str  # that failed first
    seconds: float
    broken: str = ""  # why the entry is bad input

    @property
    def as_expected(self) -> bool:
        if self.mutation.expected == BEYOND:  # a lucky order of threads may show it
            return True
        return bool(self.caught_by) == (self.mutation.expected == CAUGHT)


class Build:
    """The commands of a build folder, and where their paths lead for a mutant."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            done = subprocess.run(
                ["ninja", "-t", "commands", *PROGRAMS],
                cwd=folder,
                check=False,
                capture_output=True,
                text=True,
            )
        except OSError as error:
            raise BadInput(
                f"ninja in {folder}: {error.strerror}; build with a preset first"
            ) from None
        if done.returncode != 0:
            raise BadInput(f"{folder}: {(done.stderr or done.stdout).strip()}; build it first")
        self.compile: dict[tuple[str, str], list[str]] = {}  # by build and file
        self.objects: dict[tuple[str, str], str] = {}
        self.link: dict[str, list[str]] = {}
        for line in done.stdout.splitlines():
            if made := re.search(r"-o (src/sim/CMakeFiles/(\w+)\.dir/\S*/(\w+)\.cu\.o)", line):
                self.compile[made[2], made[3]] = shlex.split(line)
                self.objects[made[2], made[3]] = made[1]
            if f"/{TILE_TEST} " in line and " -c " in line:
                self.compile["", TILE_TEST] = shlex.split(line)
            for program in PROGRAMS:
                if f" -o {program} " in line:
                    # ": && c++ ... && what registers the tests": the link alone.
                    words = shlex.split(line.split("&&")[1])
                    self.link[program] = words
        for program in PROGRAMS:
            if program not in self.link or not (folder / program).exists():
                raise BadInput(f"{folder / program} is missing; build it first")

    def files_of(self, mutation: Mutation) -> list[str]:
        """The files, without suffix, that are compiled anew; the engine's configurations are v27's."""
        if mutation.file.endswith(".cu"):
            return [Path(mutation.file).stem]
        files = []
        for rung in rungs_of(mutation):
            files.append(rung)
            if rung == "v27_engine":
                files += [
                    f
                    for build, f in self.compile
                    if (build, f[:14]) == (BUILDS[0], "configuration_")
                ]
        return files

    def compile_to(self, build: str, name: str, sources: Path, to: Path) -> list[str]:
        # A mutant may leave a name unused: no warnings.
        words = [
            w for w in self.compile[build, name] if not w.endswith("ccache") and w != "-Werror"
        ]
        # Nor precompiled headers: those are the tree's, not the mutant's.
        for flag, count in (("-MD", 1), ("-MT", 2), ("-MF", 2), ("-include", 2)):
            if flag in words:
                at = words.index(flag)
                del words[at : at + count]
        words[words.index("-o") + 1] = str(to)
        for folder in ("src", "kernels"):
            words = [w.replace(str(ROOT / folder), str(sources / folder)) for w in words]
        return words

    def link_to(self, program: str, objects: dict[str, Path], to: Path) -> list[str]:
        """`objects`: for the ends of the paths that they replace."""
        words = list(self.link[program])
        words[words.index("-o") + 1] = str(to)
        kept = [w for w in words if not any(w.endswith(end) for end in objects)]
        # First, so that of inline functions in several objects the linker takes the mutant's.
        first = next(i for i, w in enumerate(words) if w.endswith(".o"))
        wanted = [str(o) for end, o in objects.items() if any(w.endswith(end) for w in words)]
        return kept[:first] + wanted + kept[first:]


def rungs_of(mutation: Mutation) -> list[str]:
    """The files, without suffix, of the rungs that a mutation concerns."""
    if not mutation.rungs:
        return [Path(mutation.file).stem]
    known = load_rungs(ROOT)
    return [find_rung(known, tag).name for tag in mutation.rungs]


def mutated(mutation: Mutation) -> str:
    """The file's text after the mutation."""
    try:
        text = (ROOT / mutation.file).read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{mutation.file}: {error.strerror}: the entry is stale") from None
    count = text.count(mutation.find)
    if count != 1:
        raise BadInput(
            f"{mutation.file}: {count} places hold {mutation.find!r}, one must: the entry is stale"
        )
    return text.replace(mutation.find, mutation.replace)


def run(words: list[str], cwd: Path, limit: float) -> tuple[int, str]:
    """Exit status (None of a program that ran past its time) and output."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        words,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return 124, "ran past its time"
    return process.returncode, output


def check(build: Build, mutation: Mutation) -> Outcome:
    start = time.monotonic()
    rungs = rungs_of(mutation)
    with tempfile.TemporaryDirectory(prefix="mutant-") as temporary:
        folder = Path(temporary)
        for part in ("src", "kernels"):
            shutil.copytree(ROOT / part, folder / part)
        (folder / mutation.file).write_text(mutated(mutation), encoding="utf-8")

        def outcome(caught_by: str = "", test: str = "") -> Outcome:
            return Outcome(mutation, caught_by, test, time.monotonic() - start)

        linked: dict[str, Path] = {}

        def program_for(program: str) -> Path:
            if program in linked:
                return linked[program]
            objects: dict[str, Path] = {}

            def compiled(kind: str, name: str, end: str) -> None:
                to = folder / f"{kind}-{name.replace('/', '-')}.o"
                if not to.exists():
                    status, output = run(
                        build.compile_to(kind, name, folder, to), build.folder, TIME_LIMIT
                    )
                    if status != 0:
                        error = next(
                            (line for line in output.splitlines() if "error:" in line), output
                        )
                        raise BadInput(f"{mutation.name}: does not compile: {error}")
                objects[end] = to

            if program == TILES:
                compiled("", TILE_TEST, TILE_TEST)
            else:
                # The results need the plain build alone.
                for kind in BUILDS if program == INSPECTIONS else BUILDS[:1]:
                    for name in build.files_of(mutation):
                        compiled(kind, name, build.objects[kind, name])
            to = folder / Path(program).name
            status, output = run(build.link_to(program, objects, to), build.folder, TIME_LIMIT)
            if status != 0:
                raise BadInput(f"{mutation.name}: does not link: {output.strip()[-500:]}")
            linked[program] = to
            return to

        for name, program, pattern in CHECKS:
            if program == TILES and not mutation.file.startswith("src/tile/"):
                continue
            tests = ":".join(dict.fromkeys(pattern.format(rung) for rung in rungs))
            words = [str(program_for(program)), f"--gtest_filter={tests}", "--gtest_fail_fast"]
            status, output = run(words, build.folder, TIME_LIMIT)
            if status == 0 and "0 tests from 0 test suites" in output:
                raise BadInput(f"{mutation.name}: no test is called {tests}")
            if status != 0:
                how = {1: "", 124: " (hangs)"}.get(status, " (crashes)")
                last = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)[-1:]
                failed = re.findall(r"^\[  FAILED  \] (\S+?),? ", output, re.MULTILINE)[:1]
                return outcome(name, "".join(failed or last) + how)
        return outcome()


def tried(build: Build, mutation: Mutation) -> Outcome:
    try:
        return check(build, mutation)
    except BadInput as error:
        return Outcome(mutation, "", "", 0, str(error))


def chosen(args: argparse.Namespace) -> list[Mutation]:
    some = [m for m in MUTATIONS if args.only in m.name]
    if not some:
        raise BadInput(f"no mutation has {args.only!r} in its name; --list shows them")
    if args.sample is not None and args.sample < len(some):
        picked = set(random.Random(args.seed).sample(range(len(some)), args.sample))
        some = [m for i, m in enumerate(some) if i in picked]
    return some


def summary(outcomes: list[Outcome]) -> str:
    caught = [o for o in outcomes if o.caught_by]
    by_check = ", ".join(
        f"{sum(o.caught_by == name for o in caught)} by {name}" for name, *_ in CHECKS
    )
    explained = [o for o in outcomes if not o.caught_by and o.mutation.expected != CAUGHT]
    kinds = ", ".join(
        f"{sum(o.mutation.expected == kind for o in explained)} {kind}"
        for kind in dict.fromkeys(o.mutation.expected for o in explained)
    )
    survived = len(outcomes) - len(caught) - len(explained)
    return (
        f"{len(outcomes)} mutant{'s' * (len(outcomes) != 1)}: {len(caught)} caught ({by_check}); "
        f"{len(explained)} explained{f' ({kinds})' if kinds else ''}; {survived} survived"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="those with TEXT in their names")
    parser.add_argument("--sample", type=int, metavar="N", help="N of them, chosen by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (2)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write what was found")
    parser.add_argument("--list", action="store_true", help="show the mutants, and run none")
    args = parser.parse_args()

    for mutation in MUTATIONS:
        mutated(mutation)  # stale entries
    mutations = chosen(args)
    if args.list:
        for m in mutations:
            print(f"{m.name}  [{m.expected}{': ' + m.reason if m.reason else ''}]")
        return
    build = Build(args.build.resolve())
    outcomes: list[Outcome] = []
    broken: list[str] = []
    pool = ThreadPoolExecutor(args.jobs)
    try:
        for o in pool.map(lambda m: tried(build, m), mutations):
            if o.broken:
                broken.append(o.broken)
                print(f"BAD   {o.broken}", flush=True)
                continue
            outcomes.append(o)
            what = (
                f"caught by {o.caught_by}" if o.caught_by else f"survived ({o.mutation.expected})"
            )
            mark = "ok   " if o.as_expected else "WRONG"
            print(f"{mark} {what:22} {o.seconds:5.0f} s  {o.mutation.name}  {o.test}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)
    print(summary(outcomes))
    if args.json:
        rows = [
            {**asdict(o.mutation), "caught_by": o.caught_by, "test": o.test, "seconds": o.seconds}
            for o in outcomes
        ]
        args.json.write_text(json.dumps({"mutants": rows}, indent=2) + "\n", encoding="utf-8")
    if broken:
        raise BadInput(f"{len(broken)} entries of mutations.py are bad")
    sys.exit(not all(o.as_expected for o in outcomes))


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        fail(error)
