#!/usr/bin/env python3
"""Fits the engine's estimate (src/plan/engine.cpp) to measured times, and writes it into the sources.

  scripts/fit_engine.py times.jsonl.gz [more]   from build/engine_sweep, on an H200

First the constants in costs_h200.h, then the network in engine_correction.h, by which the estimate is
multiplied. What a choice loses is also told for problems that were left out of the network's fit.
The estimate is computed here once more, in numpy.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares, minimize  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
COSTS, CORRECTION = ROOT / "src/plan/costs_h200.h", ROOT / "src/plan/engine_correction.h"
SMS, BK, GPC_CTAS = 132, 64, 16
UNITS, MOST_CORRECTED = 16, 0.3
TAKEN_FOR_RIGHT = 0.015  # relative error within which two estimates count as equal
WEIGHT_DECAY = 1e-4


def cdiv(a, b):
    return -(-a // b)


def configurations() -> list[dict]:
    text = (ROOT / "src/engine/config.h").read_text()
    table = text[text.index("CONFIGURATIONS[] = {") :]
    rows = re.findall(r"^    \{(\d+), (\d+), (\d+)(.*?)\}", table, re.MULTILINE)
    return [
        {
            "bx": int(a),
            "shortest": int(b),
            "by": int(c),
            "schedule": e.split("::")[1].split(",")[0] if "::" in e else "rectangle",
        }
        for a, b, c, e in rows
    ]


def clusters_filled() -> list[float]:
    listed = COSTS.read_text().split(".clusters = {")[1].split("}")[0]
    terms = [x.split("/") for x in listed.split(",")]
    return [float(x[0]) / float(x[1]) if len(x) > 1 else float(x[0]) for x in terms]


def kinds_of_clusters() -> set[tuple[int, int, bool]]:
    """Those that a plan may have: log2 of the CTAs along x and along y, and multicast."""
    text = (ROOT / "src/plan/engine.cpp").read_text().split("CLUSTERS[] = {")[1].split("};")[0]
    found = re.findall(r"\{\{(\d), (\d)\}, (\w+)\}", text)
    return {(int(x), int(y), multicast == "true") for x, y, multicast in found}


def may_be_planned(choice: list, kinds: set, schedule: str) -> bool:
    log_x, log_y, _, parts = choice[2:6]
    kind = (log_x % 4, log_y, log_x < 4)
    return schedule != "rectangle" or (kind in kinds and (parts in (0, 1) or kind[:2] == (0, 0)))


def fitted_block(text: str) -> tuple[int, int]:
    """Where the engine's fitted constants stand in costs_h200.h."""
    begin = text.index("// [fitted]\n", text.index(".engine =")) + len("// [fitted]\n")
    return begin, text.rindex("\n", begin, text.index("// [/fitted]", begin)) + 1


def constants() -> dict[str, float]:
    text = COSTS.read_text()
    begin, end = fitted_block(text)
    return {k: float(v) for k, v in re.findall(r"\.(\w+) = ([\d.e-]+)", text[begin:end])}


