"""Runs on several GPUs, of gemm_bench --gpus and of bench/ranks.py, as tables' rows and a figure.

embed.py writes the tables. plot.py draws plots/several_gpus.svg from plots/results/h100/two_gpus.json:
the one GPU of which two of a host have been measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from common import ladder

if TYPE_CHECKING:  # embed.py runs without it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILE = Path("h100") / "two_gpus.json"
COLLECTIVES = {"all_gather": "all-gather, then GEMM", "reduce_scatter": "GEMM, then reduce-scatter"}
COLORS = {"m2": "#7570b3", "m3": "#1b6ca8", "m4": "#d95f02"}
M1, WIRE, GEMM = "#555555", "#9a9a9a", "#d4d4d4"


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


def draw_problem(ax: Axes, y: float, problem: Sharded) -> float:
    """Its bars from y downwards; returns where the next problem begins."""
    m1 = problem.rungs["m1"]
    whole = m1["serial_ms"]
    ax.text(0, y, problem.shape.replace("x", " x "), fontsize=9, va="center")
    y += 0.85
    ax.barh(y, 1, 0.8, color=M1)
    ax.text(0.01, y, f"m1: {whole:.2f} ms", fontsize=8.5, va="center", color="w")
    y += 0.7
    for part, color, left in (("gemm", GEMM, 0.0), ("wire", WIRE, m1["gemm_ms"])):
        ax.barh(y, m1[f"{part}_ms"] / whole, 0.35, left=left / whole, color=color)
    y -= 0.1
    for tag, color in COLORS.items():
        run = problem.rungs.get(tag)
        if run is None:
            continue
        y += 0.9
        ax.barh(y, 1 / run["speedup"], 0.8, color=color)
        low, high = 1 / run["speedup_p90"], 1 / run["speedup_p10"]
        ax.plot([low, high], [y, y], color="black", linewidth=1.2)
        ax.text(
            0.01,
            y,
            f"{tag}: {run['speedup']:.2f} times as fast",
            fontsize=8.5,
            va="center",
            color="w",
        )
    return y + 1.3


def draw(path: Path) -> Optional[Figure]:
    if not ladder.result_exists(path):
        return None
    import matplotlib.pyplot as plt

    from figures.figure_style import GREY

    problems, context = load(path)
    fig, axes = plt.subplots(1, 2, figsize=(10, 5.8))
    longest, most = 1.0, 1.0
    for ax, (collective, title) in zip(axes, COLLECTIVES.items()):
        y = 0.0
        for problem in problems:
            if problem.collective == collective:
                m1 = problem.rungs["m1"]
                longest = max(longest, (m1["gemm_ms"] + m1["wire_ms"]) / m1["serial_ms"])
                most = max(
                    most, *(run["speedup"] for run in problem.rungs.values() if "speedup" in run)
                )
                y = draw_problem(ax, y, problem)
        ax.axvline(1, color=GREY, linewidth=0.8)
        ax.set_ylim(y - 0.6, -0.7)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.grid(False)
        ax.set_xlabel("time over that of m1")
        ax.set_title(title, loc="left", fontsize=10)
    for ax in axes:
        ax.set_xlim(0, longest * 1.01)
    fig.suptitle(
        f"Hiding the transfer on two GPUs: up to {most:.2f} times as fast",
        x=0.02,
        ha="left",
        fontsize=12,
        fontweight="bold",
    )
    fig.text(
        0.02,
        0.875,
        f"bf16, M x N x K; {context['gpus']} x {context['gpu']}, driver {context['driver']}, CUDA {context['cuda_runtime']}, revision {context['git_revision']}. "
        "m1: transfer, then product; m2: a copy\nengine fetches shards meanwhile; m3: one kernel waits for "
        "chunks; m4: its epilogue stores into the other GPU.\n"
        "Thin bars below m1: light, our GEMM alone; dark, NCCL alone. Black lines: p10 to p90.",
        color=GREY,
        fontsize=9,
        va="center",
    )
    fig.subplots_adjust(left=0.02, right=0.98, top=0.78, bottom=0.1, wspace=0.06)
    return fig


def figures(root: Path) -> dict[Path, Optional[Figure]]:
    return {root / "plots" / "several_gpus.svg": draw(root / "plots" / "results" / FILE)}
