"""Figures of the course itself: its map, how latency is hidden, and the lanes of a warp tile.

The map is drawn from the registry: a rung stands below the one that it changes. A new rung appears by
itself, on the track of that one. Minutes are those that the chapters name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from common import ladder
from common.course_path import kind, minutes, track, with_bridge
from common.ladder import Rung
from figures.limits import BLUE, GREEN, KINDS, RED, latency_of, serial, time_axis
from figures.pictures import GREY, LANES, ORANGE, PALE, SHADES, bare, fill, heading

# The map
# --------------------------------------------------------------------------------------------------

COLORS = {
    "CUDA cores": BLUE,
    "tensor cores through mma.sync": GREEN,
    "FP32": "#7570b3",
    "Hopper: TMA and wgmma": RED,
    "research": ORANGE,
}
KIND_LABELS = {"core": "core", "track": "part of a track", "elective": "elective"}


def lanes_of(rungs: list[Rung]) -> dict[str, int]:
    """A column for each rung: the main line keeps its own, a branch takes the first free one."""
    row = {rung.id: i for i, rung in enumerate(rungs)}
    children: dict[str, list[Rung]] = {rung.id: [] for rung in rungs}
    for rung in rungs:
        if rung.prev:
            children[rung.prev].append(rung)

    def last_row(rung: Rung) -> int:
        return max([row[rung.id], *(last_row(child) for child in children[rung.id])])

    def weight(rung: Rung) -> tuple[bool, int]:
        return kind(rungs, rung) == "core" and not rung.is_baseline, last_row(rung)

    branches: list[tuple[int, list[Rung]]] = []  # the row that each comes from, and its rungs

    def follow(first: Rung, above: int) -> None:
        line = [first]  # from here down along the main line of this branch
        while children[line[-1].id]:
            line.append(max(children[line[-1].id], key=weight))
        branches.append((above, line))
        for rung in line:
            for child in children[rung.id]:
                if child not in line:
                    follow(child, row[rung.id])

    for rung in rungs:
        if not rung.prev:
            follow(rung, -1)
    taken: list[tuple[int, int, int]] = []  # column, first and last row
    columns: dict[str, int] = {}
    # Later branches lie further left: an earlier one passes them on the right, and none cross.
    for begin, line in sorted(branches, key=lambda branch: (branch[0] >= 0, -branch[0])):
        column, end = 0, row[line[-1].id]
        while any(c == column and b < end and begin < e for c, b, e in taken):
            column += 1
        taken.append((column, begin, end))
        columns |= {rung.id: column for rung in line}
    return columns


def mark(kind: str, color: str) -> dict[str, object]:
    look = {"core": ("o", color, 9), "track": ("o", "white", 8), "elective": ("D", "white", 6)}
    shape, face, size = look[kind]
    return {
        "marker": shape,
        "markerfacecolor": face,
        "markeredgecolor": color,
        "markeredgewidth": 2,
        "markersize": size,
        "linestyle": "none",
    }


def draw_map(ladder_rungs: list[Rung]) -> Figure:
    rungs = with_bridge(ladder_rungs)
    bridge = " and a bridge" if len(rungs) > len(ladder_rungs) else ""
    columns, step, top = lanes_of(rungs), 0.245, 1.12  # inches
    fig = plt.figure(figsize=(10, top + step * len(rungs) + 0.1))
    height = fig.get_figheight()
    core = [rung for rung in rungs if kind(rungs, rung) == "core"]

    def taken(path: list[Rung]) -> int:
        return sum(int(minutes(rung) or 0) for rung in path)

    heading(
        fig,
        f"The course as a tree: {len(core) - bool(bridge)} rungs of {len(ladder_rungs)}{bridge} are its core",
        "Each rung changes the one that its line comes from; the bridge sums up v15 to v17, so that v17t starts from it. "
        f"Minutes: {taken(core)} for the core, {taken(rungs)} for all.",
    )
    ax = fig.add_axes((0, 0.1 / height, 1, step * len(rungs) / height))
    bare(ax, 10, len(rungs))
    row = {rung.id: i for i, rung in enumerate(rungs)}

    def x(rung: Rung) -> float:
        return 0.3 + 0.27 * columns[rung.id]

    text_at = 0.3 + 0.27 * (max(columns.values()) + 1) + 0.05
    for i in range(0, len(rungs), 2):
        fill(ax, 0.05, i, 9.9, 1, "#f7f7f7", "#f7f7f7")
    for rung in rungs:
        if rung.prev:
            before = ladder.find_rung(rungs, rung.prev)
            y0, y1 = row[before.id] + 0.5, row[rung.id] + 0.5
            corner = [(x(before), y0), (x(rung), min(y0 + 0.8, y1)), (x(rung), y1)]
            ax.plot(*zip(*corner), color=COLORS[track(rungs, rung)], linewidth=2, zorder=2)
    for i, rung in enumerate(rungs):
        of, color = kind(rungs, rung), COLORS[track(rungs, rung)]
        ax.plot([x(rung)], [i + 0.5], zorder=3, **mark(of, color))
        weight = "bold" if of == "core" else "normal"
        words = rung.name.split("_", 1)[1].replace("_", " ")
        how = {"va": "center", "fontsize": 9.5}
        ax.text(text_at, i + 0.52, rung.id, fontweight=weight, **how)
        ax.text(text_at + 0.56, i + 0.52, words, fontweight=weight, **how)
        ax.text(text_at + 2.1, i + 0.52, rung.idea, color=GREY, va="center", fontsize=8.5)
        ax.text(9.85, i + 0.52, minutes(rung), color=GREY, va="center", ha="right", fontsize=8.5)
    ax.annotate(
        "minutes", (9.85, 0), xytext=(0, 4), textcoords="offset points", ha="right", fontsize=8.5,
        color=GREY, annotation_clip=False,
    )  # fmt: skip
    names = dict.fromkeys(track(rungs, rung) for rung in rungs)
    kinds = [Line2D([], [], label=label, **mark(of, GREY)) for of, label in KIND_LABELS.items()]
    tracks = [Patch(color=COLORS[name], label=name) for name in names]
    for handles, y in ((kinds, 0.58), (tracks, 0.78)):
        fig.legend(
            handles=handles, loc="upper left", bbox_to_anchor=(0.0, 1 - y / height),
            ncols=len(handles), fontsize=9, handlelength=1.2, columnspacing=1.4, borderpad=0.1,
        )  # fmt: skip
    return fig


# Latency
# --------------------------------------------------------------------------------------------------

LOAD_WORK = 96  # cycles of arithmetic for each load, in the figure


@dataclass(frozen=True)
class Setting:
    warps: int
    loads: int  # that a warp has in flight at once
    what: str

    def busy(self, latency: float) -> float:
        """Share of the scheduler's cycles in which some warp computes, after the start."""
        work = LOAD_WORK * self.loads
        return min(1.0, self.warps * work / (latency + work))


