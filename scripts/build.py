#!/usr/bin/env python3
"""Builds what is asked, and no more.

  scripts/build.py bench [gemm_bench's options]   gemm_bench, with the rungs that these options name
  scripts/build.py tests   what the default tests need: nearly all rungs, most also for --inspect;
                           without a GPU nothing that nvcc compiles
  scripts/build.py more    what all tests need that run where this is
  scripts/build.py nvcc    a sample of each rung's GPU kernels, for checks on a machine without a GPU
  scripts/build.py gpu     all GPU kernels, also on a machine without a GPU, to run them on another
  scripts/build.py site    gemm_bench with all rungs, and what the site's pages are made with
  scripts/build.py configure   nothing yet: for a target that a script builds itself

Without --kernel, `bench` builds the core of the course. A rung stays in the build once it is there.
Exit status: 0, 1 a compiler refused something, 2 bad input.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from typing import Optional

from common import course_path, ladder
from common.ladder import ROOT, BadInput, Rung

BUILD = ROOT / "build"
USES = (
    "GPU",
    "SIM",
    "TRACED",
)  # as in CMakeLists.txt: kernels by nvcc, for results, and for --inspect
# What is compiled of a build with all rungs.
PROGRAMS = {
    "tests": ["all"],
    "more": ["all", "more"],
    "site": ["gemm_bench", "planted_bench"],
}
SHARDED = re.compile(r"m0*(\d+)")
INSIDE = ("--inspect", "--html")  # options that want instrumented kernels


def value_of(options: list[str], name: str) -> Optional[str]:
    """What `--name value` or `--name=value` says."""
    for option, following in zip(options, [*options[1:], ""]):
        if option == name:
            return following
        if option.startswith(name + "="):
            return option.partition("=")[2]
    return None


def depends(rungs: list[Rung], rung: Rung) -> set[str]:
    """The rung, and those that compute in its place: what it does not take, or all that it
    dispatches."""
    names = {rung.name}
    if rung.dispatches:
        for other in rungs:
            if other.plans and not other.dispatches:
                names |= depends(rungs, other)
    elif rung.plans and rung.prev:
        names |= depends(rungs, ladder.find_rung(rungs, rung.prev))
    return names


def named(rungs: list[Rung], spec: str) -> list[Rung]:
    """The rungs of --kernel's words; words that name none are left for gemm_bench to refuse."""
    chosen: list[Rung] = []
    for word in spec.split(","):
        try:
            if word in ("sgemm", "hgemm"):
                size = {"sgemm": ("f32", "tf32"), "hgemm": ("f16", "bf16")}[word]
                chosen += [r for r in rungs if set(size) & set(r.dtypes)]
            else:
                last = rungs[-1].id if word.endswith("-") else ""
                chosen += ladder.select_rungs(rungs, word + last)
        except BadInput:
            pass
    return chosen


def wanted(options: list[str]) -> dict[str, set[str]]:
    """Names of rungs by use, for these options of gemm_bench."""
    rungs = ladder.load_rungs()
    spec = value_of(options, "--kernel")
    if value_of(options, "--gpus"):
        sharded = {path.stem for path in (ROOT / "kernels").glob("m*.cu")}
        names = sharded | {name for r in rungs if r.dispatches for name in depends(rungs, r)}
        names |= {r.name for r in rungs if r.is_baseline}
    else:
        chosen = named(rungs, spec) if spec else [r for r in rungs if course_path.is_core(r.name)]
        names = {name for r in chosen for name in depends(rungs, r)}
    if any(option.split("=")[0] in INSIDE for option in options):
        return {"TRACED": names}
    on_gpu = has_gpu() and value_of(options, "--backend") != "sim"
    return {"GPU" if on_gpu else "SIM": names}


def tested() -> dict[str, set[str]]:
    """Names of the rungs of the default tests, by use: all but the tile layer's, which compiles
    longest. They inspect none of FP8, and one of those of several GPUs."""
    rungs = [r for r in ladder.load_rungs() if r.name != "v29_tiles"]
    sharded = {path.stem for path in (ROOT / "kernels").glob("m*.cu")}
    inspected = {r.name for r in rungs if not all(dtype.startswith("e") for dtype in r.dtypes)}
    return {"SIM": {r.name for r in rungs} | sharded, "TRACED": inspected | {"m03_peer_copies"}}


def has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None:
        return False
    return subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=False).returncode == 0


