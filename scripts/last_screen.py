#!/usr/bin/env python3
"""What scripts/bench.sh ends with where no GPU has timed anything.

scripts/last_screen.py                        the committed speeds of the core, and what to type next
scripts/last_screen.py [gemm_bench's options] the memory traffic of the rungs that they name, with that
                                              of the rung before a single one, from the simulator
"""

from __future__ import annotations

import re
import subprocess
import sys

import build
from common import course_path, ladder
from common.ladder import BadInput

MOST = 8  # rungs whose counters fit a screen


def cell(results: ladder.Results, rung: ladder.Rung, dtype: str) -> str:
    point = results.at(rung, dtype)
    return f"{point.tflops:.4g}" if point and not point.reason else ""


def committed_speeds() -> None:
    gpu = ladder.choose_gpu(None)
    results = ladder.results_of(gpu)
    if results is None:
        return
    name = results.context.get("gpu", gpu)
    print(
        f"\n== nothing was timed: the simulator has no clock. On one {name}, at 4096 x 4096 x 4096:\n"
    )
    print(f"{'rung':<6}{'f32':>8}{'f16':>8}  TFLOPS")
    for rung in ladder.load_rungs():
        speeds = [cell(results, rung, dtype) for dtype in ("f32", "f16")]
        if course_path.is_core(rung.name) and any(speeds):
            print(f"{rung.id:<6}{speeds[0]:>8}{speeds[1]:>8}  {rung.idea}")
    print(
        "\nThe picture is plots/climb.svg, the course begins in kernels/README.md. Next, type\n"
        "  scripts/bench.sh --kernel v8              v8 alone, and its memory traffic beside v7's\n"
        "  scripts/bench.sh --inspect --kernel v6    v6 line by line: requests, sectors, bank conflicts\n"
        "  scripts/bench.sh --kernel all             every rung, not the core alone"
    )


def counters(options: list[str]) -> None:
    rungs = ladder.load_rungs()
    chosen = build.named(rungs, build.value_of(options, "--kernel") or "")
    if not chosen or len(chosen) > MOST or build.value_of(options, "--gpus"):
        return
    if len(chosen) == 1 and chosen[0].prev:
        chosen.insert(0, ladder.find_rung(rungs, chosen[0].prev))
    asked = (build.value_of(options, "--dtype") or chosen[-1].dtypes[0]).split(",")[0]
    shown = [r for r in chosen if asked in r.dtypes and not r.is_baseline]
    if not shown:
        return
    inspect = ["--inspect", "--kernel", ",".join(r.id for r in shown), "--dtype", asked]
    subprocess.run([sys.executable, "scripts/build.py", "bench", *inspect], check=True)
    print(
        "\n== no GPU, so no time. What the kernels move instead, counted in the simulator:",
        flush=True,
    )
    done = subprocess.run(["./gemm_bench", *inspect], capture_output=True, text=True, check=False)
    table = re.split(r"\n[^\n]*: the lines that move the most\n", done.stdout)[0]
    print(table.rstrip())
    if done.stderr:
        print(done.stderr.rstrip(), file=sys.stderr)
    print(
        "\nNext, type\n"
        f"  scripts/bench.sh {' '.join(inspect)}    by source line\n"
        f"  scripts/bench.sh {' '.join(inspect)} --html page.html    a page for a browser\n"
        f"  less {shown[-1].chapter.relative_to(ladder.ROOT)}    its chapter"
    )


def main() -> int:
    if sys.argv[1:]:
        counters(sys.argv[1:])
    else:
        committed_speeds()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        ladder.fail(error)
