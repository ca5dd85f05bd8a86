#!/usr/bin/env python3
"""Grades a rung that you write yourself, in the simulator: results, races and counters.

  scripts/lab.py v2                   your labs/v02/work.cu; made from the step before the first time
  scripts/lab.py v2 mine.cu           another file of yours
  scripts/lab.py v2 --predict 12.5    answers the lab's question, which comes before the first grading
  scripts/lab.py v2 --solution        what the solution gets

What is asked of a file stands in the lab's README.md: its table is what is graded.
Exit status: 0 all passed, 1 not all, 2 bad input.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import operator
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from common.ladder import ROOT, BadInput, fail

LABS = ROOT / "labs"
SHAPE = "256x256x64"  # of all counters, unless a lab's page names another
RAGGED = ("--shape", "70x65x33", "--alpha", "2", "--beta", "0.5", "--ld-pad", "5")
NO_LIMIT = "no limit found"
COMPARISONS = {"at most": operator.le, "at least": operator.ge}
FINDINGS = 3  # shown of one file
PATIENCE = 60  # seconds for each file, once it is judged: a kernel may not end
Counters = dict[str, float]
Entry = dict[str, Any]  # of gemm_bench's JSON


@dataclass(frozen=True)
class Goal:
    """A row of a lab's table: a counter, or a quotient of two, and what it must be."""

    counter: str
    start: float
    comparison: str
    limit: float
    missed: str  # what to look at

    def value(self, counters: Counters) -> float:
        return quotient(self.counter, counters)

    def reached(self, counters: Counters) -> bool:
        return COMPARISONS[self.comparison](self.value(counters), self.limit)


@dataclass(frozen=True)
class Lab:
    folder: Path
    shape: str  # at which counters are taken
    start: Path  # the step before
    solution: Path
    predicted: str  # the counter that the lab's question is about
    question: str
    goals: tuple[Goal, ...]

    @property
    def id(self) -> str:
        return f"v{self.folder.name[1:].lstrip('0')}"


def quotient(counter: str, counters: Counters) -> float:
    """What "a" or "a / b" stands for; 0 / 0 is 0."""
    above, _, below = counter.partition(" / ")
    divisor = counters[below] if below else 1
    return counters[above] / divisor if divisor else math.inf if counters[above] else 0


def load_labs() -> list[Lab]:
    labs: list[Lab] = []
    before = LABS / "v01" / "serial.cu"
    for folder in sorted(LABS.glob("v*/")):
        page = (folder / "README.md").read_text(encoding="utf-8")
        question = re.search(
            r"^\*\*Predict `([^`]+)`\.\*\* (.+?)\n\n", page, re.DOTALL | re.MULTILINE
        )
        row = r"^\| `([^`]+)` \| ([\d.]+) \| (at most|at least) ([\d.]+) \| (.+) \|$"
        rows = re.findall(row, page, re.MULTILINE)
        assert question and rows, f"{folder}: no question, or no goals"
        goals = tuple(Goal(c, float(s), how, float(limit), why) for c, s, how, limit, why in rows)
        (solution,) = folder.glob(f"?gemm_{folder.name}.cu")
        shape = re.search(r"^\*Counted at (\d+) x (\d+) x (\d+)\.\*$", page, re.MULTILINE)
        counted_at = "x".join(shape.groups()) if shape else SHAPE
        asked = " ".join(question[2].split())
        labs.append(Lab(folder, counted_at, before, solution, question[1], asked, goals))
        before = solution
    return labs


def find_lab(name: str) -> Lab:
    labs = load_labs()
    for lab in labs:
        if name in (lab.id, lab.folder.name):
            return lab
    raise BadInput(f"no lab '{name}'; there are: {' '.join(lab.id for lab in labs)}")


def bench() -> str:
    """gemm_bench, which is built where there is none."""
    program = os.environ.get("GEMM_BENCH", str(ROOT / "gemm_bench"))
    if not Path(program).exists():
        subprocess.run([ROOT / "scripts/setup.sh"], check=True)
        subprocess.run([ROOT / "scripts/build.py", "bench", "--kernel=v1", "--inspect"], check=True)
    return program


@dataclass(frozen=True)
class Report:
    """What the judge and the microscope say of one file."""

    wrong: list[str]
    findings: list[str]
    unjudged: str  # why counters mean nothing; empty: they count
    dtype: str
    counters: Counters  # none: the kernel has ended the microscope


