"""Figure of FP8's errors against K: fast sums, promoted sums, and cuBLASLt's in both modes.

plot.py draws plots/fp8_error.svg from plots/results/<reference GPU>/fp8_error.json, a JSON of
gemm_bench --json of types with results in float, as soon as that is there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from common import ladder
from figures.figure_style import GREY

FILE = "fp8_error.json"
NAME = re.compile(r"(v\d+\w*)/(e4m3_f32(?:_fast)?)/nt/(\d+)x(\d+)x(\d+)")


@dataclass(frozen=True)
class Line:
    """The largest error of a kernel, by K."""

    title: str
    color: str
    style: str
    errors: dict[int, float]


def lines(path: Path) -> tuple[list[Line], dict[str, str], tuple[int, int]]:
    """Ours and cuBLASLt's; the context; M and N."""
    file = ladder.read_json(path)
    ours: dict[str, dict[int, float]] = {}
    theirs: dict[str, dict[int, float]] = {}
    extent = (0, 0)
    for entry in file["benchmarks"]:
        found = NAME.match(entry["name"])
        if not found or "max_error" not in entry:
            continue
        dtype, k = found[2], int(found[5])
        extent = (int(found[3]), int(found[4]))
        ours.setdefault(dtype, {})[k] = float(entry["max_error"])
        if entry.get("baseline_max_error"):
            theirs.setdefault(dtype, {})[k] = float(entry["baseline_max_error"])
    styles = (
        ("e4m3_f32_fast", "#d95f02", "fast: v30", "fast: cuBLASLt"),
        ("e4m3_f32", "#1b6ca8", "promoted: v31", "precise: cuBLASLt"),
    )
    found_lines = []
    for dtype, color, mine, other in styles:
        for title, tone, style, errors in ((mine, color, "-", ours), (other, "black", ":", theirs)):
            if errors.get(dtype):
                found_lines.append(Line(title, tone, style, errors[dtype]))
    return found_lines, file["context"], extent


def draw(path: Path) -> Optional[Figure]:
    if not ladder.result_exists(path):
        return None
    drawn, context, (m, n) = lines(path)
    if not drawn:
        return None
    fig, ax = plt.subplots(figsize=(10, 4.6))
    last = max(max(line.errors) for line in drawn)
    for line in drawn:
        ks = sorted(line.errors)
        ax.plot(ks, [line.errors[k] for k in ks], line.style, color=line.color, linewidth=2.4)
    # Labels at the right, a pair at each height: ours above, the library's below.
    for line in drawn:
        above = line.style == "-"
        ax.annotate(
            line.title,
            (last, line.errors[max(line.errors)]),
            xytext=(8, 6 if above else -8),
            textcoords="offset points",
            color=line.color,
            va="center",
            fontsize=9,
            annotation_clip=False,
        )
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.set_xlabel("K")
    ax.set_ylabel("largest error of an element of C")
    ratio = (
        drawn[0].errors[last]
        / next(l for l in drawn if l.color not in (drawn[0].color, "black")).errors[last]
    )
    fig.suptitle(
        f"At K = {last} promoted sums err {ratio:.0f} times less than fast ones",
        x=0.02,
        ha="left",
        fontsize=12,
        fontweight="bold",
    )
    facts = {key: str(value) for key, value in context.items()}
    fig.text(
        0.02,
        0.855,
        f"{ladder.Results(path, facts, {}).conditions()}\n{m} x {n} x K of e4m3, uniform in [-1, 1), "
        "against double precision. Promoted: after 128 of k the tensor cores' sum is added in FP32.",
        color=GREY,
        fontsize=8.5,
    )
    fig.subplots_adjust(left=0.08, right=0.84, top=0.82, bottom=0.12)
    return fig


def figures(root: Path, gpu: str) -> dict[Path, Optional[Figure]]:
    return {root / "plots" / "fp8_error.svg": draw(ladder.folder_of(gpu, root) / FILE)}
