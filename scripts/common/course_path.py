"""Which pages are the core of the course, in which order, and which track a rung stands on."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from common import ladder
from common.ladder import Rung

# Numbers of the rungs that everybody reads, first and last. Of the rungs with a letter these are.
CORE = ((1, 10), (18, 24))
CORE_WITH_A_LETTER = {"v17t", "v17w"}
# The chapter that leads from v10 to v17t, and tells what v15 to v17 add on one kernel, v17's.
BRIDGE, BRIDGE_FROM, BRIDGE_TO = "10b_bridge", "v10", "v17t"
BRIDGE_IDEA = "from mma.sync to Hopper: swizzle, ldmatrix, cp.async, raster"
# Which rung begins a track: those that follow it stand on it, until one begins another.
TRACKS = {
    "v1": "CUDA cores",
    "v10": "tensor cores through mma.sync",
    "v11": "FP32",
    "v14": "FP32",
    "v17t": "Hopper: TMA and wgmma",
    "v24": "research",
}
SUMMIT = "v24"  # the last rung of the core; only what stands on it is research


def is_core(name: str) -> bool:
    """By a rung's name: v05_float4 is, v01u_uncoalesced is not."""
    if name == BRIDGE or name.partition("_")[0] in CORE_WITH_A_LETTER:
        return True
    number = re.match(r"v(\d+)_", name)
    return number is not None and any(first <= int(number[1]) <= last for first, last in CORE)


def track(rungs: list[Rung], rung: Rung) -> str:
    if rung.id == SUMMIT:
        rung = ladder.find_rung(rungs, rung.prev)
    while rung.id not in TRACKS and rung.prev:
        rung = ladder.find_rung(rungs, rung.prev)
    return TRACKS.get(rung.id, next(iter(TRACKS.values())))


def kind(rungs: list[Rung], rung: Rung) -> str:
    """core, track (a rung of one track alone) or elective."""
    if is_core(rung.name):
        return "core"
    return "elective" if rung.order[1] or track(rungs, rung) == "research" else "track"


@dataclass(frozen=True)
class Bridge(Rung):
    """The bridge chapter as a step of the path: it has no kernel of its own."""

    @property
    def order(self) -> tuple[int, str]:
        return int(BRIDGE_FROM[1:]), BRIDGE

    @property
    def id(self) -> str:
        return BRIDGE.partition("_")[0]


def with_bridge(rungs: list[Rung]) -> list[Rung]:
    """The rungs with the bridge behind v10, and v17t on the bridge. Without its page: the rungs."""
    page = next((r.path.with_name(f"{BRIDGE}.md") for r in rungs if r.id == BRIDGE_FROM), Path())
    if not page.is_file():
        return rungs
    bridge = Bridge(page, "", BRIDGE_FROM, BRIDGE_IDEA, ("f16",))
    steps: list[Rung] = []
    for rung in rungs:
        steps.append(replace(rung, prev=bridge.id) if rung.id == BRIDGE_TO else rung)
        if rung.id == BRIDGE_FROM:
            steps.append(bridge)
    return steps


def core(rungs: list[Rung]) -> list[Rung]:
    """What everybody reads, in order."""
    return [step for step in with_bridge(rungs) if is_core(step.name)]


def minutes(rung: Rung) -> str:
    """What the chapter's opening says; empty where it does not."""
    text = rung.chapter.read_text(encoding="utf-8") if rung.chapter.is_file() else ""
    found = re.search(r"^\| You need \|[^\n]*?(\d+) minutes", text, re.MULTILINE)
    return found[1] if found else ""
