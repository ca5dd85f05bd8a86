"""The command line of gemm_bench: what is accepted, what is refused and how. GEMM_BENCH is the path
of the executable."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import ladder  # noqa: E402

RUNGS = ladder.load_rungs(ROOT)
SMALL = ("--backend", "sim", "--shape", "33x17x5")


def bench(*args: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [os.environ["GEMM_BENCH"], *args], capture_output=True, text=True, timeout=300, cwd=ROOT
    )


class Accepted(unittest.TestCase):
    def entries(self, *args: str) -> list[dict]:
        """Runs with --json, which must succeed, and returns the benchmarks in it."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "run.json")
            run = bench(*SMALL, *args, "--json", str(file))
            self.assertEqual(run.returncode, 0, run.stderr)
            result = json.loads(file.read_text())
            self.assertEqual(result["context"]["executable"], "gemm_bench", "no path")
            return result["benchmarks"]

    def chosen(self, *args: str) -> set[tuple[str, str]]:
        """(rung's name, dtype) of every entry."""
        return {tuple(e["name"].split("/")[:2]) for e in self.entries(*args)}

    def of(self, *dtypes: str) -> set[tuple[str, str]]:
        return {(r.name, d) for r in RUNGS for d in r.dtypes if d in dtypes}

    def test_list_and_help(self) -> None:
        run = bench("--list")
        self.assertEqual(run.returncode, 0, run.stderr)
        for rung in RUNGS:
            self.assertIn(rung.idea, run.stdout)
        usage = bench("--help")
        self.assertEqual(usage.returncode, 0, usage.stderr)
        for flag in (
            "--kernel",
            "--dtype",
            "--size",
            "--shape",
            "--backend",
            "--json",
            "--verify-only",
        ):
            self.assertIn(flag, usage.stdout)

    def test_json_names_every_entry(self) -> None:
        names = {e["name"] for e in self.entries("--kernel", "v1-v3")}
        first = [r for r in RUNGS if r.order <= (3, "")]
        self.assertEqual(names, {f"{r.name}/{d}/nn/33x17x5" for r in first for d in r.dtypes})

    def test_the_simulator_reports_no_speed(self) -> None:
        for entry in self.entries("--kernel", "v1"):
            self.assertNotIn("TFLOPS", entry)
            self.assertFalse(entry.get("error_occurred"), entry)
            self.assertEqual((entry["m"], entry["n"], entry["k"]), (33, 17, 5))

    def test_kernel_lists_ranges_and_names(self) -> None:
        second, third = RUNGS[1], RUNGS[2]
        both = {(r.name, d) for r in (second, third) for d in r.dtypes}
        self.assertEqual(self.chosen("--kernel", f"{second.id},{third.id}"), both)
        self.assertEqual(self.chosen("--kernel", f"{second.id}-{third.id}"), both)
        self.assertEqual(
            self.chosen("--kernel", second.name), {(second.name, d) for d in second.dtypes}
        )

    def test_kernel_groups(self) -> None:
        self.assertEqual(self.chosen("--kernel", "hgemm"), self.of("f16", "bf16"))
        self.assertLessEqual(self.of("f32"), self.chosen("--kernel", "sgemm"))
        self.assertFalse(self.of("f16", "bf16") & self.chosen("--kernel", "sgemm"))
        self.assertEqual(self.chosen("--kernel", "all"), self.of("f32", "f16", "tf32", "bf16"))

    def test_dtype(self) -> None:
        for dtype in ("f16", "bf16"):
            self.assertEqual(self.chosen("--kernel", "all", "--dtype", dtype), self.of(dtype))

    def test_shapes(self) -> None:
        def shapes(*args: str) -> list[str]:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "run.json")
                run = bench(
                    "--backend",
                    "sim",
                    "--kernel",
                    "v1",
                    "--dtype",
                    "f32",
                    *args,
                    "--json",
                    str(file),
                )
                self.assertEqual(run.returncode, 0, run.stderr)
                return [e["name"].split("/")[3] for e in json.loads(file.read_text())["benchmarks"]]

        self.assertEqual(shapes("--size", "32"), ["32x32x32"])
        self.assertEqual(shapes("--size", "16:48:16"), [f"{s}x{s}x{s}" for s in (16, 32, 48)])
        self.assertEqual(shapes("--shape", "3x5x7", "--shape", "8x1x2"), ["3x5x7", "8x1x2"])
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
            listed.write("# a comment\n\n4x5x6\n7x8x9  v2-   # not for the first\n16:48:32\n9 v1\n")
            listed.flush()
            cubes = [f"{n}x{n}x{n}" for n in (16, 48, 9)]
            self.assertEqual(shapes("--shapes", listed.name), ["4x5x6", *cubes])

    def test_several_transpositions(self) -> None:
        names = [e["name"] for e in self.entries("--kernel", "v9", "--op", "nn,tn,tt")]
        first = [n.split("/")[2] for n in names if "/f32/" in n]
        self.assertEqual(first, ["nn", "tn", "tt"])

    def test_the_last_rung_explains_its_choice(self) -> None:
        options = ("--backend", "sim", "--explain", "--kernel", "v28", "--dtype", "f16")
        run = bench(*options, "--size", "3000,4096,5000", "--shape", "4096x4096x256")
        self.assertEqual(run.returncode, 0, run.stderr)
        chosen = re.findall(r"/(\w+): (v\w+)\n    v\w+: ", run.stdout)
        cubes = [f"{n}x{n}x{n}" for n in (3000, 4096, 5000)]
        wanted = zip([*cubes, "4096x4096x256"], ("v24", "v27", "v27w", "v24r"))
        # 3000 and 5000: rows that are no whole lines of 128 bytes, where both have clusters.
        self.assertEqual(chosen, list(wanted))

    def test_clusters_where_rows_are_no_whole_lines(self) -> None:
        def chosen(*options: str) -> list[str]:
            explain = ("--backend", "sim", "--explain", "--kernel", "v24", "--dtype", "f16")
            run = bench(*explain, *options)
            self.assertEqual(run.returncode, 0, run.stderr)
            return re.findall(r"^v24\S*: (.+)$", run.stdout, re.MULTILINE)

        sizes = "2048,3000,4097"  # whole lines; not; copied into whole lines
        wanted = ["128x128 s6", "128x192 s5 c2", "128x192 s5"]
        self.assertEqual(chosen("--size", sizes), wanted)
        self.assertEqual(chosen("--size", "4096", "--ld-pad", "8"), ["128x192 s5 c2"])

    def test_accuracy(self) -> None:
        for entry in self.entries("--kernel", "v1", "--dtype", "f32"):
            self.assertGreater(entry["max_error"], 0)
            self.assertLess(entry["max_error_roundings"], 5 + 2)  # K + 2: see check.h
        run = bench(*SMALL, "--kernel", "v1", "--accuracy")
        self.assertIn("largest error on uniform inputs", run.stdout)

    def test_semantics_options(self) -> None:
        for args in (
            ("--shape", "0x4x4"),
            ("--shape", "4x4x0"),
            ("--alpha", "0.5", "--beta", "-2", "--ld-pad", "3", "--shape", "9x10x11"),
        ):
            with self.subTest(args=args):
                run = bench("--backend", "sim", "--kernel", "v1", "--verify-only", *args)
                self.assertEqual(run.returncode, 0, run.stderr)


