#!/usr/bin/env python3
"""Draws the figures from the committed results, and from nothing else.

  plots/sizes_f32.svg   plots/sizes_f16.svg    ratio to cuBLAS against size, a panel a generation
  plots/ladder_f32.svg  plots/ladder_f16.svg   ratio to cuBLAS at 4096, with the gain of each step

  plots/sweep_f32.svg   plots/sweep_f16.svg    ratio to cuBLAS against size in small steps

for the GPU with the most complete ladder in plots/results, or for that of --gpu; those of any
other GPU lie beside its results. A size without a measurement, between others of that rung,
breaks its line and is marked with an x. What bounds the rungs (limits.py):

  plots/roofline.svg       what memory and arithmetic allow, and what was reached
  plots/climb.svg          each step in TFLOPS and as a part of cuBLAS, and against size
  plots/timeline_*.svg     pipelines, computed from sizes and latencies
  plots/phases_*.svg       what mbarriers count (phases.py)
  plots/wave_quantisation.svg  TFLOPS in small steps of M
  plots/tile_languages.svg     TFLOPS of v29, a Triton kernel and torch.matmul
  plots/peers.svg              ratio to cuBLAS of the library and of other projects' kernels

  plots/shapes_*.svg       wins and losses over many shapes: random, grid1000, layers (shape_map.py)
  plots/accuracy.svg       errors against K, by class of inputs (accuracy.py)
  plots/fp8_error.svg      errors of FP8 against K (fp8_error.py)
  plots/several_gpus.svg   what hiding the wire gains (several_gpus.py)

And from what the simulator saw, which scripts/simulate.py writes (pictures.py and layouts.py):

  plots/banks_*.svg    where a warp's lanes meet in the banks of shared memory
  plots/sectors_*.svg  what they use of the sectors of global memory that they touch
  plots/swizzle.svg    how the swizzles spread a tile's columns over the banks
  plots/tiles_*.svg    which part of C a block, a warp and a thread compute
  plots/fragments.svg  which lane holds what for mma.sync
  plots/raster.svg     the order of blocks

And of the course itself (course_pictures.py):

  plots/course.svg          the rungs as a tree, from the registry
  plots/latency_hiding.svg  what warps and loads in flight do for a scheduler
  plots/lane_bits.svg       where the lanes of a warp tile lie, and what a load then costs

The same results give the same bytes. --check writes nothing and fails when a figure is stale.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Optional

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator, NullLocator

import accuracy
from common import ladder, runs
from common.course_path import track
from common.ladder import REFERENCE_SHAPE, ROOT, BadInput, Point, Results, Rung, Shape, fail
from common.runs import Key, Run
from figures import (
    course_pictures,
    fp8_error,
    layouts,
    limits,
    mechanisms,
    overlay,
    phases,
    pictures,
    several_gpus,
    shape_map,
)
from figures.figure_style import GREY, STYLE, svg
from figures.overlay import Line

# The columns of a figure: f32's shows the rungs that multiply floats in TF32 too, labelled.
FIGURE_DTYPES = {"f32": ("f32", "tf32"), "f16": ("f16",)}
TITLES = {"f32": "FP32", "f16": "FP16", "tf32": "TF32"}
ON_CORES = {"f32": "FP32 on CUDA cores", "f16": "FP16"}  # what a title's best rung is of
PEERS = {"torch": "torch.mm", "triton": "Triton (tutorial kernel)", "quack": "QuACK"}

Series = tuple[Rung, str]  # a rung and one of its dtypes


def series_of(results: Results, rungs: list[Rung], figure: str) -> list[Series]:
    """What a figure shows: the rungs that the results know, in ladder order."""
    return [(r, d) for d in FIGURE_DTYPES[figure] for r in rungs if (r.name, d) in results.points]


def label(rung: Rung, dtype: str) -> str:
    title = rung.name.split("_", 1)[1].replace("_", " ")
    return f"{rung.id} {title}" + ladder.label(rung, dtype)


def cubes(points: dict[Shape, Point]) -> dict[int, Point]:
    return {m: p for (m, n, k), p in points.items() if m == n == k}


def titles(fig: Figure, results: Results, title: str) -> None:
    height = fig.get_figheight()
    fig.text(0.01, 1 - 0.1 / height, title, fontsize=13, fontweight="bold", va="top")
    fig.text(0.01, 1 - 0.4 / height, results.conditions(), fontsize=8, color=GREY, va="top")


# Speed over cuBLAS's, in panels
# --------------------------------------------------------------------------------------------------

ROW, ABOVE = 2.35, 0.75  # inches: a panel with its axis; the figure's title
LAST = 8192  # where small steps end
ON_LINE = 64  # a line goes through multiples of it; other sizes stand beside it as bars
Picture = tuple[Figure, dict[str, str]]  # and a tooltip by the id of each point


@dataclass(frozen=True)
class Panel:
    title: str
    run: Run  # of the panel's rungs only
    steps: bool = False  # small ones, in which a percent is to be seen: not from zero


def part(run: Run, series: list[Series]) -> Run:
    """A run's square problems, as stored, of some rungs."""
    wanted = {(rung.name, dtype, "nn") for rung, dtype in series}
    kept = {
        name: entry
        for name, entry in run.entries.items()
        if entry.key in wanted and len(set(entry.shape)) == 1 and len(entry.shape) == 3
    }
    return Run(run.path, run.context, kept, run.label)


