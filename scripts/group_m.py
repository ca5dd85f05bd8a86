#!/usr/bin/env python3
"""Counts with Nsight Compute what GROUP_M changes for v29: its time, hits in L2, bytes from memory.

    scripts/group_m.py plots/results/h200/group_m_l2.json [--size 4096,8192,16384]

One launch for each size and each of GROUP_M = 1, 8 and 16: the first of the verification, whose
operands are small integers. Needs a GPU, ncu and a built ./gemm_bench.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from common.ladder import BadInput, exit_by

TILES = "wgmma 128x192"
GROUPS = (1, 8, 16)
HITS, READ, WRITTEN, TIME = METRICS = (
    "lts__t_sector_hit_rate.pct",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "gpu__time_duration.sum",
)
ELEMENT = 2  # bytes of a half


def counted(printed: str) -> dict[str, float]:
    """One launch, from what `ncu --csv --page raw --print-units base` prints."""
    lines = "\n".join(line for line in printed.splitlines() if line.startswith('"'))
    rows = list(csv.DictReader(io.StringIO(lines)))[1:]  # the first holds the units
    if not rows:
        raise BadInput("ncu saw no kernel of v29")
    value = {metric: float(rows[0][metric].replace(",", "")) for metric in METRICS}
    return {
        "milliseconds": value[TIME] / 1e6,
        "l2_hit_percent": value[HITS],
        "dram_read_gb": value[READ] / 1e9,
        "dram_write_gb": value[WRITTEN] / 1e9,
    }


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise BadInput(f"{words[0]} failed: {said[-1]}")
    return done.stdout


def profile(size: int, group: int) -> dict[str, float]:
    bench = ["./gemm_bench", "--backend", "gpu", "--kernel", "v29", "--dtype", "f16"]
    bench += ["--variant", f"{TILES} g{group}", "--size", str(size), "--verify-only"]
    ncu = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base"]
    ncu += ["--kernel-name", "regex:gemm_v29", "--launch-count", "1"]
    return counted(run(*ncu, "--metrics", ",".join(METRICS), *bench))


def context() -> dict[str, Any]:
    """The GPU and the revision, as gemm_bench writes them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gpu.json")
        bench = ["./gemm_bench", "--backend", "gpu", "--kernel", "v1", "--dtype", "f32"]
        run(*bench, "--shape", "64x64x64", "--verify-only", "--json", str(path))
        found = json.loads(path.read_text(encoding="utf-8"))["context"]
    return {key: found[key] for key in ("gpu", "git_revision")}


def table(found: dict[str, Any]) -> str:
    """In Markdown, beside the least that memory can read: A and B once."""
    lines = [
        "| size | GROUP_M | time, ms | hits in L2, % | read from memory, GB | A and B once, GB |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for size in found["sizes"]:
        least = 2 * ELEMENT * int(size["name"]) ** 2 / 1e9
        for one in size["group_m"]:
            cells = [size["name"], one["name"].removeprefix("g"), f"{one['milliseconds']:.3g}"]
            cells += [f"{one['l2_hit_percent']:.1f}", f"{one['dram_read_gb']:.3g}", f"{least:.3g}"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", default="4096,8192,16384")
    args = parser.parse_args()
    if shutil.which("ncu") is None:
        raise BadInput("ncu (Nsight Compute) is not on the PATH")
    try:
        sizes = [int(size) for size in args.size.split(",")]
    except ValueError:
        raise BadInput(f"--size takes numbers, 4096,8192: {args.size}") from None
    found: dict[str, Any] = {**context(), "rung": "v29", "dtype": "f16", "variant": TILES}
    found |= {"by": "scripts/group_m.py (Nsight Compute)", "sizes": []}
    for size in sizes:
        groups = [{"name": f"g{group}", **profile(size, group)} for group in GROUPS]
        found["sizes"].append({"name": str(size), "group_m": groups})
    args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))


if __name__ == "__main__":
    exit_by(main)
