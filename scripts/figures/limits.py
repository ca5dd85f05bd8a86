"""Figures of what bounds a rung: the roofline, the steps of the ladder, waves of blocks, and the
timelines of pipelines.

Speeds are read from plots/results/<gpu>/*.json, counts from the profiler's counters.json beside them,
sizes from the rungs' sources. A timeline is computed from these, and says from which.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox

import compare_counters
from common import ladder
from common.ladder import Results, Rung
from figures.layouts import constants
from figures.overlay import label_ends, spread_apart
from figures.pictures import BLUE, GREY, ORANGE, PALE, RULE, bare, fill, heading, plural, title_of

GREEN, RED = "#1b9e77", "#b2182b"
SECTOR, WAVEFRONT = 32, 128  # bytes
F16_FLOP_PER_CYCLE = 4096  # of an SM's tensor cores, dense, sm_90
FFMA_PER_CYCLE = 4  # warp instructions of an SM
WAVES = "wave_quantisation.json"  # in the folder of a GPU


def number(results: Results, key: str) -> float:
    """0 where the run does not know it: one without NVML has no clocks."""
    value = str(results.context.get(key) or 0)
    return 0.0 if value == "unknown" else float(value)


# The roofline
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roof:
    name: str
    tbs: float
    below: bool = False  # where its name stands


@dataclass(frozen=True)
class Mark:
    """A rung: FLOP for each byte asked for, and TFLOPS."""

    rung: Rung
    intensity: float
    tflops: float


def name_marks(fig: Figure, ax: Axes, marks: list[Mark], top: float) -> None:
    """Ids beside the points, in a column for those that stand close, below the highest roof."""
    to_axes = ax.transData + ax.transAxes.inverted()
    at = sorted((*to_axes.transform((m.intensity, m.tflops)), m.rung.id) for m in marks)
    gap = 0.15 / (ax.get_position().height * fig.get_figheight())
    highest = to_axes.transform((marks[0].intensity, top))[1] - 0.75 * gap
    columns: list[list[tuple[float, float, str]]] = []
    for one in at:
        if columns and one[0] - columns[-1][-1][0] < 0.14:
            columns[-1].append(one)
        else:
            columns.append([one])
    for column in columns:
        right = column[-1][0] < 0.85
        away = 0.02 if len(column) == 1 else 0.06
        edge = column[-1][0] + away if right else column[0][0] - away
        heights = spread_apart([y for _, y, _ in column], gap, 0.0, highest)
        for (x, y, name), high in zip(column, heights):
            line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
            ax.annotate(
                name, (x, y), xytext=(edge, high), xycoords="axes fraction",
                textcoords="axes fraction", fontsize=8, va="center", ha="left" if right else "right",
                arrowprops=line | {"relpos": (0.0 if right else 1.0, 0.5)},
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.3},
            )  # fmt: skip


def along(text: Text) -> list[Bbox]:
    """Boxes that cover a text, in pixels: a slanted one's own box covers far more than its letters."""
    figure = text.get_figure()
    assert figure
    renderer = FigureCanvasAgg(figure).get_renderer()
    box, angle = text.get_window_extent(renderer), text.get_rotation()
    if not angle % 90:
        return [box]
    text.set_rotation(0)
    flat = text.get_window_extent(renderer)
    text.set_rotation(angle)
    x, y, side = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2, flat.height
    steps = [(i + 0.5) * side - flat.width / 2 for i in range(math.ceil(flat.width / side))]
    at = [
        (x + s * math.cos(math.radians(angle)), y + s * math.sin(math.radians(angle)))
        for s in steps
    ]
    return [Bbox.from_bounds(px - side / 2, py - side / 2, side, side) for px, py in at]


