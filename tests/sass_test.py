"""What ptxas made of the order of two things: a producer waits for the kernel before
(griddepcontrol.wait, in SASS ACQBULK) when its first tile's place is known. Divisions (MUFU.RCP)
behind the wait delay the first load: 3 to 5 % at 512 to 1024 (plots/NOTES.md, "The wait that ptxas
moved"). The arguments are the rungs' objects. Without cuobjdump: exit 77, which CTest shows as
skipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import unittest
from pathlib import Path

RUNGS = ("v24_pingpong", "v24r_resident", "v25_split_k", "v26_stream_k", "v27_uneven", "v27w_wide")
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


class Reader(unittest.TestCase):
    def test_tells_what_is_between(self) -> None:
        def sass(*instructions: str) -> str:
            lines = [f"        /*{i:04x}*/   {text} ;" for i, text in enumerate(instructions)]
            return "\n".join(["\t\tFunction : gemm", *lines])

        wait, load, division = "ACQBULK", "UTMALDG.2D [UR8], [UR4]", "@P0 MUFU.RCP R0, R0"
        self.assertEqual(producers(sass(division, wait, load, division)), {"gemm": [0]})
        self.assertEqual(producers(sass(wait, division, load)), {"gemm": [1]})
        self.assertEqual(producers(sass(wait, division, "HGMMA.64x128x16.F32", load)), {})


class Order(unittest.TestCase):
    def test_no_division_between_wait_and_first_load(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung):
                [path] = [o for o in objects if o.name.startswith(rung + ".")]
                sass = subprocess.run(
                    [cuobjdump(), "-sass", path], check=True, capture_output=True, text=True
                ).stdout
                found = {k: v for k, v in producers(sass).items() if "repack" not in k}
                self.assertTrue(found, "no producer")
                late = [kernel for kernel, pairs in found.items() if any(pairs)]
                self.assertFalse(late, f"{len(late)} kernels of {len(found)}, such as {late[:1]}")


if __name__ == "__main__":
    if cuobjdump() is None:
        print("Skipped: no cuobjdump")
        sys.exit(77)
    objects = [Path(arg) for arg in sys.argv[1:]]
    unittest.main(argv=sys.argv[:1])
