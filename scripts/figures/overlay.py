"""The picture of compare.py: lines of several runs, or of several rungs of one, over the size.

At most six lines, each named at its end; a band from p10 to p90; cuBLAS = 1, or its TFLOPS. Shapes of
several layers have no order: dots, with strokes from p10 to p90. An x on
the axis where a run lacks a size between its others. Sizes that are no multiple of 8 take other
paths through kernels and libraries: they stand beside the lines, which would only jump to them and
back. A white card: legible on a dark page too."""

from __future__ import annotations

import html
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Sequence
from xml.etree import ElementTree

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from common import runs
from common.runs import Change, Comparison, Entry, Key, Run, Value
from figures.figure_style import GREY, STYLE, svg

MOST_LINES = 6
MOST_SHAPES = 24  # whose names fit below the x axis
BY_NAME = "M, and below it N x K"
LABEL_INCHES = 0.19  # between the names of two lines
# Told apart with any kind of colour vision, and dark enough for text on white.
COLORS = ("#0060a8", "#c04a00", "#00795a", "#a0307a", "#6b5b00", "#444444")
NAMES = {
    "ratio": "ratio to cuBLAS's speed",
    "TFLOPS": "TFLOPS",
    "time": "time, ms",
}
SVG = "http://www.w3.org/2000/svg"


@dataclass
class Line:
    key: Key
    run: Run
    points: dict[float, tuple[Entry, Value]]
    skipped: set[float]
    changed: dict[float, Change]  # against the first run
    name: str = ""
    color: str = ""
    first: bool = False  # of the run that the others are compared with

    def values(self, sizes: list[float]) -> list[Value]:
        """At each of the sizes; nan, which breaks a line, where there is none."""
        return [self.points[s][1] if s in self.points else Value(math.nan) for s in sizes]

    @property
    def end(self) -> float:
        """Where the line ends and its name begins."""
        return max(connected(list(self.points)) or self.points)

    def sizes(self, all_sizes: list[float]) -> list[float]:
        """Where it is drawn, or has a gap. A run of mostly the same sizes as the others lacks those
        that it has not; one of fewer sizes was asked for fewer."""
        inside = [s for s in all_sizes if min(self.points) <= s <= max(self.points)]
        own = [s for s in all_sizes if s in self.points or s in self.skipped]
        return sorted({*inside, *own}) if 2 * len(own) > len(inside) else own

    def gaps(self, all_sizes: list[float]) -> list[float]:
        return [s for s in self.sizes(all_sizes) if s not in self.points]


def step_of(sizes: list[float]) -> int:
    """Of whose multiples a line goes through: 64 where most sizes are such, as of a ladder with 1000."""
    of_64, of_8 = (sum(s % step == 0 for s in sizes) for step in (64, 8))
    return 64 if 2 < 2 * of_64 > len(sizes) else 8 if of_8 > 1 else 1


def connected(sizes: list[float]) -> list[float]:
    """The sizes that a line goes through."""
    step = step_of(sizes)
    return [s for s in sizes if s % step == 0] if step > 1 else sizes


# What is drawn
# --------------------------------------------------------------------------------------------------


def axis_of(shapes: set[tuple[int, ...]]) -> tuple[dict[tuple[int, ...], float], str]:
    """Where on the x axis each shape lies, and the axis's title. Shapes without a place are left
    out: those that are not square, where squares are."""
    problems = {s for s in shapes if len(s) == 3}
    squares = {s for s in problems if len(set(s)) == 1}
    if len(squares) > 1 or (squares and len(problems) == len(squares)):
        return {s: float(s[0]) for s in squares}, "M = N = K"
    varying = [i for i in range(3) if len({s[i] for s in problems}) > 1]
    if problems and len(varying) == 1:
        i, one = varying[0], next(iter(problems))
        fixed = ", ".join(f"{'MNK'[j]} = {one[j]}" for j in range(3) if j != i)
        return {s: float(s[i]) for s in problems}, f"{'MNK'[i]}, with {fixed}"
    if 0 < len(problems) <= MOST_SHAPES:  # a step apart, two between layers
        layers = sorted({s[1:] for s in problems})
        by_layer = sorted(problems, key=lambda s: (*s[1:], s[0]))
        return {s: float(i + layers.index(s[1:])) for i, s in enumerate(by_layer)}, BY_NAME
    if problems:
        return {
            s: round((s[0] * s[1] * s[2]) ** (1 / 3), 3) for s in problems
        }, "cube root of M x N x K"
    return {s: float(s[-1]) if s else 0.0 for s in shapes}, "the benchmark's argument"