def panels(M: int, N: int, width: int, shortest: int, tallest: int):
    """choose_row_panels: waves, tiles, makespan in rows, mean height, tallest."""
    rows_8, low, columns = cdiv(M, 8), shortest // 8, cdiv(N, width)

    def cut(longer, count, rows):
        parts = []
        for part in (0, 1):
            n = count + part
            of = longer if part else columns - longer
            parts.append((of, n, rows // n, rows % n))
        tiles = columns * count + longer
        height = 8 * (count * parts[0][2] + parts[0][3]) * columns / tiles
        span, before, end = 0, 0, 0
        for short in (False, True):
            for of, n, r8, rem in parts:
                end += (n - rem if short else rem) * of
                until = cdiv(end, SMS)
                span += (until - before) * (r8 + (not short))
                before = until
        tall = (parts[0][2] + (parts[0][3] > 0)) * 8
        return cdiv(tiles, SMS), tiles, span * 8, height, tall

    def cost(c):
        return (1 + 6 * (1 / c[3] + 1 / width - (1 / 128 + 1 / 192))) * c[2] * width

    fewest, most = cdiv(M, tallest), rows_8 // low
    height = max(low, cdiv(rows_8, fewest))
    best = cut(0, fewest, fewest * height)
    if fewest > most or fewest > 1 << 14:
        return best
    waves, count = best[0], 0
    while count < most:
        tiles = waves * SMS
        count = min(tiles // columns, most)
        n = max(count, fewest)
        longer = tiles % columns if n + 1 <= most else 0
        for extra in {0, longer}:
            choice = cut(extra, n, rows_8)
            if cost(choice) < cost(best):
                best = choice
        waves += 1
    return best


def requests(ld: int) -> int:
    return 0 if ld % 64 == 0 else 1 if ld % 16 == 0 else 2


def load(paths: list[str]):
    """A row a choice that a plan may make: what its estimate depends on, and the time.

    Then the rows of each problem, and a number for each N x K, for problems that are left out together.
    Problems are left out whose operands are copied first.
    """
    configs, filled, kinds = configurations(), clusters_filled(), kinds_of_clusters()
    rows: list[dict] = []
    times: list[float] = []
    spans: list[tuple[int, int]] = []
    weights: dict[tuple[int, int], int] = {}
    sizes: list[int] = []
    for path in paths:
        for line in gzip.open(path, "rt"):
            problem = json.loads(line)
            M, N, K, layout = (problem[k] for k in ("m", "n", "k", "layout"))
            if (M if layout[0] == "t" else K) % 8 or (K if layout[1] == "t" else N) % 8:
                continue
            begin = len(rows)
            # Where all are wrong, cuBLAS is: it adds up parts in half.
            all_wrong = all(len(choice) > 8 for choice in problem["choices"])
            for choice in problem["choices"]:
                config = configs[choice[0]]
                if (len(choice) == 8 or all_wrong) and may_be_planned(
                    choice, kinds, config["schedule"]
                ):
                    rows.append(row_of(problem, choice, config, filled))
                    times.append(choice[7])
            if len(rows) > begin:
                spans.append((begin, len(rows)))
                sizes.append(weights.setdefault((N, K), len(weights)))
    table = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
    return table, np.array(times), spans, np.array(sizes)


def row_of(problem: dict, choice: list, config: dict, filled: list[float]) -> dict:
    M, N, K, layout = (problem[k] for k in ("m", "n", "k", "layout"))
    _, swapped, log_x, log_y, height, parts = choice[:6]
    ta, tb = layout[0] == "t", layout[1] == "t"
    X, Y = (N, M) if swapped else (M, N)
    x_k, y_k = (tb, not ta) if swapped else (not ta, tb)
    qa, qb = requests(M if ta else K), requests(K if tb else N)
    bx, by, schedule, k_tiles = config["bx"], config["by"], config["schedule"], cdiv(K, BK)
    tiles_x = cdiv(X, bx)
    row = {
        "pp": schedule != "rectangle",
        "equal": schedule == "tiles",
        "bx": bx,
        "parts": 1,
        "adds": 0,
        "multicast": 0,
        "side": 0,
        "same_x": 1,
        "same_y": 1,
        "x_rows": 1,  # CTAs among which a k-tile of X is divided
        "y_rows": 1,
        "swapped": swapped,
        "x_k": x_k,
        "y_k": y_k,
        "tiles_x": tiles_x,
        "apart": N % 8 > 0,
        "qx": qb if swapped else qa,
        "qy": qa if swapped else qb,
        "bytes": 2e-6 * (M * K + K * N + M * N),
    }
    if row["pp"]:
        if schedule == "tiles":
            mean = tall = by
            tiles = tiles_x * cdiv(Y, by)
            waves = cdiv(tiles, SMS)
            span = waves * by
        else:
            waves, tiles, span, mean, tall = panels(Y, X, bx, config["shortest"], by)
        k = k_tiles * BK
        row |= {"waves": waves, "depth": k * span / mean, "height": mean, "columns": mean, "k": k}
        row |= {"all": k * tiles, "results": 1e-6 * bx * tall, "tiles": tiles}
        row |= {"tiles_y": tiles / tiles_x}
    else:
        multicast, size_x, size_y = log_x < 4, 1 << log_x % 4, 1 << log_y
        size, adds, parts = size_x * size_y, parts < 0, abs(parts)
        clusters_x, clusters_y = cdiv(tiles_x, size_x), cdiv(cdiv(Y, height), size_y)
        clusters, of = clusters_x * clusters_y, parts if adds else size
        waves = cdiv(
            clusters if adds else clusters * parts, max(int(SMS * filled[of] + 0.5) // of, 1)
        )
        k = math.ceil(k_tiles / parts) * BK
        atom = (8 * size_x if multicast else 8) if y_k else 64
        same_x, same_y = size_y, size_x
        if size == 1 and not adds:
            y_first = clusters_y < clusters_x
            fast = min(clusters_y if y_first else clusters_x, GPC_CTAS)
            same_x, same_y = (fast, GPC_CTAS // fast) if y_first else (GPC_CTAS // fast, fast)
        row |= {"waves": waves, "depth": waves * k, "height": height, "k": k}
        row |= {"columns": cdiv(height, atom) * atom, "all": k * clusters * parts * size}
        row |= {
            "results": 1e-6 * bx * height,
            "tiles": clusters * size,
            "parts": parts,
            "adds": adds,
        }
        row |= {"multicast": multicast, "side": not multicast and size > 1}
        row |= {"same_x": same_x, "same_y": same_y, "tiles_y": cdiv(Y, height)}
        if multicast:
            row |= {"x_rows": size_y, "y_rows": size_x}
    row["full"] = X * Y / (tiles_x * bx * row["tiles_y"] * row["height"])
    return row


def terms(t, c):
    """What a main loop waits for: to multiply, for L2, to come into the SM, for memory."""
    asked = np.array([1.0, c["sectors"], 1.5 * c["sectors"]])
    rows = t["bx"] * asked[t["qx"].astype(int)] / t["x_rows"]
    rows += t["columns"] * asked[t["qy"].astype(int)] / t["y_rows"]
    tensor = c["tensor"] * np.where(t["pp"] > 0, c["ping_pong"], 1)
    k_tile = c["k_tile"] * np.where(t["bx"] == 64, 1, 1.5)
    k_tile = np.where(t["pp"] > 0, 0, k_tile)
    multiply = t["depth"] * np.maximum(2e-6 * t["bx"] * t["height"] / tensor, k_tile / BK)
    from_l2 = 2e-6 * t["all"] * rows / c["l2"] * t["full"] ** -c["edge"]
    into_sm = 2e-6 * t["depth"] * (t["bx"] + t["columns"]) / c["fetch"]
    return multiply, from_l2, into_sm, t["bytes"] / c["memory"]


def estimate(t, c):
    loop = np.sqrt(sum(term**2 for term in terms(t, c)))
    loop *= np.where((t["multicast"] == 0) & (t["qx"] + t["qy"] == 0), c["alone"], 1)
    store = t["results"] * c["store"]
    sums = 4 * t["results"] * t["tiles"] * t["parts"]
    split = (
        t["waves"] * t["results"] * c["moved"]
        + sums / c["l2"]
        + c["launch"]
        + t["results"] * t["tiles"] / SMS * c["store"]
    )
    meet = 2 * c["cooperative"]
    in_cluster = (t["waves"] - 1) * c["launch"] + t["waves"] * (
        (t["parts"] > 1) * (meet + t["results"] * c["moved"])
        + t["results"] / t["parts"] * (c["store"] + (2 + t["apart"]) * c["moved"])
    )
    end = np.where(t["parts"] > 1, split, t["waves"] * store)
    cooperative = (
        c["cooperative"] + t["multicast"] * meet + loop + np.where(t["adds"] > 0, in_cluster, end)
    )
    hidden = np.maximum(0, store * c["staged"] - loop / t["waves"])
    ping_pong = loop + store + (t["waves"] - 1) * hidden
    ping_pong += t["apart"] * t["waves"] * 1e-6 * t["bx"] * t["height"] * c["moved"]
    return c["launch"] + np.where(t["pp"] > 0, ping_pong, cooperative)


def inputs(t, c):
    """The network's, in the order of src/plan/engine.cpp."""
    multiply, from_l2, into_sm, memory = terms(t, c)
    columns = [
        t["pp"],
        t["adds"],
        (t["parts"] > 1) & (t["adds"] == 0),
        t["bx"] == 64,
        t["bx"] == 192,
        t["multicast"],
        t["side"],
        t["height"] / 256,
        1 / t["waves"],
        1 / t["parts"],
        1 / t["same_x"],
        1 / t["same_y"],
        multiply / (multiply + from_l2),
        multiply / (multiply + into_sm),
        multiply / (multiply + memory),
        t["k"] / (t["k"] + 2048),
        t["full"],
        t["tiles"] * t["parts"] / (t["waves"] * SMS),
        multiply / (multiply + 20),
        t["qx"] > 0,
        t["qy"] > 0,
        t["swapped"],
        t["x_k"],
        t["y_k"],
        t["equal"],
        t["tiles_x"] / (t["tiles_x"] + 8),
        t["tiles_y"] / (t["tiles_y"] + 8),
    ]
    return np.stack([np.asarray(column, float) for column in columns], 1)


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


def fit_constants(losses: Losses, table, now):
    names = [name for name in now if name not in ("copies", "copy_launch")]
    of_problem = losses.sums(losses.weight)
    everything = np.ones(len(losses.spans))

    def with_logs(logs):
        return {**now, **dict(zip(names, np.exp(logs)))}

    def residual(logs):
        """Errors within a problem count three times those that all its choices share."""
        error = np.log(estimate(table, with_logs(logs)) / losses.times)
        shared = (losses.sums(losses.weight * error) / of_problem)[losses.problem_of]
        return np.concatenate([0.3 * losses.weight * error, losses.weight * (error - shared)])

    def lost(logs):
        return losses.smooth(np.log(estimate(table, with_logs(logs))), everything)[0]

    start = np.log([now[name] for name in names])
    fit = least_squares(residual, start, loss="soft_l1", f_scale=0.05, max_nfev=20)
    fit = minimize(lost, fit.x, method="L-BFGS-B", options={"maxiter": 40})
    return with_logs(fit.x)


class Network:
    """One layer of UNITS; all that it computes is x / (1 + |x|), and it corrects by 30 % at most."""

    def __init__(self, columns):
        self.columns = columns
        self.shape = (columns.shape[1], UNITS)

    def parts(self, weights):
        n = self.shape[0] * UNITS
        return weights[:n].reshape(self.shape), weights[n : n + UNITS], weights[n + UNITS :]

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
            by_weight = self.gradient(weights, x, z, factor, by_log) + 2 * WEIGHT_DECAY * weights
            return value + WEIGHT_DECAY * (weights**2).sum(), by_weight

        start = 0.3 * np.random.default_rng(0).normal(size=(self.shape[0] + 2) * UNITS)
        options = {"maxiter": 1000, "maxfun": 2000}
        return minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x


def write_constants(fitted: dict[str, float]) -> None:
    text = COSTS.read_text()
    begin, end = fitted_block(text)
    block = "".join(f"            .{name} = {fitted[name]:.4g},\n" for name in fitted)
    COSTS.write_text(text[:begin] + block + text[end:])


def write_correction(network: Network, weights) -> None:
    first, bias, last = network.parts(weights)

    def row(numbers):
        fours = [
            "{" + ", ".join(f"{x:#.3g}f" for x in numbers[at : at + 4]) + "}"
            for at in range(0, UNITS, 4)
        ]
        lines = [", ".join(fours[at : at + 2]) for at in range(0, len(fours), 2)]
        return "{" + ",\n         ".join(lines) + "}"

    rows = "".join(f"        {row(numbers)},\n" for numbers in first)
    CORRECTION.write_text(
        f"""// The weights of the engine's correction (engine.cpp). Written by scripts/fit_engine.py.
#pragma once

namespace gemm::engine {{

constexpr int CORRECTION_INPUTS = {len(first)};
constexpr double MOST_CORRECTED = {MOST_CORRECTED};

typedef float FourUnits __attribute__((vector_size(16)));  // hidden units, in one register

constexpr struct {{
  FourUnits weights[CORRECTION_INPUTS][{UNITS // 4}], bias[{UNITS // 4}], last[{UNITS // 4}];
}} CORRECTION = {{
    // clang-format off
    {{
{rows}    }},
        {row(bias)},
        {row(last)},
    // clang-format on
}};

}}  // namespace gemm::engine
"""
    )


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    table, times, spans, sizes = load(sys.argv[1:])
    losses = Losses(times, spans)

    def report(what, lost):
        decile = math.expm1(np.percentile(lost, 90))
        print(f"{what}: a choice loses {math.expm1(lost.mean()):.2%}, ninth decile {decile:.1%}")

    print(f"{len(spans)} problems, {len(times)} times")
    before = constants()
    report("constants as they were", losses.of_choices(np.log(estimate(table, before))))
    fitted = fit_constants(losses, table, before)
    logs = np.log(estimate(table, fitted))
    report("constants fitted", losses.of_choices(logs))
    network = Network(inputs(table, fitted))
    fold = np.random.default_rng(1).integers(0, 5, sizes.max() + 1)[sizes]
    left_out = np.zeros(len(spans))
    for part in range(5):
        weights = network.fit(losses, logs, (fold != part).astype(float))
        lost = losses.of_choices(logs + np.log(network.correction(weights)[2]))
        left_out[fold == part] = lost[fold == part]
    report("with the network, each N x K left out in turn", left_out)
    weights = network.fit(losses, logs, np.ones(len(spans)))
    report("with the network", losses.of_choices(logs + np.log(network.correction(weights)[2])))
    write_constants(fitted)
    write_correction(network, weights)
    return 0


if __name__ == "__main__":
    sys.exit(main())
