"""scripts/flatten.py makes one file of a rung: no header of the project is included, each stands there
once, and nvcc compiles it. Without nvcc: exit 77, which CTest shows as skipped."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import flatten  # noqa: E402

from common import ladder  # noqa: E402

RUNGS = ladder.load_rungs()
HEADING = re.compile(r"^// ((?:src|kernels)/\S+)$", re.MULTILINE)


class EveryRung(unittest.TestCase):
    def test_has_all_of_the_project_once(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung.id):
                text = flatten.flatten(rung)
                self.assertFalse('#include "' in text)
                self.assertNotIn("sim/", "".join(HEADING.findall(text)))
                headings = HEADING.findall(text)
                self.assertEqual(len(headings), len(set(headings)))
                self.assertEqual(headings[-1], f"kernels/{rung.path.name}")
                self.assertFalse("[region" in text)

    def test_leaves_out_what_nothing_mentions(self) -> None:
        first = flatten.flatten(RUNGS[0])
        self.assertFalse("ALL_ACTIVATIONS" in first)
        self.assertTrue("struct Epilogue {" in first)


class Compiles(unittest.TestCase):
    """The shortest rung for any GPU, and the shortest that has TMA."""

    def test_by_nvcc_alone(self) -> None:
        if not (shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")):
            self.skipTest("no nvcc")
        kernels = [r for r in RUNGS if "__global__" in r.source]
        for wanted in (lambda r: r.sm == 0, lambda r: "tma_load" in r.source):
            rung = min(filter(wanted, kernels), key=lambda r: len(r.source))
            with self.subTest(rung=rung.id):
                command = [sys.executable, str(ROOT / "scripts" / "flatten.py"), rung.id, "--check"]
                run = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))


class Conditions(unittest.TestCase):
    def test_keeps_the_branches_of_nvcc(self) -> None:
        source = """\
#if GEMM_ON_GPU
gpu
#if X
x
#else
not x
#endif
#else
sim
#if X
x
#endif
#endif
#ifdef GEMM_SIM_TRACED
traced
#elif X
elif
#else
plain
#endif
#if !GEMM_ON_GPU && X
neither
#endif"""
        self.assertEqual(
            flatten.on_gpu(source.split("\n")),
            ["gpu", "#if X", "x", "#else", "not x", "#endif", "#if X", "elif", "#else", "plain"]
            + ["#endif"],
        )

    def test_drops_a_definition_that_nothing_mentions(self) -> None:
        header, rung = Path("header"), Path("rung")
        lines = "int used() {\n  return 1;\n}\n// A comment.\nint other() { return used(); }".split(
            "\n"
        )
        files = {header: flatten.definitions(lines), rung: [["int x = used();"]]}
        left = flatten.without_unused(files, rung)
        self.assertEqual(left[header], [["int used() {", "  return 1;", "}"]])


if __name__ == "__main__":
    unittest.main()
