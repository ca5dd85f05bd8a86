"""The GEMM ladder's kernels from Python: see docs/python.md.

    import numpy, gemm_ladder
    c = gemm_ladder.matmul(a, b, activation="relu")   # NumPy: in the simulator
    gemm_ladder.plan(4096, 4096, 4096, "float16")     # which kernel, and why
    gemm_ladder.rungs()
    gemm_ladder.inspect("v6", 128)["global_loads"]

gemm_ladder.torch has the operator for torch.compile and autograd.
"""

from __future__ import annotations

from typing import Any

from ._batched import batched_matmul
from ._gated import interleave_gate
from ._grouped import grouped_matmul
from ._inspect import inspect
from ._library import (
    BadArgument,
    DeviceFault,
    Error,
    InternalError,
    LaunchRefused,
    NoDevice,
    OutOfMemory,
    RankFailed,
    Unsupported,
    gpu_count,
)
from ._matmul import Plan, Rung, matmul, plan, rungs, use_tuning
from ._scaled import quantise, scaled_mm
from ._sharded import AllGatherGemm, GemmAllReduce, GemmReduceScatter

__all__ = [
    "matmul",
    "grouped_matmul",
    "batched_matmul",
    "interleave_gate",
    "scaled_mm",
    "quantise",
    "AllGatherGemm",
    "GemmAllReduce",
    "GemmReduceScatter",
    "plan",
    "use_tuning",
    "rungs",
    "inspect",
    "gpu_count",
    "judge",
    "Plan",
    "Rung",
    "Error",
    "BadArgument",
    "Unsupported",
    "NoDevice",
    "OutOfMemory",
    "LaunchRefused",
    "DeviceFault",
    "InternalError",
    "RankFailed",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from ._library import simulator

        return simulator().version().decode()
    if name == "judge":  # the function, not its module, which `python -m` runs
        from .judge import judge

        globals()["judge"] = judge
        return judge
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
