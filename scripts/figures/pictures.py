"""Figures of what the simulator saw: where the lanes of one warp meet in shared memory's banks, what
they use of the sectors that they fetch, and how the swizzles spread a tile's columns over the banks.

Nothing here computes an address, a wavefront or a swizzle: they are read from
plots/results/simulator/*.json, which scripts/simulate.py has the programs write.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from common.ladder import BadInput, Rung, find_rung, read_json, result_exists
from simulate import REQUESTS, SWIZZLES

LANES, BANKS, WORD, SECTOR = 32, 32, 4, 32  # bytes
GREY, PALE, RULE = "#555555", "#f2f2f2", "#d9d9d9"
BLUE, ORANGE = "#08519c", "#d95f02"
Color = str | tuple[float, ...]
# From dark to light, so that they can be told apart without their hue; the last on white still.
SHADES = [matplotlib.colormaps["viridis"](x) for x in (0.05, 0.42, 0.68, 0.9)]


@dataclass(frozen=True)
class Request:
    """One request of a warp; offsets in bytes from the start of the matrix or the array."""

    access: str  # load, store, atomic
    memory: str  # A, B, C, sA, ...
    width: int  # bytes of a lane
    offsets: tuple[Optional[int], ...]  # by lane; None: it takes no part
    passes: int  # wavefronts of shared memory, sectors of global memory
    ideal: int
    wavefront: tuple[Optional[int], ...]  # shared memory: which of them serves the lane

    @property
    def words(self) -> int:
        return -(-self.width // WORD)

    @property
    def degree(self) -> str:
        return "no conflict" if self.passes == self.ideal else f"{self.passes / self.ideal:g}-way"


Requests = dict[str, list[Request]]  # by rung's name


def read(path: Path) -> Any:
    try:
        return read_json(path)
    except ValueError as error:
        raise BadInput(f"{path}: not JSON ({error})") from None


def load_requests(path: Path) -> Requests:
    found: Requests = {}
    try:
        for entry in read(path)["warps"]:
            found[entry["name"].split("/")[0]] = [
                Request(
                    access=r["access"],
                    memory=r["memory"],
                    width=r["width"],
                    offsets=tuple(r["offsets"]),
                    passes=r["wavefronts"] if r["space"] == "shared" else r["sectors"],
                    ideal=r["ideal_wavefronts" if r["space"] == "shared" else "ideal_sectors"],
                    wavefront=tuple(r.get("wavefront_of_lane", ())),
                )
                for r in entry["requests"]
            ]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: not gemm_bench's requests of a warp ({error!r})") from None
    return found


def pick(requests: Requests, rung: Rung, access: str, memory: str) -> Request:
    for request in requests.get(rung.name, []):
        if (request.access, request.memory) == (access, memory):
            return request
    raise BadInput(f"{REQUESTS}: no {access} of {memory} by {rung.id}")


def title_of(rung: Rung) -> str:
    return f"{rung.id} {rung.name.split('_', 1)[1].replace('_', ' ')}"


def heading(fig: Figure, title: str, *notes: str) -> None:
    height = fig.get_figheight()
    fig.text(0.012, 1 - 0.1 / height, title, fontsize=13, fontweight="bold", va="top")
    for i, note in enumerate(notes):
        y = 1 - (0.42 + 0.19 * i) / height
        fig.text(0.012, y, note, fontsize=9, color=GREY, va="top")


def bare(ax: Axes, columns: float, rows: float) -> None:
    """A sheet without frame, ticks and rules; row 0 on top."""
    ax.set_xlim(0, columns)
    ax.set_ylim(rows, 0)
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.tick_params(length=0, labelsize=8)
    ax.set_xticks([])
    ax.set_yticks([])


def fill(ax: Axes, x: float, y: float, wide: float, high: float, color: Color, edge: Color) -> None:
    look = {"facecolor": color, "edgecolor": edge, "linewidth": 0.4, "clip_on": False}
    ax.add_patch(Rectangle((x, y), wide, high, **look))


def ruled(ax: Axes, columns: int, rows: int) -> None:
    fill(ax, 0, 0, columns, rows, PALE, PALE)
    ax.vlines(range(0, columns + 1), 0, rows, color=RULE, linewidth=0.4)
    ax.hlines(range(0, rows + 1), 0, columns, color=RULE, linewidth=0.4)


def above(ax: Axes, points: float, text: str) -> None:
    """The heading of a column of sheets."""
    where = {"xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(text, (0, 1), xytext=(0, points), fontsize=11, fontweight="bold", **where)


def beside(ax: Axes, points: float, text: str, **how: Any) -> None:
    """The heading of a row of sheets."""
    where = {"xycoords": "axes fraction", "textcoords": "offset points", "va": "center"}
    style = {"fontsize": 11, "fontweight": "bold"}
    ax.annotate(text, (0, 0.5), xytext=(-points, 0), **where, **style, **how)


def plural(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


# Banks
# --------------------------------------------------------------------------------------------------


def draw_banks_of(ax: Axes, request: Request) -> None:
    """Lanes downwards, banks to the right; a lane's words in the shade of its wavefront."""
    bare(ax, BANKS, LANES)
    ruled(ax, BANKS, LANES)
    for lane, (offset, wavefront) in enumerate(zip(request.offsets, request.wavefront)):
        if offset is not None and wavefront is not None:
            shade = SHADES[wavefront % len(SHADES)]
            fill(ax, offset // WORD % BANKS, lane, request.words, 1, shade, "white")
    ticks = [*range(0, 32, 8), 31]
    ax.set_xticks([t + 0.5 for t in ticks], ticks)
    ax.set_yticks([t + 0.5 for t in ticks], ticks)
    title = f"{request.width} bytes a lane: {plural(request.passes, 'wavefront')}, {request.degree}"
    weight = "bold" if request.passes > request.ideal else "normal"
    ax.set_title(title, fontsize=9, loc="left", pad=4, fontweight=weight)


def draw_banks(requests: Requests, rungs: list[Rung]) -> Figure:
    shown = (
        ("load", "sA", "loads of A"),
        ("load", "sB", "loads of B"),
        ("store", "sA", "stores of A"),
    )
    fig, axes = plt.subplots(len(rungs), len(shown), figsize=(10, 2.05 + 3.3 * len(rungs)))
    height = fig.get_figheight()
    bottom, top = 0.5 / height, 1 - 2.0 / height
    fig.subplots_adjust(0.105, bottom, 0.985, top, wspace=0.14, hspace=0.2)
    heading(
        fig,
        "Where the 32 lanes of a warp meet in the 32 banks of shared memory (f32)",
        "The first request of warp 0 for each array. A mark is a word that a lane reads or writes; its "
        "shade is the wavefront that serves it. In one wavefront",
        "a bank serves one word, for any number of lanes. 4 bytes a lane should take 1 wavefront, 16 "
        "bytes take 4, or 2 where lanes read the same bytes;",
        "n-way: n times as many as it should be. Bank 0 is that of the array's first word. Requests are "
        "the source's: a compiler may merge neighbouring ones.",
    )
    most = 0
    for rung, row in zip(rungs, axes):
        for (access, memory, what), ax in zip(shown, row):
            request = pick(requests, rung, access, memory)
            most = max(most, request.passes)
            draw_banks_of(ax, request)
            if rung is rungs[0]:
                above(ax, 21, what)
            if rung is rungs[-1]:
                ax.set_xlabel("bank", fontsize=9)
        row[0].set_ylabel("lane", fontsize=9, labelpad=1)
        beside(row[0], 42, title_of(rung), rotation=90, ha="center")
    fig.legend(
        handles=[Patch(color=SHADES[i], label=f"wavefront {i + 1}") for i in range(min(most, 4))],
        loc="upper left",
        bbox_to_anchor=(0.0, 1 - 1.05 / height),
        ncols=4,
        fontsize=9,
        handlelength=1.2,
        columnspacing=1.2,
    )
    return fig


# Sectors
# --------------------------------------------------------------------------------------------------


def lane_color(lane: int) -> Color:
    return matplotlib.colormaps["viridis"](0.9 * lane / (LANES - 1))


def draw_sectors_of(ax: Axes, request: Request) -> None:
    """The sectors that the request touches, from left to right by address, apart where others lie
    between them; their words downwards, those that a lane accesses in its colour."""
    words, apart = SECTOR // WORD, 0.4
    bare(ax, LANES + apart * (LANES - 1), words)
    touched = sorted({o // SECTOR for o in request.offsets if o is not None})
    if len(touched) != request.passes:
        raise BadInput(f"{REQUESTS}: {len(touched)} sectors where {request.passes} were counted")
    left: dict[int, float] = {}
    for before, sector in zip([touched[0], *touched], touched):
        x = left[before] + 1 + (apart if sector > before + 1 else 0) if left else 0
        left[sector] = x
        fill(ax, x, 0, 1, words, PALE, RULE)
    used: set[int] = set()
    for lane, offset in enumerate(request.offsets):
        if offset is not None:
            color = lane_color(lane) if request.offsets.count(offset) == 1 else ORANGE
            x, word = left[offset // SECTOR], offset % SECTOR // WORD
            fill(ax, x, word, 1, request.words, color, "white")
            used.update(range(offset, offset + request.width))
    ax.set_yticks([0.5, words - 0.5], [0, SECTOR - WORD])
    share = 100 * len(used) / (SECTOR * len(touched))
    title = f"{plural(request.passes, 'sector')}, {share:g} % of the bytes used"
    ax.set_title(title, fontsize=10, loc="left", pad=4)


def draw_sectors(requests: Requests, rungs: list[Rung]) -> Figure:
    shown = (("load", "A"), ("load", "B"), ("store", "C"))
    fig, axes = plt.subplots(len(rungs), len(shown), figsize=(10, 1.85 + 1.2 * len(rungs)))
    height = fig.get_figheight()
    bottom, top = 0.15 / height, 1 - 1.85 / height
    fig.subplots_adjust(0.15, bottom, 0.985, top, wspace=0.12, hspace=0.6)
    heading(
        fig,
        "The 32-byte sectors of global memory that the 32 lanes of a warp touch (f32)",
        "The first request of warp 0 for each matrix. A column is one sector, what memory delivers at "
        "least; its 8 words from top (byte 0) to bottom (byte 28).",
        "In colour: the words that lanes read or write. Columns that touch are neighbours in memory; "
        "those apart are not.",
    )
    for rung, row in zip(rungs, axes):
        for (access, memory), ax in zip(shown, row):
            draw_sectors_of(ax, pick(requests, rung, access, memory))
            if rung is rungs[0]:
                above(ax, 22, f"{access}s of {memory}")
        beside(row[0], 22, title_of(rung).replace(" ", "\n", 1), ha="right")
    key = fig.add_axes((0.07, 1 - 1.12 / height, 0.3, 0.13 / height))
    bare(key, LANES, 1)
    for lane in range(LANES):
        fill(key, lane, 0, 1, 1, lane_color(lane), lane_color(lane))
    ticks = [*range(0, LANES, 8), LANES - 1]
    key.set_xticks([t + 0.5 for t in ticks], ticks)
    key.set_yticks([0.5], ["lane"])
    key.tick_params(pad=2)
    fig.legend(
        handles=[Patch(color=ORANGE, label="several lanes")],
        loc="center left",
        bbox_to_anchor=(0.39, 1 - 1.06 / height),
        fontsize=8,
        handlelength=1.2,
    )
    return fig


# Swizzles
# --------------------------------------------------------------------------------------------------


def draw_tile(ax: Axes, chunk: int, offsets: list[list[int]], marked: int) -> None:
    """Where the chunks of a tile's rows lie: lines of 32 banks downwards, their chunks to the right."""
    line = BANKS * WORD
    across, lines = line // chunk, sum(map(len, offsets)) * chunk // line
    bare(ax, across, lines)
    ruled(ax, across, lines)
    for row, chunks in enumerate(offsets):
        for col, offset in enumerate(chunks):
            x, y = offset // chunk % across, offset // line
            if col == marked:
                fill(ax, x, y, 1, 1, BLUE, "white")
            tone = ("white", "bold") if col == marked else (GREY, "normal")
            how = dict(zip(("color", "fontweight"), tone), ha="center", va="center", fontsize=8)
            ax.text(x + 0.5, y + 0.52, f"{row}.{col}", **how)
    banks = chunk // WORD
    labels = [f"{banks * i}-{banks * (i + 1) - 1}" for i in range(across)]
    ax.set_xticks([i + 0.5 for i in range(across)], labels, fontsize=7)
    ax.set_yticks([i + 0.5 for i in range(lines)], [i * line for i in range(lines)])


def draw_swizzles(data: dict[str, Any]) -> Figure:
    """A row of tiles for each width of a tile's rows, plain and swizzled."""
    chunk, tiles, marked = data["chunk"], data["tiles"], 1
    widths = sorted({tile["row_bytes"] for tile in tiles})
    lines = [w * len(tiles[0]["offsets"]) // (BANKS * WORD) for w in widths]
    cell, gap, top = 0.27, 0.68, 1.15  # inches
    fig = plt.figure(figsize=(10, top + sum(cell * n + gap for n in lines) - 0.15))
    height = fig.get_figheight()
    heading(
        fig,
        "What the swizzles of TMA and wgmma do to a tile in shared memory",
        "A tile of 8 rows, cut into chunks of 16 bytes; r.c = row r, chunk c. Each line is 128 bytes: "
        "one word in each of the 32 banks. Reading one chunk",
        "of all 8 rows (blue: chunk 1), as ldmatrix and wgmma do, takes as many wavefronts as chunks "
        "of it lie in one column.",
    )
    for width, n in zip(widths, lines):
        for side, tile in enumerate(t for t in tiles if t["row_bytes"] == width):
            left, bottom = 0.065 + 0.485 * side, 1 - (top + cell * n) / height
            ax = fig.add_axes((left, bottom, 0.44, cell * n / height))
            draw_tile(ax, chunk, tile["offsets"], marked)
            mode = f"{tile['swizzle']}-byte swizzle" if tile["swizzle"] else "plain"
            passes = plural(tile["wavefronts_of_column"][marked], "wavefront")
            title = f"rows of {width} bytes, {mode}: {passes}"
            ax.set_title(title, fontsize=10, loc="left", pad=5)
            if side == 0:
                ax.set_ylabel("byte", fontsize=8)
            if width == widths[-1]:
                ax.set_xlabel("banks", fontsize=8)
        top += cell * n + gap
    return fig


# --------------------------------------------------------------------------------------------------


def figures(root: Path, rungs: list[Rung]) -> dict[Path, Optional[Figure]]:
    """Every figure, named after the rungs that it shows; None for one whose data are not there."""

    def of_rungs(name: str, draw: Callable[[Requests, list[Rung]], Figure]) -> Optional[Figure]:
        if not result_exists(root / REQUESTS):
            return None
        shown = [find_rung(rungs, tag) for tag in name.split("_")[1:]]
        return draw(load_requests(root / REQUESTS), shown)

    plots, wanted = root / "plots", {}
    for name, draw in (("banks_v05_v06_v07", draw_banks), ("sectors_v01u_v01_v05", draw_sectors)):
        wanted[plots / f"{name}.svg"] = of_rungs(name, draw)
    there = result_exists(root / SWIZZLES)
    wanted[plots / "swizzle.svg"] = draw_swizzles(read(root / SWIZZLES)) if there else None
    return wanted
