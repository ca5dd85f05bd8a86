#!/usr/bin/env python3
"""Fits the constants of the engine's estimate (src/plan/engine.cpp) to measured times.

  scripts/fit_engine.py times.jsonl.gz [more]   from build/engine_sweep; prints the constants

The estimate is computed here once more, in numpy. The first files' own estimates were made with the
constants of their day.
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
SMS, BK = 132, 64


def cdiv(a, b):
    return -(-a // b)


def configurations() -> list[dict]:
    text = (ROOT / "src/engine/config.h").read_text()
    table = text[text.index("CONFIGURATIONS[] = {") :]
    rows = re.findall(r"^    \{(\d+), (\d+), (\d+), (\d+)(.*?)\}", table, re.MULTILINE)
    return [
        {
            "bx": int(a),
            "shortest": int(b),
            "by": int(c),
            "schedule": e.split("::")[-1].split(",")[0],
        }
        for a, b, c, _, e in rows
    ]


def clusters_filled() -> list[float]:
    text = (ROOT / "src/plan/costs_h200.h").read_text()
    listed = text.split(".clusters = {")[1].split("}")[0]
    terms = [x.split("/") for x in listed.split(",")]
    return [float(x[0]) / float(x[1]) if len(x) > 1 else float(x[0]) for x in terms]


def constants() -> dict[str, float]:
    text = (ROOT / "src/plan/costs_h200.h").read_text()
    block = text[text.index(".engine =") :]
    block = block[block.index("// [fitted]") : block.index("// [/fitted]")]
    return {k: float(v) for k, v in re.findall(r"\.(\w+) = ([\d.e-]+)", block)}


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
    """A row a measured choice: what its estimate depends on, and the time."""
    configs, filled = configurations(), clusters_filled()
    rows: list[dict] = []
    times, problems = [], []
    for path in paths:
        for line in gzip.open(path, "rt"):
            problem = json.loads(line)
            M, N, K, layout = (problem[k] for k in ("m", "n", "k", "layout"))
            ta, tb = layout[0] == "t", layout[1] == "t"
            ra, rb = requests(M if ta else K), requests(K if tb else N)
            problems.append((len(rows), problem))
            # Where all are wrong, cuBLAS is: it adds up parts in half.
            all_wrong = all(len(choice) > 8 for choice in problem["choices"])
            for choice in problem["choices"]:
                index, swapped, log_x, log_y, height, parts, _, us = choice[:8]
                if len(choice) > 8 and not all_wrong:
                    continue
                config = configs[index]
                X, Y = (N, M) if swapped else (M, N)
                y_k = (not ta) if swapped else tb
                qx, qy = (rb, ra) if swapped else (ra, rb)
                bx, kt = config["bx"], cdiv(K, BK)
                by_turns = config["schedule"] not in ("", "rectangle")
                if by_turns:
                    if config["schedule"] == "tiles":
                        mean = tall = config["by"]
                        tiles = cdiv(X, bx) * cdiv(Y, mean)
                        waves = cdiv(tiles, SMS)
                        span = waves * mean
                    else:
                        waves, tiles, span, mean, tall = panels(
                            Y, X, bx, config["shortest"], config["by"]
                        )
                    k = kt * BK
                    row = dict(
                        pp=1,
                        waves=waves,
                        depth=k * span / mean,
                        bx=bx,
                        by=mean,
                        mult=mean,
                        x_rows=bx,
                        y_rows=mean,
                        all=k * tiles,
                        size=1,
                        results=1e-6 * bx * tall,
                        parts=1,
                        tiles=tiles,
                        adds=0,
                    )
                else:
                    size = 1 << (log_x + log_y)
                    at = max(int(SMS * filled[size] + 0.5) // size, 1)
                    clusters = cdiv(cdiv(X, bx), 1 << log_x) * cdiv(cdiv(Y, height), 1 << log_y)
                    adds, parts = parts < 0, abs(parts)
                    units = clusters * parts
                    waves = cdiv(units, at)
                    if adds:
                        at = max(int(SMS * filled[parts] + 0.5) // parts, 1)
                        waves = cdiv(clusters, at)
                    k = math.ceil(kt / parts) * BK
                    atom = 8 << log_x if y_k else 64
                    columns = cdiv(height, atom) * atom
                    row = dict(
                        pp=0,
                        waves=waves,
                        depth=waves * k,
                        bx=bx,
                        by=columns,
                        mult=height,
                        x_rows=bx / (1 << log_y),
                        y_rows=columns / (1 << log_x),
                        all=k * units * size,
                        size=size,
                        results=1e-6 * bx * height,
                        parts=parts,
                        tiles=clusters * size,
                        adds=adds,
                    )
                tiles_x, tiles_y = cdiv(X, bx), cdiv(Y, row["mult"])
                if by_turns:
                    tiles_y = row["tiles"] / tiles_x
                row["full"] = X * Y / (tiles_x * bx * tiles_y * row["mult"])
                row["apart"] = N % 8 > 0
                row.update(qx=qx, qy=qy, bytes=2e-6 * (M * K + K * N + M * N))
                rows.append(row)
                times.append(us)
    table = {k: np.array([r[k] for r in rows], float) for k in rows[0]}
    return table, np.array(times), problems


def estimate(t, c):
    asked = np.array([1.0, c["sectors"], 1.5 * c["sectors"]])
    rows = t["x_rows"] * asked[t["qx"].astype(int)] + t["y_rows"] * asked[t["qy"].astype(int)]
    tensor = c["tensor"] * np.where(t["pp"] > 0, c["ping_pong"], 1)
    k_tile = c["k_tile"] * np.where(t["bx"] == 64, 1, 1.5)
    k_tile = np.where(t["pp"] > 0, 0, k_tile)
    multiply = t["depth"] * np.maximum(2e-6 * t["bx"] * t["mult"] / tensor, k_tile / BK)
    from_l2 = 2e-6 * t["all"] * rows / c["l2"] * t["full"] ** -c["edge"]
    into_sm = 2e-6 * t["depth"] * (t["bx"] + t["by"]) / c["fetch"]
    memory = t["bytes"] / c["memory"]
    loop = np.sqrt(multiply**2 + from_l2**2 + into_sm**2 + memory**2)
    loop *= np.where((t["size"] == 1) & (t["qx"] + t["qy"] == 0), c["alone"], 1)
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
        c["cooperative"] + (t["size"] > 1) * meet + loop + np.where(t["adds"] > 0, in_cluster, end)
    )
    hidden = np.maximum(0, store * c["staged"] - loop / t["waves"])
    ping_pong = loop + store + (t["waves"] - 1) * hidden
    ping_pong += t["apart"] * t["waves"] * t["results"] * c["moved"]
    return c["launch"] + np.where(t["pp"] > 0, ping_pong, cooperative)


def regret(problems, times, estimates):
    losses = []
    for (begin, _problem), (end, _) in zip(problems, [*problems[1:], (len(times), None)]):
        if begin == end:
            continue
        chosen = begin + int(np.argmin(estimates[begin:end]))
        losses.append(times[chosen] / times[begin:end].min())
    return math.exp(np.mean(np.log(losses))), np.percentile(losses, 90), max(losses)


def main() -> int:
    table, times, problems = load(sys.argv[1:])
    now = constants()
    print("rows", len(times), "problems", len(problems))
    mine = estimate(table, now)
    print("regret before: {:.4f} p90 {:.3f} max {:.2f}".format(*regret(problems, times, mine)))
    spans = [
        (begin, end)
        for (begin, _), (end, _) in zip(problems, [*problems[1:], (len(times), None)])
        if end > begin
    ]
    problem_of = np.repeat(np.arange(len(spans)), [end - begin for begin, end in spans])
    best = np.array([times[begin:end].min() for begin, end in spans])[problem_of]
    weight = (best / times) ** 3  # what is near the best decides
    of_problem = np.bincount(problem_of, weight)
    names = [n for n in now if n != "copies"]

    def residual(logs):
        """Errors within a problem count three times those that all its choices share."""
        error = np.log(estimate(table, with_logs(logs)) / times)
        shared = (np.bincount(problem_of, weight * error) / of_problem)[problem_of]
        return np.concatenate([0.3 * weight * error, weight * (error - shared)])

    def with_logs(logs):
        return {**now, **dict(zip(names, np.exp(logs)))}

    def expected_regret(logs):
        """What a choice loses that takes the estimates for right to 2.5 %, beside their errors."""
        estimates = np.log(estimate(table, with_logs(logs)))
        least = np.full(len(spans), np.inf)
        np.minimum.at(least, problem_of, estimates)
        taken = np.exp((least[problem_of] - estimates) / 0.025)
        lost = np.bincount(problem_of, taken * np.log(times / best))
        errors = np.minimum(np.abs(estimates - np.log(times)), 0.3) ** 2
        return np.mean(lost / np.bincount(problem_of, taken)) + 1.5 * np.average(
            errors, weights=weight
        )

    start = np.log([now[n] for n in names])
    fit = least_squares(residual, start, loss="soft_l1", f_scale=0.05)
    fit = minimize(expected_regret, fit.x, method="L-BFGS-B", options={"maxiter": 60})
    after = with_logs(fit.x)
    fitted = estimate(table, after)
    print("regret after: {:.4f} p90 {:.3f} max {:.2f}".format(*regret(problems, times, fitted)))
    print(f"error: {np.std(np.log(fitted / times)):.3f}")
    for name in now:
        print(f"            .{name} = {after[name]:.4g},")
    return 0


if __name__ == "__main__":
    sys.exit(main())
