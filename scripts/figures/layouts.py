"""Figures of who computes what, and in which order: the tiles of a rung, the fragments of mma.sync,
the order of the blocks, and the timelines of pipelines.

The layouts are read from plots/results/simulator/layouts.json, which scripts/simulate.py has
layout_table write: it asks the kernels, and the functions that they call. Sizes are the constants of
the rungs' own sources.
"""

from __future__ import annotations

import ast
import operator
import re
from pathlib import Path
from typing import Any, Optional

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from common.ladder import BadInput, Rung, find_rung, result_exists, strip_comments
from figures.pictures import (
    BLUE,
    GREY,
    ORANGE,
    PALE,
    SHADES,
    above,
    bare,
    fill,
    heading,
    plural,
    read,
    title_of,
)
from simulate import LAYOUTS

TINTS = ("#dbe7f3", "#c3d5e8")  # of neighbouring warps
LANE_COLORS = (ORANGE, "#1b9e77", "#7570b3", "#e7298a")

# Constants of a rung
# --------------------------------------------------------------------------------------------------

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def constants(rung: Rung, dtype: str) -> dict[str, int]:
    """The sizes that the rung's source defines as constexpr int, for elements of that type."""
    element = {"f32": 4, "tf32": 4}.get(dtype, 2)

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.Name):
            return known[node.id]
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise KeyError(ast.dump(node))

    known: dict[str, int] = {}
    for definition in re.findall(r"constexpr int ([^;]+);", strip_comments(rung.source)):
        for name, text in re.findall(r"(\w+)\s*=\s*([^,]+)(?:,|$)", definition):
            text = text.replace("sizeof(T)", str(element)).replace("<T>", "").replace("/", "//")
            try:
                known[name] = value(ast.parse(" ".join(text.split()), mode="eval").body)
            except (KeyError, SyntaxError):
                pass  # not a size: it depends on more than other sizes
    return known


# Tiles
# --------------------------------------------------------------------------------------------------

Rectangles = list[list[int]]


def bounds(areas: Rectangles) -> tuple[int, int, int, int]:
    """Row, column, rows and columns of the box around them."""
    top, left = min(a[0] for a in areas), min(a[1] for a in areas)
    bottom, right = max(a[0] + a[2] for a in areas), max(a[1] + a[3] for a in areas)
    return top, left, bottom - top, right - left


def paint(ax: Axes, areas: Rectangles, color: Any, edge: Any = "white") -> None:
    for row, col, rows, cols in areas:
        fill(ax, col, row, cols, rows, color, edge)


def size_of(areas: Rectangles, what: str) -> str:
    """A warp 64 x 32; a thread 64 elements, as 4 rectangles of 4 x 4."""
    elements = sum(rows * cols for _, _, rows, cols in areas)
    _, _, rows, cols = bounds(areas)
    if len(areas) == 1:
        return f"a {what} {rows} x {cols}"
    pieces = {(r, c) for _, _, r, c in areas}
    shape = "{} x {}".format(*next(iter(pieces))) if len(pieces) == 1 else "unequal size"
    return f"a {what} {elements} elements, as {len(areas)} rectangles of {shape}"