def configured() -> dict[str, str]:
    """What the build is configured for; empty: it is not."""
    cache = BUILD / "CMakeCache.txt"
    if not cache.exists() or not (BUILD / "build.ninja").exists():
        return {}
    return dict(re.findall(r"^(GEMM_\w+):\w+=(.*)$", cache.read_text(), re.MULTILINE))


def configure(rungs: dict[str, set[str]], cuda: bool, sample: bool) -> None:
    """Adds these rungs to the build's; {"all"} stands for all of them."""
    before = configured()
    options = {}
    for use in USES:
        had = set(before.get(f"GEMM_RUNGS_{use}", "none").split(";"))
        has = had | rungs.get(use, set())
        options[f"GEMM_RUNGS_{use}"] = (
            "all" if "all" in has else ";".join(sorted(has - {"none"})) or "none"
        )
    had_cuda = before.get("GEMM_CUDA") == "ON"
    had_all = had_cuda and before.get("GEMM_GPU_SAMPLE") == "OFF"
    wants_sample = sample if cuda else before.get("GEMM_GPU_SAMPLE") == "ON"
    options["GEMM_CUDA"] = "ON" if cuda or had_cuda else "OFF"
    options["GEMM_GPU_SAMPLE"] = "ON" if wants_sample and not had_all else "OFF"
    if all(before.get(key) == value for key, value in options.items()):
        return
    print(f"== building with {os.cpu_count()} cores", flush=True)
    command = ["cmake", "--preset", "release", *(f"-D{k}={v}" for k, v in options.items())]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}\nthe build could not be configured (above)")


def compile_targets(targets: list[str]) -> None:
    """Runs Ninja: on a terminal it counts in one line, elsewhere a line each half minute does."""
    start = time.monotonic()
    # Ninja would start two compilers more than there are cores: a tenth more work for two cores.
    command = ["ninja", "-C", str(BUILD), f"-j{os.cpu_count()}", *targets]
    if sys.stdout.isatty():
        environment = {**os.environ, "NINJA_STATUS": "[%f/%t, %e s] "}
        status = subprocess.run(command, env=environment, check=False).returncode
    else:
        status = count_steps(command)
    if status != 0:
        sys.exit("the build ends here: the compiler's words are above")
    if time.monotonic() - start > 1:
        print(f"== built in {time.monotonic() - start:.0f} s", flush=True)


def count_steps(command: list[str]) -> int:
    ninja = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    assert ninja.stdout is not None
    said = time.monotonic()
    failing = False
    for line in ninja.stdout:
        step = re.match(r"\[(\d+/\d+)\]", line)
        if step is None or failing:  # what a compiler says
            failing = failing or line.startswith("FAILED")
            if not line.startswith("ninja: Entering"):
                print(line, end="", flush=True)
        elif time.monotonic() - said > 30:
            said = time.monotonic()
            print(f"   {step[1]} steps", flush=True)
    return ninja.wait()


def main() -> int:
    arguments = sys.argv[1:]
    kind, options = (arguments[0], arguments[1:]) if arguments else ("", [])
    every = {"all"}
    if kind == "bench":
        rungs, first = wanted(options), not configured()
        configure(rungs, cuda="GPU" in rungs, sample=False)
        if first and "GPU" not in rungs and shutil.which("nvcc"):
            print(
                "== no GPU: nothing is compiled for one (scripts/build.py gpu does it all the same)"
            )
        compile_targets(["gemm_bench"])
    elif kind in PROGRAMS:
        gpu = has_gpu() and shutil.which("nvcc") is not None
        rungs = tested() if kind == "tests" else {"SIM": every, "TRACED": every}
        rungs |= {"GPU": every} if gpu else {}
        configure(rungs, cuda=gpu, sample=False)
        compile_targets(PROGRAMS[kind])
    elif kind == "configure":
        configure({}, cuda=False, sample=False)
    elif kind in ("nvcc", "gpu"):
        if shutil.which("nvcc") is None:
            raise BadInput("no nvcc: install the CUDA toolkit")
        configure({use: every for use in USES}, cuda=True, sample=kind == "nvcc" and not has_gpu())
        compile_targets(PROGRAMS["more"])
    else:
        raise BadInput(
            f"build.py: {kind or 'nothing'} asked for; allowed are bench, tests, more, nvcc, gpu, site, configure"
        )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        ladder.fail(error)
    except KeyboardInterrupt:
        sys.exit(130)
