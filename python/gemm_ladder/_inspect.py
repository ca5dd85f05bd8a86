"""The microscope: a rung's memory requests, counted in the simulator."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Optional

from ._library import BadArgument, Error, choice, folder, integer, rung_name, shown

BAD_INPUT = 2  # gemm_bench's exit status


def _program() -> str:
    told = os.environ.get("GEMM_LADDER_BENCH")
    beside = folder() / "gemm_bench"
    found = told or (str(beside) if beside.is_file() else shutil.which("gemm_bench"))
    if found is None:
        raise Error(
            "inspect runs gemm_bench, and this package was built without it: "
            "GEMM_LADDER_BENCH may name one"
        )
    return found


def inspect(
    rung: str,
    size: int | tuple[int, int, int] = 256,
    dtype: Optional[str] = None,
    *,
    layout: str = "nn",
    blocks: Optional[int] = None,
) -> dict[str, Any]:
    """Counts what a rung asks of memory at a size (or M, N, K), in the simulator.

    dtype is a name of `gemm_bench --list` ("f32", "tf32", "f16", "bf16", "f16_f32", "bf16_f32"),
    or None for the rung's first. blocks bounds how many blocks are traced. Returns gemm_bench's JSON
    of that problem: "global_loads", "shared_stores", ... with their "requests"; "lines", by line of the
    source; "findings", its mistakes.
    """
    shape = tuple(size) if isinstance(size, (tuple, list)) else (size, size, size)
    if len(shape) != 3:
        raise ValueError(f"size is {shown(size)}: wanted is a number, or M, N and K")
    name = rung_name(rung)
    if name is None:
        raise TypeError('rung is None: wanted is a name, such as "v6"')
    if dtype is not None and not (isinstance(dtype, str) and dtype.isprintable()):
        raise TypeError(f"dtype is {shown(dtype)}: wanted is a name of gemm_bench --list")
    choice("layout", layout, ("nn", "nt", "tn", "tt"))
    command = [_program(), "--inspect", f"--kernel={name.decode()}", f"--op={layout}"]
    command += ["--shape", "x".join(str(integer("size", x)) for x in shape)]
    command += [] if dtype is None else [f"--dtype={dtype}"]
    command += [] if blocks is None else [f"--blocks={integer('blocks', blocks)}"]
    with tempfile.TemporaryDirectory() as there:
        report = Path(there, "report.json")
        try:
            done = subprocess.run(
                [*command, "--json", str(report)], capture_output=True, text=True, check=False
            )
        except OSError as error:
            raise Error(f"{command[0]} cannot be run: {error.strerror}") from None
        if not report.exists():
            told = (done.stderr.strip().splitlines() or ["gemm_bench failed"])[-1]
            raise (BadArgument if done.returncode == BAD_INPUT else Error)(told)
        entries = json.loads(report.read_text(encoding="utf-8"))["benchmarks"]
    named = 1 if dtype is None else 2  # parts of KERNEL/TYPE/LAYOUT/SHAPE
    if len({tuple(entry["name"].split("/")[:named]) for entry in entries}) > 1:
        raise ValueError(f"rung {shown(rung)} and dtype {shown(dtype)} name several: give one")
    if "global_loads" not in entries[0]:
        raise BadArgument(f"{name.decode()}: {entries[0]['error_message']}")
    return entries[0]