def name_roofs(
    ax: Axes, marks: list[Mark], roofs: list[Roof], ends: list[float], log: bool
) -> None:
    """Names along the slanted lines, where they cover no point and no other text."""
    left, bottom = ax.get_xlim()[0], ax.get_ylim()[0]
    points = [ax.transData.transform((m.intensity, m.tflops)) for m in marks]
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in points]
    taken += [box for text in ax.texts for box in along(text)]
    for roof, end in zip(roofs, ends):
        start = max(left, bottom / roof.tbs)
        choices = (
            [start * 1.1**i for i in range(1, 60)] if log else [0.25 * end, 0.05 * end, 0.5 * end]
        )
        for x in choices:
            (x0, y0), (x1, y1) = ax.transData.transform(
                [(x, x * roof.tbs), (1.1 * x, 1.1 * x * roof.tbs)]
            )
            name = ax.annotate(
                f"{roof.name} {roof.tbs:.3g} TB/s", (x, x * roof.tbs), color=BLUE, fontsize=8,
                textcoords="offset points", xytext=(4, -5) if roof.below else (-2, 4),
                va="top" if roof.below else "bottom", rotation_mode="anchor",
                rotation=math.degrees(math.atan2(y1 - y0, x1 - x0)),
            )  # fmt: skip
            boxes = along(name)
            inside = all(ax.bbox.contains(b.x0, b.y0) and ax.bbox.containsy(b.y1) for b in boxes)
            if inside and not any(b.overlaps(other) for b in boxes for other in taken):
                break
            if x != choices[-1]:
                name.remove()
        taken += boxes


def draw_roof(
    fig: Figure, ax: Axes, marks: list[Mark], roofs: list[Roof], flat: list[tuple[str, float]],
    label: str,
) -> None:  # fmt: skip
    """On logarithmic axes where rungs are far apart."""
    xs, ys = [m.intensity for m in marks], [m.tflops for m in marks]
    top, log = max(limit for _, limit in flat), max(xs) > 4 * min(xs)
    if log:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    left, right, bottom = (min(xs) / 2, max(xs) * 5, min(ys) / 2) if log else (0, max(xs) * 2.1, 0)
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top * (1.6 if log else 1.12))
    text = {"textcoords": "offset points", "fontsize": 8}
    for name, limit in flat:
        ax.axhline(limit, color="black", linewidth=1.2)
        # Where no slanted line ends: these start at the left of linear axes.
        x, away, side = (left, 4, "left") if log else (right, -2, "right")
        ax.annotate(f"{name} {limit:.0f} TFLOPS", (x, limit), xytext=(away, 3), ha=side, **text)
    for roof, dash in zip(roofs, ("-", "--", ":")):
        end = min(right, top / roof.tbs)
        ax.plot([left, end], [left * roof.tbs, end * roof.tbs], dash, color=BLUE, linewidth=1.3)
    for mark in marks:
        ax.plot([mark.intensity], [mark.tflops], "o", color=ORANGE, markersize=5)
    name_marks(fig, ax, marks, top)
    name_roofs(ax, marks, roofs, [min(right, top / roof.tbs) for roof in roofs], log)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel(label)