def number_of(rung: Rung) -> int:
    return rung.order[0]


def generations(series: list[Series], figure: str) -> list[tuple[str, list[Series]]]:
    """What is drawn together: at most six rungs that use the same instructions."""
    own = [(r, d) for r, d in series if not r.is_baseline]
    if figure == "f32":
        cores = [s for s in own if not ladder.label(*s)]
        named = [
            ("CUDA cores, v1 to v5", [s for s in cores if number_of(s[0]) <= 5]),
            ("CUDA cores, {first} on", [s for s in cores if number_of(s[0]) > 5]),
            ("tensor cores: FP32 put together from TF32, f16 or bf16 parts (less exact)", [s for s in own if ladder.label(*s)]),
        ]  # fmt: skip
    else:
        mma, hopper = {10, 15, 16, 17}, (17, "w")  # the first rung with wgmma
        named = [
            ("CUDA cores", [s for s in own if number_of(s[0]) < 15 and number_of(s[0]) not in mma]),
            ("tensor cores through mma.sync", [s for s in own if number_of(s[0]) in mma and s[0].order < hopper]),
            ("wgmma, a CTA a tile", [s for s in own if hopper <= s[0].order < (21, "")]),
            ("wgmma, persistent CTAs", [s for s in own if 21 <= number_of(s[0]) < 24]),
            ("tiles and schedules for every shape", [s for s in own if number_of(s[0]) >= 24]),
        ]  # fmt: skip
    return [(name, of) for name, of in named if of]


def draw_beside(
    fig: Figure, lines: list[Line], groups: list[list[float]], bottom: float, axis: str
) -> None:
    """Bars of the sizes that no line goes through: an axis for each, or for those of one height."""
    left, right, height, several = 0.71, 0.99, fig.get_figheight(), len(lines) > 1
    bars = [[(size, line) for size in group for line in lines] for group in groups]
    unit = min(0.05, (right - left - 0.05 * (len(bars) - 1)) / max(1, sum(map(len, bars))))

    def top_of(sizes: list[tuple[float, Line]]) -> float:
        found = [line.points[size][1].ends[1] for size, line in sizes if size in line.points]
        return (1.3 if several else 1.15) * max(1.0, *found, 0.0)

    highest = max(map(top_of, bars))
    for group, sizes in zip(bars, groups):
        ax = fig.add_axes((left, bottom, unit * len(group), (ROW - 0.75) / height))
        left += unit * len(group) + 0.05
        top = highest if several else top_of(group)
        room = (0.25 if several else 0.12) * top  # of a number
        for x, (size, line) in enumerate(group):
            if size in line.points:
                _, value = line.points[size]
                low, high = value.ends
                ax.bar(x, value.median, 0.72, color=line.color)
                ax.plot([x, x], [low, high], color="black", linewidth=1)
                ax.annotate(
                    f"{value.median:.2f}", (x, 1 if 1 - room < high < 1 else high), xytext=(0, 2),
                    textcoords="offset points", fontsize=8, ha="center", va="bottom",
                    rotation=90 if several else 0, zorder=5,
                )  # fmt: skip
            else:
                ax.text(x, 0.02, "x", color=line.color, ha="center", fontsize=9)
        names = [line.name if several else f"{size:.0f}" for size, line in group]
        ax.set_xticks(range(len(group)), names, fontsize=7.5, rotation=90)
        if several:
            ax.set_title(f"{axis} = {sizes[0]:.0f}", fontsize=9, loc="left", pad=5)
        elif sizes is groups[0]:
            ax.set_title(f"{axis}, other sizes", fontsize=9, loc="left", pad=5)
        ax.axhline(1, color="black", linewidth=1.2)
        ax.set_ylim(0, top)
        ax.set_xlim(-0.6, len(group) - 0.4)
        ax.tick_params(axis="both", length=0)
        ax.grid(axis="x", visible=False)
        ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))


