"""Wins and losses over many shapes, at a glance (scripts/summary.py --plot, scripts/plot.py).

A map has a mark for each shape: M x N to the right, K upwards, the ratio to the baseline as a
colour that diverges from 1.00. Shapes with the same M x N and K stand on each other. Where the run
has a few M for many layers, a column for each M says it better: all ratios, and their mean.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Optional

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import Bbox

import summary
from common import ladder, runs
from common.ladder import BadInput
from common.runs import Entry, Run
from figures.figure_style import GREY, STYLE, svg

# Figures by name: a run, its type, and what the title calls it. A run of the figure's own name goes
# first, since it was measured later than the one of all types.
SETS = {
    "grid1000": ("grid1000", "f16", "1000 shapes on a grid"),
    "layers": ("layers", "bf16", "Language models' layers"),
    "random_f16": ("random", "f16", "Random shapes"),
    "random_f32": ("random", "f32", "Random shapes"),
}
# Limits of the colours. Red below 1.00, blue above, light grey for what is level: the two ends
# differ in lightness from the middle and in hue from each other, also for the colour-blind.
LIMITS = (0.80, 0.90, 0.97, 1.03, 1.10, 1.25)
COLORS = ("#8c0d25", "#d6604d", "#f4a582", "#d9d9d9", "#92c5de", "#4393c3", "#0b3d73")
WIDTH = 10  # inches
TURNS = (35, -35, 0, 145, 215, 180, 70, -70)  # degrees: where a number may stand, the best first
MOST_COLUMNS = 20  # M, in the picture with a column for each


def band(ratio: float) -> int:
    return sum(ratio >= limit for limit in LIMITS)


def band_name(index: int) -> str:
    if index == 0:
        return f"< {LIMITS[0]:.2f}"
    if index == len(LIMITS):
        return f">= {LIMITS[-1]:.2f}"
    return f"{LIMITS[index - 1]:.2f} .. {LIMITS[index]:.2f}"


def short(n: float) -> str:
    """1024 -> 1K: sizes are powers of two, or near them."""
    for unit, size in (("G", 2**30), ("M", 2**20), ("K", 2**10)):
        if n >= size:
            return f"{n / size:.3g}{unit}"
    return f"{n:.0f}"


def by_tokens(entries: list[Entry]) -> bool:
    """Whether the run has many products for each of a few M."""
    ms, ns = {e.shape[0] for e in entries}, {e.shape[1] for e in entries}
    return 1 < len(ms) <= MOST_COLUMNS and ms != ns and len(entries) >= 5 * len(ms)


# What both pictures have
# --------------------------------------------------------------------------------------------------


def words(entries: list[Entry], named: str) -> str:
    """The finding."""
    whole = summary.Group("", entries)
    rungs = ", ".join(dict.fromkeys(runs.rung_id(e.key[0]) for e in entries))
    share = whole.below(summary.CLEARLY_BELOW)
    return (
        f"{named}: {rungs} has {whole.mean:.2f} of the libraries' speed (geometric mean), "
        f"{100 * share:.{0 if share >= 0.1 else 1}f} % below {summary.CLEARLY_BELOW}"
    )


def conditions(run: Run) -> str:
    facts = {key: str(value) for key, value in run.context.items()}
    return ladder.Results(run.path, facts, {}).conditions()


def heading(fig: Figure, run: Run, entries: list[Entry], named: str) -> None:
    height = fig.get_figheight()
    fig.text(
        0.01, 1 - 0.1 / height, words(entries, named), fontsize=11.5, fontweight="bold", va="top"
    )
    fig.text(0.01, 1 - 0.38 / height, conditions(run), fontsize=8, color=GREY, va="top")
    told = f"{len(entries)} shapes by speed over the better of cuBLAS and cuBLASLt:"
    fig.text(0.01, 1 - 0.62 / height, told, fontsize=8.5, va="top")
    counts = [sum(band(r) == i for r in map(summary.ratio, entries)) for i in range(len(COLORS))]
    ax = fig.add_axes((0.395, 1 - 0.9 / height, 0.595, 0.34 / height))
    ax.axis("off")
    ax.set_xlim(0, len(COLORS))
    ax.set_ylim(0, 1.1)
    for i, (tone, count) in enumerate(zip(COLORS, counts)):
        ax.add_patch(plt.Rectangle((i, 0.5), 0.96, 0.6, color=tone))
        dark = i in (0, 1, len(COLORS) - 2, len(COLORS) - 1)
        ax.text(i + 0.48, 0.78, str(count), fontsize=8, ha="center", va="center",
                color="white" if dark else "black")  # fmt: skip
        ax.text(i + 0.48, 0.4, band_name(i), fontsize=8, ha="center", va="top")


def list_worst(fig: Figure, entries: list[Entry], left: float, top: float) -> None:
    """A numbered table; the numbers stand in the picture, too. `top` in inches from above."""
    height = fig.get_figheight()
    several = len({e.key[2] for e in entries}) > 1
    fig.text(
        left, 1 - top / height, "The worst: M x N x K", fontsize=9, fontweight="bold", va="top"
    )
    for i, entry in enumerate(summary.worst(entries)):
        y = 1 - (top + 0.24 + 0.21 * i) / height
        op = f" {entry.key[2]}" if several else ""
        fig.text(left + 0.018, y, f"{i + 1}", fontsize=8.5, color=GREY, ha="right", va="top")
        fig.text(left + 0.026, y, f"{summary.ratio(entry):.2f}", fontsize=8.5, va="top",
                 fontweight="bold")  # fmt: skip
        fig.text(left + 0.063, y, runs.shape_name(entry.shape) + op, fontsize=8.5, va="top")


def mark_worst(ax: Axes, places: dict[str, tuple[float, float]], numbered: list[Entry]) -> None:
    """Their numbers beside their marks, each in the nearest free place; those in one place together.

    After the limits of the axes are set: places are free on the page, not in the data."""
    here: dict[tuple[float, float], list[int]] = {}
    for i, entry in enumerate(numbered):
        if entry.name in places:
            here.setdefault(places[entry.name], []).append(i + 1)
    taken: list[Bbox] = []
    for place in here:
        x, y = ax.transData.transform(place)
        taken.append(Bbox.from_bounds(x - 6, y - 6, 12, 12))
        ax.plot(*place, "o", markersize=8, markerfacecolor="none", markeredgecolor="black",
                markeredgewidth=0.9)  # fmt: skip
    line = {"arrowstyle": "-", "color": "black", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
    for place, numbers in here.items():
        for away, turn in ((away, turn) for away in range(13, 80, 6) for turn in TURNS):
            beside = away * math.cos(math.radians(turn)), away * math.sin(math.radians(turn))
            name = ax.annotate(
                ",".join(map(str, numbers)), place, xytext=beside, textcoords="offset points",
                fontsize=8, fontweight="bold", ha="center", va="center", zorder=6,
                arrowprops=line,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8},
            )  # fmt: skip
            at, size = ax.transData.transform(place), Text.get_window_extent(name)
            scale = ax.get_figure().dpi / 72
            box = Bbox.from_bounds(
                at[0] + beside[0] * scale - size.width / 2 - 3,
                at[1] + beside[1] * scale - size.height / 2 - 3,
                size.width + 6, size.height + 6,
            )  # fmt: skip
            inside = ax.bbox.containsx(box.x0) and ax.bbox.containsx(box.x1)
            inside = inside and ax.bbox.containsy(box.y0) and ax.bbox.containsy(box.y1)
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
            name.remove()


# The map
# --------------------------------------------------------------------------------------------------


def stacked(entries: list[Entry], step: float) -> dict[str, tuple[float, float]]:
    """Where each shape's mark stands, in powers of two. Shapes with the same M x N and K stand on
    each other: of the one with the most rows lowest."""
    cells: dict[tuple[int, int], list[Entry]] = {}
    for entry in entries:
        m, n, k = entry.shape
        cells.setdefault((m * n, k), []).append(entry)
    places = {}
    for (area, k), here in cells.items():
        here.sort(key=lambda e: (-e.shape[0], e.name))
        for i, entry in enumerate(here):
            y = math.log2(k) + step * (i - (len(here) - 1) / 2)
            places[entry.name] = math.log2(area), y
    return places


def powers(values: list[float], every: int) -> list[int]:
    return list(range(math.floor(min(values)), math.ceil(max(values)) + 1, every))


def draw_map(run: Run, entries: list[Entry], named: str) -> Figure:
    ops = [op for op in ("nn", "nt", "tn", "tt") if any(e.key[2] == op for e in entries)]
    columns = min(2, len(ops))
    lines = math.ceil(len(ops) / columns)
    many = len(entries) > 200 * len(ops)
    each = 6.2 if many else 4.6 if lines == 1 else 2.7  # inches
    height = 1.3 + lines * (each + 0.55)
    fig = plt.figure(figsize=(WIDTH, height))
    heading(fig, run, entries, named)
    list_worst(fig, entries, 0.79, 1.15)
    numbered = summary.worst(entries)
    xs = [math.log2(e.shape[0] * e.shape[1]) for e in entries]
    ys = [math.log2(e.shape[2]) for e in entries]
    left, right = 0.06, 0.77
    wide = (right - left - 0.04 * (columns - 1)) / columns
    for i, op in enumerate(ops):
        bottom = (0.65 + (lines - 1 - i // columns) * (each + 0.55)) / height
        x = left + (i % columns) * (wide + 0.04)
        ax = fig.add_axes((x, bottom, wide, (each - 0.05) / height))
        mine = [e for e in entries if e.key[2] == op]
        places = stacked(mine, step=0.06)
        # The level ones first: what stands out lies on top.
        for entry in sorted(mine, key=lambda e: abs(math.log(summary.ratio(e)))):
            ax.plot(
                *places[entry.name], "s", markersize=3.4 if many else 6,
                color=COLORS[band(summary.ratio(entry))], markeredgecolor="white",
                markeredgewidth=0.3,
            )  # fmt: skip
        ax.set_xlim(min(xs) - 0.7, max(xs) + 0.9)
        ax.set_ylim(min(ys) - 0.6, max(ys) + 0.6)
        mark_worst(ax, places, numbered)
        ax.xaxis.set_major_locator(FixedLocator(powers(xs, 2)))
        ax.yaxis.set_major_locator(FixedLocator(powers(ys, 1)))
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda power, _: short(2**power)))
        ax.tick_params(labelsize=8)
        if i // columns == lines - 1:
            ax.set_xlabel("M x N, elements of C", fontsize=9)
        if i % columns == 0:
            ax.set_ylabel("K", fontsize=9)
        if len(ops) > 1:
            mean = summary.Group("", mine).mean
            ax.set_title(f"{op}: geometric mean {mean:.2f}", fontsize=9, loc="left", pad=4)
    note = "Marks of one M x N and K stand on each other, that of the most rows lowest."
    if len(ops) > 1:
        note = "nt: A as it is, B transposed; and so on."
    fig.text(0.012, 0.1 / height, note, fontsize=8, color=GREY)
    return fig


# A column for each M
# --------------------------------------------------------------------------------------------------


def draw_columns(run: Run, entries: list[Entry], named: str) -> Figure:
    by_m = {
        m: [e for e in entries if e.shape[0] == m] for m in sorted({e.shape[0] for e in entries})
    }
    height = 6.3
    fig = plt.figure(figsize=(WIDTH, height))
    heading(fig, run, entries, named)
    list_worst(fig, entries, 0.79, 1.15)
    ax = fig.add_axes((0.065, 0.55 / height, 0.7, (height - 1.75) / height))
    places = {}
    for x, here in enumerate(by_m.values()):
        for i, entry in enumerate(sorted(here, key=lambda e: (e.shape[1] * e.shape[2], e.name))):
            beside = 0.66 * (i / max(1, len(here) - 1) - 0.5)
            places[entry.name] = x + beside, math.log2(summary.ratio(entry))
            ax.plot(
                *places[entry.name], "o", markersize=4.5,
                color=COLORS[band(summary.ratio(entry))], markeredgecolor=GREY,
                markeredgewidth=0.25,
            )  # fmt: skip
        mean = summary.Group("", here).mean
        ax.plot([x - 0.4, x + 0.4], [math.log2(mean)] * 2, color="black", linewidth=2)
        ax.text(x, 1.005, f"{mean:.2f}", transform=ax.get_xaxis_transform(), ha="center",
                va="bottom", fontsize=8.5, fontweight="bold")  # fmt: skip
    ax.text(-0.75, 1.005, "mean", transform=ax.get_xaxis_transform(), ha="right", va="bottom",
            fontsize=8.5, color=GREY)  # fmt: skip
    ax.axhline(0, color="black", linewidth=1.2)
    values = [y for _, y in places.values()]
    ticks = [t for t in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10)
             if min(values) - 0.2 <= math.log2(t) <= max(values) + 0.2]  # fmt: skip
    ax.set_yticks([math.log2(t) for t in ticks], [f"{t:g}" for t in ticks], fontsize=8)
    ax.set_xticks(range(len(by_m)), [str(m) for m in by_m], fontsize=8)
    ax.set_xlim(-0.7, len(by_m) - 0.3)
    ax.set_ylim(*ax.get_ylim())
    mark_worst(ax, places, summary.worst(entries))
    ax.grid(axis="x", visible=False)
    ax.set_ylabel("speed, the better of cuBLAS and cuBLASLt = 1", fontsize=9)
    ax.set_xlabel("M, tokens; in each column small layers stand left, large ones right; "
                  "black: geometric mean", fontsize=9)  # fmt: skip
    return fig


# Files
# --------------------------------------------------------------------------------------------------


def draw(run: Run, dtype: Optional[str] = None, named: str = "") -> Figure:
    entries = summary.compared(run, dtype)
    dtypes = list(dict.fromkeys(e.key[1] for e in entries))
    if len(dtypes) != 1:
        raise BadInput(f"{run.path}: a picture is of one type; --dtype {' or '.join(dtypes)}")
    rung = max((e.key[0] for e in entries), key=[e.key[0] for e in entries].count)
    mine = [
        e for e in entries if e.key[0] == rung
    ]  # of several rungs, the one with the most shapes
    named = named or f"{dtypes[0]} {' '.join(dict.fromkeys(e.key[2] for e in mine))}"
    return (draw_columns if by_tokens(mine) else draw_map)(run, mine, named)


def write(path: Path, run: Run, dtype: Optional[str]) -> None:
    with matplotlib.rc_context(STYLE):
        fig = draw(run, dtype)
        if path.suffix == ".svg":
            path.write_bytes(svg(fig))
        else:
            fig.savefig(path, dpi=120)
            plt.close(fig)


def figures(root: Path, gpu: str, reference: str) -> dict[Path, Optional[Figure]]:
    """By file: shapes_grid1000.svg, shapes_random_f16.svg, ...; None where there is no run."""
    folder = ladder.folder_of(gpu, root)
    beside = root / "plots" if gpu == reference else folder
    found: dict[Path, Optional[Figure]] = {
        path: None for path in beside.glob("shapes_*.svg") if re.match(r"shapes_\w+$", path.stem)
    }
    for name, (file, dtype, words) in SETS.items():
        sources = filter(ladder.result_exists, (folder / f"{name}.json", folder / f"{file}.json"))
        if source := next(sources, None):
            figure = draw(runs.load(source), dtype, f"{words}, {dtype}")
            found[beside / f"shapes_{name}.svg"] = figure
    return found
