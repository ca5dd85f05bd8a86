#!/usr/bin/env python3
"""Fits the estimate by which v13s chooses its tile and its splits of K (src/plan/ffma.cpp).

    scripts/fit_ffma.py           fits; writes the constants and the correction into the sources
    scripts/fit_ffma.py --check   exit status 1 if the sources do not choose as well as they did

Measure first, on an H200:

    scripts/shapes.py random --seed 911 | grep f32 > f32.txt    # and other seeds: the file has 580 shapes
    ./gemm_bench --kernel v13s --shapes f32.txt --quick --tune \\
        --tune-cache plots/results/h200/tuning_v13s.json

What a choice loses is also told for problems that were left out of the fit. The estimate is computed
here once more, in numpy. --check compares its choices with those of `gemm_bench --explain`. Exit
status: 0, 1 (--check), 2 bad input.
"""

from __future__ import annotations

import argparse
import math
import re

import numpy as np

from common.estimates import (
    COSTS,
    PLAN,
    SMS,
    Losses,
    Network,
    cdiv,
    clusters_filled,
    constants,
    explained,
    fit,
    read_weights,
    write_constants,
    write_correction,
)
from common.ladder import ROOT, BadInput, exit_by, read_json

MEASURED = ROOT / "plots/results/h200/tuning_v13s.json"
CORRECTION = PLAN / "ffma_correction.h"
UNITS, DECAY = 8, 1e-4
MOST_LOST = 0.011  # what --check accepts of the committed estimate, on average
EXPLAINED = 40  # problems that --check compares


def number(name: str) -> float:
    """The first constant of this name in costs_h200.h."""
    found = re.search(rf"\.{name} = ([\d.]+)", COSTS.read_text())
    assert found
    return float(found[1])


FFMA, MEMORY = number("ffma"), number("memory")  # TFLOPS of an SM, TB/s


def split_tiles() -> list[tuple[int, int, int]]:
    text = (PLAN / "ffma.h").read_text().split("SPLIT_TILES[] = {")[1].split("};")[0]
    return [(int(a), int(b), int(c)) for a, b, c in re.findall(r"\{(\d+), (\d+), (\d+),", text)]


def load():
    """A row a variant: what its estimate depends on, and the time. Then each problem's rows and name."""
    rows, times, spans, problems = [], [], [], []
    tiles, filled = split_tiles(), clusters_filled(".fp32 =")
    for entry in read_json(MEASURED)["measured"]:
        (M, N, K), ops, begin = entry["shape"], entry["ops"], len(rows)
        for variant in entry["variants"]:
            size, splits = re.fullmatch(r"(\w+?)(?: split (\d+))?", variant["name"]).groups()
            tile = next(i for i, (bm, bn, _) in enumerate(tiles) if size == f"{bm}x{bn}")
            rows.append(row_of((M, N, K), ops, tile, tiles[tile], int(splits or 1), filled))
            times.append(2e-6 * M * N * K / variant["tflops"])
        spans.append((begin, len(rows)))
        problems.append((M, N, K, ops, [v["name"] for v in entry["variants"]]))
    if not rows:
        raise BadInput(f"{MEASURED}: nothing was measured")
    return (
        {n: np.array([r[n] for r in rows], float) for n in rows[0]},
        np.array(times),
        spans,
        problems,
    )


def row_of(shape, ops: str, nth: int, tile, splits: int, filled: list[float]) -> dict:
    (M, N, K), (bm, bn, bk) = shape, tile
    a_k, b_k = ops[0] == "n", ops[1] == "t"
    tiles, together = cdiv(M, bm) * cdiv(N, bn), min(splits, 8)
    k_tiles = cdiv(cdiv(K, bk), splits)
    most = math.ceil(tiles * splits / (SMS * filled[together]))
    whole = (a_k or M % 4 == 0) and (b_k or N % 4 == 0)
    by_16 = whole * ((not a_k) * bm + (not b_k) * bn)
    return {
        "nth": nth,
        "results": bm * bn,
        "row": bm + bn,
        "tiles": tiles,
        "ctas": tiles * splits,
        "k_tiles": k_tiles,
        "k": k_tiles * bk,
        "together": together,
        "parts": splits // together,
        "most": most,
        "pairs": most // 2,
        "alone": most % 2,
        "by_16": by_16,
        "by_4": bm + bn - by_16,
        "a_k": a_k,
        "b_k": b_k,
        "whole": whole,
        "aligned_c": N % 4 == 0,
        "size": M * N,
        "elements": M * K + K * N + M * N,
    }