def measure_for(shown: list[Run], wanted: Optional[str]) -> str:
    """The first measure that all runs have; the one asked for, if any."""
    for measure in [wanted] if wanted else runs.MEASURES:
        if measure and all(any(measure in e.values for e in r.timed().values()) for r in shown):
            return measure
    raise runs.BadInput(f"--y {wanted or 'ratio'}: not all runs have it")


def importance(key: Key, comparisons: list[Comparison], shown: list[Run], measure: str) -> float:
    """Which rungs are shown where there are too many: those that changed most; where nothing is
    compared, the fastest."""
    moved = [
        abs(c.change) for comparison in comparisons for c in comparison.changes if c.key == key
    ]
    if moved:
        return max(moved)
    speeds = [
        e.values[measure].median
        for run in shown
        for e in run.timed().values()
        if e.key == key and measure in e.values
    ]
    return (-1 if measure == "time" else 1) * sum(map(math.log, speeds)) / max(1, len(speeds))


def lines_of(
    shown: list[Run], comparisons: list[Comparison], measure: str
) -> tuple[list[Line], str, int]:
    """The lines, the x axis's title, and how many rungs were left out."""
    has = [{e.key for e in run.timed().values()} for run in shown]
    keys = list(dict.fromkeys(e.key for run in shown for e in run.timed().values()))
    if comparisons:  # what only one has is no comparison
        keys = [k for k in keys if all(k in of for of in has)] or keys
    kept: list[Key] = []
    for key in sorted(keys, key=lambda k: -importance(k, comparisons, shown, measure)):
        if not kept or sum(k in of for of in has for k in (*kept, key)) <= MOST_LINES:
            kept.append(key)
    kept = [key for key in keys if key in kept]
    shapes = {e.shape for run in shown for e in run.timed().values() if e.key in kept}
    place, axis = axis_of(shapes)
    lines = []
    for run in shown[:MOST_LINES]:
        changed = next((c.changes for c in comparisons if c.b is run), [])
        for key in kept:
            mine = [e for e in run.entries.values() if e.key == key and e.shape in place]
            points = {place[e.shape]: (e, e.values[measure]) for e in mine if measure in e.values}
            if measure == "time":
                points = {x: (e, v.times(1e3)) for x, (e, v) in points.items()}
            skipped = {place[e.shape] for e in mine if measure not in e.values}
            moves = {place[c.shape]: c for c in changed if c.key == key and c.shape in place}
            if points:
                first = run is shown[0] and bool(comparisons)
                lines.append(Line(key, run, points, skipped, moves, first=first))
    several_keys = len({line.key for line in lines}) > 1
    several_runs = len({line.run.label for line in lines}) > 1
    if len({line.key for line in lines}) == len(lines) and len({run.gpu for run in shown}) == 1:
        several_runs = False  # the rungs' names tell the lines apart
    one_kind = len({key[1:] for key in kept}) == 1
    for i, line in enumerate(lines):
        name = runs.rung_id(line.key[0]) if one_kind else runs.title(line.key)
        parts = [name] if several_keys or not several_runs else []
        line.name = ": ".join([*parts, *([line.run.label] if several_runs else [])])
        line.color = COLORS[kept.index(line.key) if several_keys else i]
    return lines, axis, len(keys) - len(kept)


