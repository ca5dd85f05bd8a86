#!/usr/bin/env python3
"""Counts the instructions that NVRTC makes of v29's kernel, for any call and for one, and writes
plots/results/simulator/jit_instructions.json.

Asks jit_cubins, which stands beside gemm_bench ($GEMM_BENCH, or ./gemm_bench), and nvdisasm. No GPU
is needed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from common.ladder import ROOT, BadInput, fail

FILE = Path("plots/results/simulator/jit_instructions.json")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([\w.]+)(?:.*`\((\.L_\w+)\))?")
LABEL = re.compile(r"^(\.L_\w+):")
PRODUCTS = ("HGMMA", "HMMA", "FFMA")


def nvdisasm() -> str:
    """The toolkit's, or that of the Python package nvidia-cuda-nvdisasm."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin"
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin", str(packages)])
    found = shutil.which("nvdisasm", path=path)
    if found is None:
        raise BadInput("no nvdisasm: want a CUDA toolkit's, or that of scripts/setup.sh")
    return found


def run(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BadInput(f"{words[0]}: {error.strerror}; build it first") from None
    if done.returncode != 0:
        raise BadInput((done.stderr or done.stdout).strip())
    return done.stdout


def counted(sass: str) -> tuple[int, int]:
    """Instructions of a kernel, and of its shortest loop that multiplies."""
    labels: dict[str, int] = {}
    opcodes: list[str] = []
    loops: list[int] = []
    for line in sass.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(opcodes)
        elif found := INSTRUCTION.match(line):
            opcodes.append(found[1].split(".")[0])
            begin = labels.get(found[2] or "")
            if opcodes[-1] == "BRA" and begin is not None:
                body = opcodes[begin:]
                if sum(body.count(product) for product in PRODUCTS) > 1:
                    loops.append(len(body))
    if not loops:
        raise BadInput("a kernel without a main loop")
    return len(opcodes), min(loops)


def measured(cubins: Path) -> dict[str, Any]:
    kernels: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for line in run(str(cubins), folder).splitlines():
            file, arch, dtype, loop, shape, _ = line.split("\t")
            total, main_loop = counted(run(nvdisasm(), "-c", str(Path(folder, file))))
            kernels.append(
                {"arch": arch, "dtype": dtype, "loop": loop, "shape": shape}
                | {"instructions": total, "main_loop": main_loop}
            )
    return {"kernels": kernels}


def table(found: dict[str, Any]) -> str:
    """For the chapter: a row for each main loop and shape."""
    lines = [
        "| main loop | compiled for | instructions in all | in the loop over a k-tile |",
        "|---|---|---:|---:|",
    ]
    for k in found["kernels"]:
        shape = "any call" if k["shape"] == "any" else k["shape"].replace("x", " x ")
        lines.append(
            f"| `{k['loop']}`, {k['dtype']}, {k['arch']} | {shape} "
            f"| {k['instructions']} | {k['main_loop']} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    bench = Path(os.environ.get("GEMM_BENCH") or ROOT / "gemm_bench")
    found = measured(bench.resolve().parent / "jit_cubins")
    rows = ",\n    ".join(json.dumps(kernel) for kernel in found["kernels"])
    (ROOT / FILE).write_text(f'{{\n  "kernels": [\n    {rows}\n  ]\n}}\n', encoding="utf-8")
    print(f"{FILE}: written")


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        fail(error)
