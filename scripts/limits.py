"""Figures of what bounds a rung: the roofline, the steps of the ladder, waves of blocks, and the
timelines of pipelines.

Speeds are read from plots/results/<gpu>/*.json, counts from the profiler's counters.json beside them,
sizes from the rungs' sources. A timeline is computed from these, and says from which.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

import compare_counters
import ladder
from ladder import Results, Rung
from layouts import constants
from pictures import BLUE, GREY, ORANGE, PALE, RULE, bare, fill, heading, title_of

GREEN, RED = "#1b9e77", "#b2182b"
SECTOR, WAVEFRONT = 32, 128  # bytes
F16_FLOP_PER_CYCLE = 4096  # of an SM's tensor cores, dense, sm_90
FFMA_PER_CYCLE = 4  # warp instructions of an SM
WAVES = "wave_quantisation.json"  # in the folder of a GPU


def number(results: Results, key: str) -> float:
    return float(results.context.get(key) or 0)


# The roofline
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Roof:
    name: str
    tbs: float
    measured: bool


def draw_roof(
    ax: Axes,
    points: list[tuple[Rung, str, float, float]],
    roofs: list[Roof],
    flat: list[tuple[str, float]],
    label: str,
) -> None:
    ax.set_xscale("log")
    ax.set_yscale("log")
    xs = [x for _, _, x, _ in points]
    left, right = min(xs) / 2.5, max(xs) * 4
    top, bottom = max(limit for _, limit in flat), min(y for *_, y in points) / 2
    for name, limit in flat:
        ax.plot([left, right], [limit, limit], color="black", linewidth=1.2)
        ax.annotate(
            f"{name} {limit:.0f}",
            (right, limit),
            xytext=(-2, 3),
            textcoords="offset points",
            fontsize=8,
            ha="right",
        )
    for roof, dash in zip(roofs, ("-", "--", ":")):
        end = min(right, top / roof.tbs)
        ax.plot([left, end], [left * roof.tbs, end * roof.tbs], dash, color=BLUE, linewidth=1.3)
        how = "" if roof.measured else ", derived"
        x = max(left, bottom / roof.tbs) * 1.15
        ax.annotate(
            f"{roof.name} {roof.tbs:.3g} TB/s{how}",
            (x, x * roof.tbs),
            xytext=(0, 4),
            textcoords="offset points",
            fontsize=8,
            color=BLUE,
            rotation=38,
            rotation_mode="anchor",
        )
    for _, dtype, x, y in points:
        tone = ORANGE if dtype == "f16" else GREEN if dtype == "tf32" else "black"
        ax.plot([x], [y], "o", color=tone, markersize=4.5)
    # Labels to the left of f32, to the right of others, below each other where rungs stand close.
    for sign in (-1, 1):
        placed: list[tuple[float, float]] = []
        side = [p for p in points if (p[1] == "f32") == (sign < 0)]
        for rung, dtype, x, y in sorted(side, key=lambda p: -p[3]):
            tone = ORANGE if dtype == "f16" else GREEN if dtype == "tf32" else "black"
            at = y
            while any(abs(math.log(x / px)) < 0.5 and at > 0.82 * py for px, py in placed):
                at *= 0.97
            placed.append((x, at))
            where = "right" if sign < 0 else "left"
            ax.text(
                x * math.exp(0.12 * sign),
                at,
                rung.id,
                color=tone,
                ha=where,
                va="center",
                fontsize=7.5,
            )
    ax.set_xlim(left, right)
    ax.set_ylim(bottom, top * 1.8)
    ax.set_xlabel(label)


def draw_roofline(root: Path, gpu: str, results: Results, rungs: list[Rung]) -> Optional[Figure]:
    counted = ladder.folder_of(gpu, root) / compare_counters.MEASURED
    if not counted.exists():
        return None
    limits = ladder.limits("memory", gpu, root)
    size = ladder.REFERENCE_SHAPE
    global_points, shared_points = [], []
    for kernel in json.loads(counted.read_text(encoding="utf-8"))["rungs"]:
        rung = ladder.find_rung(rungs, kernel["rung"])
        point = results.at(rung, kernel["dtype"])
        if not point or not kernel["global_load_sectors"]:
            continue
        flop = 2.0 * kernel["size"] ** 3
        sectors = kernel["global_load_sectors"] + kernel["global_store_sectors"]
        global_points.append((rung, kernel["dtype"], flop / (SECTOR * sectors), point.tflops))
        wavefronts = kernel["shared_load_wavefronts"] + kernel["shared_store_wavefronts"]
        if wavefronts and "wgmma" not in rung.source:  # whose reads are not counted
            x = flop / (WAVEFRONT * wavefronts)
            shared_points.append((rung, kernel["dtype"], x, point.tflops))
    if not shared_points:
        return None
    sms, clock = number(results, "sm_count"), number(results, "max_sm_clock_mhz") * 1e6
    derived = WAVEFRONT * sms * clock * 1e-12
    fig, axes = plt.subplots(1, 2, figsize=(10, 5.4))
    fig.subplots_adjust(0.07, 0.1, 0.985, 0.8, wspace=0.14)
    heading(
        fig,
        f"Roofline of the ladder at {size[0]}: what memory allows, and what was reached",
        f"{results.conditions()}.",
        "Black: f32, orange: f16, green: TF32. Across: multiply-adds (2 FLOP) for each byte that warps "
        "ask for, by the profiler's counts: left of global memory, in",
        "32-byte sectors before any cache; right of shared memory, in wavefronts of 128 bytes, bank "
        "conflicts included.",
    )
    flat = [
        (name, value)
        for name, value in (
            ("FFMA", number(results, "peak_ffma_tflops")),
            ("TF32 tensor", number(results, "peak_tensor_tf32_tflops")),
            ("f16 tensor", number(results, "peak_tensor_f16_tflops")),
        )
        if value
    ]
    l1 = Roof("L1 and shared", limits.get("shared_tbs", derived), "shared_tbs" in limits)
    below = [Roof("HBM, copy", number(results, "peak_copy_tbs"), True)]
    if "l2_tbs" in limits:
        below.insert(0, Roof("L2", limits["l2_tbs"], True))
    draw_roof(axes[0], global_points, [l1, *below], flat, "FLOP per byte asked of global memory")
    draw_roof(axes[1], shared_points, [l1], flat, "FLOP per byte of shared memory's wavefronts")
    axes[0].set_ylabel("TFLOPS")
    return fig


# Steps
# --------------------------------------------------------------------------------------------------


def chain(results: Results, rungs: list[Rung], dtype: str) -> list[Rung]:
    """From the first rung to the last one measured that competes at the dtype's own precision, each
    the one that the next one changes."""
    own = [r for r in rungs if not r.is_baseline and not ladder.label(r, dtype)]
    measured = [r for r in own if results.at(r, dtype)]
    if not measured:
        return []
    steps = [measured[-1]]
    while steps[0].prev:
        steps.insert(0, ladder.find_rung(rungs, steps[0].prev))
    return [r for r in steps if r in measured]


def draw_waterfall(results: Results, rungs: list[Rung], dtype: str) -> Optional[Figure]:
    """In ratios to cuBLAS, timed in turn with each rung: TFLOPS of two rungs differ by the clock, too."""
    steps = chain(results, rungs, dtype)
    if len(steps) < 2:
        return None
    speeds = [p.ratio for r in steps if (p := results.at(r, dtype))]  # chain() chose measured ones
    fig = plt.figure(figsize=(10, 1.65 + 0.3 * len(steps)))
    height = fig.get_figheight()
    ax = fig.add_axes((0.215, 0.5 / height, 0.66, (height - 1.35) / height))
    gains = [after / before for before, after in zip(speeds, speeds[1:])]
    largest = max(range(len(gains)), key=lambda i: speeds[i + 1] - speeds[i])
    heading(
        fig,
        f"{dtype} at {ladder.REFERENCE_SHAPE[0]}: from {speeds[0]:.2g} to {speeds[-1]:.3g} of cuBLAS's "
        f"speed; {steps[largest + 1].id} adds most",
        f"{results.conditions()}.",
    )
    before = 0.0
    for row, speed in enumerate(speeds):
        ax.barh(row, speed - before, 0.68, left=before, color=BLUE if speed >= before else RED)
        if row + 1 < len(steps):
            ax.plot([speed] * 2, [row - 0.34, row + 1.34], color=GREY, linewidth=0.7)
        gain = f"   x{gains[row - 1]:.2f}" if row else ""
        ax.text(
            1.01, row, f"{speed:.3f}{gain}", va="center", fontsize=9,
            transform=ax.get_yaxis_transform(),
        )  # fmt: skip
        before = speed
    ax.axvline(1, color="black", linewidth=1.2)
    ax.text(1, -0.62, "cuBLAS", fontsize=8.5, ha="center", va="bottom")
    ax.set_xlim(0, 1.04 * max(1, *speeds))
    ax.set_ylim(len(steps) - 0.5, -0.6)
    ax.set_yticks(range(len(steps)), [title_of(r) for r in steps], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("speed, cuBLAS timed in turn = 1; at the right the ratio, and the gain over the bar above")
    return fig


# Waves of blocks
# --------------------------------------------------------------------------------------------------


def draw_waves(folder: Path, rungs: list[Rung]) -> Optional[Figure]:
    """TFLOPS in small steps of M, beside what whole waves of tiles would allow.

    A wave is a tile for each SM, also where an SM runs several CTAs: these share its arithmetic, so
    that the time is that of the SM with most tiles."""
    if not (folder / WAVES).exists():
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
        f"{dtype}, N = {n}, K = {k}. {results.conditions()}.",
        f"Dotted: {best:.3g} TFLOPS times tiles / (whole waves of {sms}). {rung.id}'s tiles are {sizes['BM']} x {sizes['BN']}.",
    )
    # A line a row of tiles: within one, more rows of C cost nothing.
    fine = range(ms[0], ms[-1] + 1, 16)
    ax.plot(fine, [best * share(m) for m in fine], ":", color="black", linewidth=1.2)
    names = [("cuBLAS", GREY, measured[-1][1].baseline)]
    ax.plot(ms, [p.baseline for _, p in measured], "-s", color=GREY, markersize=3.5)
    for (other, _, points), tone in zip(series, (ORANGE, BLUE, GREEN, RED)):
        ax.plot([m for m, _ in points], [p.tflops for _, p in points], "-o", color=tone, markersize=4)
        names.append((title_of(other), tone, points[-1][1].tflops))
    for name, tone, y in names:
        ax.annotate(name, (ms[-1], y), xytext=(8, 0), textcoords="offset points", color=tone,
                    fontsize=9, va="center", annotation_clip=False)  # fmt: skip
    wave = sms / tiles_n * sizes["BM"]
    for full in range(math.ceil(ms[0] / wave), int(ms[-1] / wave) + 1):
        ax.axvline(full * wave, color=RULE, linewidth=1)
        where = {"transform": ax.get_xaxis_transform(), "fontsize": 8, "va": "bottom"}
        ax.text(full * wave, 1.0, f"{full} waves", ha="center", **where)
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
    kind: str  # load, multiply, commit, wait
    slice: int


def serial(blocks: int, slices: int, latency: float, commit: float, work: float) -> list[Span]:
    """Blocks of one SM that load a slice, commit it and multiply it, one after the other. The pipes
    belong to the block that came first; the others wait."""
    spans: list[Span] = []
    ready = [(0.0, block, 0) for block in range(blocks)]  # when a block begins a slice
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
        if s + 1 < slices:
            ready.append((pipes, block, s + 1))
    return spans


def pipelined(slices: int, latency: float, commit: float, work: float) -> list[Span]:
    """One block with two buffers: the next slice is loaded while this one is multiplied."""
    spans, now = [Span(0, 0, latency, "load", 0)], latency
    spans.append(Span(1, now, now + commit, "commit", 0))
    now += commit
    for s in range(slices):
        spans.append(Span(1, now, now + work, "multiply", s))
        if s + 1 < slices:
            spans.append(Span(0, now, now + latency, "load", s + 1))
            arrived = max(now + work, now + latency)
            spans.append(Span(1, arrived, arrived + commit, "commit", s + 1))
            now = arrived + commit
        else:
            now += work
    return spans


KINDS = {
    "load": (ORANGE, "on its way from global memory"),
    "commit": (GREEN, "stored to shared memory, barrier"),
    "multiply": (BLUE, "multiplied"),
    "full": ("#c3d5e8", "arrived, waits for its turn"),
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
        if wide > end / 45 and span.kind != "full":
            tone = {"color": "white", "fontsize": 8, "ha": "center", "va": "center"}
            ax.text(span.start + wide / 2, span.row + 0.5, str(span.slice), **tone)
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
    return (measured, "measured") if measured else (800.0, "assumed")


def draw_double_buffer(root: Path, gpu: str, before: Rung, rung: Rung) -> Figure:
    sizes = constants(rung, "f32")
    warps = sizes["BM"] // sizes["TM"] * (sizes["BN"] // sizes["TN"]) // 32
    work = warps * sizes["TM"] * sizes["TN"] * sizes["BK"] / FFMA_PER_CYCLE
    stored = (sizes["BM"] + sizes["BN"]) * sizes["BK"] * 4 / WAVEFRONT
    commit = 2 * stored  # in and, latest, out of the way of others; small beside the rest
    latency, how = latency_of(root, gpu)
    slices, end = 4, 2.35 * (latency + work) + 2 * commit
    fig = plt.figure(figsize=(10, 4.5))
    heading(
        fig,
        f"Serial and pipelined: {title_of(before)} and {title_of(rung)} (f32)",
        f"Computed: a slice is {warps} warps x {sizes['TM'] * sizes['TN'] * sizes['BK']} FFMA = "
        f"{work:.0f} cycles of an SM's {FFMA_PER_CYCLE} pipes; latency of global memory {latency:.0f} "
        f"cycles ({how}). Numbers are slices of K.",
    )
    key_of(fig, ["load", "commit", "multiply", "full"], 0.88)
    one = serial(1, slices, latency, commit, work)
    two = serial(2, slices, latency, commit, work)
    double = pipelined(slices, latency, commit, work)
    for bottom, spans, rows, title in (
        (0.64, one, ["block"], f"{before.id}, one block on the SM: the pipes idle while it waits"),
        (
            0.385,
            two,
            ["block 0", "block 1"],
            f"{before.id}, two blocks: one multiplies while the other waits",
        ),
        (
            0.13,
            double,
            ["loads", "block"],
            f"{rung.id}, one block: the next slice travels during the multiplication",
        ),
    ):
        ax = fig.add_axes((0.075, bottom, 0.915, 0.06 + 0.045 * len(rows)))
        draw_spans(ax, spans, rows, end, title)
    time_axis(ax, end)
    return fig


def ring(stages: int, slices: int, latency: float, issue: float, work: float) -> list[Span]:
    """A producer fills `stages` buffers in turn, and the tensor cores read them in turn. A row a
    buffer."""
    free = [0.0] * stages
    spans, issued, done = [], 0.0, 0.0
    for s in range(slices):
        start = max(issued, free[s % stages])
        issued = start + issue
        arrived = start + latency
        begin = max(arrived, done)
        done = begin + work
        free[s % stages] = done
        spans.append(Span(s % stages, start, arrived, "load", s))
        if begin > arrived:
            spans.append(Span(s % stages, arrived, begin, "full", s))
        spans.append(Span(s % stages, begin, done, "multiply", s))
    return spans


def draw_ring(root: Path, gpu: str, rung: Rung) -> Figure:
    """The timeline of a warp-specialised rung: what happens in each buffer of the ring."""
    sizes = constants(rung, "f16")
    stages, bm, bn, bk = (sizes[name] for name in ("STAGES", "BM", "BN", "BK"))
    work = 2 * bm * bn * bk / F16_FLOP_PER_CYCLE
    latency, how = latency_of(root, gpu)
    bytes_ = (bm + bn) * bk * 2
    issue = bytes_ / 64  # bytes a cycle that L2 gives an SM
    slices = 4 * stages
    end = latency + (stages + 6) * max(work, issue)
    fig = plt.figure(figsize=(10, 2.0 + 0.36 * (stages + 1)))
    height = fig.get_figheight()
    heading(
        fig,
        f"{title_of(rung)}: the ring of {stages} buffers, filled by the producer and read by wgmma",
        f"Computed: {bm} x {bn} x {bk} are {work:.0f} cycles of an SM's tensor cores, {bytes_ // 1024} KB "
        f"take {issue:.0f} cycles at 64 bytes a cycle from L2, latency {latency:.0f} cycles ({how}).",
        "An orange span begins when the producer has seen `empty` and asks for the slice; it ends with "
        "`full`. A blue one ends when the consumer says `empty`.",
    )
    key_of(fig, ["load", "full", "multiply"], 1 - 0.85 / height)
    spans = ring(stages, slices, latency, issue, work)
    ax = fig.add_axes((0.1, 0.5 / height, 0.89, 0.36 * (stages + 1) / height))
    rows = [f"buffer {i}" for i in range(stages)] + ["tensor cores"]
    spans += [
        Span(stages, s.start, s.end, "multiply", s.slice) for s in spans if s.kind == "multiply"
    ]
    draw_spans(ax, spans, rows, end, "")
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
        plots / "wave_quantisation.svg": draw_waves(folder, rungs),
    }
    for dtype in ("f32", "f16"):
        drawn = draw_waterfall(results, rungs, dtype) if results else None
        wanted[plots / f"waterfall_{dtype}.svg"] = drawn
    double = rung_with(rungs, "double_buffer")
    if double and {"BK", "TM"} <= set(constants(double, "f32")):
        before = ladder.find_rung(rungs, double.prev)
        drawn = draw_double_buffer(root, gpu, before, double)
        wanted[plots / f"timeline_{double.tag}.svg"] = drawn
    ring_rung = rung_with(rungs, "warp_specialized")
    if ring_rung and {"STAGES", "BM", "BN", "BK"} <= set(constants(ring_rung, "f16")):
        wanted[plots / f"timeline_{ring_rung.tag}.svg"] = draw_ring(root, gpu, ring_rung)
    return wanted
