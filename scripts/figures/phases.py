"""Figures of mbarriers: what a rung's barriers count while k-tiles come and go, phase by phase.

Times are computed as for the timelines (limits.py): one CTA alone on its SM, sizes from the rung's
source, the latency as measured on the card. An SVG holds both themes: a dark page's reader sees the
dark one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from common import ladder
from common.ladder import Rung
from figures.figure_style import FRAME, svg
from figures.layouts import constants
from figures.limits import F16_FLOP_PER_CYCLE, KINDS, Span, latency_of, number, pipeline, time_axis
from figures.pictures import BLUE, GREY, ORANGE, PALE, bare, fill, heading, title_of

PARITIES = ("#f3e6b3", "#f2cfe0")  # of a phase: 0, 1
PAGE, INK, ON_COLOR, COUNTED = "#ffffff", "#000000", "#fefefe", "#d9d9d9"
ASKED, ARRIVED = KINDS["asked"][0], "#c7e9c0"  # a k-tile in a stage, before and after its way
DARK = {  # by the light theme's colours, each of which means one thing
    PAGE: "#0d1117",
    FRAME: "#3d444d",
    PALE: "#1c2128",
    GREY: "#9aa4af",
    COUNTED: "#3d444d",
    ASKED: "#54407a",
    ARRIVED: "#2c5a36",
    BLUE: "#2f74b5",
    ORANGE: "#b85a1c",
    PARITIES[0]: "#5a5120",
    PARITIES[1]: "#6b3554",
}
ROW = 0.32  # inches
L2_BYTES_PER_CYCLE = 64  # that an SM receives
GAP = 60  # cycles, to be seen: from wgmma_wait<0> to the next product; not measured


@dataclass(frozen=True)
class Box:
    """A stretch of time in a row, with what fits of its words."""

    start: float
    end: float
    color: str
    words: tuple[str, ...]  # from the longest to the shortest
    ink: str = INK


Row = tuple[str, list[Box]]


def draw_row(ax: Axes, row: int, boxes: list[Box], end: float) -> None:
    fill(ax, 0, row + 0.08, end, 0.84, PALE, PALE)
    inches = ax.get_figure().get_figwidth() * ax.get_position().width
    for box in boxes:
        if box.start >= end:
            continue
        wide = min(box.end, end) - box.start
        fill(ax, box.start, row + 0.08, wide, 0.84, box.color, PAGE)
        for words in box.words:
            if 0.068 * len(words) + 0.05 < inches * wide / end:
                place = {"ha": "center", "va": "center", "fontsize": 8, "color": box.ink}
                ax.text(box.start + wide / 2, row + 0.52, words, **place)
                break


def phases(loads: list[Span], stages: int, end: float) -> list[list[Box]]:
    """The phases of each barrier: one lasts until the k-tile that ends it has arrived."""
    found: list[list[Box]] = [[] for _ in range(stages)]
    begun = [0.0] * stages
    for load in sorted(loads, key=lambda span: span.k_tile):
        s, phase = load.row, load.k_tile // stages
        words = (f"phase {phase}, parity {phase % 2}", f"phase {phase}")
        found[s].append(Box(begun[s], load.end, PARITIES[phase % 2], words))
        begun[s] = load.end
    for s, boxes in enumerate(found):
        boxes.append(Box(begun[s], max(end, begun[s]), PARITIES[len(boxes) % 2], ()))
    return found


def missing(loads: list[Span], tile_bytes: int) -> list[Row]:
    """What the one barrier waits for: its count, and what expect_tx announced."""
    arrivals, bytes_ = [], []
    free = 0.0
    for load in loads:
        if load.start > free:
            arrivals.append(Box(free, load.start, PAGE, ("1",)))
            bytes_.append(Box(free, load.start, PAGE, ("0",)))
        arrivals.append(Box(load.start, load.end, COUNTED, ("0",)))
        bytes_.append(Box(load.start, load.end, COUNTED, (f"{tile_bytes} to 0", "to 0")))
        free = load.end
    return [("arrivals missing", arrivals), ("bytes missing", bytes_)]


def waits(multiplied: list[Span], stages: int) -> list[Box]:
    """What the threads that multiply do: wait for a parity, multiply a k-tile."""
    found, now = [], 0.0
    for span in multiplied:
        barrier = f"full[{span.row}], " if stages > 1 else ""
        parity = span.k_tile // stages % 2
        words = (
            f"wait({barrier}{parity})",
            f"wait({span.row}, {parity})" if stages > 1 else "wait",
        )
        if span.start > now:
            found.append(Box(now, span.start, PAGE, words))
        name = (f"multiply k-tile {span.k_tile}", f"k-tile {span.k_tile}", f"{span.k_tile}")
        found.append(Box(span.start, span.end, BLUE, name, ON_COLOR))
        now = span.end
    return found


def color_of(span: Span) -> str:
    return ARRIVED if span.kind == "full" else KINDS[span.kind][0]


def draw_phases(root: Path, gpu: str, rung: Rung, instruction: str) -> Figure:
    sizes = constants(rung, "f16")
    bm, bn, bk, stages = sizes["BM"], sizes["BN"], sizes["BK"], sizes.get("STAGES", 1)
    latency, how = latency_of(root, gpu)
    results, rate = ladder.results_of(gpu, root), float(F16_FLOP_PER_CYCLE)
    if instruction == "mma.sync" and results and number(results, "peak_tensor_f16_tflops"):
        rate *= number(results, "peak_mma_f16_tflops") / number(results, "peak_tensor_f16_tflops")
    work, bytes_ = 2 * bm * bn * bk / rate, (bm + bn) * bk * 2
    issue, gap = bytes_ / L2_BYTES_PER_CYCLE, GAP if stages > 1 else 0
    spans = pipeline(1, stages, 5 * stages, latency, issue, work, gap)
    loads = [s for s in spans if s.kind == "load"]
    multiplied = [s for s in spans if s.kind == "multiply"]
    end = multiplied[3].end if stages == 1 else multiplied[2 * stages + 1].end

    rows: list[Row] = []
    for s, of_barrier in enumerate(phases(loads, stages, end)):
        here = sorted((x for x in spans if x.row == s), key=lambda x: x.start)
        boxes = [
            Box(x.start, x.end, color_of(x), (f"{x.k_tile}",), INK if x.kind in ("asked", "full") else ON_COLOR)
            for x in here
        ]  # fmt: skip
        rows.append((f"stage {s}" if stages > 1 else "buffer", boxes))
        rows.append((f"full[{s}]" if stages > 1 else "barrier full", of_barrier))
    if stages == 1:
        rows += missing(loads, bytes_)
    rows.append(("all threads", waits(multiplied, stages)))

    title = (
        f"{title_of(rung)}: k-tile i ends phase i of its barrier; the wait for it names parity i % 2"
        if stages == 1
        else f"{title_of(rung)}: k-tile i ends phase i / {stages} of full[i % {stages}]"
    )
    fig = plt.figure(figsize=(10, 1.75 + ROW * len(rows)))
    height = fig.get_figheight()
    heading(
        fig,
        title,
        f"Computed, in cycles, for one CTA alone: {bm} x {bn} x {bk} by {instruction} take {work:.0f}, "
        f"{bytes_ // 1024} KB from L2 {bytes_ // L2_BYTES_PER_CYCLE}; latency {latency:.0f} ({how}).",
        "Numbers in a stage: k-tiles. wait(s, p): for parity p of full[s]. A fresh barrier is in phase 0. "
        f"The gap of {GAP} cycles at wgmma_wait<0> was not measured."
        if stages > 1
        else "Numbers in a buffer are k-tiles. A fresh barrier is in phase 0. "
        "The next phase begins in the instant in which a phase ends.",
    )
    handles = [
        *(Patch(color=KINDS[k][0], label=KINDS[k][1]) for k in ("load", "multiply")),
        *(Patch(color=tone, label=f"parity {i}") for i, tone in enumerate(PARITIES)),
    ]
    if stages > 1:
        handles.insert(0, Patch(color=ASKED, label="requested"))
        handles.insert(2, Patch(color=ARRIVED, label="arrived"))
    fig.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(0.005, 1 - 0.82 / height),
        ncols=len(handles), fontsize=9, handlelength=1.2, columnspacing=1.4,
    )  # fmt: skip
    ax = fig.add_axes((0.125, 0.5 / height, 0.865, ROW * len(rows) / height))
    bare(ax, end, len(rows))
    for row, (_, boxes) in enumerate(rows):
        draw_row(ax, row, boxes, end)
    ax.set_yticks([row + 0.5 for row in range(len(rows))], [name for name, _ in rows], fontsize=8.5)
    time_axis(ax, end)
    return fig


def both_themes(image: bytes) -> bytes:
    """The SVG with rules for a reader who asks for dark pages."""
    rules = "text{fill:#e6edf3}" + "".join(
        f'[style*="{what}: {light}"]{{{what}:{dark}!important}}'
        for light, dark in DARK.items()
        for what in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{rules}}}</style>"
    head, defs, rest = image.partition(b"<defs>")
    return head + style.encode() + b"\n " + defs + rest


def figures(root: Path, rungs: list[Rung], gpu: str) -> dict[Path, Optional[bytes]]:
    """A figure a rung that teaches barriers, named after it."""
    wanted: dict[Path, Optional[bytes]] = {}
    for word, instruction in (("_tma", "mma.sync"), ("_pipeline", "wgmma")):
        rung = next((r for r in rungs if r.name.endswith(word)), None)
        if rung and {"BM", "BN", "BK"} <= set(constants(rung, "f16")):
            drawn = draw_phases(root, gpu, rung, instruction)
            wanted[root / "plots" / f"phases_{rung.tag}.svg"] = both_themes(svg(drawn))
    return wanted
