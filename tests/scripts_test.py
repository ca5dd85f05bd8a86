"""The scripts that a person types, but for those of figures and of pages."""

from __future__ import annotations

import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from made_up_ladder import ROOT, SCRIPTS, Fixture, entry

import compare_counters
import ladder_diff
import mutate
from common import ladder, mutations, runs


class Ladder(Fixture):
    def test_rungs(self) -> None:
        first, second, third = ladder.load_rungs(self.root)
        self.assertEqual((second.id, second.tag, second.name), ("v2", "v02", "v02_second"))
        self.assertEqual((second.prev, second.idea), ("v1", "made-up second"))
        self.assertEqual((first.dtypes, third.dtypes), (("f32", "f16"), ("tf32",)))

    def test_a_file_needs_exactly_one_registration(self) -> None:
        (self.root / "kernels/v04_none.cu").write_text("// const Registration rung({}, {});\n")
        with self.assertRaisesRegex(ladder.BadInput, "v04_none.cu: 0 registrations"):
            ladder.load_rungs(self.root)

    def test_variants_follow_their_rung(self) -> None:
        self.kernel("v10_x", "v3", 1, "f16(launch<half>)")
        shutil.copy(self.root / "kernels/v01_first.cu", self.root / "kernels/v01u_variant.cu")
        ids = [r.id for r in ladder.load_rungs(self.root)]
        self.assertEqual(ids, ["v1", "v1u", "v2", "v3", "v10"])

    def test_device_code_of_a_rung(self) -> None:
        source = (
            '#include <vector>\n#include "device/ptx/mma.cuh"\n#include "{}"\n#include "rung.h"'
        )
        for path, beside, found in (
            ("kernels/v02_x.cu", "v02_x/loop.cuh", "kernels/v02_x/loop.cuh"),
            ("kernels/v02_x/loop.cuh", "work.cuh", "kernels/v02_x/work.cuh"),
        ):
            self.assertEqual(
                ladder.device_includes(path, source.format(beside)),
                ["src/device/ptx/mma.cuh", found],
            )

    def test_runs_from_before_a_rename_are_read(self) -> None:
        names = {rung.name: rung.id for rung in ladder.load_rungs(ROOT)}
        for before, now in ladder.RENAMED.items():
            self.assertNotIn(before, names)
            self.assertEqual(runs.rung_id(before), names[now], "an id is permanent")
            self.measure([entry(before, "f16", 4096, 500, 600)])
            path = self.root / "plots/results/h200/ladder.json"
            self.assertEqual(list(ladder.load_results(path).points), [(now, "f16")])
            self.assertEqual(list(runs.load(path).entries), [f"{now}/f16/nn/4096x4096x4096"])

    def test_a_packed_result_is_read_by_its_plain_name(self) -> None:
        self.measure([entry("v01_first", "f16", 4096, 500, 600)])
        path = self.root / "plots/results/h200/ladder.json"
        plain = ladder.read_json(path)
        packed = path.with_name("ladder.json.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        for name in (path, packed):
            self.assertEqual(ladder.read_json(name), plain)
            self.assertEqual(len(runs.load(name).entries), 1)
        self.assertTrue(ladder.result_exists(path))
        self.assertEqual(ladder.results_in(path.parent), [path])
        self.assertEqual(ladder.reference_gpu(self.root), "h200")
        packed.write_bytes(packed.read_bytes()[:40])
        with self.assertRaises(ladder.BadInput):
            runs.load(path)

    def test_folder_of_a_gpu(self) -> None:
        self.assertEqual(ladder.gpu_slug("NVIDIA H200"), "h200")
        self.assertEqual(ladder.gpu_slug("NVIDIA GeForce RTX 4090"), "rtx-4090")


class Diff(Fixture):
    def test_counts_the_idea_and_leaves_out_what_moved(self) -> None:
        rungs = ladder.load_rungs(self.root)
        d = ladder_diff.diff(rungs[1], rungs, ladder_diff.device_sources(self.root))
        self.assertEqual((d.idea, d.outside, d.moved), (1, 2, ("work",)))  # loop; include, finish
        self.assertIn("+  finish(2);", d.text)
        for left_out in ("comment", "before:", "Registration", "gemm_v0", "step(i)"):
            self.assertNotIn(left_out, d.text.replace('"// not a comment"', ""))
        self.assertNotIn("http", d.text.replace('"http://x"', ""))  # a string is no comment

    def test_finds_what_moved_into_a_folder(self) -> None:
        work = self.root / "src/device/work.cuh"
        (work.parent / "ptx").mkdir()
        work.rename(work.parent / "ptx/work.cuh")
        rungs = ladder.load_rungs(self.root)
        d = ladder_diff.diff(rungs[1], rungs, ladder_diff.device_sources(self.root))
        self.assertEqual(d.moved, ("work",))

    def test_equal_rungs_have_no_diff(self) -> None:
        rungs = ladder.load_rungs(self.root)
        d = ladder_diff.diff(rungs[2], rungs, "")
        self.assertEqual((d.idea, d.outside), (0, 0))

    def test_unknown_rung(self) -> None:
        run = subprocess.run(
            [sys.executable, SCRIPTS / "ladder_diff.py", "v999"], capture_output=True, text=True
        )
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, r"\Aunknown rung 'v999'; known: v1 .*\n\Z")


