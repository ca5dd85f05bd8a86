#!/usr/bin/env python3
"""Draws the figures from the committed results, and from nothing else.

  plots/tflops_f32.svg  plots/tflops_f16.svg   TFLOPS against size, a line a rung
  plots/ladder_f32.svg  plots/ladder_f16.svg   % of cuBLAS at 4096, with the gain of each step

  plots/sweep_f32.svg   plots/sweep_f16.svg    TFLOPS against size in small steps, with the limit

for the GPU with the most complete ladder in plots/results, or for that of --gpu; those of any
other GPU lie beside its results. A size that a rung has no
measurement for breaks its line and is marked below the axis. What bounds the rungs (limits.py):

  plots/roofline.svg       what memory and arithmetic allow, and what was reached
  plots/waterfall_*.svg    what each step adds
  plots/timeline_*.svg     pipelines, computed from sizes and latencies
  plots/wave_quantisation.svg  TFLOPS in small steps of M

  plots/compare_runs.svg   two committed runs overlaid (overlay.py)
  plots/accuracy.svg       errors against K, by class of inputs (accuracy.py)

And from what the simulator saw, which scripts/simulate.py writes (pictures.py and layouts.py):

  plots/banks_*.svg    where a warp's lanes meet in the banks of shared memory
  plots/sectors_*.svg  what they use of the sectors of global memory that they touch
  plots/swizzle.svg    how the swizzles spread a tile's columns over the banks
  plots/tiles_*.svg    which part of C a block, a warp and a thread compute
  plots/fragments.svg  which lane holds what for mma.sync
  plots/raster.svg     the order of blocks

The same results give the same bytes. --check writes nothing and fails when a figure is stale.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Optional

import accuracy
import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

import ladder
import layouts
import limits
import overlay
import pictures
import runs
from figure_style import GREY, STYLE, svg
from ladder import REFERENCE_SHAPE, ROOT, BadInput, Point, Results, Rung, Shape, fail

# The columns of a figure: f32's shows the rungs that multiply floats in TF32 too, labelled.
FIGURE_DTYPES = {"f32": ("f32", "tf32"), "f16": ("f16",)}
TITLES = {"f32": "FP32", "f16": "FP16 (float accumulation)", "tf32": "TF32"}
MARKERS = "osD^vP*Xph<>"
TF32 = "#d95f02"

Series = tuple[Rung, str]  # a rung and one of its dtypes


def series_of(results: Results, rungs: list[Rung], figure: str) -> list[Series]:
    """What a figure shows: the rungs that the results know, in ladder order."""
    return [(r, d) for d in FIGURE_DTYPES[figure] for r in rungs if (r.name, d) in results.points]


def color(rungs: list[Rung], rung: Rung, dtype: str) -> tuple[float, ...] | str:
    """Along the ladder from dark to light: monotonic in lightness, so safe for the colour-blind."""
    if ladder.label(rung, dtype):
        return TF32
    return matplotlib.colormaps["viridis"](0.8 * rungs.index(rung) / max(1, len(rungs) - 1))


def label(rung: Rung, dtype: str) -> str:
    title = rung.name.split("_", 1)[1].replace("_", " ")
    return f"{rung.id} {title}" + ladder.label(rung, dtype)


def cubes(points: dict[Shape, Point]) -> dict[int, Point]:
    return {m: p for (m, n, k), p in points.items() if m == n == k}


def without_gaps(sizes: list[int], points: dict[int, Point], field: str) -> list[float]:
    """The field at every size of the figure; nan, which breaks a line, where there is none."""
    return [
        getattr(points[s], field) if s in points and not points[s].reason else math.nan
        for s in sizes
    ]


def titles(fig: Figure, results: Results, title: str) -> None:
    height = fig.get_figheight()
    fig.text(0.01, 1 - 0.1 / height, title, fontsize=13, fontweight="bold", va="top")
    fig.text(0.01, 1 - 0.4 / height, results.conditions(), fontsize=8, color=GREY, va="top")


# TFLOPS against size
# --------------------------------------------------------------------------------------------------


def draw_baseline(
    ax: Axes, sizes: list[int], all_points: list[dict[int, Point]], dtype: str
) -> None:
    """cuBLAS, timed beside every rung: the median of those measurements."""
    median = []
    for size in sizes:
        seen = sorted(p[size].baseline for p in all_points if size in p and not p[size].reason)
        median.append(seen[len(seen) // 2] if seen else math.nan)
    dashes, tone = ("--", TF32) if dtype == "tf32" else ("-", "black")
    name = "cuBLAS or Lt, the better" + (" (TF32)" if dtype == "tf32" else "")
    ax.plot(sizes, median, dashes, color=tone, linewidth=2.4, marker=".", label=name, zorder=4)


def draw_limit(ax: Axes, results: Results, dtype: str) -> None:
    peak = results.peak(dtype)
    if peak:
        tone = TF32 if dtype == "tf32" else "black"
        ax.axhline(peak[0], color=tone, linewidth=1, linestyle=":")
        ax.annotate(
            f"{peak[1]} limit of this card, measured: {peak[0]:.0f}",
            (0.005, peak[0]),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            xytext=(0, 3),
            fontsize=8,
            color=tone,
        )


def draw_gaps(ax: Axes, gaps: list[tuple[Series, dict[int, str]]], rungs: list[Rung]) -> None:
    """A row a rung that lacks sizes: an x at each. Reasons are numbered, and spelled out below."""
    reasons = sorted({reason for _, missing in gaps for reason in missing.values()})
    for row, ((rung, dtype), missing) in enumerate(gaps):
        sizes = sorted(missing)
        ax.plot(sizes, [row] * len(sizes), "x", color=color(rungs, rung, dtype), markersize=6)
        listed = ", ".join(f"{s} ({reasons.index(missing[s]) + 1})" for s in sizes)
        ax.text(1.02, row, listed, transform=ax.get_yaxis_transform(), fontsize=7.5, va="center")
    ax.set_ylim(len(gaps) - 0.5, -0.5)
    ax.set_yticks(range(len(gaps)), [rung.id for (rung, _), _ in gaps], fontsize=8)
    ax.grid(axis="y", visible=False)
    ax.tick_params(axis="y", length=0)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    caption = "x = no measurement.  " + "   ".join(f"({i}) {r}" for i, r in enumerate(reasons, 1))
    ax.annotate(
        caption,
        (0, 0),
        xycoords="axes fraction",
        textcoords="offset points",
        xytext=(0, -6),
        fontsize=8,
        color=GREY,
        va="top",
    )


def draw_tflops(results: Results, rungs: list[Rung], figure: str) -> Optional[Figure]:
    series = series_of(results, rungs, figure)
    points = {(r.name, d): cubes(results.points[r.name, d]) for r, d in series}
    sizes = sorted({s for p in points.values() for s in p})
    if not sizes:
        return None
    gaps = []
    for rung, dtype in series:
        here = points[rung.name, dtype]
        missing = {
            s: here[s].reason if s in here else "not part of the run"
            for s in sizes
            if s not in here or here[s].reason
        }
        if missing:
            gaps.append(((rung, dtype), missing))

    strip = 0.17 * len(gaps)
    fig = plt.figure(figsize=(10, 6 + strip + (0.4 if gaps else 0)))
    height = fig.get_figheight()
    ax = fig.add_axes((0.075, (1.0 + strip) / height, 0.655, (height - 1.7 - strip) / height))
    titles(fig, results, f"{TITLES[figure]} GEMM, square matrices, row-major: TFLOPS against size")

    for rung, dtype in series:
        here, tone = points[rung.name, dtype], color(rungs, rung, dtype)
        ax.plot(
            sizes,
            without_gaps(sizes, here, "tflops"),
            color=tone,
            linewidth=1.4,
            markersize=5,
            marker=MARKERS[rungs.index(rung) % len(MARKERS)],
            label=label(rung, dtype),
        )
        low, high = without_gaps(sizes, here, "p10"), without_gaps(sizes, here, "p90")
        ax.fill_between(sizes, low, high, color=tone, alpha=0.25, linewidth=0)
    for dtype in FIGURE_DTYPES[figure]:
        of_dtype = [points[r.name, d] for r, d in series if d == dtype]
        if of_dtype:
            draw_baseline(ax, sizes, of_dtype, dtype)
            draw_limit(ax, results, dtype)

    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, top * 1.15)
    ticks = [
        s for s in sizes if not s & (s - 1)
    ] or sizes  # powers of two; all are marked below them
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(FixedLocator(sizes))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))
    ax.xaxis.set_minor_formatter(FuncFormatter(lambda x, _: ""))
    ax.yaxis.set_major_locator(FixedLocator([d * 10.0**e for e in range(-4, 4) for d in (1, 2, 5)]))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.set_xlabel("M = N = K")
    ax.set_ylabel("TFLOPS: median, band p10 to p90")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8.5)

    if gaps:
        below = fig.add_axes((0.075, 0.4 / height, 0.655, strip / height), sharex=ax)
        below.tick_params(axis="x", which="both", length=0, labelbottom=False)
        draw_gaps(below, gaps, rungs)
    return fig


# TFLOPS against size in small steps
# --------------------------------------------------------------------------------------------------


LAST = 8192  # where the small steps end


def draw_panel(
    ax: Axes, results: Results, rungs: list[Rung], series: list[Series], sizes: list[int]
) -> None:
    """Lines of some rungs over the sizes, from 0 up; cuBLAS as timed beside them."""
    for i, (rung, dtype) in enumerate(series):
        here = cubes(results.points[rung.name, dtype])
        tone = matplotlib.colormaps["viridis"](0.85 * (1 - i / max(1, len(series) - 1)))
        data = without_gaps(sizes, here, "tflops")
        marker = MARKERS[i % len(MARKERS)]
        ax.plot(sizes, data, color=tone, linewidth=1.4, marker=marker, markersize=3.5,
                label=label(rung, dtype))  # fmt: skip
        low, high = without_gaps(sizes, here, "p10"), without_gaps(sizes, here, "p90")
        ax.fill_between(sizes, low, high, color=tone, alpha=0.2, linewidth=0)
    beside = [cubes(results.points[rung.name, dtype]) for rung, dtype in series]
    draw_baseline(ax, sizes, beside, series[0][1])
    ax.set_ylabel("TFLOPS: median, band p10 to p90")
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8.5)


def draw_sweep(results: Results, rungs: list[Rung], figure: str) -> Optional[Figure]:
    """Rungs on tensor cores that stand among f32's get a panel of their own."""
    series = [
        s for s in series_of(results, rungs, figure) if cubes(results.points[s[0].name, s[1]])
    ]
    panels = [[s for s in series if bool(ladder.label(*s)) == apart] for apart in (False, True)]
    if not series:
        return None
    sizes = sorted({n for r, d in series for n in cubes(results.points[r.name, d]) if n <= LAST})
    shown = [p for p in panels if p]
    fig = plt.figure(figsize=(10, 1.1 + 4.2 * len(shown)))
    height = fig.get_figheight()
    titles(fig, results, f"{TITLES[figure]} GEMM, square matrices in small steps")
    for i, panel in enumerate(shown):
        ax = fig.add_axes(
            (0.075, (0.55 + 4.2 * (len(shown) - 1 - i)) / height, 0.655, 3.5 / height)
        )
        draw_panel(ax, results, rungs, panel, sizes)
        if not ladder.label(*panel[0]):
            draw_limit(ax, results, figure)
        elif len(shown) > 1:
            ax.set_title("on tensor cores, not FFMA", fontsize=10, loc="left")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("M = N = K")
    return fig


