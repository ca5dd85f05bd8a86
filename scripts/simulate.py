#!/usr/bin/env python3
"""Writes what the simulator knows and figures show, the same bytes on every machine:

  plots/results/simulator/warp_requests.json  the first requests of one warp, lane by lane
  plots/results/simulator/swizzles.json       where the swizzles put the chunks of a tile
  plots/results/simulator/layouts.json        tiles of rungs, fragments of mma.sync, order of blocks

Asks gemm_bench ($GEMM_BENCH, or ./gemm_bench), and swizzle_table and layout_table beside it.
--check writes nothing and fails when a file is stale. Then draw: scripts/plot.py.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from common.ladder import (
    ROOT,
    BadInput,
    fail,
    find_rung,
    load_rungs,
    result_exists,
    stored,
    unpacked,
)

RESULTS = Path("plots/results/simulator")
REQUESTS, SWIZZLES = RESULTS / "warp_requests.json", RESULTS / "swizzles.json"
LAYOUTS = RESULTS / "layouts.json"
# Rungs of which figures show the tiles.
TILES = (
    *("v2/f32", "v3/f32", "v5/f32", "v6/f32", "v7/f32", "v11/f32"),
    *("v10/f16", "v16/f16", "v18/f16", "v20/f16"),
)
RUNGS = ("v1", "v1u", "v5", "v6", "v7")  # those that the figures show
# Lines move when comments do, and figures do not show them.
LEFT_OUT = ("line", "helper")


def run(program: Path, *args: str) -> str:
    try:
        done = subprocess.run([program, *args], capture_output=True, text=True)
    except OSError as error:
        raise BadInput(f"{program}: {error.strerror}; build it first, or set GEMM_BENCH") from None
    if done.returncode != 0:
        raise BadInput(f"{program.name} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def warp_requests(bench: Path) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "run.json")
        wanted = ("--kernel", ",".join(RUNGS), "--dtype", "f32", "--size", "256", "--warp", "0")
        run(bench, "--inspect", *wanted, "--json", str(file))
        entries = json.loads(file.read_text(encoding="utf-8"))["benchmarks"]
    warps = [{"name": entry["name"], **entry["warp"]} for entry in entries]
    for warp in warps:
        by_memory = sorted(warp["requests"], key=lambda r: (r["space"], r["memory"], r["access"]))
        warp["requests"] = [
            {key: value for key, value in request.items() if key not in LEFT_OUT}
            for request in by_memory
        ]
    return written({"warps": warps})


def swizzles(bench: Path) -> str:
    return written(json.loads(run(bench.resolve().parent / "swizzle_table")))


def layouts(bench: Path) -> str:
    rungs, tiles = load_rungs(), (tile.split("/") for tile in TILES)
    wanted = [f"{find_rung(rungs, tag).name}/{dtype}" for tag, dtype in tiles]
    return written(json.loads(run(bench.resolve().parent / "layout_table", *wanted)))


def written(data: Any, indent: str = "") -> str:
    """JSON with a line for every object or list that holds no objects."""
    inner = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    if not any(isinstance(value, dict) or holds_objects(value) for value in inner):
        return json.dumps(data)
    deeper = indent + "  "
    if isinstance(data, dict):
        items = [f"{json.dumps(key)}: {written(value, deeper)}" for key, value in data.items()]
    else:
        items = [written(value, deeper) for value in data]
    left, right = "{}" if isinstance(data, dict) else "[]"
    body = ",\n".join(deeper + item for item in items)
    return f"{left}\n{body}\n{indent}{right}" + ("\n" if not indent else "")


def holds_objects(data: Any) -> bool:
    return isinstance(data, list) and any(isinstance(value, dict) for value in data)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()

    root, stale = args.root.resolve(), False
    bench = Path(os.environ.get("GEMM_BENCH") or ROOT / "gemm_bench")
    for path, wanted in (
        (REQUESTS, warp_requests(bench)),
        (SWIZZLES, swizzles(bench)),
        (LAYOUTS, layouts(bench)),
    ):
        file = root / path
        have = unpacked(stored(file)).decode("utf-8") if result_exists(file) else None
        if have == wanted:
            continue
        stale = True
        if args.check:
            print(f"{path}: {'missing' if have is None else 'stale'}")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(wanted, encoding="utf-8")
            print(f"{path}: written")
    if stale and args.check:
        print("run scripts/simulate.py, then scripts/plot.py", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        fail(error)