class Inspected(unittest.TestCase):
    def test_requests_of_a_warp(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "run.json")
            run = bench(*SMALL, "--inspect", "--kernel", "v2", "--warp", "1:3", "--json", str(file))
            self.assertEqual(run.returncode, 0, run.stderr)
            for entry in json.loads(file.read_text())["benchmarks"]:
                warp = entry["warp"]
                self.assertEqual((warp["block"], warp["warp"]), (1, 3))
                for request in warp["requests"]:
                    self.assertEqual(len(request["offsets"]), 32)
                    self.assertEqual("wavefront_of_lane" in request, request["space"] == "shared")
                self.assertIn("load A", run.stdout)
                self.assertIn("by warp 3 of block 1", run.stdout)


class Refused(unittest.TestCase):
    def refused(self, *args: str, names: str) -> None:
        """Exit 2, and one line on stderr that matches `names`: the culprit, and what is allowed."""
        with self.subTest(args=args):
            run = bench(*args)
            self.assertEqual(run.returncode, 2, run.stdout + run.stderr)
            self.assertEqual(len(run.stderr.strip().splitlines()), 1, run.stderr)
            self.assertRegex(run.stderr, names)

    def test_kernels(self) -> None:
        known = rf"\b{RUNGS[0].id}\b"
        for wanted in ("v99", "nonsense", "v8-v2", "v1,,v2", "-v3", ""):
            self.refused(*SMALL, "--kernel", wanted, names=known)

    def test_sizes_and_shapes(self) -> None:
        for size in (
            "-1",
            "many",
            "512:256:64",
            "64:128:0",
            "64:128:-8",
            "1:2:3:4",
            "99999999999",
            "",
        ):
            self.refused("--backend", "sim", "--size", size, names="size")
        for shape in ("4x4", "4x4x-4", "4x4x4x4", "axbxc", "x", "99999999999x1x1", ""):
            self.refused("--backend", "sim", "--shape", shape, names="(?i)MxNxK|M x N x K")

    def test_choices(self) -> None:
        self.refused(*SMALL, "--dtype", "f64", names="f32.*f16.*bf16")
        self.refused(*SMALL, "--backend", "tpu", names="gpu.*sim")
        self.refused(*SMALL, "--l2", "lukewarm", names="cold.*warm")
        self.refused(*SMALL, "--ld-pad", "-1", names="ld-pad")
        self.refused(*SMALL, "--alpha", "much", names="alpha")
        for ops in ("nx", "nnn", "", "nn,"):
            self.refused(*SMALL, "--op", ops, names="nn, nt, tn, tt")

    def test_devices(self) -> None:
        for device in ("-1", "99999999999", "two", "0,1", ""):
            self.refused(*SMALL, f"--device={device}", names="--device")
        self.refused(*SMALL, "--device", "1", names="--device 1: the simulator is one device, 0")
        self.refused("--inspect", "--device", "1", names="--device 1: the simulator is one")
        # On any machine: what there is, or that there is none.
        known = r"--device 999: (there is no GPU 999.*: choose (from 0 to \d+|0,)|no GPU \(.*, 0$)"
        self.refused("--device", "999", "--shape", "4x4x4", names=known)
        run = bench(*SMALL, "--device", "0", "--kernel", "v1", "--verify-only")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_hidden_devices_are_named(self) -> None:
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
        command = [os.environ["GEMM_BENCH"], "--backend", "gpu", "--kernel", "v1"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
        self.assertEqual(run.returncode, 2, run.stderr)
        if "no NVIDIA driver" not in run.stderr and "without a CUDA toolkit" not in run.stderr:
            self.assertIn("CUDA_VISIBLE_DEVICES=-1", run.stderr)

    def test_alone(self) -> None:
        self.refused("--backend", "sim", "--alone", names="--alone.*no time")
        for flag in ("--inspect", "--verify-only", "--tune", "--explain", "--list"):
            self.refused("--alone", flag, names=f"--alone.*{flag}")

    def test_inspected_warps(self) -> None:
        self.refused(*SMALL, "--warp", "0", names="--inspect")
        for warp in ("x", "-1", "0:1:2", "1:", ":"):
            self.refused(*SMALL, "--inspect", f"--warp={warp}", names="BLOCK:W")
        for warp in ("99:0", "0:99"):
            known = r"no warp \d+ of block \d+ in .*: it has \d+ blocks of \d+ warps"
            self.refused(*SMALL, "--inspect", "--kernel", "v2", "--warp", warp, names=known)

    def test_flags(self) -> None:
        self.refused("--no-such-flag", names="--no-such-flag")
        self.refused("surplus", names="surplus")
        self.refused("--kernel", names="--kernel")

    def test_files(self) -> None:
        self.refused(*SMALL, "--json", "/no/such/folder/run.json", names="/no/such/folder/run.json")
        self.refused("--backend", "sim", "--shapes", "/no/such/list.txt", names="/no/such/list.txt")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as bad:
            bad.write("4x4x4\n4x4\n")
            bad.flush()
            self.refused("--backend", "sim", "--shapes", bad.name, names="2.*4x4")

    def test_gpu_where_there_is_none(self) -> None:
        if (
            bench(
                "--backend", "gpu", "--kernel", "v1", "--shape", "4x4x4", "--verify-only"
            ).returncode
            == 0
        ):
            self.skipTest("this machine has a GPU")
        self.refused("--backend", "gpu", names="(?i)gpu.*sim")


if __name__ == "__main__":
    if not os.environ.get("GEMM_BENCH"):
        sys.exit("set GEMM_BENCH to the path of gemm_bench")
    unittest.main()
