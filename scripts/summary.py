#!/usr/bin/env python3
"""What a run of many shapes comes to: the ratios to the baseline in a few lines.

  scripts/summary.py run.json                 geometric mean, lowest, share below 0.97; the worst ten
  scripts/summary.py run.json --by M          a line for each M; also type (as above), N, K
  scripts/summary.py run.json --plot all.png  and a picture: .png, .svg; of one type: --dtype f16

A run is gemm_bench's JSON; scripts/compare.py compares two of them.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from common import runs
from common.ladder import ROOT, BadInput, exit_by
from common.runs import Entry, Run
from compare import print_table

CLEARLY_BELOW = 0.97
WORST = 10
BY = ("type", "M", "N", "K")


@dataclass(frozen=True)
class Group:
    """Entries that one line tells of."""

    name: str
    entries: list[Entry]

    @property
    def ratios(self) -> list[float]:
        return [ratio(entry) for entry in self.entries]

    @property
    def mean(self) -> float:
        """Geometric: a shape at 2.00 makes up for one at 0.50."""
        return math.exp(statistics.fmean(map(math.log, self.ratios)))

    @property
    def least(self) -> Entry:
        return min(self.entries, key=ratio)

    def below(self, limit: float) -> float:
        return sum(r < limit for r in self.ratios) / len(self.entries)


def ratio(entry: Entry) -> float:
    return entry.values["ratio"].median


def compared(run: Run, dtype: Optional[str] = None) -> list[Entry]:
    """Entries that have a ratio to the baseline."""
    entries = [e for e in run.timed().values() if "ratio" in e.values and len(e.shape) == 3]
    return [e for e in entries if dtype in (None, e.key[1])]


def of_type(entry: Entry) -> str:
    return runs.title(entry.key)


def groups(entries: list[Entry], by: str = "type") -> list[Group]:
    found: dict[tuple[str, int], list[Entry]] = {}
    for entry in entries:
        extent = 0 if by == "type" else entry.shape["MNK".index(by)]
        found.setdefault((of_type(entry), extent), []).append(entry)
    order = list(dict.fromkeys(kind for kind, _ in found))
    keys = sorted(found, key=lambda key: (order.index(key[0]), key[1]))
    return [
        Group(kind if by == "type" else f"{kind}, {by} = {extent}", found[kind, extent])
        for kind, extent in keys
    ]


def worst(entries: list[Entry], count: int = WORST) -> list[Entry]:
    return sorted(entries, key=ratio)[:count]


def not_measured(run: Run) -> list[Entry]:
    return [e for e in run.entries.values() if e.reason.startswith("not measured")]


HEADINGS = ("", "shapes", "geometric mean", "lowest", "at", f"below {CLEARLY_BELOW}", "below 1.00")


def rows(entries: list[Entry], by: str) -> list[list[str]]:
    """A line a group, as cells under HEADINGS."""
    return [
        [
            group.name,
            str(len(group.entries)),
            f"{group.mean:.3f}",
            f"{ratio(group.least):.3f}",
            runs.shape_name(group.least.shape),
            f"{100 * group.below(CLEARLY_BELOW):.1f} %",
            f"{100 * group.below(1):.1f} %",
        ]
        for group in groups(entries, by)
    ]


def markdown(run: Run, by: str) -> str:
    """The summary as a table for a page."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" + "|---:" * (len(HEADINGS) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows(compared(run), by)])


def say(run: Run, entries: list[Entry], by: str) -> None:
    runs.name_runs([run])
    print(f"{run.path}: {run.label}\n")
    print_table([["rung", *HEADINGS[1:]], *rows(entries, by)])
    print(f"\nThe worst {min(WORST, len(entries))}:")
    for entry in worst(entries):
        value = entry.values["ratio"]
        spread = "p10 {:.3f}, p90 {:.3f}".format(*value.ends)
        shape = f"{of_type(entry)} {runs.shape_name(entry.shape)}"
        print(
            f"  {value.median:.3f}  {shape}  ({spread}; {entry.values['TFLOPS'].median:.4g} TFLOPS)"
        )
    left = not_measured(run)
    if left:
        print(f"\nNot measured: {len(left)} of {len(run.entries)}, from {left[0].name} on.")
    others = [e for e in run.entries.values() if e.reason and e not in left]
    if others:
        print(f"\nWithout a result: {len(others)}, the first {others[0].name}: {others[0].reason}.")


def draw(path: Path, run: Run, dtype: Optional[str]) -> None:
    """Needs matplotlib: where this Python has none, that of scripts/setup.sh goes on."""
    try:
        from figures import shape_map
    except ModuleNotFoundError as error:
        python = ROOT / ".venv" / "bin" / "python"
        if not python.exists() or Path(sys.prefix) == ROOT / ".venv":
            raise BadInput(f"--plot needs {error.name}: scripts/setup.sh installs it") from None
        sys.stdout.flush()
        os.execv(python, [str(python), __file__, "--quiet", *sys.argv[1:]])
    shape_map.write(path, run, dtype)
    print(f"picture: {path}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="JSON of gemm_bench")
    parser.add_argument("--by", choices=BY, default="type", help="a line for each of these")
    parser.add_argument("--dtype", choices=("f32", "f16", "tf32", "bf16"), help="this type only")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="a picture: .png or .svg")
    parser.add_argument("--quiet", action="store_true", help="no table")
    args = parser.parse_args()
    if args.plot and (
        args.plot.suffix not in (".png", ".svg") or not args.plot.absolute().parent.is_dir()
    ):
        raise BadInput(f"--plot {args.plot}: want .png or .svg in an existing folder")
    run = runs.load(args.run)
    entries = compared(run, args.dtype)
    if not entries:
        raise BadInput(f"{args.run}: nothing in it was timed against a baseline")
    if not args.quiet:
        say(run, entries, args.by)
    if args.plot:
        draw(args.plot, run, args.dtype)
    return 0


if __name__ == "__main__":
    exit_by(main)