# The ladder as bars
# --------------------------------------------------------------------------------------------------


def draw_ladder(results: Results, rungs: list[Rung], figure: str) -> Optional[Figure]:
    series = series_of(results, rungs, figure)
    if not any(results.at(*s) for s in series):
        return None
    fig = plt.figure(figsize=(10, 1.5 + 0.36 * len(series)))
    height = fig.get_figheight()
    ax = fig.add_axes((0.215, 0.5 / height, 0.755, (height - 1.2) / height))
    titles(
        fig, results, f"{TITLES[figure]} at {' x '.join(map(str, REFERENCE_SHAPE))}: % of cuBLAS"
    )
    for row, (rung, dtype) in enumerate(series):
        point = results.at(rung, dtype)
        if not point:
            known = results.points[rung.name, dtype].get(REFERENCE_SHAPE)
            ax.text(
                0.5,
                row,
                f"x  {known.reason if known else 'not part of the run'}",
                va="center",
                fontsize=9,
                color=GREY,
            )
            continue
        percent = 100 * point.ratio
        hatch = "//" if ladder.label(rung, dtype) else None
        ax.barh(row, percent, 0.72, color=color(rungs, rung, dtype), hatch=hatch, edgecolor="white")
        gain = ladder.gain(results, rungs, rung, dtype)
        step = f"   x{gain:.2f} over {rung.prev}" if gain else ""
        text = f"{percent:.1f} %   {point.tflops:.1f} TFLOPS{step}"
        inside = percent > 65
        ax.text(
            percent + (-1 if inside else 1),
            row,
            text,
            va="center",
            fontsize=9,
            ha="right" if inside else "left",
            color="black",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.2},
        )
    ax.axvline(100, color="black", linewidth=1.2)
    ax.set_xlim(0, max(105.0, *(105 * p.ratio for s in series for p in [results.at(*s)] if p)))
    ax.set_ylim(len(series) - 0.4, -0.6)
    ax.set_yticks(range(len(series)), [label(*s) for s in series], fontsize=9)
    ax.set_xlabel("% of the better of cuBLAS and cuBLASLt at the same precision, timed in turn")
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    return fig