def draw_tiles(tile: dict[str, Any], rung: Rung) -> Figure:
    rows, cols, warps, lanes = tile["rows"], tile["cols"], tile["warps"], tile["lanes"]
    depth = constants(rung, tile["dtype"]).get("BK", 0)
    # Two sheets side by side, as high as what they show.
    sheet, margin = 4.2, depth + 0.15 * max(rows, cols)
    top, left, high, wide = bounds(warps[0])
    if min(lanes[0][0][2:]) < wide / 40:  # stripes too thin to be seen
        wide = min(wide, 32)
    to_scale = 0.2 < high / wide < 5
    block_wide = min(sheet, 3.9 * (1.02 * cols + margin) / (1.02 * rows + margin))
    block_high = block_wide * (1.02 * rows + margin) / (1.02 * cols + margin)
    zoom_wide = min(sheet, 3.6 * wide / high) if to_scale else sheet
    zoom_high = zoom_wide * high / wide if to_scale else 1.3
    height = 1.75 + max(block_high, zoom_high + 0.25)
    fig = plt.figure(figsize=(10, height))
    heading(
        fig,
        f"{title_of(rung)} ({tile['dtype']}): a CTA computes {rows} x {cols} of C with {plural(len(warps), 'warp')}",
        (f"k-tiles of A and B are {depth} deep; " if depth else "")
        + f"{size_of(warps[0], 'warp')};",
        f"{size_of(lanes[0], 'thread')}. Seen in the simulator: which thread writes which element.",
    )
    unit = max(rows, cols)
    ax = fig.add_axes(
        (0.06, 1 - (1.15 + block_high) / height, block_wide / 10, block_high / height)
    )
    bare(ax, unit, unit)
    ax.set_xlim(-margin, cols * 1.02)
    ax.set_ylim(rows * 1.02, -margin)
    if depth:
        fill(ax, -0.04 * unit - depth, 0, depth, rows, SHADES[2], "white")
        fill(ax, 0, -0.04 * unit - depth, cols, depth, SHADES[2], "white")
        ax.text(
            -0.05 * unit - depth,
            rows / 2,
            f"A, {rows} x {depth}",
            ha="right",
            va="center",
            rotation=90,
            fontsize=10,
        )
        ax.text(
            cols / 2,
            -0.05 * unit - depth,
            f"B, {depth} x {cols}",
            ha="center",
            va="bottom",
            fontsize=10,
        )
    for number, areas in enumerate(warps):
        row, col, tall, broad = bounds(areas)
        tint = (
            TINTS[(row // max(1, tall) + col // max(1, broad)) % 2]
            if len(areas) == 1
            else TINTS[number % 2]
        )
        paint(ax, areas, BLUE if number == 0 else tint)
        if len(areas) == 1 and min(tall, broad) >= (unit + margin) / 28:
            ax.text(
                col + broad / 2,
                row + tall / 2,
                str(number),
                ha="center",
                va="center",
                fontsize=7,
                color="white" if number == 0 else GREY,
            )
    above(ax, 4, "the CTA's tile: warp 0 dark, others light")
    ax.set_xticks([0.5, cols - 0.5], [0, cols - 1])
    ax.set_yticks([0.5, rows - 0.5], [0, rows - 1])
    ax.set_xlabel("column of C", fontsize=8, x=(margin + cols / 2) / (margin + 1.02 * cols))
    ax.set_ylabel("row of C", fontsize=8, y=0.52 * rows / (margin + 1.02 * rows))

    zoom = fig.add_axes((0.55, 1 - (1.4 + zoom_high) / height, zoom_wide / 10, zoom_high / height))
    bare(zoom, wide, high)
    zoom.set_xlim(left, left + wide)
    zoom.set_ylim(top + high, top)
    paint(zoom, warps[0], TINTS[0], TINTS[0])
    for color, areas in zip(LANE_COLORS, lanes):
        tiny = min(areas[0][2:]) < unit / 40
        paint(zoom, areas, color, color if tiny else "white")
    for patch in zoom.patches:
        patch.set_clip_on(True)
    zoom.set_xticks([left + 0.5, left + wide - 0.5], [left, left + wide - 1])
    rows_shown = sorted({top, top + high - 1})
    zoom.set_yticks([row + 0.5 for row in rows_shown], rows_shown)
    zoom.set_xlabel("column of C", fontsize=8)
    zoom.set_ylabel("row of C", fontsize=8)
    stretched = "" if to_scale else ", not to scale"
    if wide < bounds(warps[0])[3]:
        stretched += f", its first {wide} columns"
    above(zoom, 22, f"warp 0: what its lanes write{stretched}")
    handles = [Patch(color=c, label=f"lane {i}") for i, c in enumerate(LANE_COLORS)]
    handles.append(Patch(color=TINTS[0], label="other lanes"))
    zoom.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        ncols=5,
        fontsize=8,
        handlelength=1,
        columnspacing=1,
        borderpad=0,
    )
    return fig


# Fragments of mma.sync
# --------------------------------------------------------------------------------------------------


def draw_fragment(ax: Axes, name: str, letter: str, elements: list[list[list[int]]]) -> None:
    rows, cols = len(elements), len(elements[0])
    bare(ax, cols, rows)
    ax.set_aspect("equal")
    for i, row in enumerate(elements):
        for j, (lane, register, _half) in enumerate(row):
            fill(ax, j, i, 1, 1, SHADES[register], "white")
            dark = register < 2
            text = {"ha": "center", "va": "center", "color": "white" if dark else "black"}
            marked = {"fontweight": "bold", "fontsize": 8.5} if lane == 13 else {"fontsize": 7}
            ax.text(j + 0.5, i + 0.52, str(lane), **text, **marked)
    ax.set_xticks([j + 0.5 for j in range(cols)], range(cols), fontsize=7)
    ax.set_yticks([i + 0.5 for i in range(rows)], range(rows), fontsize=7)
    ax.xaxis.tick_top()
    ax.set_title(name, fontsize=10, loc="left", pad=6, fontweight="bold")
    registers = sorted({register for row in elements for _, register, _ in row})
    ax.legend(
        handles=[Patch(color=SHADES[r], label=f"{letter}[{r}]") for r in registers],
        loc="upper left",
        bbox_to_anchor=(-0.02, -0.01),
        ncols=4,
        fontsize=8,
        handlelength=1,
        columnspacing=1,
        borderpad=0.2,
    )


def draw_fragments(maps: dict[str, Any]) -> Figure:
    fig = plt.figure(figsize=(10, 5.9))
    heading(
        fig,
        "mma.sync m16n8k16: which lane holds which element",
        "A number is a lane, a shade the register. A and B: a register is 32 bits, two halves with "
        "consecutive k (of A neighbours in a row, of B in a column);",
        "the lower half has the smaller k. D: one float a register. Lane 13 in bold. Found by "
        "loading and multiplying numbered matrices with load_a, load_b and mma.",
    )
    for left, wide, key, name, letter in (
        (0.03, 0.44, "A", "A: 16 (m) x 16 (k)", "a"),
        (0.495, 0.225, "B", "B: 16 (k) x 8 (n)", "b"),
        (0.735, 0.225, "D", "D: 16 (m) x 8 (n)", "d"),
    ):
        draw_fragment(fig.add_axes((left, 0.06, wide, 0.72)), name, letter, maps[key])
    return fig


# The order of blocks
# --------------------------------------------------------------------------------------------------


def panels(order: list[list[int]]) -> tuple[int, int]:
    """How many rows these tiles have, panels of A, and how many columns, panels of B."""
    return len({m for m, _ in order}), len({n for _, n in order})


ROWS_SHOWN = 13  # of tiles, in the figure of orders


def draw_order(ax: Axes, raster: dict[str, Any], wave: int, numbers: bool) -> None:
    order, cols = raster["order"], raster["tiles_n"]
    rows = min(raster["tiles_m"], ROWS_SHOWN)
    bare(ax, cols, rows)
    ax.set_aspect("equal")
    for number, (m, n) in enumerate(order):
        if m >= rows:
            continue
        fill(ax, n, m, 1, 1, BLUE if number < wave else PALE, "white")
        if numbers:
            tone = "white" if number < wave else GREY
            ax.text(
                n + 0.5, m + 0.52, str(number), ha="center", va="center", color=tone, fontsize=9
            )
    if not numbers:
        ax.set_xticks([0.5, cols - 0.5], [0, cols - 1], fontsize=8)
        ax.set_yticks([0.5, rows - 0.5], [0, rows - 1], fontsize=8)
        ax.set_xlabel("column of tiles", fontsize=8)
        ax.set_ylabel("row of tiles", fontsize=8)


def draw_raster(rasters: list[dict[str, Any]], rung: Rung, sms: int) -> Figure:
    def of(group: int, tiles_m: int) -> dict[str, Any]:
        for raster in rasters:
            if (raster["group_m"], raster["tiles_m"]) == (group, tiles_m):
                return raster
        raise BadInput(f"{LAYOUTS}: no raster of {tiles_m} rows in groups of {group}")

    sizes = constants(rung, "f16")
    group, small, large = sizes["GROUP_M"], 4096, 8192

    def operands(group_m: int, size: int) -> tuple[int, int, int]:
        """Panels of A and of B that the first wave reads, and their rows and columns."""
        a, b = panels(of(group_m, size // sizes["BM"])["order"][:sms])
        return a, b, a * sizes["BM"] + b * sizes["BN"]

    told = []
    for size in (large, small):
        change = 100 * (operands(group, size)[2] / operands(1, size)[2] - 1)
        told.append(
            f"{abs(change):.0f} % {'more' if change > 0 else 'fewer'} rows and columns at {size}"
        )
    fig = plt.figure(figsize=(10, 6.2))
    height = fig.get_figheight()
    heading(
        fig,
        f"Groups of {group} rows ({rung.id}) read {told[0]}, {told[1].replace(' rows and columns', '')}",
        f"Blue: the tiles of the first {sms} CTAs (top left: of the first 4). Each row of tiles among them is a panel of A, each "
        "column one of B, that has",
        f"to come from memory once. Tiles are {sizes['BM']} x {sizes['BN']}; of the {large // sizes['BM']} and {small // sizes['BM']} rows of tiles "
        f"the first {ROWS_SHOWN} are drawn.",
    )
    for left, group_m, what in ((0.035, 1, "row by row"), (0.235, 2, "groups of 2 rows")):
        ax = fig.add_axes((left, 0.53, 0.15, 0.24))
        raster = of(group_m, 4)
        draw_order(ax, raster, 4, numbers=True)
        a, b = (4 * count for count in panels(raster["order"][:4]))
        ax.set_title(f"{what}:\n{a} + {b} = {a + b} tile loads", fontsize=9, loc="left")
    for size, bottom, places, wide in (
        (small, 0.5, (0.46, 0.745), 0.2),
        (large, 0.06, (0.06, 0.55), 0.43),
    ):
        for left, group_m in zip(places, (1, group)):
            ax = fig.add_axes(
                (left, bottom, wide, wide * 10 / height * ROWS_SHOWN * sizes["BN"] / size)
            )
            draw_order(ax, of(group_m, size // sizes["BM"]), sms, numbers=False)
            a, b, elements = operands(group_m, size)
            what = "row by row" if group_m == 1 else f"groups of {group} rows"
            text = f"{size}, {what}: {a} panels\nof A, {b} of B: {elements} rows and columns"
            ax.set_title(text, fontsize=9, loc="left")
    return fig


# --------------------------------------------------------------------------------------------------


# Rungs whose lanes have pieces too small to see in a tile: their chapters draw lanes alone.
CRUMBS = ("v06", "v18")


def figures(root: Path, rungs: list[Rung], sms: int) -> dict[Path, Optional[Figure]]:
    """Every figure, named after the rung that it shows."""
    if not result_exists(root / LAYOUTS):
        return {}
    data, plots = read(root / LAYOUTS), root / "plots"
    wanted: dict[Path, Optional[Figure]] = {}
    for tile in data["tiles"]:
        rung = find_rung(rungs, tile["rung"])
        if rung.tag not in CRUMBS:
            wanted[plots / f"tiles_{rung.tag}.svg"] = draw_tiles(tile, rung)
    wanted[plots / "fragments.svg"] = draw_fragments(data["fragments"])
    raster_rung = next((r for r in rungs if r.name.endswith("_raster")), None)
    if raster_rung:
        wanted[plots / "raster.svg"] = draw_raster(data["raster"], raster_rung, sms)
    return wanted