SETTINGS = (
    Setting(1, 1, "1 warp, 1 load in flight"),
    Setting(1, 4, "1 warp, 4 independent loads in flight"),
    Setting(8, 1, "8 warps, 1 load in flight each"),
)


def draw_latency(root: Path, gpu: str) -> Figure:
    latency, how = latency_of(root, gpu)
    end = 2.6 * (latency + LOAD_WORK)
    shares = [100 * setting.busy(latency) for setting in SETTINGS]
    fig = plt.figure(figsize=(10, 5.2))
    height = fig.get_figheight()
    heading(
        fig,
        f"One warp keeps its scheduler busy {shares[0]:.0f} %, 8 warps {shares[2]:.0f} % once the first loads are there",
        f"Computed: a load from global memory takes {latency:.0f} cycles ({how}), and its data feed "
        f"{LOAD_WORK} cycles of arithmetic. One scheduler of an SM's four.",
    )
    shown = {"load": "waits for its loads", "full": "data there, another warp computes", "multiply": "computes"}  # fmt: skip
    fig.legend(
        handles=[Patch(color=KINDS[k][0], label=label) for k, label in shown.items()],
        loc="upper left", bbox_to_anchor=(0.005, 1 - 0.6 / height), ncols=3, fontsize=9,
        handlelength=1.2,
    )  # fmt: skip
    top, unit = 1.25, 0.2  # inches
    for setting, share in zip(SETTINGS, shares):
        rows = setting.warps
        spans = serial(rows, 6, latency, 0, LOAD_WORK * setting.loads)
        ax = fig.add_axes((0.085, 1 - (top + unit * (rows + 1)) / height, 0.9, unit * (rows + 1) / height))  # fmt: skip
        bare(ax, end, rows + 1)
        for line in range(rows + 1):
            fill(ax, 0, line + 0.08, end, 0.84, PALE, PALE)
        for span in spans:
            wide = min(span.end, end) - span.start
            if span.kind == "commit" or wide <= 0:
                continue
            fill(ax, span.start, span.row + 0.08, wide, 0.84, KINDS[span.kind][0], "white")
            if span.kind == "multiply":
                fill(ax, span.start, rows + 0.08, wide, 0.84, GREY, GREY)
        names = [f"warp {line}" for line in range(rows)] if rows == 1 else ["warp 0", *[""] * (rows - 2), f"warp {rows - 1}"]  # fmt: skip
        ax.set_yticks([line + 0.5 for line in range(rows + 1)], [*names, "scheduler"], fontsize=8.5)
        ax.set_title(f"{setting.what}: busy {share:.0f} %", fontsize=10, loc="left", pad=4)
        top += unit * (rows + 1) + 0.35
        if setting is SETTINGS[-1]:
            time_axis(ax, end)
    return fig


