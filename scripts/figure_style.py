"""What all figures share: their style, and how they become the bytes of an SVG."""

from __future__ import annotations

import io

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
    "figure.facecolor": "white",  # a white card: legible on a dark page too
    "legend.frameon": False,
}


def svg(fig: Figure) -> bytes:
    buffer = io.BytesIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(fig)
    return buffer.getvalue()
