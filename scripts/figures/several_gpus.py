"""Runs on several GPUs, of gemm_bench --gpus and of bench/ranks.py, as tables' rows and a figure.

embed.py writes the tables. plot.py draws plots/several_gpus.svg from runs of two and of four H200s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from common import ladder

if TYPE_CHECKING:  # embed.py runs without it
    from matplotlib.figure import Figure

RANKS = {gpus: Path("h200") / f"{name}_ranks.json" for gpus, name in {2: "two", 4: "four"}.items()}
ALONE = Path("h200") / "four_gpus.json"  # also has our GEMM alone
COLLECTIVES = {"all_gather": "all-gather, then GEMM", "reduce_scatter": "GEMM, then reduce-scatter"}
SHAPES = {"8192x8192x8192": "#1b6ca8", "2048x8192x8192": "#d95f02", "4096x4096x4096": "#2a8a57"}
NCCL = ("nccl, cublas", "nccl, ours")


@dataclass(frozen=True)
class Sharded:
    """A problem on several GPUs, and of each rung (m1, m2, ...) the fastest way that was measured."""

    collective: str  # as in names: all_gather
    shape: str  # 8192x8192x8192: M, N and K
    rungs: dict[str, dict[str, Any]]


def load(path: Path) -> tuple[list[Sharded], dict[str, str]]:
    """The problems in the order of the file, and its context."""
    file = ladder.read_json(path)
    problems: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for run in file["benchmarks"]:
        rung, _, _, collective, shape, *_ = run["name"].split("/")
        best = problems.setdefault((collective, shape), {})
        tag = re.sub("^m0*", "m", rung.split("_")[0])
        if tag not in best or run["speedup"] > best[tag]["speedup"]:
            best[tag] = run
    return [Sharded(*key, best) for key, best in problems.items()], file["context"]


def load_ranks(path: Path) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """The ways that bench/ranks.py timed, by (collective, shape): {"ours": its numbers}."""
    problems: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for run in ladder.read_json(path)["benchmarks"]:
        way, _, _, collective, shape, *_ = run["name"].split("/")
        problems.setdefault((collective, shape), {})[way] = run
    return problems


def draw(results: Path) -> Optional[Figure]:
    """How many times as much all GPUs compute as one does that waits for no transfer."""
    runs = {gpus: results / file for gpus, file in RANKS.items()}
    if not all(ladder.result_exists(file) for file in (*runs.values(), results / ALONE)):
        return None
    import matplotlib.pyplot as plt

    from figures.figure_style import GREY
    from figures.overlay import spread_apart

    alone = {
        (problem.collective, problem.shape): problem.rungs["m1"]["gemm_ms"]
        for problem in load(results / ALONE)[0]
    }
    measured = {gpus: load_ranks(file) for gpus, file in runs.items()}
    ours: list[float] = []
    fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharey=True)
    for ax, (collective, title) in zip(axes, COLLECTIVES.items()):
        ax.plot([1, 4], [1, 4], color=GREY, linewidth=0.8)
        labels = [(4.0, "bound: no transfer", GREY)]
        for shape, color in SHAPES.items():
            for name, ways, style in (("ours", ("ours",), "-"), ("NCCL", NCCL, "--")):
                points = {1: 1.0}
                for gpus, problems in measured.items():
                    timed = problems[collective, shape]
                    fastest = min(timed[way]["ms"] for way in ways)
                    points[gpus] = gpus * alone[collective, shape] / fastest
                ours += [points[4]] if name == "ours" else []
                ax.plot(*zip(*points.items()), style, color=color, marker="o", markersize=3.5)
                labels.append((points[4], f"{points[4]:.2f}  {name}, {shape}", color))
        heights = spread_apart([y for y, _, _ in labels], 0.17, 1.0, 4.2)
        for y, (_, text, color) in zip(heights, labels):
            ax.text(4.08, y, text, color=color, fontsize=8.5, va="center")
        ax.set_xticks([1, 2, 4])
        ax.set_xlim(0.9, 6.6)
        ax.set_xlabel("GPUs")
        ax.set_title(title, loc="left", fontsize=10)
    axes[0].set_ylabel("times as fast as one GPU")
    context = ladder.read_json(runs[4])["context"]
    fig.suptitle(
        f"Four GPUs do {min(ours):.1f} to {max(ours):.1f} times the work of one",
        x=0.02,
        ha="left",
        fontsize=12,
        fontweight="bold",
    )
    fig.text(
        0.02,
        0.9,
        f"bf16, M x N x K; {context['gpu']}, a process for each GPU, driver {context['driver']}. Each GPU has as much to multiply as one alone has, so P GPUs\n"
        "without any transfer were P times as fast. NCCL: the collective and the faster of cuBLAS and our GEMM, one after the other.",
        color=GREY,
        fontsize=9,
        va="top",
    )
    fig.subplots_adjust(left=0.06, right=0.98, top=0.76, bottom=0.11, wspace=0.05)
    return fig


def figures(root: Path) -> dict[Path, Optional[Figure]]:
    return {root / "plots" / "several_gpus.svg": draw(root / "plots" / "results")}