def named_once(lines: list[Line]) -> list[Line]:
    """Lines as they are named: one that another hides, within 2 % at all sizes, shares its name."""
    shown: list[Line] = []
    for line in lines:
        hidden = [
            other
            for other in shown
            if other.points.keys() == line.points.keys()
            and all(abs(v.median / line.points[s][1].median - 1) < 0.02 for s, (_, v) in other.points.items())
        ]  # fmt: skip
        shown = [other for other in shown if other not in hidden]
        shown.append(replace(line, name=", ".join(other.name for other in (*hidden, line))))
    return shown


def draw_panels(results: Results, panels: list[Panel], title: str) -> Optional[Picture]:
    """A row a panel: lines of the ratio to cuBLAS, bars where lines would jump."""
    panels = [p for p in panels if p.run.timed()]
    if not panels:
        return None
    fig = plt.figure(figsize=(10, ABOVE + ROW * len(panels) + 0.3))
    height = fig.get_figheight()
    titles(fig, results, title)
    tips: dict[str, str] = {}
    reasons: dict[str, set[str]] = {}
    left_out: set[Key] = set()
    missing = ended = False
    for i, panel in enumerate(panels):
        lines, axis, _ = overlay.lines_of([panel.run], [], "ratio")
        shown = {line.key for line in lines}
        for entry in panel.run.entries.values():
            if entry.key in shown and entry.reason:
                reasons.setdefault(entry.reason, set()).add(runs.rung_id(entry.key[0]))
        left_out |= {e.key for e in panel.run.timed().values()} - shown
        for line in lines:
            line.name = runs.rung_id(line.key[0]) + (" TF32" if line.key[1] == "tf32" else "")
        bottom = (0.3 + ROW * (len(panels) - 1 - i) + 0.5) / height
        every = sorted({s for line in lines for s in (*line.points, *line.skipped)})
        last = LAST if panel.steps else math.inf
        through = [s for s in every if s % ON_LINE == 0 and s <= last] or every
        beside = [s for s in every if s not in through]
        drawn = [
            replace(line, points={s: p for s, p in line.points.items() if s in through})
            for line in lines
        ]
        drawn = [line for line in drawn if line.points]
        missing |= any(line.gaps(through) or set(beside) - set(line.points) for line in lines)
        ended |= any(line.end < through[-1] for line in drawn)
        wide = 0.5 if beside else 0.8
        ax = fig.add_axes((0.065, bottom, wide, (ROW - 0.75) / height))
        if panel.steps:
            ax.xaxis.set_major_locator(MultipleLocator(1024))
        else:
            overlay.size_axis(ax, through)
        ax.axhline(1, color="black", linewidth=1.4)
        tips |= overlay.draw_lines(ax, drawn, through, f"panel-{i}")
        values = [end for line in drawn for _, v in line.points.values() for end in v.ends]
        low, high = min(0.97, *values), max(1.02, *values)
        if panel.steps:
            ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
        elif max(values) < 0.25:
            ax.set_yscale("log")
            ax.set_ylim(0.8 * low, 1.3)
            ax.set_yticks([0.05, 0.1, 0.2, 0.5, 1], minor=False)
            ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
            ax.yaxis.set_minor_locator(NullLocator())
        else:
            ax.set_ylim(0, max(1.15, 1.08 * high))
        title_of_panel = panel.title.format(first=lines[0].name)
        ax.set_title(title_of_panel, fontsize=10, loc="left", pad=5)
        ax.set_xlabel(axis)
        ax.set_ylabel("speed, cuBLAS = 1")
        overlay.draw_names(fig, ax, named_once(drawn), [1.0])
        if beside:
            small = [s for s in beside if max((l.points[s][1].median for l in lines if s in l.points), default=0) < 1.6]  # fmt: skip
            large = [s for s in beside if s not in small]
            several = len(lines) > 1
            groups = [[s] for s in beside] if several else [g for g in (small, large) if g]
            draw_beside(fig, lines, groups, bottom, axis)
    notes = ["Bands and black strokes: p10 to p90."]
    if left_out:
        notes.append(
            f"Only in the table: {', '.join(runs.rung_id(key[0]) for key in sorted(left_out))}."
        )
    if ended:
        notes.append("Lines end at a rung's last size, and hide equal ones of earlier rungs.")
    if missing or reasons:
        told = [f"{', '.join(sorted(who))}: {why}" for why, who in sorted(reasons.items())]
        notes.append("x: no measurement" + (f" ({'; '.join(told)})." if told else "."))
    fig.text(0.012, 0.1 / height, "  ".join(notes), fontsize=8, color=GREY)
    return fig, tips