class Lint(unittest.TestCase):
    def test_each_tool_finds_its_own(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / ".venv").symlink_to(Path(sys.prefix))
            for name in ("scripts/common", "tests"):
                (root / name).mkdir(parents=True)
            for name in ("bench", "examples", "exercises", "python"):  # mypy wants a file in each
                (root / name).mkdir()
                (root / name / f"of_{name}.py").write_text("y: int = 1\n")
            for name in (".clang-format", ".shellcheckrc", "pyproject.toml"):
                shutil.copy(ROOT / name, root / name)
            for name in ("lint.py", "common/ladder.py"):
                shutil.copy(SCRIPTS / name, root / "scripts" / name)
            subprocess.run(["git", "init", "--quiet", root], check=True)

            everything = ["clang-format", "ruff check", "ruff format", "mypy", "shellcheck"]
            names = "|".join(everything)

            def lint(*args: str) -> tuple[int, list[str]]:
                run = subprocess.run(
                    [sys.executable, root / "scripts/lint.py", *args],
                    capture_output=True,
                    text=True,
                )
                return run.returncode, re.findall(
                    rf"^({names}): (?!clean)", run.stdout, re.MULTILINE
                )

            (root / "run").write_text('#!/usr/bin/env bash\necho "$1"\n')
            (root / "tests/a.py").write_text("x: int = 1\n")
            self.assertEqual(lint(), (0, []))
            (root / "a.cu").write_text("int  f( );\n")
            (root / "run").write_text("#!/usr/bin/env bash\necho $1\n")
            (root / "tests/a.py").write_text("import os\nx: int = ''\n")
            self.assertEqual(lint(), (1, everything))
            self.assertEqual(lint("--fix"), (1, ["mypy", "shellcheck"]))
            self.assertEqual((root / "a.cu").read_text(), "int f();\n")


class Grade(unittest.TestCase):
    def grade(self, *args: str) -> subprocess.CompletedProcess:
        return subprocess.run([SCRIPTS / "grade.sh", *args], capture_output=True, text=True)

    def test_help_and_unknown_exercise(self) -> None:
        self.assertIn("scripts/grade.sh ex03", self.grade("--help").stdout)
        run = self.grade("ex99")
        self.assertEqual(run.returncode, 2)
        self.assertRegex(run.stderr, "no exercise 'ex99'; there are: ex01 ex02 ")