# Lanes
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LaneMap:
    """Which bits of a lane's number count along m, from bit 4 down to bit 0; the others along n."""

    bits: str
    what: str

    def place(self, lane: int) -> tuple[int, int]:
        m = n = 0
        for position, letter in enumerate(self.bits):
            bit = lane >> (4 - position) & 1
            if letter == "m":
                m = m << 1 | bit
            else:
                n = n << 1 | bit
        return m, n

    def wavefronts(self, axis: int) -> list[int]:
        """Which wavefront of a 128-bit load serves each lane; axis 0: of A, 1: of B. A quarter of
        the warp each, or a half where lanes l and l ^ 1, or l and l ^ 2, read the same."""
        reads = [self.place(lane)[axis] for lane in range(LANES)]
        partners = any(all(reads[l] == reads[l ^ bit] for l in range(LANES)) for bit in (1, 2))
        return [lane // (16 if partners else 8) for lane in range(LANES)]

    def cost(self) -> int:
        """Wavefronts of a step of k: two loads of A and two of B."""
        return sum(2 * (1 + max(self.wavefronts(axis))) for axis in (0, 1))


LANE_MAPS = (
    LaneMap("mnnnn", "v8: 2 x 16"),
    LaneMap("mmnnn", "4 x 8, row by row"),
    LaneMap("nnnmm", "4 x 8, column by column"),
    LaneMap("nnmmn", "v11: 4 x 8, mixed"),
)


def draw_lane_map(ax: Axes, lanes: LaneMap, axis: int) -> None:
    places = [lanes.place(lane) for lane in range(LANES)]
    bare(ax, 16, 4)
    for lane, ((m, n), wavefront) in enumerate(zip(places, lanes.wavefronts(axis))):
        fill(ax, n, m, 1, 1, SHADES[wavefront], "white")
        tone = "white" if wavefront < 2 else "black"
        ax.text(n + 0.5, m + 0.52, str(lane), color=tone, fontsize=8, ha="center", va="center")
    count = 1 + max(lanes.wavefronts(axis))
    ax.set_title(f"load of {'AB'[axis]}: {count} wavefronts", fontsize=9.5, loc="left", pad=3)


def draw_lanes() -> Figure:
    step, top = 1.3, 1.42  # inches
    fig = plt.figure(figsize=(10, top + step * len(LANE_MAPS)))
    height = fig.get_figheight()
    costs = [lanes.cost() for lanes in LANE_MAPS]
    heading(
        fig,
        f"Where a warp's lanes lie decides: {costs[0]} wavefronts a step of k, or {costs[-1]}",
        "The lanes at the places of their thread tiles: m down, n to the right. Lanes of a row read "
        "the same words of A, lanes of a column the same of B.",
        "The shade is the wavefront that serves a lane: two, not four, where lanes l and l ^ 1, or l and "
        "l ^ 2, read the same. A step of k is two loads of each.",
    )
    fig.legend(
        handles=[Patch(color=SHADES[i], label=f"wavefront {i + 1}") for i in range(4)],
        loc="upper left", bbox_to_anchor=(0.005, 1 - 0.82 / height), ncols=4, fontsize=9,
        handlelength=1.2,
    )  # fmt: skip
    for i, lanes in enumerate(LANE_MAPS):
        bottom = 1 - (top + step * i + 0.86) / height
        for axis in (0, 1):
            ax = fig.add_axes((0.2 + 0.4 * axis, bottom, 0.385, 0.86 / height))
            draw_lane_map(ax, lanes, axis)
        y = bottom + 0.43 / height
        name = f"{lanes.what}\nbits 4..0 count along\n{' '.join(lanes.bits)}: {costs[i]} wavefronts"
        fig.text(0.012, y, name, fontsize=9.5, va="center", linespacing=1.5)
    return fig


# --------------------------------------------------------------------------------------------------


def figures(root: Path, rungs: list[Rung], gpu: str) -> dict[Path, Optional[Figure]]:
    plots = root / "plots"
    known = {rung.id for rung in rungs}
    return {
        plots / "course.svg": draw_map(rungs) if "v10" in known else None,
        plots / "latency_hiding.svg": draw_latency(root, gpu) if "v10" in known else None,
        plots / "lane_bits.svg": draw_lanes() if "v11" in known else None,
    }
