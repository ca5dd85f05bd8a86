#!/usr/bin/env python3
"""Counts on a GPU, with Nsight Compute, what the simulator counts: memory requests, sectors and
shared-memory wavefronts of every rung at one size, and of shared_patterns' access patterns. Writes
one JSON file.

    scripts/hardware_counters.py plots/results/h200/counters.json
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZE = 1024
L1 = "l1tex__"
METRICS = {
    "global_load_requests": L1 + "t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": L1 + "t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": L1 + "t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": L1 + "t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_instructions": "smsp__inst_executed_op_shared_ld.sum",
    "shared_load_wavefronts": L1 + "data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_load_bank_conflicts": L1 + "data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_instructions": "smsp__inst_executed_op_shared_st.sum",
    "shared_store_wavefronts": L1 + "data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_store_bank_conflicts": L1 + "data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def profile(*command: str) -> list[dict]:
    """One record a launch: kernel, grid, and the counters under the names above."""
    run = subprocess.run(
        ["ncu", "--clock-control", "none", "--csv", "--page", "raw"]
        + ["--metrics", ",".join(METRICS.values()), *command],
        capture_output=True,
        text=True,
    )
    if run.returncode != 0:
        sys.exit(f"ncu failed: {(run.stderr or run.stdout).strip().splitlines()[-1]}")
    table = "\n".join(line for line in run.stdout.splitlines() if line.startswith('"'))
    rows = list(csv.DictReader(io.StringIO(table)))[1:]  # the first holds the units
    launches = []
    for row in rows:
        counters = {name: int(row[metric].replace(",", "")) for name, metric in METRICS.items()}
        launches.append({"kernel": row["Kernel Name"], **counters})
    return launches


def rungs(bench: str) -> list[dict]:
    """Every kernel of the ladder once; verification launches each twice with the same counts."""
    found: dict[tuple[str, str], dict] = {}
    for launch in profile(
        "--kernel-name",
        "regex:gemm_v",
        bench,
        "--verify-only",
        "--backend",
        "gpu",
        "--size",
        str(SIZE),
    ):
        match = re.search(r"gemm_(v\w+?)<(\w+)", launch["kernel"])
        if match:
            kernel, element = match.groups()
            dtype = {"float": "f32", "__half": "f16"}[element]
            found.setdefault(
                (kernel, dtype), {"rung": kernel, "dtype": dtype, "size": SIZE} | launch
            )
    return list(found.values())


def patterns(program: str) -> list[dict]:
    """The access patterns in the order in which shared_patterns lists them, loads and stores."""
    listing = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    listed = list(csv.reader(io.StringIO(listing)))[1:]
    launches = profile(program)
    if len(launches) != 2 * len(listed):
        sys.exit(f"{len(launches)} launches were profiled, {2 * len(listed)} expected")
    records = []
    for i, (name, width, *elements) in enumerate(listed):
        load, store = launches[2 * i], launches[2 * i + 1]
        records.append(
            {
                "pattern": name,
                "width": int(width),
                "elements": [int(e) for e in elements],
                "load_wavefronts": load["shared_load_wavefronts"],
                "store_wavefronts": store["shared_store_wavefronts"],
            }
        )
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--bench", default="./gemm_bench")
    parser.add_argument("--patterns", default="build/shared_patterns")
    args = parser.parse_args()
    if shutil.which("ncu") is None:
        sys.exit("ncu (Nsight Compute) is not on the PATH")
    query = subprocess.run(
        ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()[0]
    gpu, driver = (part.strip() for part in query.split(","))
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True).stdout
    ncu = re.search(r"Version (\S+)", version)
    result = {
        "context": {
            "gpu": gpu,
            "driver": driver,
            "ncu": ncu[1] if ncu else "unknown",
            "size": SIZE,
        },
        "rungs": rungs(args.bench),
        "patterns": patterns(args.patterns),
    }
    args.output.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{args.output}: {len(result['rungs'])} kernels, {len(result['patterns'])} patterns")


if __name__ == "__main__":
    main()
