"""DeepGEMM: bf16 alone. Its B has N rows of K."""

from typing import Any

from deep_gemm import bf16_gemm_nt


def deep_gemm(a: Any, b: Any, out: Any) -> None:
    bf16_gemm_nt(a, b.T, out)
