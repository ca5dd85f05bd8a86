"""Figures of how Hopper's rungs work: the phases of a pipeline's barriers, multicast, the two
proxies, ping-pong, the exchange of split-K, and tiles of several heights.

Nothing here is measured. Times come from the small models below, with the sizes that they state.
An SVG holds both themes: a dark page's reader sees the dark one.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Optional

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from common.ladder import Rung
from figures.figure_style import svg

Color = str


@dataclass(frozen=True)
class Theme:
    """No colour twice, so that each can be replaced by its fellow of the other theme."""

    page: Color
    ink: Color
    grey: Color
    rule: Color
    pale: Color
    load: Color  # data on their way
    math: Color  # the tensor cores work
    other: Color  # ... for the other consumer
    store: Color
    on_color: Color  # text on math, other and store


LIGHT = Theme(
    page="#ffffff",
    ink="#1f2328",
    grey="#57606a",
    rule="#c9d1d9",
    pale="#f3f5f7",
    load="#fbe3c0",
    math="#1f5a96",
    other="#0b7a5c",
    store="#b3541e",
    on_color="#fefefe",
)
DARK = Theme(
    page="#0d1117",
    ink="#e6edf3",
    grey="#9aa4af",
    rule="#3d444d",
    pale="#1c2128",
    load="#5c4620",
    math="#2f74b5",
    other="#1b8a6b",
    store="#c4622d",
    on_color="#fdfdfd",
)


def both_themes(image: bytes) -> bytes:
    """The SVG of a figure in LIGHT, with rules for a reader who asks for dark pages."""
    rules = "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in zip(astuple(LIGHT), astuple(DARK))
        for what in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
    head, defs, rest = image.partition(b"<defs>")
    return head + style.encode() + b"\n " + defs + rest


# Pens
# --------------------------------------------------------------------------------------------------


class Sheet:
    """A drawing in units of its own, y downwards, under a title and notes."""

    def __init__(
        self, theme: Theme, high: float, units: tuple[float, float], title: str, *notes: str
    ) -> None:
        self.theme = theme
        self.fig = plt.figure(figsize=(10, high), facecolor=theme.page)
        self.fig.text(
            0.015, 1 - 0.1 / high, title, fontsize=13, weight="bold", va="top", color=theme.ink
        )
        for i, note in enumerate(notes):
            y = 1 - (0.42 + 0.2 * i) / high
            self.fig.text(0.015, y, note, fontsize=9.5, va="top", color=theme.grey)
        top = 0.5 + 0.2 * len(notes)
        self.ax: Axes = self.fig.add_axes((0.015, 0.08 / high, 0.97, 1 - (top + 0.08) / high))
        self.ax.set_xlim(0, units[0])
        self.ax.set_ylim(units[1], 0)
        self.ax.axis("off")
        self.ax.grid(False)

    def box(
        self,
        x: float,
        y: float,
        wide: float,
        high: float,
        color: Color,
        text: str = "",
        size: float = 9,
    ) -> None:
        t = self.theme
        self.ax.add_patch(
            Rectangle((x, y), wide, high, facecolor=color, edgecolor=t.rule, linewidth=0.8)
        )
        if text:
            dark = color in (t.math, t.other, t.store)
            self.text(
                x + wide / 2, y + high / 2, text, t.on_color if dark else t.ink, "center", size
            )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        color: Optional[Color] = None,
        ha: str = "left",
        size: float = 9,
        weight: str = "normal",
    ) -> None:
        how = {"ha": ha, "va": "center", "fontsize": size, "fontweight": weight}
        self.ax.text(x, y, text, color=color or self.theme.ink, linespacing=1.15, **how)

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], color: Color, bend: float = 0
    ) -> None:
        self.ax.add_patch(
            FancyArrowPatch(
                start,
                end,
                arrowstyle="-|>",
                mutation_scale=11,
                linewidth=1.4,
                color=color,
                shrinkA=0,
                shrinkB=0,
                connectionstyle=f"arc3,rad={bend}",
            )
        )

    def line(self, x: float, y0: float, y1: float) -> None:
        self.ax.plot([x, x], [y0, y1], color=self.theme.rule, linewidth=1, linestyle=(0, (4, 3)))


# The phases of a pipeline's barriers
# --------------------------------------------------------------------------------------------------


def draw_phases(theme: Theme) -> Figure:
    """Three stages; a load takes 6 units, the products of a k-tile 3."""
    stages, tiles, load, math, end = 3, 8, 6, 3, 27
    asked: list[int] = []
    come: list[int] = []
    done: list[int] = []
    for k in range(tiles):
        asked.append(k if k < stages else done[k - stages])
        come.append(asked[k] + load)
        done.append(max(come[k], done[k - 1] if k else 0) + math)
    left, row, high = 6.2, 1.45, 1.0
    sheet = Sheet(
        theme,
        4.1,
        (left + end + 0.3, 9.1),
        "The phases of a pipeline with three stages",
        "A model: a load takes 6 units of time, the products of a k-tile take 3. Time runs to the "
        "right. Each time that a stage is used again, both of its",
        "barriers are one phase further. The parity of a phase is its number modulo 2.",
    )
    y = 0.4
    for stage in range(stages):
        sheet.text(left - 0.3, y + high / 2, f"stage {stage}", ha="right", weight="bold")
        sheet.box(left, y, end, high, theme.pale)
        for k in range(stage, tiles, stages):
            for begin, until, color, what in (
                (asked[k], come[k], theme.load, f"k-tile {k} is loaded"),
                (come[k], done[k] - math, theme.rule, "full"),
                (done[k] - math, done[k], theme.math, f"multiply {k}"),
            ):
                wide = min(until, end) - begin
                if wide > 0:
                    sheet.box(left + begin, y, wide, high, color, what if wide >= 2 else "", 8.5)
        y += row
        if stage == 0:
            for name, ends in (
                ("full[0]", [come[k] for k in range(0, tiles, stages)]),
                ("empty[0]", [done[k] for k in range(0, tiles, stages)]),
            ):
                sheet.text(left - 0.3, y + high / 2, name, ha="right")
                begin = 0
                for phase, until in enumerate([*ends, end]):
                    wide = min(until, end) - begin
                    if wide > 0:
                        label = f"phase {phase},{' ' if wide > 5 else chr(10)}parity {phase % 2}"
                        sheet.box(left + begin, y, wide, high, theme.page, label, 8.5)
                    begin = until
                y += row
    sheet.text(left - 0.3, y + high / 2, "tensor cores", ha="right", weight="bold")
    sheet.box(left, y, end, high, theme.pale)
    for k in range(tiles):
        if done[k] <= end:
            sheet.box(left + come[0] + math * k, y, math, high, theme.math, f"k-tile {k}", 8.5)
    return sheet.fig


# Ping-pong
# --------------------------------------------------------------------------------------------------


def draw_pingpong(theme: Theme) -> Figure:
    """Both kernels do equal work: a tile of v23 is two of v24."""
    tile, store, end, left, high = 5.0, 1.7, 31.0, 6.2, 1.0
    sheet = Sheet(
        theme,
        4.7,
        (left + end + 0.3, 10.9),
        "Two consumers: v23 stores together, v24 in turn",
        "Not to scale: stores are drawn longer than they are. Both rows of tensor cores do the same "
        "work; the gaps in the upper one are v23's.",
        "v23's tiles are 128 x 256, v24's 128 x 128.",
    )

    def row(
        y: float, name: str, parts: list[tuple[float, float, Color, str]], bold: str = ""
    ) -> None:
        sheet.text(left - 0.3, y + high / 2, name, ha="right", weight=bold or "normal")
        sheet.box(left, y, end, high, theme.pale)
        for begin, wide, color, what in parts:
            wide = min(wide, end - begin)
            if wide > 0:
                sheet.box(left + begin, y, wide, high, color, what if wide > 1.5 else "", 8.5)

    cycle = 2 * tile + store
    colors = (theme.math, theme.other)
    sheet.text(0, 0.5, "v23", weight="bold", size=11)
    for wg in (0, 1):
        rows = "rows 0 - 63" if wg == 0 else "rows 64 - 127"
        parts = []
        for i in range(3):
            parts += [
                (i * cycle, 2 * tile, colors[wg], f"tile {i}, {rows}"),
                (i * cycle + 2 * tile, store, theme.store, "store"),
            ]
        row(0.2 + 1.3 * wg, f"consumer {wg}", parts)
    row(2.8, "tensor cores", [], "bold")
    for i in range(3):
        wide = min(2 * tile, end - i * cycle)
        for wg in (0, 1):
            sheet.box(
                left + i * cycle, 2.8 + wg * high / 2, wide, high / 2, colors[wg], f"tile {i}", 7.5
            )

    sheet.text(0, 5.3, "v24", weight="bold", size=11)
    for wg in (0, 1):
        parts = []
        for i in range(wg, 7, 2):
            parts += [
                (i * tile, tile, colors[wg], f"tile {i}"),
                (i * tile + tile, store, theme.store, "store"),
            ]
        row(5.0 + 1.8 * wg, f"consumer {wg}", parts)
    for i in range(1, 6):
        upper, lower = 6.05, 6.75
        start, to = (upper, lower) if i % 2 == 1 else (lower, upper)
        sheet.arrow((left + i * tile, start), (left + i * tile, to), theme.ink)
    sheet.text(left + tile + 0.5, 6.4, "ordered barrier", theme.grey, size=8.5)
    row(
        8.6,
        "tensor cores",
        [(i * tile, tile, colors[i % 2], f"tile {i}") for i in range(7)],
        "bold",
    )
    return sheet.fig


# Multicast
# --------------------------------------------------------------------------------------------------


def draw_multicast(theme: Theme) -> Figure:
    sheet = Sheet(
        theme,
        4.3,
        (40, 14),
        "Two CTAs of a cluster load each half of B's tile once, for both",
        "One stage of v22: 64 of K. Each CTA receives 48 KB. L2 is asked for 64 KB; without "
        "multicast it would be 96 KB.",
    )
    t = theme
    sheet.box(13, 0.3, 14, 2.0, t.pale, "", 9)
    sheet.box(13, 0.3, 7, 2.0, t.math, "B, columns 0 - 127\n16 KB", 9)
    sheet.box(20, 0.3, 7, 2.0, t.other, "B, columns 128 - 255\n16 KB", 9)
    sheet.text(12.6, 1.3, "L2: one tile of B", ha="right", weight="bold")
    for cta, x in ((0, 3.0), (1, 23.0)):
        sheet.box(x, 6.2, 14, 6.8, t.page)
        sheet.text(x + 0.6, 12.2, f"CTA {cta}, shared memory", weight="bold")
        sheet.box(x + 0.6, 7.0, 4.0, 2.0, t.load, f"A, rows\n{128 * cta} - {128 * cta + 127}", 9)
        sheet.box(x + 5.0, 7.0, 4.1, 2.0, t.math, "B, left", 9)
        sheet.box(x + 9.1, 7.0, 4.1, 2.0, t.other, "B, right", 9)
        sheet.text(x + 0.6, 9.9, "full[stage]: its own arrival and 48 KB")
        sheet.text(x + 0.6, 10.9, "empty[stage]: 4 consumers, 2 of each CTA")
    for x, color in ((16.5, t.math), (23.5, t.other)):
        at = 7.05 if color == t.math else 11.15
        sheet.arrow((x, 2.4), (3 + at, 6.9), color)
        sheet.arrow((x, 2.4), (23 + at, 6.9), color)
    sheet.text(12.6, 3.4, "loaded by CTA 0", t.grey, "right")
    sheet.text(27.4, 3.4, "loaded by CTA 1", t.grey)
    return sheet.fig


# Proxies
# --------------------------------------------------------------------------------------------------


def draw_proxies(theme: Theme) -> Figure:
    sheet = Sheet(
        theme,
        4.4,
        (40, 14.6),
        "Two proxies see one shared memory: a fence and a barrier order them",
        "The epilogue of v23. Without step 2 TMA may read what the panel held before; without 3, before all threads have written.",
        "Without step 6 a thread may write over what TMA still reads.",
    )
    t = theme
    sheet.box(0.4, 0.6, 14.6, 12.8, t.pale)
    sheet.text(1.0, 1.4, "generic proxy: 128 threads", weight="bold", size=10)
    steps = (
        ("1  stmatrix: write the results", t.math),
        ("2  fence.proxy.async: every writer", t.store),
        ("3  barrier of the warpgroup", t.other),
        ("4  leader: TMA store, commit", t.math),
    )
    for i, (what, color) in enumerate(steps):
        sheet.box(1.0, 2.3 + 2.9 * i, 13.4, 1.6, color, what, 9.5)
        if i:
            sheet.arrow((7.7, 1.0 + 2.9 * i), (7.7, 2.2 + 2.9 * i), t.ink)
    sheet.box(18.2, 2.3, 7.2, 5.9, t.page)
    sheet.arrow((14.5, 6.0), (18.9, 6.6), t.store)
    sheet.text(16.7, 7.2, "visible", t.store, "center")
    sheet.text(21.8, 3.3, "shared memory", weight="bold", ha="center", size=10)
    sheet.box(19.0, 4.4, 5.6, 3.0, t.load, "64 x 64 panel\nof C", 9.5)
    sheet.box(28.6, 0.6, 11.0, 12.8, t.pale)
    sheet.text(29.2, 1.4, "async proxy: TMA", weight="bold", size=10)
    sheet.box(29.2, 4.4, 9.8, 3.0, t.math, "5  read the panel,\nwrite it to C", 9.5)
    sheet.text(29.2, 8.6, "6  then wait_group.read\n    of the leader returns", size=9.5)
    sheet.arrow((14.5, 3.1), (18.9, 5.0), t.ink)
    sheet.arrow((14.5, 11.8), (29.1, 7.0), t.ink, 0.12)
    sheet.arrow((24.7, 5.9), (29.1, 5.9), t.ink)
    return sheet.fig


# Split-K
# --------------------------------------------------------------------------------------------------


def draw_split_k(theme: Theme) -> Figure:
    sheet = Sheet(
        theme,
        4.3,
        (40, 13),
        "Two CTAs of a cluster share a tile of C, each with half of K",
        "Time runs to the right. Each CTA sends one half of its partial sums to the other CTA's "
        "shared memory, and adds up the other half.",
        "With 4 or 8 CTAs each owns a quarter or an eighth.",
    )
    t = theme
    names = ("k = 0 to K / 2", "k = K / 2 to K")
    for cta, y in ((0, 0.8), (1, 7.4)):
        sheet.text(0.2, y + 2.0, f"CTA {cta}", weight="bold", size=10)
        sheet.box(3.4, y, 10.4, 4.0, t.math, f"load and multiply\n{names[cta]}", 9.5)
        upper, lower = ("half 0", "half 1")
        sheet.box(14.6, y, 4.6, 2.0, t.load, upper, 9.5)
        sheet.box(14.6, y + 2.0, 4.6, 2.0, t.load, lower, 9.5)
        sheet.box(27.6, y, 5.8, 4.0, t.other, f"add both parts\nof half {cta}", 9.5)
        sheet.box(34.4, y, 5.2, 4.0, t.store, f"store\nhalf {cta}", 9.5)
    sheet.arrow((19.3, 3.8), (27.5, 8.4), t.ink)
    sheet.arrow((19.3, 8.4), (27.5, 3.8), t.ink)
    sheet.arrow((19.3, 1.7), (27.5, 1.7), t.grey)
    sheet.arrow((19.3, 10.5), (27.5, 10.5), t.grey)
    sheet.line(14.2, 0.4, 12.0)
    sheet.text(14.2, 12.5, "cluster barrier: shared memory is free", t.grey, "center")
    sheet.line(25.2, 0.4, 12.0)
    sheet.text(25.2, 12.5, "cluster barrier: parts have arrived", t.grey, "center")
    sheet.text(23.3, 1.0, "stays", t.grey, "center")
    sheet.text(23.3, 11.2, "stays", t.grey, "center")
    sheet.text(20.4, 6.1, "sent", t.grey, "right")
    return sheet.fig


# --------------------------------------------------------------------------------------------------

DRAWINGS = {  # after the rung that each is of
    "phases": ("v19", draw_phases),
    "multicast": ("v22", draw_multicast),
    "proxies": ("v23", draw_proxies),
    "pingpong": ("v24", draw_pingpong),
    "split_k": ("v27", draw_split_k),
}


def figures(root: Path, rungs: list[Rung]) -> dict[Path, Optional[bytes]]:
    """Every figure, as an SVG of both themes; None where its rung is not."""
    assert len({*astuple(LIGHT), *astuple(DARK)}) == 2 * len(fields(Theme)), "a colour twice"
    ids = {rung.id for rung in rungs}
    return {
        root / "plots" / f"{name}.svg": both_themes(svg(draw(LIGHT))) if of in ids else None
        for name, (of, draw) in DRAWINGS.items()
    }
