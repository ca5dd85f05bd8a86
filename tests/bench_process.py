"""Runs of gemm_bench and of its relatives with other rungs, for tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def run(program: str, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """`program` is the variable that holds its path: GEMM_BENCH, FAULT_BENCH, VARIANT_BENCH. Nothing
    of this machine's environment reaches its results."""
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("cwd", ROOT)
    return subprocess.run(
        [os.environ[program], *args],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        timeout=300,
        encoding="latin-1",  # every byte is a character: tests look at them
        env=environment(options.pop("env", {})),
        **options,
    )


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("BENCHMARK_")}
    return {**kept, "OPENBLAS_NUM_THREADS": "1", **changes}
