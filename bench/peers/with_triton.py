"""scripts/triton_gemm.py: a kernel of ours in Triton, in the way of its tutorial."""

import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[2] / "scripts"))
from triton_gemm import gemm


def triton(a: Any, b: Any, out: Any) -> None:
    gemm(a, b, out)
