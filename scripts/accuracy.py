#!/usr/bin/env python3
"""Table and figure of the rungs' accuracy, from what build/accuracy has written.

  accuracy.py [FILE.json]   prints the table; default: the reference GPU's, else the simulator's

plot.py draws plots/accuracy.svg from plots/results/<reference GPU>/accuracy.json, as soon as that is
there, and embed.py fills <!-- embed:accuracy f32 --> (f32 and tf32, f16 or bf16).
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from common import ladder
from common.ladder import ROOT, BadInput, exit_by

FILE = Path("accuracy.json")
# The figure's classes and lines: a rung in one type, its colour and what it is called.
PANELS = {
    "uniform": "uniform in [-1, 1)",
    "positive": "uniform in [0, 1)",
    "balanced": "balanced: A's columns times 2^-60 to 2^60, B's rows inversely",
    "subnormal": "A subnormal, B large",
}
LINES = {
    "v10_mma/tf32": ("#d95f02", "v10, TF32"),
    "v14_3xtf32/f32": ("#7570b3", "v14, 3xTF32"),
    "v14w_split_wgmma/f32": ("#1b6ca8", "v14w, two halves"),
    "v14x_bf16x6/f32": ("#1b9e77", "v14x, three bf16"),
    "v13_ffma/f32": ("#888888", "v13, FFMA"),
    "v09_cublas/f32": ("black", "cuBLAS FP32"),
}
GRADES = "ABC-"  # from the strictest on; "-": none


@dataclass(frozen=True)
class Result:
    rung: str  # "v14_3xtf32"
    dtype: str
    inputs: str
    k: int
    values: dict[str, Any]  # the entry

    @property
    def key(self) -> str:
        return f"{self.rung}/{self.dtype}"


@dataclass(frozen=True)
class Accuracy:
    """One file: the worst over K is what a grade is of."""

    context: dict[str, Any]
    results: list[Result]

    @property
    def on_gpu(self) -> bool:
        return self.context["backend"] == "gpu"

    def classes(self) -> list[str]:
        return list(dict.fromkeys(r.inputs for r in self.results))

    def keys(self, dtypes: tuple[str, ...]) -> list[str]:
        return list(dict.fromkeys(r.key for r in self.results if r.dtype in dtypes))

    def of(self, key: str, inputs: str) -> list[Result]:
        return [r for r in self.results if r.key == key and r.inputs == inputs]

    def grade(self, key: str, inputs: str) -> str:
        return max((r.values["grade"] for r in self.of(key, inputs)), key=GRADES.index, default="")

    def share(self, key: str, inputs: str) -> float:
        """The largest error as a share of grade A's bound; infinite where a result is."""
        shares = [r.values["share_of_A"] for r in self.of(key, inputs)]
        return max((math.inf if s is None else float(s) for s in shares), default=math.nan)


def load(path: Path) -> Accuracy:
    try:
        file = ladder.read_json(path)
        results = []
        for entry in file["entries"]:
            rung, dtype, inputs, _ = entry["name"].split("/")
            results.append(Result(rung, dtype, inputs, int(entry["k"]), entry))
        return Accuracy(file["context"], results)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: not a file of build/accuracy ({error})") from None


def measured(gpu: str, root: Path = ROOT, simulated: bool = False) -> Optional[Accuracy]:
    """That GPU's; with `simulated`, the simulator's where there is none."""
    for folder in [gpu] + (["simulator"] if simulated else []):
        path = ladder.folder_of(folder, root) / FILE
        if ladder.result_exists(path):
            return load(path)
    return None


# The table
# --------------------------------------------------------------------------------------------------


def cell(accuracy: Accuracy, key: str, inputs: str) -> str:
    grade = accuracy.grade(key, inputs)
    if not grade:
        return ""
    share = accuracy.share(key, inputs)
    return f"{grade} ({'not finite' if math.isinf(share) else number(share)})"


def number(x: float) -> str:
    """Two digits, without exponents up to a million."""
    return (
        f"{x:.1e}".replace("e+0", "e").replace("e+", "e") if x >= 1e4 else f"{float(f'{x:.2g}'):g}"
    )


