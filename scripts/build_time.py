#!/usr/bin/env python3
"""Where the time of a build and of its tests goes, from Ninja's log and CTest's.

  scripts/build_time.py            by group, and the files and tests that take longest
  scripts/build_time.py --check    exit 1 where a group of the build takes more than its budget

Seconds are of steps that run beside each other, so their sum is core-seconds. A budget is a multiple of
what the simulator's runtime takes in the same build, which tells how fast the machine is.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

from common import ladder
from common.ladder import ROOT, BadInput

# Groups of outputs: title, what their names look like, and a budget in units.
# The budget is two fifths above what the group takes. The first that fits counts.
# The simulator's runtime is the unit: two dozen files that change least.
UNIT = "simulator"
GROUPS = (
    ("rungs, simulator", r"/rungs_sim\.dir/", 5.2),
    ("rungs, instrumented", r"/rungs_traced\.dir/", 3.9),
    ("rungs, nvcc", r"/rungs_gpu\.dir/", 0),
    (UNIT, r"/gemm_sim(_blas)?\.dir/", 0),
    ("GPU harness", r"src/harness/gpu/", 0),
    ("library", r"src/library/", 0.4),
    ("exercises", r"exercises/", 4.0),
    ("tests", r"tests/|src/sim/", 6.2),
    ("tables and tools", r"bench/|accuracy\.dir|host_time", 1.0),
    ("harness and commands", r"", 4.0),  # with the headers of users' files, precompiled
)
LONGEST = 12


def steps(log: Path) -> dict[str, float]:
    """Seconds of each output's last build; of several outputs of one step, the first."""
    seconds: dict[str, float] = {}
    seen: dict[str, str] = {}  # by command
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output, command = line.split("\t")
        if seen.setdefault(command, output) == output:
            seconds[output] = (int(end) - int(start)) / 1000
    return seconds


def tests(build: Path) -> dict[str, float]:
    """Seconds of each test, as CTest keeps them to order its next run."""
    path = build / "Testing/Temporary/CTestCostData.txt"
    if not path.exists():
        return {}
    found = re.findall(r"^(\S+) \d+ ([\d.]+)$", path.read_text(), re.MULTILINE)
    return {name: float(cost) for name, cost in found}


def show(title: str, seconds: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, spent in sorted(seconds.items(), key=lambda pair: -pair[1])[:LONGEST]:
        print(f"{spent:9.1f}  {re.sub(r'CMakeFiles/|__/', '', name)}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="default: build")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    log = args.build / ".ninja_log"
    if not log.exists():
        raise BadInput(f"{log}: no such file; build first")
    seconds = steps(log)
    spent: dict[str, float] = defaultdict(float)
    for output, time in seconds.items():
        spent[next(name for name, like, _ in GROUPS if re.search(like, output))] += time
    unit = spent[UNIT]
    over = []
    print(f"{'core-s':>8} {'units':>6} {'budget':>6}  of the build ({unit:.0f} s per unit)")
    for name, _, budget in GROUPS:
        units = spent[name] / unit if unit else 0
        print(f"{spent[name]:8.0f} {units:6.1f} {budget or '':>6}  {name}")
        if budget and units > budget:
            over.append(f"{name}: {units:.1f} units of {budget}")
    print(f"{sum(spent.values()):8.0f}")
    show("seconds, the longest steps", seconds)
    show("seconds, the longest tests", tests(args.build))
    if not args.check:
        return 0
    if unit < 40:  # cold it takes 44 and more
        print("\nno check: the compiler's cache had this build")
        return 0
    for line in over:
        print(f"over its budget: {line}", file=sys.stderr)
    return int(bool(over))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        ladder.fail(error)