def draw_sizes(results: Results, rungs: list[Rung], figure: str) -> Optional[Picture]:
    """The ladder: a panel a generation."""
    series = series_of(results, rungs, figure)
    run = runs.load(results.path)
    panels = [Panel(name, part(run, of)) for name, of in generations(series, figure)]
    own = [s for s in series if not ladder.label(*s) and not s[0].is_baseline]
    found = [(p.ratio, r.id) for r, d in own if (p := results.at(r, d))]
    best = f": at {REFERENCE_SHAPE[0]} {max(found)[1]} has {max(found)[0]:.2f} of cuBLAS's speed" if found else ""  # fmt: skip
    return draw_panels(results, panels, f"{ON_CORES[figure]}{best}")


def draw_sweep(results: Results, rungs: list[Rung], figure: str) -> Optional[Picture]:
    """Small steps: a panel a rung, in which a percent can be seen."""
    run, panels = runs.load(results.path), []
    told: list[str] = []
    for rung, dtype in series_of(results, rungs, figure):
        mine = part(run, [(rung, dtype)])
        timed = {n: p.ratio for n, p in sorted(cubes(results.points[rung.name, dtype]).items()) if not p.reason}  # fmt: skip
        low = ", ".join(f"{r:.2f} at {n}" for n, r in timed.items() if r < 1.005)
        panels.append(Panel(label(rung, dtype) + (f": {low}" if low else ""), mine, steps=True))
        ratios = [ratio for n, ratio in timed.items() if n % 256 == 0 and n <= LAST]
        above = sum(ratio > 1 for ratio in ratios)
        first = f"{rung.id} is above cuBLAS at {above} of {len(ratios)} multiples of 256"
        told.append(f"{rung.id} at {above}" if told else first)
    return draw_panels(results, panels, f"{TITLES[figure]}: {', '.join(told)}")


def draw_languages(folder: Path) -> Optional[Picture]:
    """TFLOPS of v29, of a Triton kernel, and of torch.matmul, which alternated with that."""
    if not ((path := folder / "tiles.json").exists() and (folder / "tiles_triton.json").exists()):
        return None
    own, triton = runs.load(path), runs.load(folder / "tiles_triton.json")
    entries = {n: e for n, e in own.entries.items() if e.key == ("v29_tiles", "f16", "nn")}
    found: dict[int, list[float]] = {}
    for line in json.loads(triton.path.read_text(encoding="utf-8"))["benchmarks"]:
        name, torch = line["name"], line["baseline_TFLOPS"]
        entries[name] = triton.entries[name]
        of_torch = runs.Entry(f"torch_{name}", {"TFLOPS": runs.Value(torch)})
        entries[of_torch.name] = of_torch
        v29 = entries[name.replace("triton", "v29_tiles")].values["TFLOPS"].median
        found[triton.entries[name].shape[0]] = [v29, line["TFLOPS"], torch]
    run = Run(path, own.context, entries, "")
    lines, axis, _ = overlay.lines_of([run], [], "TFLOPS")
    for line, name in zip(lines, ("v29", "Triton", "torch.matmul")):
        line.name = name
    sizes = sorted(lines[0].points)
    fig = plt.figure(figsize=(10, 4.2))
    first, *others = sorted(found)
    apart = max(max(found[s]) / min(found[s]) - 1 for s in others)
    title = f"f16: from {others[0]} up v29, a Triton kernel and torch.matmul lie within {100 * apart:.0f} %"
    titles(fig, ladder.load_results(path), title)
    ax = fig.add_axes((0.065, 0.19, 0.77, 0.62))
    overlay.size_axis(ax, sizes)
    tips = overlay.draw_lines(ax, lines, sizes, "languages")
    ax.set_ylim(bottom=0)
    ax.set_xlabel(axis)
    ax.set_ylabel("TFLOPS")
    overlay.draw_names(fig, ax, lines, None)
    ax.annotate(
        "Python's start",
        (first, found[first][1]),
        xytext=(8, -3),
        textcoords="offset points",
        fontsize=8.5,
    )
    note = f"Two runs on one card: clocks differ by percents. At {first} the GPU waits for Python, which starts the kernels of Triton and torch."
    fig.text(0.012, 0.1 / 4.2, f"Bands: p10 to p90. {note}", fontsize=8, color=GREY)
    return fig, tips


