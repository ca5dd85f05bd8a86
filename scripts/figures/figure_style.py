"""What all figures share: their style, and how they become the bytes of an SVG."""

from __future__ import annotations

import io
import re

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

GREY = "#555555"
STYLE = {
    "svg.hashsalt": "gemm ladder",
    "svg.fonttype": "none",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "figure.facecolor": "#ffffff",  # a card, see svg()
    "legend.frameon": False,
}


FRAME = "#c9d1d9"
CARD = 10  # points: the margin around a figure, so that no letter begins at a dark page's edge
OPENING = re.compile(rb'width="([\d.]+)pt" height="([\d.]+)pt" viewBox="0 0 [\d.]+ [\d.]+"([^>]*>)')


def on_card(match: re.Match[bytes]) -> bytes:
    wide, high = float(match[1]) + 2 * CARD, float(match[2]) + 2 * CARD
    size = f'width="{wide:g}pt" height="{high:g}pt" viewBox="{-CARD} {-CARD} {wide:g} {high:g}"'
    edge = f'x="{0.5 - CARD}" y="{0.5 - CARD}" width="{wide - 1:g}" height="{high - 1:g}" rx="8"'
    card = f'\n <rect {edge} style="fill: #ffffff; stroke: {FRAME}"/>'
    return size.encode() + match[3] + card.encode()


def svg(fig: Figure) -> bytes:
    """The figure on a card with round corners: on a white page its frame, on a dark one its ground."""
    buffer = io.BytesIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(fig)
    return OPENING.sub(on_card, buffer.getvalue(), count=1)
