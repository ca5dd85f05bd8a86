#!/usr/bin/env python3
"""Fits the constants by which v13s chooses its tile and its splits of K.

    scripts/fit_costs.py            fits; prints the constants and how well they choose
    scripts/fit_costs.py --write    also writes them to src/plan/costs_h200.h
    scripts/fit_costs.py --check    exit status 1 if those there are not what the fit gives

Measure first, on a GPU:

    ./gemm_bench --kernel v13s --dtype f32 --shapes bench/shapes/random.txt --sample 15 \\
        --tune --tune-cache plots/results/h200/tuning_v13s.json

The estimate is the planner's own function (build/split_estimates asks it). The constants are those
with the least sum of squares of log(estimated / measured), where what is far from the best of its
shape counts less. "left out" is a shape's choice by a fit to all other shapes: what the choice costs,
1 is the best measured variant. Exit status: 0, 1 (--check), 2 bad input, 3 no build.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from scipy.optimize import least_squares  # type: ignore[import-untyped]

from ladder import ROOT, BadInput

MEASURED = ROOT / "plots/results/h200/tuning_v13s.json"
HEADER = ROOT / "src/plan/costs_h200.h"
ESTIMATES = ROOT / "build/split_estimates"
# The fields of FfmaCosts::Split in their order, and where the search begins.
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
    "store": 30.0,
    "send": 10.0,
}
PRIOR = 0.05  # how hard a constant is held to its start, where the measurements say nothing
Array = Any  # numpy.ndarray of floats


@dataclass
class Measured:
    cases: list[str]  # MxNxK:ops:variant
    shape: Array  # which shape a case belongs to
    us: Array


def read(file: Path) -> Measured:
    try:
        entries = json.loads(file.read_text())["measured"]
    except (OSError, ValueError, KeyError) as error:
        raise BadInput(f"{file}: not what --tune writes: {error}") from None
    source = (ROOT / "src/device/ffma_costs.h").read_text()
    tiles = re.findall(
        r"\{(\d+), (\d+), \d+, (\d+)\}", source.split("SPLIT_TILES[] = {")[1].split("};")[0]
    )
    names: dict[str, int] = {}
    for bm, bn, most in tiles:
        splits = 1
        while splits <= int(most):
            names[f"{bm}x{bn}" + (f" split {splits}" if splits > 1 else "")] = len(names)
            splits *= 2
    cases, shapes, us = [], [], []
    for number, entry in enumerate(e for e in entries if e["rung"] == "v13s_split_k"):
        m, n, k = entry["shape"]
        for variant in entry["variants"]:
            if variant["name"] not in names:
                raise BadInput(f"{file}: v13s has no variant '{variant['name']}'")
            cases.append(f"{m}x{n}x{k}:{entry['ops']}:{names[variant['name']]}")
            shapes.append(number)
            us.append(2e-6 * m * n * k / variant["tflops"])
    if not cases:
        raise BadInput(f"{file}: no measurement of v13s")
    return Measured(cases, np.array(shapes), np.array(us))


class Planner:
    """The planner's estimates of some cases, for any constants."""

    def __init__(self, cases: list[str]) -> None:
        if not ESTIMATES.exists():
            print("fit_costs.py: build first: scripts/test.sh or cmake", file=sys.stderr)
            sys.exit(3)
        self.process = subprocess.Popen(
            [ESTIMATES, *cases], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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


def fit(planner: Planner, data: Measured, left_out: int | None = None) -> Array:
    start = np.log(np.array(list(START.values())))
    best = np.array([data.us[data.shape == s].min() for s in data.shape])
    weight = (best / data.us) ** 1.5 * (data.shape != left_out)

    def residuals(x: Array) -> Array:
        off = np.log(planner.us(np.exp(x)) / data.us) * weight
        return np.concatenate([off, PRIOR * (x - start)])

    return np.exp(least_squares(residuals, start, loss="soft_l1", f_scale=0.1).x)


def cost_of_choice(estimated: Array, data: Measured, shape: int) -> float:
    """What the variant with the least estimate takes, of the best one."""
    mine = data.shape == shape
    return float(data.us[mine][estimated[mine].argmin()] / data.us[mine].min())


def mean(ratios: list[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def initialiser(constants: Array) -> str:
    return "".join(f"{' ' * 20}.{name} = {c:.4g},\n" for name, c in zip(START, constants))


def fitted(text: str) -> str:
    """The header with other constants."""
    old = HEADER.read_text()
    begin, end = (f"{' ' * 20}// [{slash}fitted]\n" for slash in ("", "/"))
    return old[: old.index(begin) + len(begin)] + text + old[old.index(end) :]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    data = read(MEASURED)
    shapes = range(data.shape.max() + 1)
    with Planner(data.cases) as planner:
        constants = fit(planner, data)
        if options.check:
            now = dict(re.findall(r"\.(\w+) = ([\d.e-]+),", HEADER.read_text()))
            for name, value in zip(START, constants):
                if abs(float(now[name]) / value - 1) > 0.01:
                    print(
                        f"fit_costs.py: {HEADER.name} has {name} = {now[name]}, the fit {value:.4g}"
                    )
                    return 1
            return 0
        estimated = planner.us(constants)
        off = np.log(estimated / data.us)
        choices = [cost_of_choice(estimated, data, s) for s in shapes]
        left_out = [cost_of_choice(planner.us(fit(planner, data, s)), data, s) for s in shapes]
    print(initialiser(constants), end="")
    print(
        f"{len(data.us)} measurements, {len(choices)} shapes: estimates {np.std(off):.1%} off (rms)"
    )
    print(f"choice: {mean(choices):.3f} of the best variant's time, at worst {max(choices):.3f}")
    print(f"left out: {mean(left_out):.3f}, at worst {max(left_out):.3f}")
    if options.write:
        HEADER.write_text(fitted(initialiser(constants)))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        print(f"fit_costs.py: {error}", file=sys.stderr)
        sys.exit(2)