def finding(lines: list[Line], comparisons: list[Comparison], measure: str) -> str:
    """What the picture shows, in one sentence."""
    keys = list(dict.fromkeys(line.key for line in lines))
    rungs = list(dict.fromkeys(runs.rung_id(key[0]) for key in keys))
    kinds = {key[1:] for key in keys}
    kind = " ".join(kinds.pop()).strip() if len(kinds) == 1 else ""
    what = f"{', '.join(rungs)} {kind}".strip()
    points_name = "size" if len(keys) == 1 else "point"
    if comparisons:
        shown = {line.key for line in lines}
        b = comparisons[0].b.label if len(comparisons) == 1 else "the others"
        changes = [c for comparison in comparisons for c in comparison.changes if c.key in shown]
        points = [c for c in changes if c.a]
        verdicts = Counter(c.verdict for c in points)
        wholes = [c for c in changes if not c.a and c.verdict in ("slower", "faster")]
        if len(wholes) == 1 and len(shown) == 1:
            percent = 100 * abs(wholes[0].factor - 1)
            return f"{what}: {b} is {percent:.1f} % {wholes[0].verdict} on average"
        if verdicts["one sample"] == len(points):
            middle = math.exp(sum(c.change for c in points) / len(points))
            return f"{what}: {b} at {middle:.3f} of the speed, one sample each"
        told = [f"{v} at {verdicts[v]}" for v in ("slower", "faster") if verdicts[v]]
        if wholes and not told:
            named = " and ".join(f"{runs.rung_id(c.key[0])} {c.verdict}" for c in wholes)
            return f"{what}: in {b} {named}, on average over the sizes"
        if told:
            return f"{what}: {b} is {' and '.join(told)} of {runs.plural(len(points), points_name)}"
        return f"{what}: no difference beyond noise at {runs.plural(len(points), points_name)}"
    if len(rungs) > 1:
        sizes = {s for line in lines for s in line.points}
        near, alone = Counter[str](), Counter[str]()  # p10 to p90 overlaps the fastest's
        for s in sizes:
            speeds = {l.name: l.points[s][1] for l in lines if s in l.points}
            if measure == "time":
                speeds = {
                    name: Value(-v.median, (-v.ends[1], -v.ends[0])) for name, v in speeds.items()
                }
            if measure == "ratio":
                speeds["cuBLAS"] = Value(1.0)
            least = max(speeds.values(), key=lambda v: v.median).ends[0]
            close = [name for name, v in speeds.items() if v.ends[1] >= least]
            near.update(close)
            alone.update(close if len(close) == 1 else [])
        name = max(near, key=lambda name: (near[name], alone[name]))
        of = runs.plural(len(sizes), "size")
        how = f"the fastest at {near[name]} of {of}"
        if alone[name] < near[name]:
            how = (
                f"the fastest, or level with it, at {near[name]} of {of} (clearly at {alone[name]})"
            )
        return f"{name} is {how}" + (f", {kind}" if kind else "")
    last = min(line.end for line in lines)
    values = [
        f"{line.points[last][1].median:.3g}" + (f" ({line.key[1]})" if len(lines) > 1 else "")
        for line in lines
        if last in line.points
    ]
    unit = {"ratio": "of cuBLAS", "TFLOPS": "TFLOPS", "time": "ms"}[measure]
    return f"{what}: {', '.join(values)} {unit} at {last:g}"


# Drawing
# --------------------------------------------------------------------------------------------------


