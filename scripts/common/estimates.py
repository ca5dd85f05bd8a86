"""Fits estimates of times, constants and a network that corrects them, to measured times."""

from __future__ import annotations

import math
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Callable

import numpy as np
from scipy.optimize import least_squares, minimize  # type: ignore[import-untyped]

from common.ladder import ROOT

PLAN = ROOT / "src/plan"
COSTS = PLAN / "costs_h200.h"
SMS = 132
MOST_CORRECTED = float(
    re.findall(r"MOST_CORRECTED = ([\d.]+)", (PLAN / "correction.h").read_text())[0]
)
TAKEN_FOR_RIGHT = 0.015  # relative error within which two estimates count as equal


def cdiv(a, b):
    return -(-a // b)


def fitted_block(text: str, struct: str) -> tuple[int, int]:
    """Where a struct's fitted constants stand in costs_h200.h."""
    begin = text.index("// [fitted]\n", text.index(f".{struct} =")) + len("// [fitted]\n")
    return begin, text.rindex("\n", begin, text.index("// [/fitted]", begin)) + 1


def constants(struct: str) -> dict[str, float]:
    text = COSTS.read_text()
    begin, end = fitted_block(text, struct)
    return {k: float(v) for k, v in re.findall(r"\.(\w+) = ([\d.e-]+)", text[begin:end])}


def clusters_filled(after: str) -> list[float]:
    """Part of the SMs that clusters fill, by their size: the list behind this text."""
    text = COSTS.read_text()
    listed = text[text.index(after) :].split(".clusters = {")[1].split("}")[0]
    terms = [x.split("/") for x in listed.split(",")]
    return [float(x[0]) / float(x[1]) if len(x) > 1 else float(x[0]) for x in terms]


class Losses:
    """What choices by an estimate lose, over some of the problems: exactly, and smoothly."""

    def __init__(self, times, spans):
        self.times, self.spans = times, spans
        self.problem_of = np.repeat(np.arange(len(spans)), [end - begin for begin, end in spans])
        self.starts = np.array([begin for begin, _ in spans])
        best = np.minimum.reduceat(times, self.starts)[self.problem_of]
        self.lost = np.log(times / best)
        self.weight = (best / times) ** 3  # what is near the best decides

    def sums(self, values):
        return np.add.reduceat(values, self.starts)

    def of_choices(self, logs):
        return np.array([self.lost[b + int(np.argmin(logs[b:e]))] for b, e in self.spans])

    def smooth(self, logs, problems):
        """Mean loss of a choice, with a term for errors, and its gradient by each log estimate."""
        least = np.minimum.reduceat(logs, self.starts)[self.problem_of]
        taken = np.exp((least - logs) / TAKEN_FOR_RIGHT)
        taken /= self.sums(taken)[self.problem_of]
        loss = self.sums(taken * self.lost)
        counted = problems[self.problem_of] / problems.sum()
        by_log = counted * taken * (loss[self.problem_of] - self.lost) / TAKEN_FOR_RIGHT
        error = logs - np.log(self.times)
        weight = 1.5 * self.weight * problems[self.problem_of]
        weight /= (self.weight * problems[self.problem_of]).sum()
        small = np.abs(error) < 0.3
        value = (problems * loss).sum() / problems.sum()
        value += (weight * np.minimum(np.abs(error), 0.3) ** 2).sum()
        return value, by_log + 2 * weight * np.where(small, error, 0)


Estimate = Callable[[dict[str, float]], np.ndarray]  # microseconds by constants


def fit_constants(losses: Losses, estimate: Estimate, now: dict[str, float], kept: tuple[str, ...]):
    """The constants with which choices lose least, but for those to be kept."""
    names = [name for name in now if name not in kept]
    if not names:
        return now
    of_problem = losses.sums(losses.weight)
    everything = np.ones(len(losses.spans))

    def with_logs(logs):
        return {**now, **dict(zip(names, np.exp(logs)))}

    def residual(logs):
        """Errors within a problem count three times those that all its choices share."""
        error = np.log(estimate(with_logs(logs)) / losses.times)
        shared = (losses.sums(losses.weight * error) / of_problem)[losses.problem_of]
        return np.concatenate([0.3 * losses.weight * error, losses.weight * (error - shared)])

    def lost(logs):
        return losses.smooth(np.log(estimate(with_logs(logs))), everything)[0]

    start = np.log([now[name] for name in names])
    fit = least_squares(residual, start, loss="soft_l1", f_scale=0.05, max_nfev=20)
    fit = minimize(lost, fit.x, method="L-BFGS-B", options={"maxiter": 40})
    return with_logs(fit.x)


class Network:
    """One layer of units; all that it computes is x / (1 + |x|). `decay` keeps weights small."""

    def __init__(self, columns, units, decay):
        self.columns = columns
        self.decay = decay
        self.shape = (columns.shape[1], units)

    def parts(self, weights):
        count, units = self.shape
        n = count * units
        return weights[:n].reshape(self.shape), weights[n : n + units], weights[n + units :]

    def correction(self, weights):
        first, bias, last = self.parts(weights)
        x = self.columns @ first + bias
        z = (x / (1 + np.abs(x))) @ last
        return x, z, 1 + MOST_CORRECTED * z / (1 + np.abs(z))

    def gradient(self, weights, x, z, factor, by_log):
        _, _, last = self.parts(weights)
        by_z = by_log / factor * MOST_CORRECTED / (1 + np.abs(z)) ** 2
        by_x = by_z[:, None] * last / (1 + np.abs(x)) ** 2
        by_last = (x / (1 + np.abs(x))).T @ by_z
        return np.concatenate([(self.columns.T @ by_x).ravel(), by_x.sum(0), by_last])

    def fit(self, losses: Losses, logs, problems):
        def loss(weights):
            x, z, factor = self.correction(weights)
            value, by_log = losses.smooth(logs + np.log(factor), problems)
            by_weight = self.gradient(weights, x, z, factor, by_log) + 2 * self.decay * weights
            return value + self.decay * (weights**2).sum(), by_weight

        count, units = self.shape
        start = 0.3 * np.random.default_rng(0).normal(size=(count + 2) * units)
        options = {"maxiter": 1000, "maxfun": 2000}
        return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x


def fit(
    losses: Losses,
    estimate: Estimate,
    inputs: Callable[[dict[str, float]], np.ndarray],
    now: dict[str, float],
    kept: tuple[str, ...],
    units: int,
    decay: float,
    left_out_together: np.ndarray,
):
    """Constants, a network and its weights. Tells what choices lose."""

    def report(what, lost):
        decile = math.expm1(np.percentile(lost, 90))
        print(f"{what}: a choice loses {math.expm1(lost.mean()):.2%}, ninth decile {decile:.1%}")

    print(f"{len(losses.spans)} problems, {len(losses.times)} times")
    report("constants as they were", losses.of_choices(np.log(estimate(now))))
    fitted = fit_constants(losses, estimate, now, kept)
    logs = np.log(estimate(fitted))
    report("constants fitted", losses.of_choices(logs))
    network = Network(inputs(fitted), units, decay)
    fifths = np.random.default_rng(1).integers(0, 5, left_out_together.max() + 1)
    left_out = fifths[left_out_together] == 0
    weights = network.fit(losses, logs, (~left_out).astype(float))
    lost = losses.of_choices(logs + np.log(network.correction(weights)[2]))
    report("with the network, at a fifth that was left out", lost[left_out])
    weights = network.fit(losses, logs, np.ones(len(losses.spans)))
    report("with the network", losses.of_choices(logs + np.log(network.correction(weights)[2])))
    return fitted, network, weights


def write_constants(struct: str, fitted: dict[str, float]) -> None:
    text = COSTS.read_text()
    begin, end = fitted_block(text, struct)
    indent = re.match(" *", text[begin:end])[0]  # type: ignore[index]
    block = "".join(f"{indent}.{name} = {fitted[name]:.4g},\n" for name in fitted)
    COSTS.write_text(text[:begin] + block + text[end:])


def write_correction(path: Path, namespace: str, script: str, network: Network, weights) -> None:
    first, bias, last = network.parts(weights)
    units = network.shape[1]

    def row(numbers):
        eights = [
            "{" + ", ".join(f"{x:#.3g}f" for x in numbers[at : at + 8]) + "}"
            for at in range(0, units, 8)
        ]
        return "{" + ",\n         ".join(eights) + "}"

    rows = "".join(f"        {row(numbers)},\n" for numbers in first)
    path.write_text(
        f"""// Weights of a correction (plan/correction.h). Written by {script}.
#pragma once

#include "plan/correction.h"

namespace {namespace} {{

constexpr Correction<{len(first)}, {units // 8}> CORRECTION = {{
    // clang-format off
    {{
{rows}    }},
        {row(bias)},
        {row(last)},
    // clang-format on
}};

}}  // namespace {namespace}
"""
    )


def read_weights(path: Path) -> np.ndarray:
    """A correction's weights as they were written: the inputs', the units', the last ones."""
    text = path.read_text().split("CORRECTION = {")[1]
    return np.array([float(x) for x in re.findall(r"(-?\d[\d.e+-]*)f\b", text)])


def explained(rung: str, shapes: list[str]) -> dict[str, tuple[str, str]]:
    """The planner's choices: by "nn/MxNxK", a variant and why. A shape is "MxNxK nn f32"."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        print("\n".join(shapes), file=file, flush=True)
        options = f"--backend sim --kernel {rung} --no-tune-cache --explain --shapes {file.name}"
        command = [str(ROOT / "gemm_bench"), *options.split()]
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {
        name: (variant, why)
        for name, variant, why in re.findall(r"^\w+/\w+/(\S+): (.+)\n +(.+)$", text, re.MULTILINE)
    }