# Files
# --------------------------------------------------------------------------------------------------


def figures(root: Path, reference: str) -> dict[Path, Optional[bytes]]:
    """What every figure should hold; None for one that has no results to show."""
    rungs, wanted = ladder.load_rungs(root), {}
    for gpu in sorted({*ladder.measured_gpus(root), reference}):
        results = ladder.results_of(gpu, root)
        folder = root / "plots"
        if gpu != reference:
            folder = ladder.folder_of(gpu, root)
        draws = (("tflops", draw_tflops), ("ladder", draw_ladder), ("sweep", draw_sweep))
        for name, draw in draws:
            for figure in FIGURE_DTYPES:
                source = ladder.sweep_of(figure, gpu, root) if draw is draw_sweep else results
                drawn = draw(source, rungs, figure) if source else None
                wanted[folder / f"{name}_{figure}.svg"] = svg(drawn) if drawn else None
    results = ladder.results_of(reference, root)
    sms = int(results.context.get("sm_count", 0)) if results else 0
    for others in (
        pictures.figures(root, rungs),
        layouts.figures(root, rungs, sms),
        limits.figures(root, rungs, reference),
        accuracy.figures(root, reference),
    ):
        wanted |= {path: svg(figure) if figure else None for path, figure in others.items()}
    wanted[root / "plots" / "compare_runs.svg"] = draw_compared(root, reference)
    return wanted


def draw_compared(root: Path, gpu: str) -> Optional[bytes]:
    """Two committed runs overlaid, as scripts/compare.py does with any two."""
    paths = [ladder.folder_of(gpu, root) / name for name in ("rungs_sweep.json", ladder.LADDER)]
    if not all(path.exists() for path in paths):
        return None
    before, after = (runs.load(path) for path in paths)
    runs.name_runs([before, after])
    comparison = runs.compare(before, after)
    if not comparison.changes:
        return None
    return overlay.render(*overlay.draw([before, after], [comparison], None))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    parser.add_argument("--gpu", help="whose figures lie in plots/; default: the fullest ladder's")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()

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