def spread_apart(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Heights of labels, in order, as near to where they belong as `gap` between them allows."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [wanted[i] for i in order]
    for _ in range(200):
        for i in range(1, len(placed)):
            overlap = placed[i - 1] + gap - placed[i]
            if overlap > 0:
                placed[i - 1] -= overlap / 2
                placed[i] += overlap / 2
        placed = [min(max(y, low), high) for y in placed]
    result = [0.0] * len(wanted)
    for i, y in zip(order, placed):
        result[i] = y
    return result


def draw_baseline(
    ax: Axes, lines: list[Line], sizes: list[float], measure: str
) -> Optional[list[float]]:
    """cuBLAS: 1, or its TFLOPS as timed beside the lines. Its height at the right end for a label."""
    if measure == "ratio":
        ax.axhline(1, color="black", linewidth=1.4)
        return [1.0]
    if measure != "TFLOPS" or len({line.key[1] for line in lines}) > 1:
        return None
    timed = []
    for size in sizes:
        seen = sorted(
            value.median / entry.values["ratio"].median
            for line in lines
            if size in line.points
            for entry, value in [line.points[size]]
            if "ratio" in entry.values
        )
        timed.append(seen[len(seen) // 2] if seen else math.nan)
    if not any(math.isfinite(t) for t in timed):
        return None
    at = dict(zip(sizes, timed))
    through = connected(sizes)
    ax.plot(through, [at[s] for s in through], color="black", linewidth=1.4)
    beside = [s for s in sizes if s not in through]
    ax.plot(beside, [at[s] for s in beside], "_", color="black", markersize=11)
    return [t for t in timed if math.isfinite(t)]


def value_axis(ax: Axes, lines: list[Line]) -> None:
    """Logarithmic where the values are far apart."""
    values = [v.median for line in lines for _, v in line.points.values()]
    if max(values) > 2.5 * min(values):
        ax.set_yscale("log")
        few = max(values) > 6 * min(values)
        steps = (1, 2, 5) if few else (1, 1.1, 1.25, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
        ax.yaxis.set_major_locator(FixedLocator([d * 10.0**e for e in range(-9, 7) for d in steps]))
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))


def size_axis(ax: Axes, sizes: list[float]) -> None:
    if sizes[0] > 0 and sizes[-1] > 6 * sizes[0]:
        ax.set_xscale("log", base=2)
        powers = [s for s in sizes if math.log2(s).is_integer()]
        ax.xaxis.set_major_locator(
            FixedLocator(powers if len(powers) > 2 else sizes[:: 1 + len(sizes) // 8])
        )
        ax.xaxis.set_minor_locator(FixedLocator(sizes))
    elif len(sizes) <= 10:
        ax.xaxis.set_major_locator(FixedLocator(sizes))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0f}"))
    ax.xaxis.set_minor_formatter(FuncFormatter(lambda x, _: ""))


def tooltip(line: Line, size: float) -> str:
    entry, value = line.points[size]
    parts = [f"{runs.title(line.key)} {runs.shape_name(entry.shape)}, {line.run.label}"]
    for measure in ("ratio", "TFLOPS"):
        if measure in entry.values:
            v = entry.values[measure]
            name = {"ratio": "of cuBLAS", "TFLOPS": "TFLOPS"}[measure]
            parts.append("{:.4g} {} ({:.4g} to {:.4g})".format(v.median, name, *v.ends))
    if "time" in entry.values:
        parts.append(f"{1e3 * entry.values['time'].median:.4g} ms")
    if size in line.changed:
        change = line.changed[size]
        parts.append(f"B/A {change.factor:.3f}: {change.verdict}")
    return "\n".join(parts)


def draw_lines(
    ax: Axes, lines: list[Line], sizes: list[float], panel: str = "point", apart: float = 0
) -> dict[str, str]:
    """Draws them; a tooltip by the id of each point, which begins with the panel's name. With `apart`:
    dots of so much distance at a size, each with a stroke, in place of lines and bands."""
    tips = {}
    several = len({line.run.label for line in lines}) > 1
    for i, line in enumerate(lines):
        dash = "--" if line.first and several else "-"
        shift = apart * (i - (len(lines) - 1) / 2)
        through = connected(line.sizes(sizes))
        values = line.values(through)
        if not apart:
            ends = zip(*(v.ends for v in values))
            ax.fill_between(through, *ends, color=line.color, alpha=0.16, linewidth=0)
            ax.plot(through, [v.median for v in values], dash, color=line.color, linewidth=1.7)
        for j, (size, (_, value)) in enumerate(sorted(line.points.items())):
            change = line.changed.get(size)
            told = change is not None and change.verdict in ("slower", "faster")
            gid = f"{panel}-{i}-{j}"
            face = "white" if line.first and several else line.color
            if apart:
                ax.plot([size + shift] * 2, value.ends, color=line.color, linewidth=1.7)
            ax.plot(size + shift, value.median, "o", gid=gid, color=line.color, markersize=8 if told else 4.5,
                    markerfacecolor=face, zorder=3)  # fmt: skip
            tips[gid] = tooltip(line, size)
        for size in line.gaps(sizes):
            ax.plot(size + shift, 0.018 + 0.028 * i, "x", color=line.color, markersize=6, clip_on=False,
                    transform=ax.get_xaxis_transform())  # fmt: skip
    return tips


def label_ends(fig: Figure, ax: Axes, ends: Sequence[tuple[str, Any, float, float]]) -> None:
    """Names and their colours beside the axes, apart, each with a leader to its line's last point."""
    fig.canvas.draw()
    to_axes = ax.transData + ax.transAxes.inverted()
    wanted = [float(to_axes.transform((x, y))[1]) for *_, x, y in ends]
    gap = LABEL_INCHES / (ax.get_position().height * fig.get_figheight())
    for (name, tone, x, y), at in zip(ends, spread_apart(wanted, gap, 0.0, 1.0)):
        ax.annotate(
            name, (x, y), xytext=(1.04, at), textcoords="axes fraction",
            color=tone, fontsize=9, va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": tone, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0,
                        "relpos": (0, 0.5)},
        )  # fmt: skip


def draw_names(fig: Figure, ax: Axes, lines: list[Line], baseline: Optional[list[float]]) -> None:
    """Each line's name at its end."""
    ends = [(l.name, l.color, l.end, l.points[l.end][1].median) for l in lines]
    if baseline == [1.0]:
        ends.append(("cuBLAS = 1", "black", ax.get_xlim()[1], 1.0))
    elif baseline:
        ends.append(("cuBLAS", "black", max(line.end for line in lines), baseline[-1]))
    label_ends(fig, ax, ends)


def name_shapes(ax: Axes, lines: list[Line], baseline: Optional[list[float]]) -> None:
    """The axis of BY_NAME: M at each place, N x K below those of a layer; and a legend above."""
    shapes = {x: e.shape for line in lines for x, (e, _) in line.points.items()}
    ax.set_xticks([*shapes], [str(m) for m, _, _ in shapes.values()], fontsize=8.5)
    layers: dict[str, list[float]] = {}
    for x, (_, n, k) in shapes.items():
        layers.setdefault(f"{n} x {k}", []).append(x)
    few = len(layers) <= 6
    for layer, xs in layers.items():
        ax.annotate(
            layer, (sum(xs) / len(xs), 0), xytext=(0, -18), xycoords=ax.get_xaxis_transform(),
            textcoords="offset points", ha="center", va="top", fontsize=9, rotation=0 if few else 90,
        )  # fmt: skip
    ax.xaxis.labelpad = 18 if few else 75
    bottom = 0.17 if few else 0.31
    ax.set_position((0.07, bottom, 0.91, 0.81 - bottom))
    ax.grid(axis="x", visible=False)
    handles = [Line2D([], [], marker="o", color=l.color, linestyle="", label=l.name) for l in lines]
    if baseline == [1.0]:
        handles.append(Line2D([], [], color="black", label="cuBLAS = 1"))
    ax.legend(handles=handles, loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=len(handles), fontsize=9)  # fmt: skip


def wrapped(name: str, width: int = 30) -> str:
    """A label in lines of at most so many characters."""
    lines = [""]
    for word in name.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines[:2])


def draw(
    shown: list[Run], comparisons: list[Comparison], wanted: Optional[str]
) -> tuple[Figure, dict[str, str]]:
    """The figure, and a tooltip for each of its points."""
    measure = measure_for(shown, wanted)
    lines, axis, left_out = lines_of(shown, comparisons, measure)
    if not lines:
        raise runs.BadInput("--plot: nothing in these runs can be drawn")
    sizes = sorted({s for line in lines for s in (*line.points, *line.skipped)})
    fig = plt.figure(figsize=(10, 5.6))
    ax = fig.add_axes((0.07, 0.125, 0.67, 0.715))
    fig.text(
        0.012, 0.975, finding(lines, comparisons, measure), fontsize=13, fontweight="bold", va="top"
    )
    below = [f"{'dashed' if line.first else 'solid'}: {line.run.label}" for line in lines]
    told = list(dict.fromkeys(below)) if comparisons else [run.label for run in shown]
    if left_out:
        which = "that changed most" if comparisons else "that are fastest"
        told.append(f"the rungs {which}, {left_out} more in the table")
    fig.text(0.012, 0.912, "; ".join(told), fontsize=8.5, color=GREY, va="top")

    value_axis(ax, lines)
    by_name = axis == BY_NAME
    if not by_name:
        size_axis(ax, sizes)
    baseline = draw_baseline(ax, lines, sizes, measure)
    tips = draw_lines(ax, lines, sizes, apart=0.7 / len(lines) if by_name else 0)
    notes = ["Strokes: p10 to p90." if by_name else "Bands: p10 to p90."]
    if " level with it" in fig.texts[0].get_text():
        notes.append("Level: p10 to p90 overlap.")
    if connected(sizes) != sizes and not by_name:
        notes.append(f"Dots beside the lines: no multiple of {step_of(sizes)}.")
    if any(c.verdict in ("slower", "faster") for line in lines for c in line.changed.values()):
        notes.append("Large dots: more than noise.")
    if any(line.gaps(sizes) for line in lines):
        notes.append("x: no measurement.")
    fig.text(0.07, 0.018, "  ".join(notes), fontsize=8.5, color=GREY)
    ax.set_xlabel(axis)
    ax.set_ylabel(NAMES[measure] + (", log scale" if ax.get_yscale() == "log" else ""))
    for line in lines:
        line.name = wrapped(line.name)
    if by_name:
        name_shapes(ax, lines, baseline)
    else:
        draw_names(fig, ax, lines, baseline)
    return fig, tips


# Files
# --------------------------------------------------------------------------------------------------


def with_tooltips(picture: bytes, tips: dict[str, str]) -> bytes:
    """The SVG with a <title> in each point, which a browser shows beside the mouse."""
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", "http://www.w3.org/1999/xlink")
    root = ElementTree.fromstring(picture)
    for group in root.iter(f"{{{SVG}}}g"):
        if group.get("id") in tips:
            title = ElementTree.Element(f"{{{SVG}}}title")
            title.text = tips[str(group.get("id"))]
            group.insert(0, title)
    return ElementTree.tostring(root, encoding="utf-8")


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em; }}
figure {{ margin: 0; background: white; border-radius: 6px; padding: 6px; }}
svg {{ width: 100%; height: auto; }}
div {{ overflow-x: auto; }}
table {{ border-collapse: collapse; margin-top: 2em; font-variant-numeric: tabular-nums; }}
td, th {{ padding: 0.1em 0.8em 0.1em 0; text-align: left; white-space: nowrap; }}
tr + tr {{ border-top: 1px solid #8884; }}
.slower {{ color: light-dark(#b00020, #ff9a9a); font-weight: bold; }}
.faster {{ color: light-dark(#006b3c, #7fe0a8); font-weight: bold; }}
</style>
<h1>{title}</h1>
<figure>
{picture}
</figure>
{tables}
</html>
"""


def table_html(rows: list[list[str]]) -> str:
    def row(cells: list[str], tag: str) -> str:
        verdict = cells[-1] if cells[-1] in ("slower", "faster") else ""
        return (
            f'<tr class="{verdict}">'
            + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells)
            + "</tr>"
        )

    body = [row(rows[0], "th"), *(row(r, "td") for r in rows[1:])]
    return "<div><table>\n" + "\n".join(body) + "\n</table></div>"


def render(fig: Figure, tips: dict[str, str]) -> bytes:
    return with_tooltips(svg(fig), tips)


def write(
    path: Path, shown: list[Run], comparisons: list[Comparison], y: Optional[str],
    tables: list[list[list[str]]],
) -> None:  # fmt: skip
    """PNG, SVG, or a page of its own with the tables, by the name's end."""
    matplotlib.rcParams.update(STYLE)
    fig, tips = draw(shown, comparisons, y)
    title = fig.texts[0].get_text()
    try:
        if path.suffix == ".png":
            fig.savefig(path, dpi=150)
            plt.close(fig)
        elif path.suffix == ".svg":
            path.write_bytes(render(fig, tips))
        else:
            text = PAGE.format(
                title=html.escape(title),
                picture=render(fig, tips).decode("utf-8"),
                tables="\n".join(map(table_html, tables)),
            )
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise runs.BadInput(f"--plot {path}: {error.strerror}") from None
