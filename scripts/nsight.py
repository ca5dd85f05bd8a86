#!/usr/bin/env python3
"""Profiles rungs with Nsight Compute and keeps what the chapters show of it, one column a rung:

  scripts/nsight.py v2,v3 plots/results/h200/ncu_v02_v03.csv
  scripts/nsight.py v13,v9 ncu.csv --size 4096 --dtype f32

Needs a GPU, ncu and a built ./gemm_bench. The file has the columns metric, unit, and a rung each.
"""

from __future__ import annotations

import argparse
import csv
import io
import shutil
import subprocess
import sys
from pathlib import Path

from common.ladder import BadInput, Rung, fail, load_rungs, select_rungs

SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_"
# The profiler's name, that of counters.json, and where the simulator has it.
COUNTERS = (
    ("l1tex__t_requests_pipe_lsu_mem_global_op_ld", "global_load_requests", "global_loads", "requests"),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld", "global_load_sectors", "global_loads", "sectors"),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st", "global_store_sectors", "global_stores", "sectors"),
    ("smsp__inst_executed_op_shared_ld", "shared_load_instructions", "shared_loads", "requests"),
    (SHARED + "ld", "shared_load_wavefronts", "shared_loads", "wavefronts"),
    (SHARED + "st", "shared_store_wavefronts", "shared_stores", "wavefronts"),
)  # fmt: skip

STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
FMA = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"
ISSUED = "smsp__issue_active.avg.pct_of_peak_sustained_active"
# What a table shows: a title, and the metric. A title that begins with "no" is 100 less the metric.
TABLES: dict[str, tuple[tuple[str, str], ...]] = {
    "occupancy": (
        ("registers per thread", "launch__registers_per_thread"),
        ("shared memory per CTA, bytes", "launch__shared_mem_per_block"),
        ("CTAs per SM that registers allow", "launch__occupancy_limit_registers"),
        ("CTAs per SM that shared memory allows", "launch__occupancy_limit_shared_mem"),
        ("CTAs per SM that warps allow", "launch__occupancy_limit_warps"),
        ("warps per scheduler, on average", "smsp__warps_active.avg.per_cycle_active"),
        ("of them able to issue", "smsp__warps_eligible.avg.per_cycle_active"),
    ),
    "slots": (
        ("issue slots used, %", ISSUED),
        ("multiply-adds, % of what the slots allow", FMA),
        ("no instruction issued, %", ISSUED),
        ("loads and stores, % of their pipe", "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active"),
        ("shared memory, % of its wavefronts",
         "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"),
        ("hits in L2, %", "lts__t_sector_hit_rate.pct"),
    ),
    "stalls": (
        ("long scoreboard: global memory", STALLED.format("long_scoreboard")),
        ("short scoreboard: shared memory", STALLED.format("short_scoreboard")),
        ("MIO throttle: queue of shared memory full", STALLED.format("mio_throttle")),
        ("LG throttle: queue of global memory full", STALLED.format("lg_throttle")),
        ("barrier", STALLED.format("barrier")),
        ("dispatch: registers in one bank", STALLED.format("dispatch_stall")),
        ("no instruction: fetch", STALLED.format("no_instruction")),
        ("wait: fixed latency", STALLED.format("wait")),
        ("math pipe throttle", STALLED.format("math_pipe_throttle")),
        ("not selected: another warp issued", STALLED.format("not_selected")),
    ),
}  # fmt: skip
METRICS = sorted({metric for rows in TABLES.values() for _, metric in rows})


def table(path: Path, wanted: str) -> str:
    """A table of the committed profile, in Markdown."""
    if wanted not in TABLES:
        raise BadInput(f"no table '{wanted}' of a profile; known: {', '.join(TABLES)}")
    rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
    if not rows or rows[0][:2] != ["metric", "unit"]:
        raise BadInput(f"{path.name}: its first line is not metric,unit,...")
    columns, values = rows[0][2:], {row[0]: row[2:] for row in rows[1:]}
    head = "cycles a warp waits between two of its instructions" if wanted == "stalls" else ""
    lines = [f"| {head} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for title, metric in TABLES[wanted]:
        if metric not in values:
            continue
        cells = values[metric]
        if title.startswith("no instruction issued"):
            cells = [f"{100 - float(cell):.2f}" for cell in cells]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def transposed(columns: dict[str, str]) -> str:
    """The file: from what `ncu --csv --page raw` prints for each column, a line a metric."""
    units: dict[str, str] = {}
    values: dict[str, dict[str, str]] = {}
    for name, text in columns.items():
        printed = "\n".join(line for line in text.splitlines() if line.startswith('"'))
        records = list(csv.DictReader(io.StringIO(printed)))
        if len(records) < 2:
            raise BadInput(f"{name}: ncu saw no kernel")
        values[name] = records[1]
        units |= records[0]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["metric", "unit", *columns])
    for metric in METRICS:
        row = [values[name].get(metric, "") for name in columns]
        writer.writerow([metric, units.get(metric, ""), *row])
    return out.getvalue()


def profile(rung: Rung, size: int, dtype: str) -> str:
    kernel = "gemm|nvjet|cutlass|xmma" if rung.is_baseline else f"gemm_{rung.tag}"
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw"]
    command += ["--kernel-name", f"regex:{kernel}", "--launch-count", "1"]
    command += ["--metrics", ",".join(METRICS), "./gemm_bench", "--backend", "gpu"]
    command += ["--kernel", rung.name, "--dtype", dtype, "--size", str(size), "--verify-only"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise BadInput(f"ncu failed on {rung.id}: {said[-1]}")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rungs", help="v2,v3")
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--dtype", default="f32")
    args = parser.parse_args()
    if shutil.which("ncu") is None:
        raise BadInput("ncu (Nsight Compute) is not on the PATH")
    chosen = select_rungs(load_rungs(), args.rungs)
    found = {f"{r.id} at {args.size}": profile(r, args.size, args.dtype) for r in chosen}
    args.output.write_text(transposed(found), encoding="utf-8")
    print(f"{args.output}: {', '.join(found)}")


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        fail(error)
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
