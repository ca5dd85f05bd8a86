"""The phases of a run as a profiler sees them: NVTX ranges in a domain of their own, properly
nested. NVTX_CONSUMER is the path of a library that records them (nvtx_consumer.cpp). Without it (no
NVTX headers in the build): exit 77, which CTest shows as skipped."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("--backend", "sim", "--shape", "33x17x5", "--dtype", "f32")


@dataclass
class Range:
    name: str
    inside: list[Range] = field(default_factory=list)

    def names(self) -> list[str]:
        return [r.name for r in self.inside]


def recorded(*args: str, status: int = 0) -> Range:
    """What gemm_bench opened and closed with these arguments, as a tree."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "ranges.txt")
        environment = {
            **os.environ,
            "NVTX_INJECTION64_PATH": os.environ["NVTX_CONSUMER"],
            "NVTX_RECORD": str(record),
        }
        command = [os.environ["GEMM_BENCH"], *args]
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment
        )
        assert run.returncode == status, run.stdout + run.stderr
        lines = record.read_text().splitlines() if record.exists() else []
    open_ranges = [Range("")]
    for line in lines:
        event, domain, *name = line.split(" ", 2)
        assert domain == "gemm_ladder", line
        if event == "push":
            open_ranges[-1].inside.append(Range(name[0]))
            open_ranges.append(open_ranges[-1].inside[-1])
        else:
            assert len(open_ranges) > 1, "a range is closed that was never opened"
            open_ranges.pop()
    assert len(open_ranges) == 1, f"{open_ranges[-1].name} is never closed"
    return open_ranges[0]


class Nvtx(unittest.TestCase):
    def test_phases_of_a_verification(self) -> None:
        passes = ["sums of integers, ld + 64", "single products, ld + 64"]
        passes += ["sums of integers", "uniform inputs", "single products"]
        passes += ["single products, once more"]
        run = recorded(*SMALL, "--kernel", "v1,v2", "--verify-only")
        self.assertEqual(run.names(), ["v01_naive/f32/nn/33x17x5", "v02_block_tile/f32/nn/33x17x5"])
        for rung, job in zip(("v01_naive", "v02_block_tile"), run.inside):
            self.assertEqual(job.names(), [f"verify {rung}"])
            verify = job.inside[0]
            self.assertEqual(verify.names(), passes)
            # Once a problem, where it is needed first.
            references = [p.name for p in verify.inside if p.names() == ["reference on the CPU"]]
            others = [p.name for p in verify.inside if p.inside and p.name not in references]
            first = ["uniform inputs"] if rung == "v01_naive" else []
            self.assertEqual((references, others), (first, []))

    def test_a_skipped_rung_has_no_range(self) -> None:
        run = recorded(*SMALL, "--kernel", "v2", "--op", "tn", "--verify-only", status=2)
        self.assertEqual(run.names(), [])

    def test_every_problem_has_its_ranges(self) -> None:
        run = recorded(*SMALL, "--shape", "16x16x16", "--kernel", "v1")
        self.assertEqual(run.names(), ["v01_naive/f32/nn/33x17x5", "v01_naive/f32/nn/16x16x16"])


if __name__ == "__main__":
    if not os.environ.get("NVTX_CONSUMER"):
        print("Skipped: NVTX_CONSUMER is not set (no nvtx3/nvToolsExt.h when this was built)")
        sys.exit(77)
    unittest.main()