class Run:
    """A run of gemm_bench in the background; its processes end with the `with`."""

    def __init__(self, files: list[Path], shape: str, *options: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        command = [bench(), "--kernel", ",".join(map(str, files)), "--shape", shape, *options]
        with open(self.path / "stdout", "w") as out, open(self.path / "stderr", "w") as err:
            self.process = subprocess.Popen(
                [*command, "--json", str(self.path / "json")],
                env={**os.environ, "CPATH": str(LABS / "v01")},  # ../main.h, wherever the file is
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.folder.cleanup()

    def result(self, timeout: Optional[float] = None) -> tuple[list[str], list[Entry]]:
        """The lines that it prints, and the entries of its JSON."""
        status = self.process.wait(timeout)
        told = (self.path / "stdout").read_text()
        if status not in (0, 1):
            raise BadInput(f"{told}{(self.path / 'stderr').read_text()}".strip())
        return told.splitlines(), json.loads((self.path / "json").read_text())["benchmarks"]


def look(files: list[Path], shape: str = SHAPE) -> list[Report]:
    """Judges several files at once, while the microscope looks at them."""
    seen: list[Entry] = []
    timelines: dict[str, Counters] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        Run(files, shape, *RAGGED, "--backend", "sim") as judge,
        Run(files, shape, "--inspect", "--html", f"{folder}/page.html") as microscope,
    ):
        lines, judged = judge.result()
        try:
            seen = microscope.result(PATIENCE * len(files))[1]
            timelines = timelines_of((Path(folder) / "page.html").read_text(encoding="utf-8"))
            failure = ""
        except (BadInput, subprocess.TimeoutExpired) as error:
            failure = f"The microscope could not look at it: {error}"
    reports = []
    for file in files:
        name = file.stem
        mine = [entry for entry in judged if entry["name"].split("/")[0] == name]
        inspected = [entry for entry in seen if entry["name"].split("/")[0] == name]
        dtypes = {entry["name"].split("/")[1] for entry in mine}
        if len(dtypes) != 1:
            raise BadInput(f"{file} has {len(dtypes)} functions gemm; a lab wants one")
        wrong = [line for line in lines if line.startswith(f"{file}: ")]
        wrong = [line.partition("), ")[2] for line in wrong if not line.endswith(NO_LIMIT)]
        verdict = re.compile(re.escape(name) + r" .*WRONG: (.*)")
        wrong += [match[1] for line in lines if (match := verdict.match(line))]
        found = [finding for entry in inspected for finding in entry["findings"]]
        # A fault is told once: by the microscope, where that has met it.
        faults = [finding["what"] for finding in found if finding["check"] == "failed"]
        unjudged = "the result is wrong" if wrong else ""
        if faults or failure:
            unjudged = "the run stopped"
            wrong = faults or [*wrong, failure]
        findings = [finding["what"] for finding in found if finding["check"] != "failed"]
        counters = flat(inspected[0], mine[0]) | timelines[name] if inspected else {}
        reports.append(Report(wrong, findings, unjudged, dtypes.pop(), counters))
    return reports


def flat(seen: Entry, judged: Entry) -> Counters:
    """Counters by name, as "global_loads.sectors"."""
    counters = {k: float(v) for k, v in seen.items() if isinstance(v, (int, float))}
    for name, group in seen.items():
        if isinstance(group, dict):
            counters |= {f"{name}.{k}": float(v) for k, v in group.items()}
    counters["collectives"] = judged.get("collectives", 0.0)
    counters["warp_fmas"] = seen["m"] * seen["n"] * seen["k"] / 32
    return counters


def timelines_of(page: str) -> dict[str, Counters]:
    """Counters of one CTA's timeline, by the kernel's name, from the microscope's page."""
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data, "a page without data"
    return {each["name"]: order_of(each["timeline"]) for each in json.loads(data[1])["inspections"]}


def order_of(timeline: dict[str, Any]) -> Counters:
    """What a timeline says of copies, phases and products."""
    events = [dict(zip(timeline["columns"], event)) for event in timeline["events"]]
    by_kind = {
        kind: [event for event in events if event["kind"] == number]
        for number, kind in enumerate(timeline["kinds"])
    }
    loads, products = by_kind["tma_load"], by_kind["mma"] + by_kind["wgmma"]
    stages = [b for b in timeline["barriers"] if b["takes_bytes"]]
    changes = [(e["begin"], e["bytes"]) for e in loads] + [(e["done"], -e["bytes"]) for e in loads]
    on_their_way = list(itertools.accumulate(change for _, change in sorted(changes)))
    busy = {s for e in products for s in range(e["begin"], max(e["end"], e["done"]))}
    accesses = {"global_load": "g", "shared_load": "r", "shared_store": "s"}
    first_warp = "".join(
        accesses.get(timeline["kinds"][e["kind"]], "") for e in events if e["warp"] == 0
    )
    groups = [e["warp"] // 4 for e in sorted(products, key=lambda e: e["begin"])]
    return {
        "loads.ahead": len(re.findall(r"g[gr]*r[gr]*s", first_warp)),
        "tma.bytes": sum(e["bytes"] for e in loads),
        "tma.in_flight": max(on_their_way, default=0),
        "mbarriers.stages": len(stages),
        "mbarriers.phases": sum(len(b["completed"]) for b in stages),
        "products.idle_steps": max(busy) + 1 - min(busy) - len(busy) if busy else 0,
        "products.turns": len(list(itertools.groupby(groups))),
        "warps.load_and_multiply": len({e["warp"] for e in loads} & {e["warp"] for e in products}),
    }


def predict(lab: Lab, answer: Optional[str]) -> float:
    """The prediction, which is asked for once and kept."""
    kept = lab.folder / "prediction.txt"
    if kept.exists():
        return float(kept.read_text())
    asked = f"{lab.predicted}: {lab.question}"
    if answer is None and sys.stdin.isatty():
        answer = input(f"Before the first grading: {asked}\n> ")
    if answer is None:
        raise BadInput(f"before the first grading: {asked} Answer with --predict NUMBER")
    try:
        value = float(answer)
    except ValueError:
        raise BadInput(f"'{answer}' is no number; the question: {asked}") from None
    kept.write_text(f"{number(value)}\n")
    return value


def number(x: float) -> str:
    return f"{x:.0f}" if x.is_integer() else f"{x:.6g}"


def say(passed: bool, name: str, detail: str = "", missed: str = "") -> bool:
    print(f"  {'ok' if passed else 'FAILED':<7} {name}{': ' + detail if detail else ''}")
    if missed and not passed:
        print(textwrap.fill(missed, 96, initial_indent=" " * 10, subsequent_indent=" " * 10))
    return passed


def grade(lab: Lab, report: Report) -> bool:
    """Prints what is reached, a line each."""
    wanted = "f16" if lab.solution.name.startswith("h") else "f32"
    passed = [say(report.wrong == [], "results", missed=" ".join(report.wrong[:1]))]
    for what in report.findings[:FINDINGS] or [""] * (report.unjudged != "the run stopped"):
        passed.append(say(not what, "no race, no memory error", missed=what))
    passed.append(say(report.dtype == wanted, "type", report.dtype, f"This lab wants {wanted}."))
    if report.unjudged:
        print(f"  -       counters: not judged, {report.unjudged}")
    for goal in () if report.unjudged else lab.goals:
        value = f"{number(goal.value(report.counters))}, {goal.comparison} {number(goal.limit)}"
        passed.append(say(goal.reached(report.counters), goal.counter, value, goal.missed))
    return all(passed)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lab", help=" ".join(lab.id for lab in load_labs()))
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--predict", metavar="NUMBER")
    parser.add_argument("--solution", action="store_true")
    args = parser.parse_intermixed_args()
    lab = find_lab(args.lab)
    file = lab.solution if args.solution else args.file or lab.folder / "work.cu"
    if not file.exists():
        if args.file:
            raise BadInput(f"no file {file}")
        shutil.copy(lab.start, file)
        print(f"{os.path.relpath(file)} is yours now: what to do stands in its README.md")
    predicted = None if args.solution else predict(lab, args.predict)
    (report,) = look([file], lab.shape)
    passed = grade(lab, report)
    if predicted is not None and passed:
        counted = quotient(lab.predicted, report.counters)
        print(f"  {lab.predicted}: you predicted {number(predicted)}, counted {number(counted)}")
    print(f"{lab.id}: {'passed' if passed else 'not passed'}")
    return int(not passed)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        fail(error)
