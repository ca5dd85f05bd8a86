#!/usr/bin/env python3
"""Compares runs: a table of what changed and whether that is more than noise, and a picture.

  scripts/compare.py before.json after.json             B/A by rung, type, op and shape
  scripts/compare.py old=a.json new=b.json --kernel v8  with labels, one rung of several
  scripts/compare.py a.json b.json --plot both.svg      the lines of both, overlaid (.png .svg .html);
                                                        files of different rungs are drawn, not compared
  scripts/compare.py a.json --kernel v24,v27 --plot rungs.png   rungs of one run
  scripts/compare.py a.json b.json --fail-below 0.98    exit 1 when something is slower than that
  scripts/compare.py --false-alarms run1.json run2.json ...     how often equal runs "differ"
  scripts/compare.py --false-alarms                     the same for all committed runs, from git

Runs are JSON of gemm_bench --json, or of any program that uses Google Benchmark. The first is A.
B/A above 1: B is faster. It is the change of the ratio to cuBLAS or that of TFLOPS, whichever is
smaller: a slower kernel moves both, another clock or another baseline only one. Other programs are
compared by their time. "noise" is what a change must exceed; scripts/common/runs.py says how it is found.

Exit status: 0, 1 --fail-below found a regression, 2 bad input.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from itertools import combinations
from pathlib import Path
from typing import NoReturn, Optional

from common import ladder, runs
from common.ladder import ROOT, BadInput, exit_by, fail
from common.runs import Change, Comparison, Entry, Rate, Run

CONDITIONS = ("gpu", "driver", "cuda_runtime", "cublas", "l2", "power_limit_w")
SUFFIXES = (".png", ".svg", ".html")


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        fail(f"{message} (--help lists what is allowed)")


# The table
# --------------------------------------------------------------------------------------------------


def significant(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def cell(entry: Entry, measure: str) -> str:
    value = entry.values.get(measure)
    if not value:
        return ""
    if measure == "time":
        unit, scale = next(
            (u, s) for u, s in reversed(runs.UNITS.items()) if value.median >= s or u == "ns"
        )
        return f"{value.median / scale:.4g} {unit}"
    return f"{value.median:.3f}" if measure == "ratio" else significant(value.median)


def measures_of(entries: list[Entry]) -> list[str]:
    return [m for m in runs.MEASURES if any(m in e.values for e in entries)]


TITLES = {"ratio": "of cuBLAS", "TFLOPS": "TFLOPS", "time": "time"}


def rows_of(comparison: Comparison) -> list[list[str]]:
    """The heading, then a row an entry; a rung as a whole is a row without shape."""
    entries = [e for c in comparison.entries() for e in (c.a, c.b) if e]
    measures = measures_of(entries)
    pairs = [f"{TITLES[m]} {run}" for m in measures for run in "AB"]
    rows = [["rung", "type", "op", "shape", *pairs, "B/A", "p10 .. p90", "noise", ""]]
    for c in comparison.changes:
        spread = c.spread()
        middle = [cell(e, m) if e else "" for m in measures for e in (c.a, c.b)]
        rows.append([
            runs.rung_id(c.key[0]), *c.key[1:], runs.shape_name(c.shape) if c.a else f"all {c.shapes}",
            *middle, f"{c.factor:.3f}",
            f"{spread[0]:.3f} .. {spread[1]:.3f}" if spread and c.a else "",
            f"{100 * c.limit:.1f} %" if c.limit is not None else "",
            c.verdict,
        ])  # fmt: skip
    return without_empty_columns(rows)


def rows_of_run(run: Run) -> list[list[str]]:
    entries = list(run.timed().values())
    measures = measures_of(entries)
    rows = [["rung", "type", "op", "shape"]]
    rows[0] += [text for m in measures for text in (TITLES[m], "p10 .. p90")]
    for entry in entries:
        row = [runs.rung_id(entry.key[0]), *entry.key[1:], runs.shape_name(entry.shape)]
        for measure in measures:
            value = entry.values.get(measure)
            row.append(cell(entry, measure))
            known = value.spread if value and measure != "time" else None
            row.append(f"{known[0]:.4g} .. {known[1]:.4g}" if known else "")
        rows.append(row)
    return without_empty_columns(rows)


def without_empty_columns(rows: list[list[str]]) -> list[list[str]]:
    kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows]


def print_table(rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    words = sum(title in ("rung", "type", "op", "shape") for title in rows[0])
    last = len(rows[0]) - 1
    for row in rows:
        cells = [
            text.ljust(width) if i < words or (i == last and not rows[0][i]) else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths))
        ]
        print("  ".join(cells).rstrip())


def heading(letter: str, run: Run) -> str:
    date = str(run.context.get("date", ""))[:16].replace("T", " ")
    return f"{letter}: {run.label}  ({', '.join(part for part in (str(run.path), date) if part)})"


def told_apart(a: Run, b: Run) -> list[str]:
    """Conditions that both runs name and that differ: what changed may be theirs."""
    pairs = [(key, str(a.context.get(key, "")), str(b.context.get(key, ""))) for key in CONDITIONS]
    return [f"{key} {x} / {y}" for key, x, y in pairs if x and y and x != y]


def summary(comparison: Comparison) -> list[str]:
    """What the table says, in a few sentences."""
    lines, entries = [], comparison.entries()
    count = {
        v: sum(c.verdict == v for c in entries) for v in ("slower", "faster", "same", "one sample")
    }
    of = runs.plural(len(entries), "entry", "entries")
    if count["one sample"] == len(entries):
        lines.append(f"{of} of one sample each: how much is noise is not known; repeat them.")
    else:
        more = f", {count['one sample']} of one sample" if count["one sample"] else ""
        lines.append(
            f"{of}: {count['slower']} slower, {count['faster']} faster, {count['same']} the same "
            f"within noise{more}."
        )
        limits = sorted(c.limit for c in entries if c.limit is not None)
        lines.append(
            f"A change of {100 * limits[len(limits) // 2]:.1f} % (median of the noise column) can be "
            "told here; one table in twenty of equal runs says anything differs."
        )
    wholes = [c for c in comparison.different() if not c.a]
    if wholes:
        lines.append(
            "Over all shapes: "
            + "; ".join(f"{runs.title(c.key)} {c.verdict} {c.factor:.3f}" for c in wholes)
            + "."
        )
    edited = [c for c in entries if c.a and c.b and not (c.a.fits and c.b.fits)]
    if edited:
        names = ", ".join(c.b.name for c in edited[:3] if c.b)
        lines.append(f"ratio and TFLOPS of {names} contradict each other: the worse one counts.")
    for letter, only in (("A", comparison.only_a), ("B", comparison.only_b)):
        if only:
            lines.append(f"Only in {letter}: {runs.plural(len(only), 'entry', 'entries')}.")
    return lines


def regressions(comparison: Comparison, limit: float) -> list[Change]:
    """Slower than the limit, and by more than noise; where noise is unknown, the medians decide."""
    return [
        c
        for c in comparison.changes
        if c.factor < limit and c.verdict in ("slower", "one sample")
    ]  # fmt: skip


# Which runs
# --------------------------------------------------------------------------------------------------


def only(run: Run, args: argparse.Namespace) -> Run:
    """The run with only those entries that --kernel, --dtype and --op ask for."""

    def wanted(entry: Entry) -> bool:
        rung, dtype, op = entry.key
        names = {rung, rung.split(" ")[0], rung.split("_")[0], runs.rung_id(rung).split(" ")[0]}
        return (
            (not args.kernel or bool(names & set(args.kernel.split(","))))
            and (not args.dtype or dtype in args.dtype.split(","))
            and (not args.op or op in args.op.split(","))
        )

    kept = {name: entry for name, entry in run.entries.items() if wanted(entry)}
    return Run(run.path, run.context, kept, run.label)


def chosen(argument: str, args: argparse.Namespace) -> Run:
    run = runs.named(argument)
    kept = only(run, args)
    if run.entries and not kept.entries:
        known = dict.fromkeys(runs.title(entry.key) for entry in run.entries.values())
        raise BadInput(f"{run.path}: nothing of what was asked for; it has {', '.join(known)}")
    return kept


def committed_beside(run: Run, root: Path = ROOT) -> Optional[Run]:
    """The committed run to show beside this one: of the same GPU, else of the nearest one that has
    the same rungs, by compute capability and then by the FFMA limit. Of its files the one with the
    most entries of those rungs."""

    def distance(context: dict[str, object]) -> tuple[float, float]:
        def number(of: dict[str, object], key: str) -> float:
            try:
                return float(str(of.get(key) or 0))
            except ValueError:
                return 0.0

        capability = abs(
            number(context, "compute_capability") - number(run.context, "compute_capability")
        )
        peaks = [number(c, "peak_ffma_tflops") for c in (context, run.context)]
        return capability, abs(math.log(peaks[0] / peaks[1])) if all(peaks) else 99.0

    keys, names = {e.key for e in run.timed().values()}, set(run.timed())
    best: Optional[Run] = None
    best_rank: tuple[object, ...] = ()
    for gpu in ladder.measured_gpus(root):
        for path in ladder.results_in(ladder.folder_of(gpu, root)):
            try:
                other = runs.load(path)
            except BadInput:
                continue  # tuning.json, counters.json and others are no runs
            timed = other.timed()
            shared = sum(entry.key in keys for entry in timed.values())
            if not shared:
                continue
            near = tuple(-d for d in distance(other.context))
            rank = (other.gpu == run.gpu, *near, len(names & timed.keys()), shared)
            if not best_rank or rank > best_rank:
                best, best_rank = other, rank
    if best:
        entries = {n: e for n, e in best.entries.items() if e.key in keys}
        best = Run(best.path, best.context, entries)
    return best


# What the program does
# --------------------------------------------------------------------------------------------------


def false_alarms(args: argparse.Namespace) -> None:
    rate = Rate()
    if args.runs:
        equal = [chosen(argument, args) for argument in args.runs]
        if len(equal) < 2:
            raise BadInput("--false-alarms: give two or more runs of the same kernels")
        runs.name_runs(equal)
        for a, b in combinations(equal, 2):
            rate.add(runs.compare(a, b, args.by))
    else:
        from common import repeats

        for a, b in repeats.equal_runs(ROOT):
            rate.add(runs.compare(only(a, args), only(b, args), args.by))
    if not rate.tables:
        raise BadInput("--false-alarms: the runs have no timed entry in common")
    for alarm in rate.alarms:
        print(alarm)
    for what, found, of in (
        ("tables of equal runs with a difference", rate.tables_with_one, rate.tables),
        ("rows of them", len(rate.alarms), rate.entries),
    ):
        print(
            f"{found} of {of} {what}: {100 * found / of:.2f} %, "
            f"at most {100 * runs.at_most(found, of):.2f} % (95 % confidence)"
        )


def draw(args: argparse.Namespace, shown: list[Run], comparisons: list[Comparison]) -> None:
    """Needs matplotlib: where this Python has none, that of scripts/setup.sh goes on."""
    try:
        from figures import overlay
    except ModuleNotFoundError as error:
        python = ROOT / ".venv" / "bin" / "python"
        if not python.exists() or Path(sys.prefix) == ROOT / ".venv":
            raise BadInput(f"--plot needs {error.name}: scripts/setup.sh installs it") from None
        sys.stdout.flush()
        os.execv(python, [str(python), __file__, "--quiet", *sys.argv[1:]])
    tables = [rows_of(c) for c in comparisons] or [rows_of_run(run) for run in shown]
    overlay.write(args.plot, shown, comparisons, args.y, tables)
    print(f"picture: {args.plot}")


def main() -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", metavar="[LABEL=]FILE", help="JSON; the first is A")
    parser.add_argument("--kernel", metavar="LIST", help="these rungs only: v8,v24")
    parser.add_argument("--dtype", metavar="LIST", help="these types only: f32,f16,tf32,bf16")
    parser.add_argument("--op", metavar="LIST", help="these only: nn,nt,tn,tt")
    parser.add_argument("--by", choices=runs.MEASURES, help="compare this alone")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="a picture: .png, .svg or .html")
    parser.add_argument("--y", choices=runs.MEASURES, help="what the picture shows")
    parser.add_argument("--fail-below", metavar="X", type=float, help="exit 1 when B/A is below X")
    parser.add_argument("--false-alarms", action="store_true", help="measure the rule itself")
    parser.add_argument(
        "--beside-committed",
        action="store_true",
        help="one run: compare it with the committed one of its GPU, else of the nearest",
    )
    parser.add_argument("--quiet", action="store_true", help="no table")
    args = parser.parse_args()
    if args.plot and (args.plot.suffix not in SUFFIXES or not args.plot.absolute().parent.is_dir()):
        raise BadInput(f"--plot {args.plot}: want {', '.join(SUFFIXES)} in an existing folder")
    if args.fail_below is not None and not args.fail_below > 0:
        raise BadInput(f"--fail-below {args.fail_below}: want a factor above 0, as in 0.98")
    if args.false_alarms:
        false_alarms(args)
        return 0
    if not args.runs:
        raise BadInput("no run: give one or more files of gemm_bench --json")

    shown = [chosen(argument, args) for argument in args.runs]
    if args.beside_committed:
        if len(shown) > 1:
            raise BadInput("--beside-committed takes one run")
        if not shown[0].timed():
            return 0  # nothing was timed: nothing to show
        committed = committed_beside(shown[0])
        args.quiet |= not committed
        runs.name_runs(shown)
        if committed:
            runs.name_runs([committed])
            committed.label = f"committed, {committed.label}"
            if committed.gpu != shown[0].gpu:
                print(
                    f"no committed run of {shown[0].gpu or 'this machine'}: beside {committed.gpu}'s"
                )
            shown[0].label = f"this run, {shown[0].label}"
            shown.insert(0, committed)
    runs.name_runs(shown)
    if not any(run.timed() for run in shown):
        raise BadInput(f"{shown[0].path}: nothing in it was timed")

    comparisons = [runs.compare(shown[0], other, args.by) for other in shown[1:]]
    if args.plot and len(shown) > 1 and not any(c.changes for c in comparisons):
        # Other kernels in each: nothing to compare, but one picture of all.
        kernels = {name: entry for run in shown for name, entry in run.entries.items()}
        labels = ", ".join(run.label for run in shown)
        shown, comparisons = [Run(shown[0].path, shown[0].context, kernels, labels)], []
    for comparison in comparisons:
        drawn = args.plot and args.fail_below is None
        if not comparison.changes and not args.beside_committed and not drawn:
            a, b = comparison.a.path, comparison.b.path
            raise BadInput(
                f"{a} and {b} have no timed entry in common that can be compared; --plot draws them"
            )
    comparisons = [c for c in comparisons if c.changes]
    if args.beside_committed and not comparisons:
        print("no committed run has these rungs at these shapes")
    if not args.quiet and (comparisons or not args.beside_committed):
        for run in shown:
            if any(run is c.a or run is c.b for c in comparisons):
                continue
            print(heading("A" if len(shown) == 1 else run.path.stem, run))
            print_table(rows_of_run(run))
        for comparison in comparisons:
            print(heading("A", comparison.a))
            print(heading("B", comparison.b))
            apart = told_apart(comparison.a, comparison.b)
            if apart:
                print(f"They differ in: {', '.join(apart)}")
            print()
            print_table(rows_of(comparison))
            print()
            print("\n".join(summary(comparison)))
            print()
    if args.plot:
        draw(args, shown, comparisons)
    if args.fail_below is None:
        return 0
    if not comparisons:
        raise BadInput("--fail-below compares: give two runs")
    found = [(c, regression) for c in comparisons for regression in regressions(c, args.fail_below)]
    for comparison, regression in found:
        print(f"below {args.fail_below:g}: {runs.describe(regression)} ({comparison.b.label})")
    return int(bool(found))


if __name__ == "__main__":
    exit_by(main)
