#!/usr/bin/env python3
"""Writes the groups of a mixture of experts, for gemm_bench --groups: bench/groups/experts_*.txt.

    scripts/expert_groups.py

Each token goes to the experts with the highest scores: an expert's popularity, the same for all
tokens, and noise. So groups are uneven, as a router leaves them. The seed is fixed: the files are
the same each time. Sizes are those of public models.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "bench/groups"
SEED = 2026
UNEVEN = 0.5  # standard deviation of the popularity, beside noise of about 1.3


@dataclass
class Layer:
    experts: int
    each: int  # experts that a token goes to
    of: int  # experts that it chooses among: other GPUs have the rest
    tokens: int
    n: int
    k: int
    what: str


LAYERS = (
    Layer(8, 2, 8, 8192, 14336, 4096, "Mixtral 8x7B: 8 experts, 2 a token, 4096 to 14336"),
    Layer(16, 2, 16, 8192, 6400, 4096, "Phi-3.5-MoE: 16 experts, 2 a token, 4096 to 6400"),
    Layer(
        *(64, 8, 256, 8192, 4096, 7168),
        "DeepSeek-V3: 64 of 256 experts, 8 a token, 7168 to 2 x 2048 (gate and up)",
    ),
)


def rows(layer: Layer) -> list[int]:
    """How many tokens go to each expert here."""
    chance = random.Random(SEED + layer.experts)
    popularity = [chance.gauss(0, UNEVEN) for _ in range(layer.of)]
    counts = [0] * layer.of
    for _ in range(layer.tokens):
        # Gumbel noise: the highest scores are a draw without replacement by exp(popularity).
        scores = [p - math.log(-math.log(chance.random())) for p in popularity]
        for expert in heapq.nlargest(layer.each, range(layer.of), scores.__getitem__):
            counts[expert] += 1
    return counts[: layer.experts]


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for layer in LAYERS:
        lines = [f"# {layer.what}; {layer.tokens} tokens. Made by scripts/expert_groups.py: M N K"]
        lines += [f"{m} {layer.n} {layer.k}" for m in rows(layer)]
        path = FOLDER / f"experts_{layer.experts}.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
