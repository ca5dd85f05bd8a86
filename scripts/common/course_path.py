"""Which rungs are the core of the course, and which track a rung stands on."""

from __future__ import annotations

import re

from common import ladder
from common.ladder import Rung

# Numbers of the rungs that everybody reads, first and last. Of the rungs with a letter these are.
CORE = ((1, 10), (18, 23))
CORE_WITH_A_LETTER = {"v17t", "v17w"}
# Which rung begins a track: those that follow it stand on it, until one begins another.
TRACKS = {
    "v1": "CUDA cores",
    "v10": "tensor cores through mma.sync",
    "v11": "FP32",
    "v14": "FP32",
    "v17t": "Hopper: TMA and wgmma",
    "v24": "research",
}


def is_core(name: str) -> bool:
    """By a rung's name: v05_float4 is, v01u_uncoalesced is not."""
    if name.partition("_")[0] in CORE_WITH_A_LETTER:
        return True
    number = re.match(r"v(\d+)_", name)
    return number is not None and any(first <= int(number[1]) <= last for first, last in CORE)


def track(rungs: list[Rung], rung: Rung) -> str:
    while rung.id not in TRACKS and rung.prev:
        rung = ladder.find_rung(rungs, rung.prev)
    return TRACKS.get(rung.id, next(iter(TRACKS.values())))


def kind(rungs: list[Rung], rung: Rung) -> str:
    """core, track (a rung of one track alone) or elective."""
    if is_core(rung.name):
        return "core"
    return "elective" if rung.order[1] or track(rungs, rung) == "research" else "track"


def minutes(rung: Rung) -> str:
    """What the chapter's opening says; empty where it does not."""
    text = rung.chapter.read_text(encoding="utf-8") if rung.chapter.is_file() else ""
    found = re.search(r"^\| You need \|[^\n]*?(\d+) minutes", text, re.MULTILINE)
    return found[1] if found else ""
