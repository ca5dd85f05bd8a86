#!/usr/bin/env python3
"""Writes the public sets of shapes, bench/shapes/{grid1000,layers,random}.txt.

scripts/shapes.py                    writes the three files
scripts/shapes.py --check            writes nothing; exit 1 when a file is not what it would write
scripts/shapes.py random --seed 7    prints a set; random.txt is the draw of seed 1

grid1000  M, N and K each one of ten sizes: a public grid of machine-searched kernels
layers    the products of language models: N and K are a layer's, M is the number of tokens
random    extents log-uniform in 32 .. 8192, half of the shapes multiples of 8
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from common.ladder import ROOT, BadInput, exit_by

FOLDER = Path("bench/shapes")
RUN = "./gemm_bench --quick --shapes bench/shapes/{0}.txt --json plots/results/<gpu>/{0}.json"
WRITTEN = "# Written by scripts/shapes.py; scripts/summary.py and scripts/plot.py show the results."


# grid1000
# --------------------------------------------------------------------------------------------------

GRID = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 12288, 16384)


def grid1000(_seed: int) -> str:
    sizes = ",".join(map(str, GRID))
    return f"""# All 1000 combinations of ten sizes, FP16:
# {RUN.format("grid1000")} --kernel v28
{WRITTEN}
{sizes}x{sizes}x{sizes} nn f16
"""


# layers
# --------------------------------------------------------------------------------------------------

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
HEAD_TOKENS = 256  # the head sees only the last token of each sequence


@dataclass(frozen=True)
class Model:
    """A decoder's dense layers. q, k and v are one product, as are gate and up."""

    name: str
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    ffn: int
    vocabulary: int
    gated: bool = True
    gpus: int = 1  # that share each product: N of qkv, gate and head; K of o and down

    def projections(self) -> list[tuple[str, int, int]]:
        """What it is called, N and K."""
        attention = self.heads * self.head_size
        qkv = attention + 2 * self.kv_heads * self.head_size
        up = ("gate, up", 2 * self.ffn) if self.gated else ("up", self.ffn)
        return [
            ("qkv", qkv // self.gpus, self.hidden),
            ("o", self.hidden, attention // self.gpus),
            (up[0], up[1] // self.gpus, self.hidden),
            ("down", self.hidden, self.ffn // self.gpus),
            ("head", self.vocabulary // self.gpus, self.hidden),
        ]


class LatentAttention(Model):
    """DeepSeek V3: queries, keys and values by way of narrow latent vectors; many small experts."""

    def projections(self) -> list[tuple[str, int, int]]:
        q_rank, kv_rank, rope, value, expert = 1536, 512, 64, 128, 2048
        per_head = self.head_size + rope
        return [
            ("q, kv down", q_rank + kv_rank + rope, self.hidden),
            ("q up", self.heads * per_head, q_rank),
            ("kv up", self.heads * (self.head_size + value), kv_rank),
            ("o", self.hidden, self.heads * value),
            ("gate, up", 2 * self.ffn, self.hidden),
            ("down", self.hidden, self.ffn),
            ("expert's gate, up", 2 * expert, self.hidden),
            ("expert's down", self.hidden, expert),
            ("head", self.vocabulary, self.hidden),
        ]


# From the models' published configurations.
MODELS = (
    Model("GPT-2 XL", 1600, 25, 25, 64, 6400, 50257, gated=False),
    Model("Falcon 7B", 4544, 71, 1, 64, 18176, 65024, gated=False),
    Model("Phi-3 mini", 3072, 32, 32, 96, 8192, 32064),
    Model("Llama 3 8B", 4096, 32, 8, 128, 14336, 128256),
    Model("Llama 3 70B", 8192, 64, 8, 128, 28672, 128256),
    Model("Llama 3 70B on 8 GPUs", 8192, 64, 8, 128, 28672, 128256, gpus=8),
    Model("Qwen2.5 7B", 3584, 28, 4, 128, 18944, 152064),
    Model("Qwen3 32B", 5120, 64, 8, 128, 25600, 151936),
    Model("Gemma 2 9B", 3584, 16, 8, 256, 14336, 256000),
    LatentAttention("DeepSeek V3", 7168, 128, 128, 128, 18432, 129280),
)


def layers(_seed: int) -> str:
    lines = [
        "# Layers of public language models, BF16: M tokens times a weight of N x K.",
        f"# {RUN.format('layers')} --kernel v28",
        WRITTEN,
        f"# Heads up to M = {HEAD_TOKENS} only: they see the last token of each sequence.",
    ]
    seen: set[tuple[int, int]] = set()
    for model in MODELS:
        lines += ["", f"# {model.name}"]
        for name, n, k in model.projections():
            if (n, k) in seen:
                lines.append(f"# {name}: {n} x {k}, as above")
                continue
            seen.add((n, k))
            tokens = [m for m in TOKENS if name != "head" or m <= HEAD_TOKENS]
            lines.append(f"{','.join(map(str, tokens))}x{n}x{k} nt bf16  # {name}")
    return "\n".join(lines) + "\n"


# random
# --------------------------------------------------------------------------------------------------

LEAST, MOST, EACH = 32, 8192, 60
SEED = 1


def draw(source: random.Random, aligned: bool) -> int:
    extent = int(LEAST * (MOST / LEAST) ** source.random())
    return max(LEAST, extent // 8 * 8) if aligned else extent


def random_shapes(seed: int) -> str:
    lines = [
        f"# M, N and K log-uniform in {LEAST} .. {MOST}; every second shape is of multiples of 8.",
        f"# {EACH} for each type and transposition, FP32 without tensor cores and FP16:",
        f"# {RUN.format('random')} --kernel v13,v28",
        WRITTEN + (f" Seed {seed}." if seed != SEED else ""),
    ]
    for dtype in ("f32", "f16"):
        for op in ("nn", "nt", "tn", "tt"):
            source = random.Random(f"{seed} {dtype} {op}")
            lines.append("")
            for i in range(EACH):
                extents = [draw(source, i % 2 == 0) for _ in range(3)]
                lines.append(f"{'x'.join(map(str, extents))} {op} {dtype}")
    return "\n".join(lines) + "\n"


SETS: dict[str, Callable[[int], str]] = {
    "grid1000": grid1000,
    "layers": layers,
    "random": random_shapes,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", nargs="?", help="print this one: " + ", ".join(SETS))
    parser.add_argument("--seed", type=int, default=SEED, help="another draw of random")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.set:
        if args.set not in SETS:
            raise BadInput(f"unknown set '{args.set}': choose from {', '.join(SETS)}")
        print(SETS[args.set](args.seed), end="")
        return 0
    if args.seed != SEED:
        raise BadInput(
            "--seed goes with random, which is printed: scripts/shapes.py random --seed 7"
        )
    stale = 0
    for name, write in SETS.items():
        path, wanted = args.root / FOLDER / f"{name}.txt", write(SEED)
        if path.is_file() and path.read_text(encoding="utf-8") == wanted:
            continue
        stale = 1
        if not args.check:
            path.write_text(wanted, encoding="utf-8")
        print(f"{FOLDER / name}.txt: {'stale' if args.check else 'written'}")
    if stale and args.check:
        print("run scripts/shapes.py", file=sys.stderr)
    return stale if args.check else 0


if __name__ == "__main__":
    exit_by(main)