# The ladder as bars
# --------------------------------------------------------------------------------------------------


def draw_ladder(results: Results, rungs: list[Rung], figure: str) -> Optional[Figure]:
    """Names left, bars in the middle, and what they say in columns at the right."""
    # FP32 from parts on tensor cores keeps fewer bits: its share would compare two precisions.
    series = [(r, d) for r, d in series_of(results, rungs, figure) if d == "tf32" or not ladder.label(r, d)]  # fmt: skip
    if not any(results.at(*s) for s in series):
        return None
    series = [(r, d) for r, d in series if REFERENCE_SHAPE in results.points[r.name, d]]
    notes = [
        "The clock, and so TFLOPS, change with the power drawn. The ratio, of runs beside each other, is what counts."
    ]
    if parts := [r.id for r, d in series_of(results, rungs, figure) if (r, d) not in series and d != "tf32" and results.at(r, d)]:  # fmt: skip
        notes.append(
            f"{', '.join(parts)}: FP32 from parts on tensor cores, see sizes_{figure}.svg."
        )
    below = 0.6 + 0.17 * len(notes)
    fig = plt.figure(figsize=(10, 1.45 + below + 0.27 * len(series)))
    height = fig.get_figheight()
    for i, note in enumerate(reversed(notes)):
        fig.text(0.01, (0.1 + 0.17 * i) / height, note, fontsize=8, color=GREY)
    ax = fig.add_axes((0.24, below / height, 0.475, (height - below - 1.2) / height))
    own = [(p.ratio, r.id) for r, d in series if not ladder.label(r, d) and not r.is_baseline and (p := results.at(r, d))]  # fmt: skip
    best = f": {max(own)[1]} has {max(own)[0]:.2f} of cuBLAS's speed" if own else ""
    titles(fig, results, f"{ON_CORES[figure]} at {' x '.join(map(str, REFERENCE_SHAPE))}{best}")
    columns = {"ratio": 1.1, "TFLOPS": 1.25, "gain in the ratio": 1.29}
    beside = {"transform": ax.get_yaxis_transform(), "va": "center", "fontsize": 9}
    for name, x in columns.items():
        left = "left" if name.startswith("gain") else "right"
        ax.text(x, -1.05, name, ha=left, **beside, color=GREY)
    for row, (rung, dtype) in enumerate(series):
        point = results.at(rung, dtype)
        if not point:
            why = results.points[rung.name, dtype][REFERENCE_SHAPE].reason
            ax.text(0.01, row, f"x  {why}", **beside, color=GREY)
            continue
        tone = GREY if rung.is_baseline else course_pictures.COLORS[track(rungs, rung)]
        ax.barh(row, point.ratio, 0.72, color=tone)
        ax.text(columns["ratio"], row, f"{point.ratio:.3f}", ha="right", **beside)
        ax.text(columns["TFLOPS"], row, f"{point.tflops:.3g}", ha="right", **beside)
        if not rung.prev or rung.is_baseline:
            continue
        changed = ladder.find_rung(rungs, rung.prev)
        before = results.at(changed, dtype)
        gain = f"x{point.ratio / before.ratio:.2f} over {rung.prev}" if before else ""
        if (changed.name, dtype) not in results.points:
            gain = f"{rung.prev} has no {TITLES[dtype]}"
        ax.text(columns["gain in the ratio"], row, gain, ha="left", **beside)
    ax.axvline(1, color="black", linewidth=1.2)
    ax.text(1, -0.75, "cuBLAS", fontsize=9, ha="center", va="bottom")
    shown = (results.at(*s) for s in series)
    ax.set_xlim(0, max(1.05, *(1.05 * point.ratio for point in shown if point)))
    ax.set_ylim(len(series) - 0.4, -0.6)
    ax.set_yticks(range(len(series)), [label(*s) for s in series], fontsize=9)
    ax.set_xlabel(
        "speed over that of the better of cuBLAS and cuBLASLt at that precision, alternating with it"
    )
    tracks = dict.fromkeys(track(rungs, r) for r, _ in series if not r.is_baseline)
    fig.legend(
        handles=[Patch(color=course_pictures.COLORS[name], label=name) for name in tracks],
        loc="upper left", bbox_to_anchor=(0.0, 1 - 0.6 / height), ncols=len(tracks), fontsize=9,
        handlelength=1.2, columnspacing=1.4, borderpad=0.1,
    )  # fmt: skip
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    return fig


