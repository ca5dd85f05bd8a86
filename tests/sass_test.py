"""What ptxas made of two things that the source can only ask for (plots/NOTES.md). A producer
waits for the kernel before (griddepcontrol.wait, in SASS ACQBULK) when its first tile's place is
known: divisions (MUFU.RCP) behind the wait delay the first load, 3 to 5 % at 512 to 1024. And
wgmma's descriptors are computed in uniform registers: moving them there (R2UR) takes 1 % of what a
kernel alone does at the power limit. The arguments are the rungs' objects. Without cuobjdump: exit
77, which CTest shows as skipped."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import unittest
from pathlib import Path

RUNGS = ("v24_pingpong", "v24r_resident", "v25_split_k", "v26_stream_k", "v27_uneven", "v27w_wide")
UNIFORM = ("v24_pingpong", "v26_stream_k", "v27_uneven", "v27w_wide")
NEAR = 30  # instructions from one wgmma of a slice to the next, at most
STEPS = {"ACQBULK": "wait", "UTMALDG": "load", "HGMMA": "wgmma", "MUFU": "division"}
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\w+)")

objects: list[Path] = []


def cuobjdump() -> str | None:
    """The toolkit's, or that of the Python package nvidia-cuda-cuobjdump."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin"
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin", str(packages)])
    return shutil.which("cuobjdump", path=path)


def producers(sass: str) -> dict[str, list[int]]:
    """By kernel: divisions between a wait and the load that follows it, for each such pair."""
    found: dict[str, list[int]] = {}
    kernel, between = "", None
    for line in sass.splitlines():
        if "Function :" in line:
            kernel, between = line.split()[-1], None
        elif match := INSTRUCTION.search(line):
            step = STEPS.get(match[1])
            if step == "wait":
                between = 0
            elif step == "wgmma":
                between = None  # a consumer's wait
            elif step == "load" and between is not None:
                found.setdefault(kernel, []).append(between)
                between = None
            elif step == "division" and between is not None:
                between += 1
    return found


def moves(sass: str) -> dict[str, int]:
    """By kernel: values moved to uniform registers between two wgmma of a slice."""
    found: dict[str, int] = {}
    kernel, since = "", None
    for line in sass.splitlines():
        if "Function :" in line:
            kernel, since = line.split()[-1], None
        elif match := INSTRUCTION.search(line):
            if match[1] == "HGMMA":
                found.setdefault(kernel, 0)
                if since is not None and len(since) <= NEAR:
                    found[kernel] += since.count("R2UR")
                since = []
            elif since is not None:
                since.append(match[1])
    return found


@functools.cache
def read_sass(rung: str) -> str:
    [path] = [o for o in objects if o.name.startswith(rung + ".")]
    return subprocess.run(
        [cuobjdump(), "-sass", path], check=True, capture_output=True, text=True
    ).stdout


class Reader(unittest.TestCase):
    def sass(self, *instructions: str) -> str:
        lines = [f"        /*{i:04x}*/   {text} ;" for i, text in enumerate(instructions)]
        return "\n".join(["\t\tFunction : gemm", *lines])

    def test_tells_what_is_between(self) -> None:
        sass = self.sass
        wait, load, division = "ACQBULK", "UTMALDG.2D [UR8], [UR4]", "@P0 MUFU.RCP R0, R0"
        self.assertEqual(producers(sass(division, wait, load, division)), {"gemm": [0]})
        self.assertEqual(producers(sass(wait, division, load)), {"gemm": [1]})
        self.assertEqual(producers(sass(wait, division, "HGMMA.64x128x16.F32", load)), {})

    def test_tells_what_is_moved(self) -> None:
        wgmma, move, other = "HGMMA.64x128x16.F32 R24", "@P0 R2UR UR4, R0", "UMOV UR5, UR6"
        self.assertEqual(moves(self.sass(move, wgmma, move, other, wgmma, move)), {"gemm": 1})
        self.assertEqual(moves(self.sass(wgmma, *[move] * (NEAR + 1), wgmma)), {"gemm": 0})


class Kernels(unittest.TestCase):
    def test_no_division_between_wait_and_first_load(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung):
                found = {k: v for k, v in producers(read_sass(rung)).items() if "repack" not in k}
                self.assertTrue(found, "no producer")
                late = [kernel for kernel, pairs in found.items() if any(pairs)]
                if late:
                    self.fail(f"{len(late)} kernels of {len(found)}, such as {late[0]}")

    def test_descriptors_stay_in_uniform_registers(self) -> None:
        for rung in UNIFORM:
            with self.subTest(rung=rung):
                found = moves(read_sass(rung))
                self.assertTrue(found, "no wgmma")
                moved = [kernel for kernel, count in found.items() if count > 0]
                if moved:
                    self.fail(f"{len(moved)} kernels of {len(found)}, such as {moved[0]}")


if __name__ == "__main__":
    if cuobjdump() is None:
        print("Skipped: no cuobjdump")
        sys.exit(77)
    objects = [Path(arg) for arg in sys.argv[1:]]
    unittest.main(argv=sys.argv[:1])