class Timeline(unittest.TestCase):
    SYSTEM = "/usr/bin:/bin"
    FOLDERS = ("/usr/local/cuda*/bin", "/usr/local/cuda*/nsight*/bin", "/opt/nvidia/nsight*/*/bin")
    INSTALLED = shutil.which("nsys", path=SYSTEM) or [
        found for folder in FOLDERS for found in glob.glob(f"{folder}/nsys")
    ]

    def timeline(self, folder: Path, path: str, *args: str) -> subprocess.CompletedProcess:
        environment = {"PATH": path, "HOME": str(folder), "CUDA_HOME": str(folder)}
        command = [str(SCRIPTS / "timeline.sh"), *args]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def test_records_that_rung_with_those_options(self) -> None:
        with tempfile.TemporaryDirectory() as made:
            nsys = Path(made, "nsys")
            nsys.write_text(f'#!/bin/sh\necho "$@" >> {made}/calls\n')
            nsys.chmod(0o755)
            run = self.timeline(Path(made), f"{made}:{self.SYSTEM}", "v24", "--size", "512")
            self.assertEqual(run.returncode, 0, run.stderr)
            recorded, summed = Path(made, "calls").read_text().splitlines()
        self.assertRegex(recorded, r"^profile .*--trace=cuda,nvtx")
        bench = "./gemm_bench --backend gpu --kernel v24_pingpong --size 512"
        self.assertTrue(recorded.endswith(bench), recorded)
        self.assertRegex(summed, r"^stats .*--report nvtx_sum .*/v24_pingpong\.nsys-rep$")
        self.assertIn("report: build/timeline/v24_pingpong.nsys-rep", run.stdout)

    @unittest.skipIf(INSTALLED, "a real nsys would be found first")
    def test_found_in_its_usual_folder(self) -> None:
        with tempfile.TemporaryDirectory() as made:
            nsys = Path(made, "nsight-systems-2025.1", "bin", "nsys")
            nsys.parent.mkdir(parents=True)
            nsys.write_text(f"#!/bin/sh\ntouch {made}/called\n")
            nsys.chmod(0o755)
            run = self.timeline(Path(made), self.SYSTEM, "v1")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertTrue(Path(made, "called").exists())

    def test_bad_input_is_one_line(self) -> None:
        with tempfile.TemporaryDirectory() as made:
            for args, says in (
                ((), "usage: scripts/timeline.sh RUNG"),
                (("v99",), "unknown rung 'v99'"),
                (("v1",), "nsys .Nsight Systems"),
            ):
                if args == ("v1",) and self.INSTALLED:
                    continue
                run = self.timeline(Path(made), self.SYSTEM, *args)
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertRegex(run.stderr, f"^{says}")
                self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)


class TileLanguage(unittest.TestCase):
    def test_multiplies(self) -> None:
        import numpy as np

        import tile_language

        for m, n, k in ((64, 32, 16), (130, 70, 33), (1, 1, 1), (5, 100, 7)):
            A = np.arange(m * k, dtype=np.float32).reshape(m, k) % 7 - 3
            B = np.arange(k * n, dtype=np.float32).reshape(k, n) % 5 - 2
            C = np.full((m, n), np.nan, np.float32)
            tile_language.gemm(A, B, C)
            np.testing.assert_array_equal(C, A @ B)


class NewRung(Fixture):
    def test_creates_a_rung_that_is_complete(self) -> None:
        self.script("new_rung.py", "v04_fourth", "--prev", "v2")
        rungs = ladder.load_rungs(self.root)
        rung = ladder.find_rung(rungs, "v4")
        self.assertEqual(rung.prev, "v2")
        self.assertIn("gemm_v04", rung.source)
        self.assertNotIn("v02", rung.source)
        self.assertTrue(rung.source.startswith("// v4 fourth: "))
        d = ladder_diff.diff(rung, rungs, ladder_diff.device_sources(self.root))
        self.assertEqual((d.idea, d.outside), (0, 0))
        self.assertEqual(self.script("embed.py", "--check", str(rung.chapter)), "")

    def test_refuses(self) -> None:
        before = sorted(os.listdir(self.root / "kernels"))
        for name, prev, told in (
            ("v02_again", "v1", "v2 exists: kernels/v02_second.cu"),
            ("fourth", "v2", "is named like v11_warp_tiling"),
            ("v4", "v2", "is named like v11_warp_tiling"),
            ("../v04_x", "v2", "is named like v11_warp_tiling"),
            ("v04_x", "v9", "unknown rung 'v9'; known: v1 v2 v3"),
            ("v00_x", "v2", "v2 does not come before v0"),
        ):
            with self.subTest(name=name):
                self.assertIn(told, self.script("new_rung.py", name, "--prev", prev, status=2))
        self.assertEqual(sorted(os.listdir(self.root / "kernels")), before)


