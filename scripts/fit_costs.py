#!/usr/bin/env python3
"""Fits the constants by which v13s chooses its tile and its splits of K.

    scripts/fit_costs.py              fits; prints the constants and how well they choose
    scripts/fit_costs.py --write      also writes them to src/plan/costs_h200.h
    scripts/fit_costs.py --check      exit status 1 if those there fit worse than they could

Measure first, on a GPU:

    scripts/shapes.py random --seed 911 | grep f32 | head -n 120 > f32.txt
    ./gemm_bench --kernel v13s --shapes f32.txt --quick --tune \\
        --tune-cache plots/results/h200/tuning_v13s.json

The estimate is the planner's own function (build/cost_estimates asks it). The constants are those
with the least sum of squares of log(estimated / measured), where what is far from the best of its
shape counts less. "left out": the shape's choice by a fit to the other four fifths of the shapes. A
choice costs its time; 1 is the best variant's. Exit status: 0, 1 (--check), 2 bad input, 3 no build.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from common.ladder import ROOT, BadInput, read_json

GPU = "h200"
ESTIMATES = ROOT / "build/cost_estimates"


MEASURED = "tuning_v13s.json"
RUNG = "v13s_split_k"
# The constants, in the order of their struct, and where the search begins.
START = {
    "multiply": 1.2,
    "alone": 0.75,
    "copy_4": 40.0,
    "copy_16": 10.0,
    "launch": 3.0,
    "wave": 1.0,
    "cluster": 0.5,
    "second": 2.0,
    "l2": 5.5,
    "fetch": 0.06,
    "store": 100.0,
    "send": 10.0,
}
INDENT = " " * 20  # of their lines in the header
PRIOR = 0.05  # how hard a constant is held to its start, where the measurements say nothing
FOLDS = 5  # fits, each without a part of the shapes
NEAR = 1.5  # how much more what is near the best of its shape counts: an exponent
Array = Any  # numpy.ndarray of floats


@dataclass
class Measured:
    cases: list[str]  # rung/type/ops/MxNxK/variant
    shape: Array  # which shape a case belongs to
    us: Array


def read(file: Path) -> Measured:
    try:
        entries = read_json(file)["measured"]
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{file}: not what --tune writes: {error}") from None
    cases, shapes, us = [], [], []
    numbers: dict[str, int] = {}
    for entry in entries:
        if entry["rung"] != RUNG:
            continue
        m, n, k = entry["shape"]
        problem = f"{entry['dtype']}/{entry['ops']}/{m}x{n}x{k}"
        for variant in entry["variants"]:
            cases.append(f"{entry['rung']}/{problem}/{variant['name']}")
            shapes.append(numbers.setdefault(problem, len(numbers)))
            us.append(2e-6 * m * n * k / variant["tflops"])
    if not cases:
        raise BadInput(f"{file}: nothing was measured")
    return Measured(cases, np.array(shapes), np.array(us))


class Planner:
    """The planner's estimates of some cases, for any constants."""

    def __init__(self, cases: list[str]) -> None:
        if not ESTIMATES.exists():
            print("fit_costs.py: build first: scripts/build.py more", file=sys.stderr)
            sys.exit(3)
        names = ",".join(f"fp32.{name}" for name in START)
        self.process = subprocess.Popen(
            [ESTIMATES, GPU, names, *cases],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Planner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.communicate()

    def us(self, constants: Array) -> Array:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(" ".join(f"{c:.17g}" for c in constants) + "\n")
        self.process.stdin.flush()
        return np.array([float(x) for x in self.process.stdout.readline().split()])


def fit(
    planner: Planner,
    data: Measured,
    left_out: Array | None = None,
    given: Array | None = None,
) -> tuple[Array, float]:
    """The constants, or those given, and their loss: what the fit makes as small as it can."""
    start = np.log(np.array(list(START.values())))
    best = np.array([data.us[data.shape == s].min() for s in data.shape])
    weight = (best / data.us) ** NEAR
    if left_out is not None:
        weight *= ~np.isin(data.shape, left_out)

    def residuals(x: Array) -> Array:
        estimated = planner.us(np.exp(x))
        known = np.isfinite(estimated)  # else its rung is never chosen there
        off = np.log(np.where(known, estimated, 1) / data.us) * weight * known
        return np.concatenate([off, PRIOR * (x - start)])

    options = {"loss": "soft_l1", "f_scale": 0.1}
    if given is not None:
        return given, float(least_squares(residuals, np.log(given), max_nfev=1, **options).cost)
    found = least_squares(residuals, start, **options)
    return np.exp(found.x), float(found.cost)


def cost_of_choice(estimated: Array, data: Measured, shape: int) -> float:
    """What the variant with the least estimate takes, of the best one."""
    mine = data.shape == shape
    return float(data.us[mine][estimated[mine].argmin()] / data.us[mine].min())


def mean(ratios: list[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def initialiser(constants: Array) -> str:
    lines = (f".{name} = {c:.4g},\n" for name, c in zip(START, constants))
    return "".join(INDENT + line for line in lines)


def region(text: str) -> tuple[int, int]:
    """Where the constants stand in the header."""
    begin = text.index(f"{INDENT}// [fitted]\n", text.index(".fp32 ="))
    begin += len(f"{INDENT}// [fitted]\n")
    return begin, text.index(f"{INDENT}// [/fitted]\n", begin)


def process(options: argparse.Namespace) -> int:
    data = read(ROOT / "plots/results" / GPU / MEASURED)
    shapes = range(data.shape.max() + 1)
    header = ROOT / f"src/plan/costs_{GPU}.h"
    text = header.read_text()
    begin, end = region(text)
    with Planner(data.cases) as planner:
        constants, loss = fit(planner, data)
        if options.check:
            # Constants that hardly matter differ from one computer to another; the loss does not.
            now = dict(re.findall(r"\.(\w+) = ([\d.e-]+),", text[begin:end]))
            written = np.array([float(now[constant]) for constant in START])
            have = fit(planner, data, given=written)[1]
            if have > 1.005 * loss:
                print(f"fit_costs.py: {header.name} has constants with a loss of {have:.4g}, ")
                print(f"the fit has {loss:.4g}: scripts/fit_costs.py --write")
                return 1
            return 0
        estimated = planner.us(constants)
        known = np.isfinite(estimated)
        off = np.log(estimated[known] / data.us[known])
        choices = [cost_of_choice(estimated, data, s) for s in shapes]
        left_out = []
        for part in range(FOLDS):
            estimated_without = planner.us(fit(planner, data, np.array(shapes[part::FOLDS]))[0])
            left_out += [cost_of_choice(estimated_without, data, s) for s in shapes[part::FOLDS]]
    print(initialiser(constants), end="")
    print(
        f"{len(data.us)} measurements, {len(choices)} shapes: estimates {np.std(off):.1%} off (rms)"
    )
    print(f"choice: {mean(choices):.3f} of the best variant's time, at worst {max(choices):.3f}")
    print(f"left out: {mean(left_out):.3f}, at worst {max(left_out):.3f}")
    if options.worst:
        for s in np.argsort(choices)[::-1][: options.worst]:
            mine = np.flatnonzero(data.shape == s)
            chosen = mine[estimated[mine].argmin()]
            best = mine[data.us[mine].argmin()]
            print(f"  {choices[s]:.3f}")
            for label, i in (("chosen", chosen), ("best", best)):
                print(
                    f"    {label:6} {data.cases[i]}: {data.us[i]:.2f} us, est. {estimated[i]:.2f}"
                )
    if options.write:
        header.write_text(text[:begin] + initialiser(constants) + text[end:])
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--worst", type=int, default=0, metavar="N", help="show N bad choices")
    return process(parser.parse_args())


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        print(f"fit_costs.py: {error}", file=sys.stderr)
        sys.exit(2)
