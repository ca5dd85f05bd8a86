#!/usr/bin/env python3
"""Holds the simulator's counters against those of a real GPU.

    scripts/compare_counters.py [--check]

Reads plots/results/<gpu>/counters.json (scripts/hardware_counters.py, on the GPU) and
plots/results/simulator/inspect_1024.json (gemm_bench --inspect --size 1024, anywhere) and prints the
table that src/sim/README.md embeds. --check counts anew, by $GEMM_BENCH or ./gemm_bench, and fails

  where the kernels of today do not count what that file says, in any figure;
  where simulator and GPU must agree and do not: global requests and sectors of every kernel, and the
  wavefronts of every shared access pattern and of kernels whose shared accesses are 128-bit as
  written, within 1 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import ladder

SIMULATED = Path("plots/results/simulator/inspect_1024.json")
MEASURED = "counters.json"  # in the folder of a GPU
TOLERANCE = 0.01
# Kernels that read shared memory by 128-bit vectors, or by words that ptxas has no way to merge.
EXPLICIT = {"v7", "v8", "v10"}


# What --check counts anew. Lines are left out: they move when comments do.
COUNTED = (
    *("blocks", "threads_per_block", "barriers", "findings"),
    *("global_loads", "global_stores", "shared_loads", "shared_stores"),
)


def counted_today(kernels: list[str], bench: Path) -> dict[str, dict]:
    """Entries of gemm_bench --inspect by name, as many blocks traced as in the committed file."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "inspect.json")
        wanted = ("--inspect", "--kernel", ",".join(kernels), "--size", "1024", "--json", str(file))
        try:
            done = subprocess.run([bench, *wanted], check=False, capture_output=True, text=True)
        except OSError as error:
            raise ladder.BadInput(
                f"{bench}: {error.strerror}; build it first, or set GEMM_BENCH"
            ) from None
        if done.returncode != 0:
            raise ladder.BadInput(f"{bench} failed: {(done.stderr or done.stdout).strip()}")
        entries = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]
    return {entry["name"]: entry for entry in entries}


def changes(bench: Path, root: Path = ladder.ROOT) -> list[str]:
    """Where the kernels of today differ from the committed counters."""
    committed = ladder.read_json(root / SIMULATED)["benchmarks"]
    kernels = dict.fromkeys(entry["name"].split("/")[0] for entry in committed)
    today = counted_today(list(kernels), bench)
    found = []
    for entry in committed:
        now = today.get(entry["name"])
        if now is None:
            found.append(f"{entry['name']}: in {SIMULATED}, but not counted today")
            continue
        for key in COUNTED:
            was, is_now = entry.get(key), now.get(key)
            if was != is_now:
                found.append(f"{entry['name']}, {key}: {was} in {SIMULATED}, {is_now} today")
    return found


def load(root: Path, gpu: str) -> list[tuple[str, str, dict, dict]]:
    """(rung, dtype, simulated, measured) for every kernel that both have."""
    known = ladder.load_rungs(root)
    simulated = {}
    for entry in ladder.read_json(root / SIMULATED)["benchmarks"]:
        name, dtype = entry["name"].split("/")[:2]
        simulated[ladder.find_rung(known, name).id, dtype] = entry
    pairs = []
    for kernel in ladder.read_json(ladder.folder_of(gpu, root) / MEASURED)["rungs"]:
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
    context = ladder.read_json(ladder.folder_of(gpu, root) / MEASURED)["context"]
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
    parser.add_argument(
        "--check", action="store_true", help="count anew; exit 1 on any disagreement"
    )
    parser.add_argument("--gpu", help="default: the one with the most complete ladder")
    args = parser.parse_args()
    gpu = ladder.choose_gpu(args.gpu)
    if not args.check:
        print(table(gpu))
        return
    bench = Path(os.environ.get("GEMM_BENCH") or ladder.ROOT / "gemm_bench")
    changed, found = changes(bench), disagreements(gpu)
    print("\n".join(changed + found) or "committed counters, today's kernels and the GPU agree")
    if changed:
        print(f"if meant: ./gemm_bench --inspect --size 1024 --kernel v1-v10 --json {SIMULATED}")
    sys.exit(bool(changed or found))


if __name__ == "__main__":
    ladder.exit_by(main)