def table(accuracy: Accuracy, dtype: str) -> str:
    """Rows: classes of inputs; columns: rungs. The worst over K of each."""
    keys = accuracy.keys(("f32", "tf32") if dtype == "f32" else (dtype,))
    if not keys:
        return "not measured"
    ids = ["v" + key[1 : key.index("_")].lstrip("0") for key in keys]
    titles = [i + (" TF32" if k.endswith("/tf32") else "") for i, k in zip(ids, keys)]
    lines = ["| inputs | " + " | ".join(titles) + " |", "|---" * (len(keys) + 1) + "|"]
    for inputs in accuracy.classes():
        cells = [cell(accuracy, key, inputs) for key in keys]
        lines.append(f"| {inputs} | {' | '.join(cells)} |")
    ks = sorted({r.k for r in accuracy.results})
    m, n = accuracy.results[0].values["m"], accuracy.results[0].values["n"]
    told = f"{m} x {n} x K, K from {ks[0]} to {ks[-1]}"
    if accuracy.on_gpu:
        told = f"One {accuracy.context['gpu']}, {told}."
    else:
        told = (
            f"In the simulator, {told}: its tensor cores round every addition to nearest, where a "
            "GPU's cut off, and v9 is OpenBLAS in FP32, TF32 included. The errors of products are "
            "a GPU's."
        )
    return "\n".join([*lines, "", told])


# The figure
# --------------------------------------------------------------------------------------------------


def finding(accuracy: Accuracy) -> str:
    """Which tensor-core rungs keep FP32's bound on every class, in the title."""
    good = [
        name.split(",")[0]
        for key, (_, name) in LINES.items()
        if key.split("/")[0] not in ("v13_ffma", "v09_cublas")
        and all(accuracy.grade(key, c) in ("A", "") for c in accuracy.classes())
        and any(r.key == key for r in accuracy.results)
    ]
    who = f"only {' and '.join(good)} keeps" if good else "none keeps"
    return f"Of the rungs on tensor cores {who} FP32's error bound on all inputs"


def draw(accuracy: Accuracy) -> Any:
    """The largest error against K, a panel a class of inputs."""
    import matplotlib.pyplot as plt

    from figures.overlay import label_ends

    fig, axes = plt.subplots(2, 2, figsize=(10, 7.6), sharex=True)
    fig.subplots_adjust(left=0.075, right=0.86, top=0.865, bottom=0.075, wspace=0.5, hspace=0.32)
    fig.text(0.01, 0.985, finding(accuracy), fontsize=13, fontweight="bold", va="top")
    where = accuracy.context.get("gpu", "simulator")
    told = f"{where}: errors against double precision, in units of 2^-24, a rounding of FP32; log scales"
    fig.text(0.01, 0.945, told, fontsize=8, color="#555555", va="top")
    for ax, (inputs, title) in zip(axes.flat, PANELS.items()):
        ks = sorted({r.k for r in accuracy.results if r.inputs == inputs})
        ax.plot(ks, [k + 2 for k in ks], ":", color="#aa0000", linewidth=1.2)
        ends = [("K + 2: grade A", "#aa0000", ks[-1], ks[-1] + 2)]
        for key, (tone, name) in LINES.items():
            points = sorted((r.k, r.values["error_max"]) for r in accuracy.of(key, inputs))
            points = [(k, e) for k, e in points if e]
            if not points:
                continue
            ax.plot(*zip(*points), color=tone, linewidth=1.6, marker=".", markersize=5)
            ends.append((name, tone, *points[-1]))
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(ks, [str(k) if k < 1024 else f"{k // 1024}K" for k in ks], fontsize=8)
        ax.minorticks_off()
        label_ends(fig, ax, ends)
        ax.set_title(title, fontsize=9, loc="left")
    for ax in axes.flat:
        ax.set_xlabel("K")
        ax.tick_params(labelbottom=True)
    for ax in axes[:, 0]:
        ax.set_ylabel("largest error / (|A||B|), in 2^-24")
    return fig


def figures(root: Path, gpu: str) -> dict[Path, Optional[Any]]:
    """For plot.py: every figure; None for one whose data are not there."""
    accuracy = measured(gpu, root)
    return {root / "plots" / "accuracy.svg": draw(accuracy) if accuracy else None}


def main() -> None:
    accuracy = (
        load(Path(sys.argv[1]))
        if len(sys.argv) > 1
        else measured(ladder.choose_gpu(None), simulated=True)
    )
    if not accuracy:
        raise BadInput("nothing measured: build/accuracy --json FILE writes it")
    for dtype in ("f32", "f16", "bf16"):
        if accuracy.keys((dtype,)):
            print(f"{dtype}\n\n{table(accuracy, dtype)}\n")


if __name__ == "__main__":
    exit_by(main)
