"""No kernel spills registers, needs a stack frame or has its wgmma serialised, by ptxas's own
words. GEMM_PTXAS_DIR holds one text per file, the output of nvcc -Xptxas -v. Without it (no CUDA
in the build): exit 77, which CTest shows as skipped."""

from __future__ import annotations

import os
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from common import ladder  # noqa: E402

# "Function properties for X" is followed by the sizes of X, on the same line or the next.
SIZES = re.compile(
    r"Function properties for (\S+)\s+"
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
)
# Each wgmma then waits for the one before: a kernel at two thirds of its speed.
SERIALISED = re.compile(
    r"wgmma\.mma_async instructions are serialized due to (.*?) in the function '(\S+?)'"
)


# Row panels of 128 x 192 with the whole epilogue spill where C^T is computed: up to 168 bytes of stack.
# Fewer reads of C at once left two thirds of it (plots/NOTES.md).
# v17u has all 128 registers, and spills 4 bytes across a k-tile's loads in layouts nn and tt, in clusters
# also in tn.
KNOWN = re.compile(
    r"gemm_row_panels.*FusedArgs.*Li4ELNS0_5MajorE[01]ELb1E|gemm_v17u.*MajorE(0ELS4_1|1ELS4_0)E.*, 4 spill stores"
    r"|gemm_v17u.*MajorE1ELS4_1ELi4ELb1E.*, 4 spill stores"
)


def excesses(log: str) -> list[str]:
    """A line a kernel that has a stack frame or spills, or whose wgmma are serialised."""
    return [f"{name}: wgmma serialised: {why}" for why, name in SERIALISED.findall(log)] + [
        f"{name}: {stack} bytes stack frame, {stores} spill stores, {loads} spill loads"
        for name, stack, stores, loads in SIZES.findall(log)
        if (stack, stores, loads) != ("0", "0", "0")
    ]


class Reader(unittest.TestCase):
    def test_finds_spills_and_stack_frames(self) -> None:
        log = """\
ptxas info    : Compiling entry function '_Z8gemm_v05' for 'sm_90'
ptxas info    : Function properties for _Z8gemm_v05
    {} bytes stack frame, {} bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 1 barriers
"""
        self.assertEqual(excesses(log.format(0, 0)), [])
        self.assertEqual(len(excesses(log.format(16, 0))), 1)
        self.assertEqual(len(excesses(log.format(0, 4) + log.format(0, 0))), 1)

    def test_finds_serialised_wgmma(self) -> None:
        log = (
            "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are"
            " serialized due to non wgmma instructions defining accumulator registers of a wgmma"
            " between start and end of the pipeline stage in the function '_Z8gemm_v24'\n"
        )
        self.assertEqual(len(excesses(log)), 1)


class Resources(unittest.TestCase):
    def test_no_kernel_spills(self) -> None:
        folder = Path(os.environ["GEMM_PTXAS_DIR"])
        for rung in ladder.load_rungs(ROOT):
            if "__global__" not in ladder.strip_comments(rung.source):
                continue  # a library call has no kernel of ours
            with self.subTest(rung=rung.name):
                logs = "\n".join(p.read_text() for p in sorted(folder.glob(f"{rung.name}*.txt")))
                kernels = [name for name, *_ in SIZES.findall(logs) if f"gemm_{rung.tag}" in name]
                self.assertTrue(kernels, f"no ptxas log of gemm_{rung.tag} in {folder}")
        for path in sorted(folder.glob("*.txt")):
            with self.subTest(file=path.stem):
                found = [e for e in excesses(path.read_text()) if not KNOWN.search(e)]
                self.assertEqual(found, [])


if __name__ == "__main__":
    if not os.environ.get("GEMM_PTXAS_DIR"):
        print("Skipped: GEMM_PTXAS_DIR is not set (no CUDA in this build)")
        sys.exit(77)
    unittest.main()