class Counters(unittest.TestCase):
    """compare_counters.py --check, with a stand-in for gemm_bench."""

    def changes(self, committed: dict, today: dict) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            file = root / compare_counters.SIMULATED
            file.parent.mkdir(parents=True)
            file.write_text(json.dumps({"benchmarks": [committed]}))
            (root / "today.json").write_text(json.dumps({"benchmarks": [today]}))
            bench = root / "bench"
            bench.write_text(f'#!/bin/sh\nfor file; do :; done\ncp {root}/today.json "$file"\n')
            bench.chmod(0o755)
            return compare_counters.changes(bench, root)

    def test_the_kernels_of_today_are_counted(self) -> None:
        entry = {"name": "v01_naive/f32/nn/1024x1024x1024", "barriers": 0}
        loads = {"requests": 8, "sectors": 32}
        self.assertEqual(
            self.changes({**entry, "global_loads": loads}, {**entry, "global_loads": loads}), []
        )
        (change,) = self.changes(
            {**entry, "global_loads": loads}, {**entry, "global_loads": {**loads, "sectors": 160}}
        )
        self.assertIn("v01_naive/f32/nn/1024x1024x1024, global_loads: ", change)
        self.assertIn("'sectors': 160} today", change)
        (gone,) = self.changes(entry, {**entry, "name": "v01_naive/f16/nn/1024x1024x1024"})
        self.assertIn("not counted today", gone)


class Mutants(unittest.TestCase):
    """What mutate.py makes of its list; CTest's `mutants` runs some of them."""

    def test_every_entry_is_found_once_and_reasoned(self) -> None:
        for mutation in mutations.MUTATIONS:
            self.assertNotEqual(
                mutate.mutated(mutation), (ROOT / mutation.file).read_text(encoding="utf-8")
            )
            self.assertNotEqual(mutate.rungs_of(mutation), [], mutation.name)
            self.assertEqual(bool(mutation.reason), mutation.expected != mutations.CAUGHT)
        names = [mutation.name for mutation in mutations.MUTATIONS]
        self.assertEqual(len(set(names)), len(names))
        self.assertGreaterEqual(len(names), 100)

    def test_a_stale_entry_is_bad_input(self) -> None:
        for text in ("no such text", "p."):
            stale = mutations.of_rung("v01_naive", "stale", text, "")
            with self.assertRaisesRegex(ladder.BadInput, "the entry is stale"):
                mutate.mutated(stale)

    def test_what_survives_unexpectedly_is_told(self) -> None:
        fine = mutations.of_rung("v01_naive", "a", "", "")
        meant = mutations.of_rung("v01_naive", "b", "", "", mutations.EQUIVALENT, "why")
        outcomes = [
            mutate.Outcome(fine, "results", "Test", 1),
            mutate.Outcome(fine, "", "", 1),
            mutate.Outcome(meant, "", "", 1),
            mutate.Outcome(meant, "results", "Test", 1),
        ]
        self.assertEqual([o.as_expected for o in outcomes], [True, False, True, False])
        self.assertEqual(
            mutate.summary(outcomes),
            "4 mutants: 2 caught (0 by tiles, 2 by results, 0 by findings, 0 by counters); "
            "1 explained (1 equivalent); 1 survived",
        )


if __name__ == "__main__":
    unittest.main()