def draw_roofline(root: Path, gpu: str, results: Results, rungs: list[Rung]) -> Optional[Figure]:
    counted = ladder.folder_of(gpu, root) / compare_counters.MEASURED
    if not ladder.result_exists(counted):
        return None
    limits = ladder.limits("memory", gpu, root)
    from_global, from_shared = [], []
    for kernel in ladder.read_json(counted)["rungs"]:
        rung = ladder.find_rung(rungs, kernel["rung"])
        point = results.at(rung, "f32")
        if not point or kernel["dtype"] != "f32" or not kernel["global_load_sectors"]:
            continue
        flop = 2.0 * kernel["size"] ** 3
        sectors = kernel["global_load_sectors"] + kernel["global_store_sectors"]
        from_global.append(Mark(rung, flop / (SECTOR * sectors), point.tflops))
        wavefronts = kernel["shared_load_wavefronts"] + kernel["shared_store_wavefronts"]
        if wavefronts:
            from_shared.append(Mark(rung, flop / (WAVEFRONT * wavefronts), point.tflops))
    panels = [
        (from_global, "f32: asked of global memory", "FLOP per byte, in sectors of 32 bytes"),
        (from_shared, "f32: asked of shared memory", "FLOP per byte, in wavefronts of 128 bytes"),
    ]
    if not from_shared:
        return None
    sms, clock = number(results, "sm_count"), number(results, "max_sm_clock_mhz") * 1e6
    l1 = Roof("L1 and shared", limits.get("shared_tbs", WAVEFRONT * sms * clock * 1e-12))
    hbm = Roof("HBM, copy", number(results, "peak_copy_tbs"), below=True)
    l2 = [Roof("L2", limits["l2_tbs"])] if "l2_tbs" in limits else []
    ffma = [("FFMA", number(results, "peak_ffma_tflops"))]
    fig = plt.figure(figsize=(10, 4.9))
    for i, ((marks, title, label), above) in enumerate(zip(panels, ([l1, *l2, hbm], [l1]))):
        ax = fig.add_axes((0.065 + 0.5 * i, 0.11, 0.42, 0.66))
        draw_roof(fig, ax, marks, above, ffma, label)
        ax.set_title(title, fontsize=10, loc="left")
        if i == 0:
            ax.set_ylabel(f"TFLOPS at {ladder.REFERENCE_SHAPE[0]}")
    near = max(from_shared, key=lambda m: m.tflops / m.intensity)
    best = max(from_shared, key=lambda m: m.tflops)
    heading(
        fig,
        f"Roofline: {near.rung.id} has {100 * near.tflops / near.intensity / l1.tbs:.0f} % of shared memory's roof; "
        f"{best.rung.id}, further right, {100 * best.tflops / ffma[0][1]:.0f} % of FFMA's",
        f"{results.conditions()}.",
        "By the profiler's counts. Left: bytes that threads ask for, before any cache, so that v1 can lie above L2's roof. Right: with bank conflicts.",
    )
    return fig


# Steps
# --------------------------------------------------------------------------------------------------


def chain(results: Results, rungs: list[Rung], dtype: str) -> list[Rung]:
    """From the first rung to the fastest kernel measured that competes at the dtype's own precision,
    each the one that the next one changes."""
    own = [r for r in rungs if not (r.is_baseline or r.dispatches or ladder.label(r, dtype))]
    measured = {r: point.ratio for r in own if (point := results.at(r, dtype))}
    if not measured:
        return []
    steps = [max(measured, key=lambda r: measured[r])]
    while steps[0].prev:
        steps.insert(0, ladder.find_rung(rungs, steps[0].prev))
    return [r for r in steps if r in measured]


def step_bars(ax: Axes, results: Results, steps: list[Rung], dtype: str) -> None:
    """A bar a rung: TFLOPS, and beside it the part of cuBLAS's speed, which a tick shows."""
    ax.set_title(f"{dtype} at {ladder.REFERENCE_SHAPE[0]}: TFLOPS, share of cuBLAS", fontsize=10, loc="left", pad=17)  # fmt: skip
    beside = {"va": "center", "ha": "right", "fontsize": 8.5, "transform": ax.get_yaxis_transform()}
    speeds = []
    for row, rung in enumerate(steps):
        point = results.at(rung, dtype)
        assert point  # chain() chose measured ones
        speeds += [point.tflops, point.baseline]
        ax.barh(row, point.tflops, 0.7, color=BLUE)
        ax.plot([point.baseline] * 2, [row - 0.42, row + 0.42], color="black", linewidth=1.6)
        digits = 0 if point.tflops >= 100 else 1 if point.tflops >= 10 else 2
        ax.text(1.15, row, f"{point.tflops:.{digits}f}", **beside)
        ax.text(1.33, row, f"{100 * point.ratio:.{1 if point.ratio < 0.1 else 0}f} %", **beside)
    limit_line(ax, results, dtype, speeds, ax.axvline)
    ax.set_ylim(len(steps) - 0.4, -0.6)
    ax.set_yticks(range(len(steps)), [title_of(r) for r in steps], fontsize=8.5)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("TFLOPS", fontsize=9)