def terms(t, c):
    """CTAs one after the other, and what a main loop waits for: FFMA, L2, memory."""
    cta_times = 2 * t["pairs"] + t["alone"] / c["alone"]
    of_k = c["multiply"] * 2e-6 * t["results"] / FFMA
    of_k = of_k + 1e-6 * (c["copy_4"] * t["by_4"] + c["copy_16"] * t["by_16"])
    bytes_of_cta = 4e-6 * t["k"] * t["row"]
    fetch = np.maximum(bytes_of_cta * t["ctas"] / c["l2"], bytes_of_cta * t["most"] / c["fetch"])
    return cta_times, cta_times * t["k"] * of_k, fetch, 4e-6 * t["elements"] / MEMORY


def estimate(t, c):
    cta_times, *waits = terms(t, c)
    loop = sum(term**2.5 for term in waits) ** 0.4
    sends = t["together"] > 1
    store = cta_times * t["results"] * 1e-6 * (c["store"] + sends * c["send"])
    second = c["second"] + 8e-6 * t["parts"] * t["size"] / c["l2"]
    waves = t["pairs"] + t["alone"]
    sums = sends * c["cluster"] + (t["parts"] > 1) * second
    return c["launch"] + c["wave"] * (waves - 1) + loop + store + sums


def inputs(t, c):
    """The network's, in the order of src/plan/ffma.cpp."""
    _, multiply, fetch, memory = terms(t, c)
    columns = [t["nth"] == i for i in range(len(split_tiles()))]
    columns += [
        1 / t["together"],
        t["parts"] > 1,
        1 / (t["pairs"] + t["alone"]),
        t["alone"],
        t["most"] / (t["most"] + 4),
        t["ctas"] / (t["most"] * SMS),
        multiply / (multiply + fetch),
        multiply / (multiply + memory),
        multiply / (multiply + 10),
        t["a_k"],
        t["b_k"],
        t["whole"],
        t["aligned_c"],
        t["size"] / (t["tiles"] * t["results"]),
        t["k_tiles"] / (t["k_tiles"] + 8),
        t["by_4"] / t["row"],
    ]
    return np.stack([np.asarray(column, float) for column in columns], 1)


def check(losses: Losses, table, spans, problems) -> int:
    c = constants("split")
    weights = read_weights(CORRECTION)
    logs = np.log(
        estimate(table, c) * Network(inputs(table, c), UNITS, DECAY).correction(weights)[2]
    )
    lost = math.expm1(losses.of_choices(logs).mean())
    if lost > MOST_LOST:
        print(
            f"fit_ffma.py: choices lose {lost:.2%} of the measured times, more than {MOST_LOST:.0%}"
        )
        return 1
    some = range(0, len(problems), max(1, len(problems) // EXPLAINED))
    chosen = explained(
        "v13s", [f"{M}x{N}x{K} {ops} f32" for M, N, K, ops, _ in problems[:: some.step]]
    )
    for i in some:
        (M, N, K, ops, names), (begin, end) = problems[i], spans[i]
        name = names[logs[begin:end].argmin()]
        planned, _ = chosen[f"{ops}/{M}x{N}x{K}"]
        if planned != name:
            print(
                f"fit_ffma.py: {M}x{N}x{K} {ops}: v13s takes {planned}, the estimate in numpy {name}"
            )
            return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    table, times, spans, problems = load()
    losses = Losses(times, spans)
    if options.check:
        return check(losses, table, spans, problems)
    fitted, network, weights = fit(
        losses,
        lambda c: estimate(table, c),
        lambda c: inputs(table, c),
        constants("split"),
        (),
        UNITS,
        DECAY,
        np.arange(len(spans)),
    )
    write_constants("split", fitted)
    write_correction(CORRECTION, "gemm::ffma", "scripts/fit_ffma.py", network, weights)
    return 0


if __name__ == "__main__":
    exit_by(main)
