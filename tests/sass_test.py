"""What ptxas made of two things that the source can only ask for (plots/NOTES.md). A producer
waits for the kernel before (griddepcontrol.wait, in SASS ACQBULK) when its first tile's place is
known: divisions (MUFU.RCP) behind the wait delay the first load, 3 to 5 % at 512 to 1024. And
wgmma's descriptors are computed in uniform registers: moving them there (R2UR) takes 1 % of what a
kernel alone does at the power limit. The arguments are the rungs' objects. Without cuobjdump, or
without code for sm_90a in the build: exit 77, which CTest shows as skipped."""

from __future__ import annotations

import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import unittest
from pathlib import Path

RUNGS = ("v27_engine", "v29_tiles")
UNIFORM = ("v17w_wgmma", "v18_pipeline", "v24_pingpong", "v27_engine", "v29_tiles")
NEAR = 30  # instructions from one wgmma of a k-tile to the next, at most
INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(\w+)")

objects: list[Path] = []


def cuobjdump() -> str | None:
    """The toolkit's, or that of the Python package nvidia-cuda-cuobjdump."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin"
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin", str(packages)])
    return shutil.which("cuobjdump", path=path)


def opcodes(sass: str) -> dict[str, list[str]]:
    """By kernel, in order."""
    found: dict[str, list[str]] = {}
    for line in sass.splitlines():
        if "Function :" in line:
            kernel = found.setdefault(line.split()[-1], [])
        elif match := INSTRUCTION.search(line):
            kernel.append(match[1])
    return found


def late_divisions(kernel: list[str]) -> list[int]:
    """Divisions between a wait and the load that follows it, for each such pair."""
    found: list[int] = []
    between = None
    for opcode in kernel:
        if opcode == "ACQBULK":
            between = 0
        elif opcode == "HGMMA":
            between = None  # a consumer's wait
        elif opcode == "UTMALDG" and between is not None:
            found.append(between)
            between = None
        elif opcode == "MUFU" and between is not None:
            between += 1
    return found


def moves(kernel: list[str]) -> int:
    """Values moved to uniform registers between two wgmma of a k-tile."""
    wgmma = [i for i, opcode in enumerate(kernel) if opcode == "HGMMA"]
    return sum(kernel[i:j].count("R2UR") for i, j in itertools.pairwise(wgmma) if j - i - 1 <= NEAR)


@functools.cache
def kernels(rung: str) -> dict[str, list[str]]:
    """Of the rung's file; the engine's configurations are v27's."""
    beginning = "configuration_" if rung == "v27_engine" else f"{rung}."
    found: dict[str, list[str]] = {}
    for path in (o for o in objects if o.name.startswith(beginning)):
        dump = [str(cuobjdump()), "-sass", "-arch", "sm_90a", str(path)]
        found |= opcodes(subprocess.run(dump, check=True, capture_output=True, text=True).stdout)
    return found


# Cooperative kernels of one consumer move them since they add up parts in a cluster: plots/NOTES.md.
KNOWN = re.compile(r"gemm_cooperative.*ELi0E")


class Reader(unittest.TestCase):
    def read(self, *instructions: str) -> list[str]:
        lines = [f"        /*{i:04x}*/   {text} ;" for i, text in enumerate(instructions)]
        return opcodes("\n".join(["\t\tFunction : gemm", *lines]))["gemm"]

    def test_tells_what_is_between(self) -> None:
        wait, load, division = "ACQBULK", "UTMALDG.2D [UR8], [UR4]", "@P0 MUFU.RCP R0, R0"
        wgmma = "HGMMA.64x128x16.F32"
        self.assertEqual(late_divisions(self.read(division, wait, load, division)), [0])
        self.assertEqual(late_divisions(self.read(wait, division, load)), [1])
        self.assertEqual(late_divisions(self.read(wait, division, wgmma, load)), [])

    def test_tells_what_is_moved(self) -> None:
        wgmma, move, other = "HGMMA.64x128x16.F32 R24", "@P0 R2UR UR4, R0", "UMOV UR5, UR6"
        self.assertEqual(moves(self.read(move, wgmma, move, other, wgmma, move)), 1)
        self.assertEqual(moves(self.read(wgmma, *[move] * (NEAR + 1), wgmma)), 0)


class Kernels(unittest.TestCase):
    def expect_none(self, bad: list[str], of: int) -> None:
        if bad:
            self.fail(f"{len(bad)} kernels of {of}, such as {bad[0]}")

    def test_no_division_between_wait_and_first_load(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung):
                found = {k: late_divisions(v) for k, v in kernels(rung).items()}
                producers = {k: v for k, v in found.items() if v}
                self.assertTrue(producers, "no producer")
                self.expect_none([k for k, v in producers.items() if any(v)], len(producers))

    def test_descriptors_stay_in_uniform_registers(self) -> None:
        for rung in UNIFORM:
            with self.subTest(rung=rung):
                found = {k: v for k, v in kernels(rung).items() if "HGMMA" in v}
                self.assertTrue(found, "no wgmma")
                bad = [k for k, v in found.items() if moves(v) and not KNOWN.search(k)]
                self.expect_none(bad, len(found))


if __name__ == "__main__":
    if cuobjdump() is None:
        print("Skipped: no cuobjdump")
        sys.exit(77)
    objects = [Path(arg) for arg in sys.argv[1:]]
    if not any(kernels(rung) for rung in RUNGS):
        print("Skipped: no code for sm_90a in this build")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
