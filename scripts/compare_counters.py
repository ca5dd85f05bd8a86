#!/usr/bin/env python3
"""Holds the simulator's counters against those of a real GPU.

    scripts/compare_counters.py [--check]

Reads plots/results/<gpu>/counters.json (scripts/hardware_counters.py, on the GPU) and
plots/results/simulator/inspect_1024.json (gemm_bench --inspect --size 1024, anywhere) and prints the
table that src/sim/README.md embeds. --check fails where they must agree and do not: global requests
and sectors of every kernel, and the wavefronts of every shared access pattern and of kernels whose
shared accesses are 128-bit as written, within 1 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import ladder

SIMULATED = Path("plots/results/simulator/inspect_1024.json")
MEASURED = "counters.json"  # in the folder of a GPU
TOLERANCE = 0.01
# Kernels that read shared memory by 128-bit vectors, or by words that ptxas has no way to merge.
EXPLICIT = {"v7", "v8", "v10"}


def load(root: Path, gpu: str) -> list[tuple[str, str, dict, dict]]:
    """(rung, dtype, simulated, measured) for every kernel that both have."""
    known = ladder.load_rungs(root)
    simulated = {}
    for entry in json.loads((root / SIMULATED).read_text())["benchmarks"]:
        name, dtype = entry["name"].split("/")[:2]
        simulated[ladder.find_rung(known, name).id, dtype] = entry
    pairs = []
    for kernel in json.loads((ladder.folder_of(gpu, root) / MEASURED).read_text())["rungs"]:
        rung, dtype = ladder.find_rung(known, kernel["rung"]).id, kernel["dtype"]
        entry = simulated.get((rung, dtype)) or simulated.get((rung, "tf32"))
        if entry is not None and "global_loads" in entry:
            pairs.append((rung, entry["name"].split("/")[1], entry, kernel))
    return pairs


def columns(simulated: dict, measured: dict) -> list[tuple[str, float, float]]:
    """(what, the simulator's, the GPU's)."""
    result = []
    for place, unit in (("global", "sectors"), ("shared", "wavefronts")):
        for kind in ("load", "store"):
            mine = simulated[f"{place}_{kind}s"]
            requests = "requests" if place == "global" else "instructions"
            result.append(
                (
                    f"{place} {kind} requests",
                    mine["requests"],
                    measured[f"{place}_{kind}_{requests}"],
                )
            )
            result.append(
                (f"{place} {kind} {unit}", mine[unit], measured[f"{place}_{kind}_{unit}"])
            )
    return result


def agree(mine: float, theirs: float) -> bool:
    return abs(mine - theirs) <= TOLERANCE * max(mine, theirs)


def millions(value: float) -> str:
    return "-" if value == 0 else f"{value / 1e6:.3f}"


def table(gpu: str, root: Path = ladder.ROOT) -> str:
    context = json.loads((ladder.folder_of(gpu, root) / MEASURED).read_text())["context"]
    lines = [
        f"Millions at M = N = K = {context['size']}: the simulator's count and, in brackets where it "
        f"differs by more than 1 %, what Nsight Compute counted on one {context['gpu']}.",
        "",
    ]
    rows = []
    for rung, dtype, simulated, measured in load(root, gpu):
        cells = [
            millions(mine) + ("" if agree(mine, theirs) else f" [{millions(theirs)}]")
            for _, mine, theirs in columns(simulated, measured)
        ]
        rows.append(f"| {rung} | {dtype} | " + " | ".join(cells) + " |")
        names = [name for name, _, _ in columns(simulated, measured)]
    lines.append("| rung | type | " + " | ".join(names) + " |")
    lines.append("|---|---|" + "---:|" * len(names))
    return "\n".join(lines + rows)


def disagreements(gpu: str, root: Path = ladder.ROOT) -> list[str]:
    found = []
    for rung, dtype, simulated, measured in load(root, gpu):
        for name, mine, theirs in columns(simulated, measured):
            must = name.startswith("global") or (
                rung in EXPLICIT and name.startswith("shared load")
            )
            if must and not agree(mine, theirs):
                found.append(f"{rung} {dtype}, {name}: {mine:.0f} simulated, {theirs:.0f} measured")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit 1 where the two disagree")
    parser.add_argument("--gpu", help="default: the one with the most complete ladder")
    args = parser.parse_args()
    gpu = ladder.choose_gpu(args.gpu)
    if not args.check:
        print(table(gpu))
        return
    found = disagreements(gpu)
    print("\n".join(found) or "simulator and GPU agree")
    sys.exit(bool(found))


if __name__ == "__main__":
    try:
        main()
    except ladder.BadInput as error:
        ladder.fail(error)