def limit_line(ax: Axes, results: Results, dtype: str, speeds: list[float], line: Any) -> None:
    """What the card's arithmetic reached by itself, and room for it along that axis."""
    peak = results.peak(dtype)
    across = line == ax.axvline
    (ax.set_xlim if across else ax.set_ylim)(0, 1.05 * max(*speeds, peak[0] if peak else 0))
    if peak:
        line(peak[0], color=RED, linewidth=1.2, linestyle="--")
        style = {"color": RED, "fontsize": 8.5, "va": "bottom"}
        if across:
            ax.text(peak[0], 1.005, f"limit {peak[0]:.3g}", ha="center", transform=ax.get_xaxis_transform(), **style)  # fmt: skip
        else:
            ax.text(0.01, peak[0], f"limit {peak[0]:.3g}", transform=ax.get_yaxis_transform(), **style)  # fmt: skip


def size_lines(
    fig: Figure, ax: Axes, results: Results, rungs: list[Rung], steps: list[Rung], dtype: str
) -> None:
    """TFLOPS against size: the ends of the chain and what adds most between; cuBLAS in black."""
    ratios = [p.ratio for r in steps if (p := results.at(r, dtype))]
    order = sorted(range(1, len(steps) - 1), key=lambda i: ratios[i - 1] - ratios[i])[:3]
    shown = [steps[i] for i in sorted({0, *order, len(steps) - 1})]
    ends, speeds = [], []
    for rung in [r for r in rungs if r in shown or r.is_baseline]:
        sizes = results.points.get((rung.name, dtype), {})
        line = sorted(
            (m, p.tflops)
            for (m, n, k), p in sizes.items()
            if m == n == k and m % 64 == 0 and not p.reason
        )
        if not line:
            continue
        tone = "black" if rung.is_baseline else matplotlib.colormaps["viridis"](0.62 * shown.index(rung) / len(shown))  # fmt: skip
        ax.plot(*zip(*line), color=tone, linewidth=1.5, marker="o", markersize=3)
        speeds += [y for _, y in line]
        ends.append((f"{rung.id} cuBLAS" if rung.is_baseline else rung.id, tone, *line[-1]))
    ax.set_title(f"{dtype}: TFLOPS against M = N = K", fontsize=10, loc="left")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))
    limit_line(ax, results, dtype, speeds, ax.axhline)
    label_ends(fig, ax, ends)


def draw_climb(results: Results, rungs: list[Rung]) -> Optional[Figure]:
    """The ladder on one sheet: each step in TFLOPS and as a part of cuBLAS, then against size."""
    chains = {d: chain(results, rungs, d) for d in ("f32", "f16")}
    chains = {dtype: steps for dtype, steps in chains.items() if len(steps) > 1}
    if not chains:
        return None
    high = 0.2 * max(map(len, chains.values())) + 0.1
    fig = plt.figure(figsize=(10, high + 5))
    height = fig.get_figheight()
    told = []
    for i, (dtype, steps) in enumerate(chains.items()):
        left, most = 0.145 + 0.51 * i, 0.2 * len(steps) + 0.1
        ax = fig.add_axes((left, 1 - (1.35 + most) / height, 0.25, most / height))
        step_bars(ax, results, steps, dtype)
        ax = fig.add_axes((left - 0.09, 0.3 / height, 0.34, (height - 2.4 - most) / height))
        size_lines(fig, ax, results, rungs, steps, dtype)
        ends = [p.ratio for r in (steps[0], steps[-1]) if (p := results.at(r, dtype))]
        told.append(f"{dtype} from {100 * ends[0]:.2g} % to {100 * ends[1]:.3g} % of cuBLAS")
    heading(
        fig,
        f"The climb: {', '.join(told)}",
        f"{results.conditions()}.",
        "Black ticks: cuBLAS, alternating with that rung. Its clock, and so its TFLOPS, change with the power drawn: the share is what counts.",
        "Limit: the rate of FFMA, and of wgmma, as measured alone.",
    )
    return fig