# Files
# --------------------------------------------------------------------------------------------------


def figures(root: Path, reference: str) -> dict[Path, Optional[bytes]]:
    """What every figure should hold; None for one that has no results to show."""
    rungs = ladder.load_rungs(root)
    wanted: dict[Path, Optional[bytes]] = {}
    for gpu in sorted({*ladder.measured_gpus(root), reference}):
        results = ladder.results_of(gpu, root)
        folder = root / "plots"
        if gpu != reference:
            folder = ladder.folder_of(gpu, root)
        draws = (("sizes", draw_sizes), ("ladder", draw_ladder), ("sweep", draw_sweep))
        for name, draw in draws:
            for figure in FIGURE_DTYPES:
                source = ladder.sweep_of(figure, gpu, root) if draw is draw_sweep else results
                drawn = draw(source, rungs, figure) if source else None
                path = folder / f"{name}_{figure}.svg"
                if isinstance(drawn, tuple):
                    wanted[path] = overlay.render(*drawn)
                else:
                    wanted[path] = svg(drawn) if drawn else None
        languages = draw_languages(ladder.folder_of(gpu, root))
        wanted[folder / "tile_languages.svg"] = overlay.render(*languages) if languages else None
        peers = ladder.stored(ladder.folder_of(gpu, root) / "peers.json")
        wanted[folder / "peers.svg"] = None
        if peers.exists():
            run = runs.load(peers, ladder.load_results(peers, "nt").conditions())
            fig, tips = overlay.draw([run], [], None)
            fig.axes[0].set_xlabel("layers of Llama 3 8B, B transposed (nt): " + overlay.BY_NAME)
            for text in fig.axes[0].get_legend().get_texts():
                text.set_text(PEERS.get(text.get_text(), text.get_text()))
            wanted[folder / "peers.svg"] = overlay.render(fig, tips)
        maps = shape_map.figures(root, gpu, reference)
        wanted |= {path: svg(figure) if figure else None for path, figure in maps.items()}
    results = ladder.results_of(reference, root)
    sms = int(results.context.get("sm_count", 0)) if results else 0
    for others in (
        pictures.figures(root, rungs),
        layouts.figures(root, rungs, sms),
        limits.figures(root, rungs, reference),
        accuracy.figures(root, reference),
        fp8_error.figures(root, reference),
        several_gpus.figures(root),
        course_pictures.figures(root, rungs, reference),
    ):
        wanted |= {path: svg(figure) if figure else None for path, figure in others.items()}
    wanted |= mechanisms.figures(root, rungs)
    wanted |= phases.figures(root, rungs, reference)
    return wanted


def draw_climb(run: Path, to: Path) -> None:
    """The rungs of one run that is not committed, in f16, from the first to the last."""
    matplotlib.rcParams.update(STYLE)
    results = ladder.load_results(run)
    figure = draw_ladder(results, ladder.load_rungs(), "f16")
    if figure:
        figure.savefig(to, dpi=150)
        print(f"picture: {to}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    parser.add_argument("--gpu", help="whose figures lie in plots/; default: the fullest ladder's")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    parser.add_argument("--run", type=Path, help="a run's JSON: only its climb in f16, as --to")
    parser.add_argument("--to", type=Path, help="with --run: the picture, .png or .svg")
    args = parser.parse_args()
    if args.run:
        draw_climb(args.run, args.to)
        return

    root, stale = args.root.resolve(), False
    # All figures are drawn before the first is written: no warning that there are many.
    matplotlib.rcParams.update({**STYLE, "figure.max_open_warning": 0})
    for path, wanted in figures(root, ladder.choose_gpu(args.gpu, root)).items():
        name, have = path.relative_to(root), path.read_bytes() if path.exists() else None
        if have == wanted:
            continue
        stale = True
        if args.check:
            print(
                f"{name}: "
                + (
                    "no results to draw it from"
                    if wanted is None
                    else "stale"
                    if have
                    else "missing"
                )
            )
        elif wanted is None:
            path.unlink()
            print(f"{name}: removed, no results to draw it from")
        else:
            path.write_bytes(wanted)
            print(f"{name}: drawn")
    if stale and args.check:
        print("run scripts/plot.py", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        fail(error)
