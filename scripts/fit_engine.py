#!/usr/bin/env python3
"""Fits the engine's estimate (src/plan/engine.cpp) to measured times, and writes it into the sources.

    scripts/fit_engine.py times.jsonl.gz [more]   from build/engine_sweep, on an H200
    scripts/fit_engine.py --check                 exit status 1 if numpy and the planner estimate differently

First the constants in costs_h200.h, unless --keep-constants, then the network in engine_correction.h,
by which the estimate is multiplied. What a choice loses is also told for problems that were left out of
the network's fit. The estimate is computed here once more, in numpy. --check compares it with that of
`gemm_bench --explain`, and where B stays in shared memory. Exit status: 0, 1 (--check), 2 bad usage,
3 files that cannot be read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import re

import numpy as np

from common.estimates import (
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
from common.ladder import ROOT, exit_by

BK, GPC_CTAS = 64, 16
CORRECTION = PLAN / "engine_correction.h"
UNITS, DECAY = 24, 3e-5
CHECKED = 400  # random problems; --check compares where the plan is a cooperative kernel
SIMULATED_CTAS = 4  # persistent CTAs of the simulator's architecture
MOST_APART = 0.002  # beside what rounding to the digits of --explain may add


def configurations() -> list[dict]:
    text = (ROOT / "src/engine/config.h").read_text()
    table = text[text.index("CONFIGURATIONS[] = {") :]
    schedule = r"(?:, (\d+), Schedule::(\w+), \d+)?"
    rows = re.findall(r"^    \{(\d+), (\d+), (\d+)" + schedule + r"\}", table, re.MULTILINE)
    return [
        {
            "bx": int(bx),
            "shortest": int(shortest),
            "by": int(by),
            "stages": int(stages or 0),
            "schedule": schedule or "rectangle",
        }
        for bx, shortest, by, stages, schedule in rows
    ]


def kinds_of_clusters() -> dict[tuple[int, int, bool], bool]:
    """Those that a plan may have, and whether with parts of K.

    A kind is log2 of the CTAs along x and along y, and multicast.
    """
    text = (ROOT / "src/plan/engine.cpp").read_text().split("CLUSTERS[] = {")[1].split("};")[0]
    found = re.findall(r"\{\{(\d), (\d)\}, (\w+)(, true)?\}", text)
    return {(int(x), int(y), multicast == "true"): bool(parts) for x, y, multicast, parts in found}


def may_be_planned(choice: list, kinds: dict, schedule: str) -> bool:
    log_x, log_y, _, parts = choice[2:6]
    kind = (log_x % 4, log_y, log_x < 4)
    if parts < 0:  # of a cluster
        return True
    return schedule != "rectangle" or (kind in kinds and (parts < 2 or kinds[kind]))


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


def b_can_stay(config: dict, k_tiles: int, tiles_m: int, tiles_n: int, ctas: int = SMS) -> bool:
    """As in plan/engine.cpp."""
    of_cta = cdiv(tiles_m * tiles_n, ctas)
    if not 0 < k_tiles <= config["stages"] or tiles_m < 2 or of_cta <= 3:
        return False
    if config["bx"] == 64:
        return k_tiles > 6 and tiles_m >= 64 and tiles_n > 8
    if k_tiles > 3:
        return tiles_n > 8
    return tiles_n > 16 and tiles_m >= of_cta and tiles_m % of_cta <= of_cta // 8


def requests(ld: int) -> int:
    """RowRequests: one, sectors, half."""
    return 0 if ld % 64 == 0 else 1 if ld % 16 == 0 else 2


def load(paths: list[str]):
    """A row a choice that a plan may make: what its estimate depends on, and the time.

    Then the rows of each problem, and a number for each N x K, for problems that are left out together.
    """
    configs, filled, kinds = configurations(), clusters_filled(".engine ="), kinds_of_clusters()
    rows: list[dict] = []
    times: list[float] = []
    spans: list[tuple[int, int]] = []
    weights: dict[tuple[int, int], int] = {}
    sizes: list[int] = []
    for path in paths:
        for line in gzip.open(path, "rt"):
            problem = json.loads(line)
            N, K, begin = problem["n"], problem["k"], len(rows)
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
    row_a, row_b = M if ta else K, K if tb else N
    copied_a, copied_b = row_a % 8 > 0, row_b % 8 > 0  # copies have whole lines
    qa, qb = 0 if copied_a else requests(row_a), 0 if copied_b else requests(row_b)
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
        "c": requests(N),
        "qx": qb if swapped else qa,
        "qy": qa if swapped else qb,
        "copied": copied_a * M * K + copied_b * K * N,
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
        stays = schedule == "tiles" and b_can_stay(config, k_tiles, tiles_x, cdiv(Y, by))
        row |= {"waves": waves, "depth": k * span / mean, "height": mean, "k": k}
        row |= {"columns": 0 if stays else mean}
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
    copies = (t["copied"] > 0) * (c["copy_launch"] + 4e-6 * t["copied"] / c["copies"])
    return c["launch"] + copies + np.where(t["pp"] > 0, ping_pong, cooperative)


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
        t["c"] > 0,
        t["c"] > 1,
        # An operand comes without multicast in a cluster that has it: its rows begin at sectors.
        (t["multicast"] > 0)
        & (((t["x_rows"] == 1) & (t["qx"] < 2)) | ((t["y_rows"] == 1) & (t["qy"] < 2))),
    ]
    return np.stack([np.asarray(column, float) for column in columns], 1)


def planned_choice(why: str, n: int, configs: list[dict]) -> tuple[list, str] | None:
    """A cooperative kernel's choice, as engine_sweep writes it, and its time: out of --explain.

    Rows of C off 16 bytes are stored as sums of a cluster are, also a whole K's.
    """
    found = re.fullmatch(
        r"C(\^T)? in \d+ tiles of (\d+) x (\d+)(?:, clusters of (\d) x (\d)( side by side)?)?"
        r"(?:, K in (\d+) parts(, a cluster a tile)?)?, estimated ([\d.]+) us",
        why,
    )
    if not found:
        return None
    transposed, bx, height, x, y, side, parts, adds, us = found.groups()
    schedules = [(config["schedule"], config["bx"]) for config in configs]
    log_x, log_y = (int(n or 1).bit_length() - 1 for n in (x, y))
    alone = log_x == log_y == 0
    signed_parts = int(parts or 1) * (-1 if adds or (not parts and n % 8 > 0) else 1)
    log_x += 4 * bool(side or alone)
    configuration = schedules.index(("rectangle", int(bx)))
    return [configuration, bool(transposed), log_x, log_y, int(height), signed_parts], us


def stays_as_planned(why: str, extents: list[int], configs: list[dict]) -> bool | None:
    """Whether b_can_stay() says of equal tiles what --explain says; None: of others."""
    found = re.match(r"\d+ tiles? of (\d+) x (\d+) in \d+ waves?(, in pairs)?", why)
    if not found or found[3]:
        return None
    bx, by = int(found[1]), int(found[2])
    config = next(c for c in configs if c["schedule"] == "tiles" and (c["bx"], c["by"]) == (bx, by))
    M, N, K = extents
    can_stay = b_can_stay(config, cdiv(K, BK), cdiv(M, bx), cdiv(N, by), SIMULATED_CTAS)
    return can_stay == why.endswith(", B stays")


def check() -> int:
    configs, filled, c = configurations(), clusters_filled(".engine ="), constants("engine")
    weights, source = read_weights(CORRECTION), random.Random(1)
    problems = {}
    for i in range(CHECKED):
        step = (1, 8, 64, 8)[i % 4]
        extents = [cdiv(int(2 ** source.uniform(4, 13)), step) * step for _ in range(3)]
        layout = source.choice(("nn", "nt", "tn", "tt"))
        problems[f"{layout}/{'x'.join(map(str, extents))}"] = (layout, extents)
    chosen = explained(
        "v27", [f"{name[3:]} {layout} f16" for name, (layout, _) in problems.items()]
    )
    compared = compared_tiles = 0
    for name, (layout, extents) in problems.items():
        planned = planned_choice(chosen[name][1], extents[1], configs)
        if planned is None:  # tiles by turns, of which --explain gives no time
            stays = stays_as_planned(chosen[name][1], extents, configs)
            if stays is False:
                print(f"fit_engine.py: {name}: {chosen[name][1]}; not so by b_can_stay()")
                return 1
            compared_tiles += stays is not None
            continue
        choice, us = planned
        problem = dict(zip("mnk", extents), layout=layout)
        row = row_of(problem, choice, configs[choice[0]], filled)
        table = {key: np.array([value], float) for key, value in row.items()}
        network = Network(inputs(table, c), UNITS, DECAY)
        here = (estimate(table, c) * network.correction(weights)[2])[0]
        rounding = 0.05 if "." in us else 0.5
        if abs(here - float(us)) > rounding + MOST_APART * here:
            print(f"fit_engine.py: {name}: {chosen[name][1]}; in numpy {here:.2f} us")
            return 1
        compared += 1
    if compared < CHECKED / 3 or compared_tiles < CHECKED / 20:
        print(f"fit_engine.py: --explain gave only {compared} estimates")
        return 1
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("times", nargs="*", default=[])
    what.add_argument("--check", action="store_true")
    parser.add_argument("--keep-constants", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check()
    table, times, spans, sizes = load(options.times)
    now = constants("engine")
    fitted, network, weights = fit(
        Losses(times, spans),
        lambda c: estimate(table, c),
        lambda c: inputs(table, c),
        now,
        # The two were fitted to choices between v17u and v27 (plots/NOTES.md).
        tuple(now) if options.keep_constants else ("copies", "copy_launch"),
        UNITS,
        DECAY,
        sizes,
    )
    write_constants("engine", fitted)
    write_correction(CORRECTION, "gemm::engine", "scripts/fit_engine.py", network, weights)
    return 0


if __name__ == "__main__":
    exit_by(main)