# Waves of blocks
# --------------------------------------------------------------------------------------------------


def draw_waves(folder: Path, rungs: list[Rung]) -> Optional[Figure]:
    """TFLOPS in small steps of M, beside what whole waves of tiles would allow.

    A wave is a tile for each SM, also where an SM runs several CTAs: these share its arithmetic, so
    that the time is that of the SM with most tiles."""
    if not ladder.result_exists(folder / WAVES):
        return None
    results = ladder.load_results(folder / WAVES)
    series = [
        (ladder.find_rung(rungs, name), dtype, measured)
        for (name, dtype), points in results.points.items()
        if (measured := sorted((s[0], p) for s, p in points.items() if not p.reason))
    ]
    # Waves are predicted for the first rung that has one tile size for all shapes.
    tiled = [s for s in series if {"BM", "BN"} <= set(constants(s[0], s[1]))]
    if not tiled:
        return None
    rung, dtype, measured = tiled[0]
    sizes, ms = constants(rung, dtype), [m for m, _ in measured]
    _, n, k = next(iter(results.points[rung.name, dtype]))
    sms = int(number(results, "sm_count"))
    tiles_n = math.ceil(n / sizes["BN"])

    def share(m: int) -> float:
        tiles = math.ceil(m / sizes["BM"]) * tiles_n
        return m / sizes["BM"] * tiles_n / (math.ceil(tiles / sms) * sms)

    full_speed = [p.tflops / share(m) for m, p in measured]
    best = sorted(full_speed)[len(full_speed) // 2]
    apart = max(abs(one / best - 1) for one in full_speed)
    fig = plt.figure(figsize=(10, 4.7))
    ax = fig.add_axes((0.065, 0.11, 0.77, 0.65))
    heading(
        fig,
        f"A wave is {sms} tiles: {rung.id} follows that model within {100 * apart:.0f} %",
        f"{results.conditions()}.",
        f"{dtype}, N = {n}, K = {k}; {rung.id}'s tiles are {sizes['BM']} x {sizes['BN']}. "
        f"Model, dotted: {best:.3g} TFLOPS times tiles / (whole waves of {sms}).",
    )
    # A line a row of tiles: within one, more rows of C cost nothing.
    fine = range(ms[0], ms[-1] + 1, 16)
    ax.plot(fine, [best * share(m) for m in fine], ":", color="black", linewidth=1.2)
    names = [("cuBLAS", GREY, measured[-1][1].baseline)]
    ax.plot(ms, [p.baseline for _, p in measured], "-s", color=GREY, markersize=3.5)
    for (other, _, points), tone in zip(series, (ORANGE, BLUE, GREEN, RED)):
        ax.plot(
            [m for m, _ in points], [p.tflops for _, p in points], "-o", color=tone, markersize=4
        )
        names.append((title_of(other), tone, points[-1][1].tflops))
    for name, tone, y in names:
        ax.annotate(name, (ms[-1], y), xytext=(8, 0), textcoords="offset points", color=tone,
                    fontsize=9, va="center", annotation_clip=False)  # fmt: skip
    wave = sms / tiles_n * sizes["BM"]
    for full in range(math.ceil(ms[0] / wave), int(ms[-1] / wave) + 1):
        ax.axvline(full * wave, color=RULE, linewidth=1, zorder=0)
        where = {"transform": ax.get_xaxis_transform(), "fontsize": 8, "va": "bottom"}
        ax.text(full * wave, 1.0, f"{full} x {sms} tiles", ha="center", **where)
    ax.set_xlim(ms[0] - 32, ms[-1] + 32)
    ax.set_ylim(bottom=0.9 * min(p.tflops for _, p in measured))
    ax.set_xlabel("M")
    ax.set_ylabel("TFLOPS (axis does not begin at 0)")
    return fig


# Timelines
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    row: int
    start: float
    end: float
    kind: str  # of KINDS
    k_tile: int


def serial(blocks: int, k_tiles: int, latency: float, commit: float, work: float) -> list[Span]:
    """Blocks of one SM that load a k-tile, commit it and multiply it, one after the other. The pipes
    belong to the block that came first; the others wait."""
    spans: list[Span] = []
    ready = [(0.0, block, 0) for block in range(blocks)]  # when a block begins a k-tile
    pipes = 0.0
    while ready:
        now, block, s = min(ready)
        ready.remove((now, block, s))
        arrived = now + latency
        begin = max(arrived + commit, pipes)
        pipes = begin + work
        spans.append(Span(block, now, arrived, "load", s))
        spans.append(Span(block, arrived, arrived + commit, "commit", s))
        if begin > arrived + commit:
            spans.append(Span(block, arrived + commit, begin, "full", s))
        spans.append(Span(block, begin, pipes, "multiply", s))
        if s + 1 < k_tiles:
            ready.append((pipes, block, s + 1))
    return spans


def pipelined(k_tiles: int, latency: float, commit: float, work: float) -> list[Span]:
    """One block with two buffers: the next k-tile is loaded while this one is multiplied."""
    spans, now = [Span(0, 0, latency, "load", 0)], latency
    spans.append(Span(1, now, now + commit, "commit", 0))
    now += commit
    for s in range(k_tiles):
        spans.append(Span(1, now, now + work, "multiply", s))
        if s + 1 < k_tiles:
            spans.append(Span(0, now, now + latency, "load", s + 1))
            arrived = max(now + work, now + latency)
            spans.append(Span(1, arrived, arrived + commit, "commit", s + 1))
            now = arrived + commit
        else:
            now += work
    return spans


KINDS = {
    "asked": ("#d9cbe9", "requested, behind other deliveries"),
    "load": (ORANGE, "on its way from global memory"),
    "commit": (GREEN, "stored to shared memory, barrier"),
    "multiply": (BLUE, "multiplied"),
    "full": ("#c3d5e8", "arrived, waits for its turn"),
    "free": (PALE, "free"),
}


def draw_spans(ax: Axes, spans: list[Span], rows: list[str], end: float, title: str) -> None:
    bare(ax, end, len(rows))
    for row in range(len(rows)):
        fill(ax, 0, row + 0.08, end, 0.84, PALE, PALE)
    for span in spans:
        if span.start >= end:
            continue
        wide = min(span.end, end) - span.start
        fill(ax, span.start, span.row + 0.08, wide, 0.84, KINDS[span.kind][0], "white")
        if wide > end / 45 and span.kind not in ("full", "asked"):
            tone = {"color": "white", "fontsize": 8, "ha": "center", "va": "center"}
            ax.text(span.start + wide / 2, span.row + 0.5, str(span.k_tile), **tone)
    ax.set_yticks([row + 0.5 for row in range(len(rows))], rows, fontsize=8.5)
    ax.set_title(title, fontsize=10, loc="left", pad=4)


def key_of(fig: Figure, kinds: list[str], y: float) -> None:
    fig.legend(
        handles=[Patch(color=KINDS[k][0], label=KINDS[k][1]) for k in kinds],
        loc="upper left",
        bbox_to_anchor=(0.005, y),
        ncols=len(kinds),
        fontsize=9,
        handlelength=1.2,
    )


def time_axis(ax: Axes, end: float) -> None:
    step = 10 ** math.floor(math.log10(end / 4))
    ticks = [t for t in range(0, int(end) + 1, int(step * (2 if end / step > 12 else 1)))]
    ax.set_xticks(ticks, ticks)
    ax.set_xlabel("cycles", fontsize=9)


def latency_of(root: Path, gpu: str) -> tuple[float, str]:
    measured = ladder.limits("memory", gpu, root).get("hbm_latency_cycles")
    return (measured, f"measured on an {gpu.upper()}") if measured else (800.0, "assumed")


def draw_double_buffer(root: Path, gpu: str, before: Rung, rung: Rung) -> Figure:
    sizes = constants(rung, "f32")
    warps = sizes["BM"] // sizes["TM"] * (sizes["BN"] // sizes["TN"]) // 32
    work = warps * sizes["TM"] * sizes["TN"] * sizes["BK"] / FFMA_PER_CYCLE
    stored = (sizes["BM"] + sizes["BN"]) * sizes["BK"] * 4 / WAVEFRONT
    commit = 2 * stored  # in and, latest, out of the way of others; small beside the rest
    latency, how = latency_of(root, gpu)
    k_tiles, end = 4, 2.35 * (latency + work) + 2 * commit
    fig = plt.figure(figsize=(10, 4.5))
    heading(
        fig,
        f"Serial and pipelined: {title_of(before)} and {title_of(rung)} (f32)",
        f"Computed: a k-tile is {warps} warps x {sizes['TM'] * sizes['TN'] * sizes['BK']} FFMA = "
        f"{work:.0f} cycles of an SM's {FFMA_PER_CYCLE} pipes; latency {latency:.0f} "
        f"cycles ({how}). Numbers are k-tiles.",
    )
    key_of(fig, ["load", "commit", "multiply", "full"], 0.88)
    one = serial(1, k_tiles, latency, commit, work)
    two = serial(2, k_tiles, latency, commit, work)
    double = pipelined(k_tiles, latency, commit, work)
    for bottom, spans, rows, title in (
        (0.64, one, ["CTA"], f"{before.id}, one CTA on the SM: the pipes idle while it waits"),
        (
            0.385,
            two,
            ["CTA 0", "CTA 1"],
            f"{before.id}, two CTAs: one multiplies while the other waits",
        ),
        (
            0.13,
            double,
            ["loads", "CTA"],
            f"{rung.id}, one CTA: the next k-tile travels during the multiplication",
        ),
    ):
        ax = fig.add_axes((0.075, bottom, 0.915, 0.06 + 0.045 * len(rows)))
        draw_spans(ax, spans, rows, end, title)
    time_axis(ax, end)
    return fig


def pipeline(
    blocks: int,
    stages: int,
    k_tiles: int,
    latency: float,
    issue: float,
    work: float,
    gap: float = 0,
) -> list[Span]:
    """The producer of each block fills its stages in turn, and the tensor cores, which the blocks of an
    SM share, read them in turn, with a gap between two. A row per stage, block after block."""
    free = [0.0] * (blocks * stages)
    spans, issued, done = [], 0.0, 0.0
    for s in range(k_tiles):
        for block in range(blocks):
            row = block * stages + s % stages
            start = max(issued, free[row])
            issued = start + issue
            arrived = start + latency
            begin = max(arrived, done + gap) if done else arrived
            if start > free[row]:
                spans.append(Span(row, free[row], start, "asked", s))
            done = begin + work
            free[row] = done
            spans.append(Span(row, start, arrived, "load", s))
            if begin > arrived:
                spans.append(Span(row, arrived, begin, "full", s))
            spans.append(Span(row, begin, done, "multiply", s))
    return spans


def blocks_an_sm(rung: Rung) -> int:
    """What __launch_bounds__ asks for; 1 where it says nothing."""
    found = re.search(r"__launch_bounds__\([^,()]+,\s*(\d+)\)", rung.source)
    return int(found[1]) if found else 1


def draw_pipeline(root: Path, gpu: str, rung: Rung) -> Figure:
    """The timeline of a warp-specialised rung: what happens in each stage of its pipeline."""
    sizes, blocks = constants(rung, "f16"), blocks_an_sm(rung)
    stages, bm, bn, bk = (sizes[name] for name in ("STAGES", "BM", "BN", "BK"))
    work = 2 * bm * bn * bk / F16_FLOP_PER_CYCLE
    latency, how = latency_of(root, gpu)
    bytes_ = (bm + bn) * bk * 2
    issue = bytes_ / 64  # bytes a cycle that L2 gives an SM
    spans = pipeline(blocks, stages, 4 * stages, latency, issue, work)
    end = latency + (blocks * stages + 5) * max(work, issue)
    names = [f"CTA {i // stages}, stage {i % stages}" for i in range(blocks * stages)]
    rows = len(names) + 1
    fig = plt.figure(figsize=(10, 1.75 + 0.32 * rows))
    height = fig.get_figheight()
    multiplied = sorted((s for s in spans if s.kind == "multiply"), key=lambda s: s.start)
    gap = any(b.start > a.end for a, b in zip(multiplied, multiplied[1:]))
    heading(
        fig,
        f"{title_of(rung)}: after the first k-tile the tensor cores "
        + ("wait now and then" if gap else "never wait"),
        f"Computed, for {plural(blocks, 'CTA')} an SM: {bm} x {bn} x {bk} are {work:.0f} cycles of tensor cores, "
        f"{bytes_ // 1024} KB {issue:.0f} at 64 bytes a cycle from L2, latency {latency:.0f} ({how}).",
        f"Numbers: k-tiles{', of the CTAs in turn' if blocks > 1 else ''}. The producer requests a load when it has "
        "seen empty[]; the load ends with full[], a product with empty[].",
    )
    kinds = [k for k in ("asked", "load", "full", "multiply") if any(s.kind == k for s in spans)]
    key_of(fig, kinds, 1 - 0.85 / height)
    ax = fig.add_axes((0.115, 0.5 / height, 0.875, 0.32 * rows / height))
    spans += [Span(rows - 1, s.start, s.end, "multiply", s.k_tile) for s in multiplied]
    draw_spans(ax, spans, [*names, "tensor cores"], end, "")
    time_axis(ax, end)
    return fig


# --------------------------------------------------------------------------------------------------


def rung_with(rungs: list[Rung], word: str) -> Optional[Rung]:
    return next((r for r in rungs if word in r.name), None)


def figures(root: Path, rungs: list[Rung], gpu: str) -> dict[Path, Optional[Figure]]:
    """Every figure of that GPU; None for one whose data are not there."""
    plots, folder = root / "plots", ladder.folder_of(gpu, root)
    results = ladder.results_of(gpu, root)
    wanted: dict[Path, Optional[Figure]] = {
        plots / "roofline.svg": draw_roofline(root, gpu, results, rungs) if results else None,
        plots / "climb.svg": draw_climb(results, rungs) if results else None,
        plots / "wave_quantisation.svg": draw_waves(folder, rungs),
    }
    double = rung_with(rungs, "double_buffer")
    if double and {"BK", "TM"} <= set(constants(double, "f32")):
        before = ladder.find_rung(rungs, double.prev)
        drawn = draw_double_buffer(root, gpu, before, double)
        wanted[plots / f"timeline_{double.tag}.svg"] = drawn
    pipeline_rung = rung_with(rungs, "warp_specialized")
    if pipeline_rung and {"STAGES", "BM", "BN", "BK"} <= set(constants(pipeline_rung, "f16")):
        wanted[plots / f"timeline_{pipeline_rung.tag}.svg"] = draw_pipeline(
            root, gpu, pipeline_rung
        )
    return wanted
