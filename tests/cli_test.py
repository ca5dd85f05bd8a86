"""The command line of gemm_bench: what is accepted, what is refused and how. GEMM_BENCH is the path
of the executable."""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from bench_process import ROOT, run

sys.path.insert(0, str(ROOT / "scripts"))

from common import ladder

RUNGS = ladder.load_rungs(ROOT)
SMALL = ("--backend", "sim", "--shape", "33x17x5")


def bench(*args: str, **options: object) -> subprocess.CompletedProcess[str]:
    return run("GEMM_BENCH", *args, **options)


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
        """(rung's name, dtype) of every rung that this build has."""
        missing = set(re.findall(r"(\S+) +not built ", bench("--list").stdout))
        built = [r for r in RUNGS if r.name not in missing]
        return {(r.name, d) for r in built for d in r.dtypes if d in dtypes}

    def test_a_variant_whose_rung_does_not_take_the_problem(self) -> None:
        odd = ("--backend", "sim", "--dtype", "f16", "--shape", "65x33x47", "--kernel", "v27")
        run = bench(*odd, "--variant", "128x192 s5 row panels")
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertNotIn("verified  ", run.stdout)
        self.assertRegex(run.stdout, r"skipped: variant .* does not take this problem")
        self.assertIn("0 verified", run.stdout)
        explained = bench(*odd, "--variant", "128x192 s5 row panels", "--explain").stdout
        self.assertEqual(explained.count("would be skipped: variant"), explained.count("\n"))
        self.assertRegex(bench(*odd).stdout, r"verified  \d+x\d+( s\d+ tiles)?\n")
        inspected = bench("--inspect", *odd[2:]).stdout
        self.assertRegex(inspected, r"ok  \d+x\d+( s\d+ tiles)?\n")

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
        self.assertEqual(
            self.chosen("--kernel", "all"),
            self.of("f32", "f16", "tf32", "bf16", "f16_f32", "bf16_f32")
            | self.of("e4m3", "e4m3_fast", "e4m3_f32", "e4m3_f32_fast", "e5m2", "e5m2_fast")
            | self.of("e4m3_block", "e4m3_f32_block"),
        )

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
        self.assertEqual(shapes("--shape", "3,4x5x6,7"), ["3x5x6", "4x5x6", "3x5x7", "4x5x7"])

    def test_lines_name_op_and_dtype(self) -> None:
        def names(*args: str) -> list[str]:
            with tempfile.TemporaryDirectory() as folder:
                listed, file = Path(folder, "shapes.txt"), Path(folder, "run.json")
                lines = ("4x4x4 v9 nt,tt f16,bf16", "5x5x5 f16 tn", "6x6x6 v9  # as asked", "7 nn")
                listed.write_text("\n".join(lines))
                args = ("--kernel", "v9,v11", "--shapes", str(listed), *args, "--json", str(file))
                run = bench("--backend", "sim", *args)
                self.assertEqual(run.returncode, 0, run.stderr)
                found = [e["name"] for e in json.loads(file.read_text())["benchmarks"]]
                return [name.partition("_")[0] + name[name.index("/") :] for name in found]

        both = names("--dtype", "f16,bf16")
        at_4 = [f"v09/{d}/{op}/4x4x4" for d in ("f16", "bf16") for op in ("nt", "tt")]
        self.assertEqual([name for name in both if "4x4x4" in name], at_4)
        self.assertIn("v09/f16/tn/5x5x5", both)
        self.assertNotIn("v09/bf16/tn/5x5x5", both)
        self.assertEqual([name for name in both if "6x6x6" in name], ["v09/f16/nn/6x6x6", "v09/bf16/nn/6x6x6"])  # fmt: skip
        chosen = names("--dtype", "f16", "--op", "tt,tn", "--kernel", "v9")
        self.assertEqual([name.partition("/f16/")[2] for name in chosen], ["tt/4x4x4", "tt/6x6x6", "tn/5x5x5", "tn/6x6x6"])  # fmt: skip

    def test_several_transpositions(self) -> None:
        names = [e["name"] for e in self.entries("--kernel", "v9", "--op", "nn,tn,tt")]
        first = [n.split("/")[2] for n in names if "/f32/" in n]
        self.assertEqual(first, ["nn", "tn", "tt"])

    def test_the_last_rung_explains_its_choice(self) -> None:
        options = ("--backend", "sim", "--explain", "--kernel", "v28", "--dtype", "f16")
        run = bench(*options, "--shape", "1280x1792x2560", "--shape", "4096x4097x4096")
        self.assertEqual(run.returncode, 0, run.stderr)
        chosen = re.findall(r"/(\w+): (v\w+)$", run.stdout, re.MULTILINE)
        self.assertEqual(chosen, [("1280x1792x2560", "v27"), ("4096x4097x4096", "v27")])
        # 90 tiles of 128 x 192 leave SMs idle. Rows of C of 4097 are for equal tiles alone.
        self.assertRegex(run.stdout, r"(?s)panels.*s\d tiles: \d+ tiles of")

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

    def test_epilogue(self) -> None:
        small = ("--backend", "sim", "--verify-only", "--shape", "9x10x11", "--dtype", "f32")
        run = bench(*small, "--kernel", "v1,v9", "--epilogue", "gelu")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("f32 nn 9x10x11 gelu", run.stdout)
        self.assertIn("skipped: takes alpha and beta only, no gelu", run.stdout)
        run = bench(*small, "--kernel", "v1", "--epilogue", "tanh")
        self.assertEqual(run.returncode, 2)
        self.assertIn("'tanh': want a list, each once, of residual, bias", run.stderr)
        run = bench(*small, "--kernel", "v1,v8,v13", "--epilogue", "bias,residual,relu")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("9x10x11 residual,bias,relu  alpha 1 beta 1", run.stdout)
        self.assertIn("3 verified, 0 wrong, 0 skipped", run.stdout)
        vectors = "bias,row_bias,scale_rows,scale_columns,gelu_erf"
        run = bench(*small, "--kernel", "v1", "--batch", "3", "--epilogue", vectors)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f"9x10x11 batch:3 {vectors}  alpha 1", run.stdout)
        run = bench(*small, "--kernel", "v1,v13s", "--invariant")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("9x10x11 invariant  alpha 1", run.stdout)
        self.assertRegex(run.stdout, r"v1 .*skipped: does not keep a row's bits where M differs")
        run = bench(*small, "--kernel", "v1,v8", "--epilogue", "bias,gated,silu")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("9x10x11 bias,gated,silu  alpha 1", run.stdout)

    def test_batch(self) -> None:
        for entry in self.entries("--batch", "3", "--kernel", "v1,v27", "--dtype", "f16"):
            self.assertRegex(entry["name"], r"/f16/nn/33x17x5/batch:3$")
            self.assertEqual((entry["batch"], entry["verified"]), (3, 1))
        for entry in self.entries("--kernel", "v1"):  # as it ever was
            self.assertRegex(entry["name"], r"/nn/33x17x5$")
            self.assertNotIn("batch", entry)
        small = ("--shape", "33x24x16", "--batch", "3")
        sim = ("--backend", "sim", "--verify-only", "--kernel", "v27", "--dtype", "f16")
        run = bench(*sim, *small, "--batch-pad", "1", "--batch-shared", "B", "--beta", "0.5")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("f16 nn 33x24x16 batch:3/shared:B", run.stdout)
        explain = ("--backend", "sim", "--explain", "--dtype", "f16", "--batch", "32")
        run = bench(*explain, "--kernel", "v28", "--size", "512")
        self.assertIn("512 tiles of 128 x 128 in 4 waves, of 32 products", run.stdout)
        run = bench(*explain, "--kernel", "v28", "--size", "512", "--batch-pad", "1")
        self.assertIn("in each of 32 launches", run.stdout)
        with tempfile.TemporaryDirectory() as folder:
            shapes = Path(folder) / "shapes.txt"
            shapes.write_text("9x8x7 batch:2 f32\n9x8x7 v1\n")
            run = bench(
                "--backend", "sim", "--verify-only", "--kernel", "v1", "--shapes", str(shapes)
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn("f32 nn 9x8x7 batch:2 ", run.stdout)
            shapes.write_text("9x8x7 batch:0\n")
            self.assertRegex(
                bench("--backend", "sim", "--shapes", str(shapes)).stderr, "txt:1: bad batch: '0'"
            )

    def test_groups(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            groups, file = Path(folder, "groups.txt"), Path(folder, "run.json")
            groups.write_text("0 40 24\n70 40 24  # rows of the second\n\n3 40 24\n")
            args = ("--backend", "sim", "--kernel", "v1,v27", "--dtype", "f16", "--groups")
            run = bench(*args, str(groups), "--op", "nt", "--json", str(file))
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            self.assertIn("f16 nt 73x40x24 groups:3 ", run.stdout)
            self.assertIn("1 verified, 0 wrong, 1 skipped", run.stdout)
            entries = json.loads(file.read_text())["benchmarks"]
            self.assertEqual(entries[1]["name"], "v27_engine/f16/nt/73x40x24/groups:3")
            self.assertEqual((entries[1]["groups"], entries[1]["verified"]), (3, 1))
            run = bench(*args, str(groups), "--explain")
            self.assertIn("3 groups, tiles of 64 x 128 in one launch", run.stdout)

    def test_several_gpus(self) -> None:
        for several, count in (("2", 4), ("4", 4)):
            names = {
                e["name"].split("/")[0]
                for e in self.entries("--gpus", several, "--kernel", "m2-m5", "--dtype", "bf16")
            }
            self.assertEqual(len(names), count, names)
        run = bench("--gpus", "2", "--backend", "sim", "--list")
        self.assertRegex(run.stdout, r"(?m)^m1 .*\bcollective")
        found = bench(*SMALL, "--gpus", "2", "--kernel", "m3", "--dtype", "f16", "--inspect")
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
        self.assertRegex(found.stdout, r"m03_peer_copies/.*: \d+ launches, ok")

    def test_types_of_the_result_apart(self) -> None:
        for dtype, rungs in (("f16_f32", 4), ("bf16_f32", 3)):
            run = bench(
                *("--backend", "sim", "--verify-only", "--shape", "65x130x48", "--beta", "0.5"),
                *("--kernel", "v1,v9,v10,v27", "--dtype", dtype),
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertIn(f"{dtype} nn 65x130x48", run.stdout)
            self.assertIn(f"\n{rungs} verified, 0 wrong", run.stdout)

    def test_what_is_named_twice_runs_once(self) -> None:
        once = {"--kernel": "v6", "--dtype": "f32", "--op": "nn"}
        for option, value in (
            ("--shape", "33x17x5"),
            ("--shape", "33,33x17x5,5"),
            ("--op", "nn,nn"),
            ("--dtype", "f32,f32"),
            ("--kernel", "v6,v6,v06_bank_conflicts"),
        ):
            options = {**once, option: value}
            names = [
                e["name"] for e in self.entries(*(word for o in options.items() for word in o))
            ]
            self.assertEqual(names, ["v06_bank_conflicts/f32/nn/33x17x5"], (option, value))

    def test_files_that_begin_with_a_mark(self) -> None:
        for option, text in (("--shapes", "16x16x16\r\n"), ("--groups", "16 16 16\r\n")):
            with tempfile.NamedTemporaryFile("wb") as file:
                file.write(b"\xef\xbb\xbf" + text.encode())
                file.flush()
                done = bench(
                    "--backend", "sim", "--kernel", "v27", "--dtype", "f16", option, file.name
                )
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_empty_problems_in_words(self) -> None:
        shapes = ("--shape", "0,5x0,5x0,5")
        for kernel in ("all",):
            done = bench("--backend", "sim", "--explain", "--kernel", kernel, *shapes)
            self.assertEqual(done.returncode, 0, done.stderr)
            for line in done.stdout.splitlines():
                self.assertNotRegex(line, r"\b(nan|inf)\b|-\d{3}|[ (]-\d")
        ran = bench("--backend", "sim", "--kernel", "v6,v28", "--dtype", "f16", *shapes)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertNotRegex(ran.stdout, r"\b(nan|inf)\b")


class TileLayer(unittest.TestCase):
    """v29's, which the build of the default tests leaves out."""

    NEEDS = "--jit needs a GPU, for which it compiles: the simulator"

    def test_tiles_of_floats_that_keep_the_sms_busy(self) -> None:
        explain = ("--backend", "sim", "--explain", "--kernel", "v29", "--dtype", "f32")
        run = bench(*explain, "--size", "512,1024,1536,2048,4096", "--shape", "0x8x8")
        self.assertEqual(run.returncode, 0, run.stderr)
        chosen = re.findall(r"^v29\S*: ffma (\d+)x", run.stdout, re.MULTILINE)
        self.assertEqual(chosen[:5], ["64", "64", "64", "128", "128"])

    def test_compiling_at_run_time(self) -> None:
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
        run = bench(*SMALL, "--kernel", "v29", "--jit", env=env)
        self.assertEqual(run.returncode, 2, run.stdout)
        self.assertRegex(run.stderr, self.NEEDS)

    def test_epilogue(self) -> None:
        small = ("--backend", "sim", "--verify-only", "--shape", "9x10x11", "--dtype", "f32")
        run = bench(*small, "--kernel", "v29", "--epilogue", "bias,residual,relu")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("1 verified, 0 wrong, 0 skipped", run.stdout)


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
    def refused(self, *args: str, names: str, program: str = "GEMM_BENCH") -> None:
        """Exit 2, and one line on stderr that matches `names`: the culprit, and what is allowed."""
        with self.subTest(args=args):
            done = run(program, *args)
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertRegex(done.stderr, names)

    def soon_refused(self, *args: str, names: str) -> None:
        """Refused whatever the rungs are: a program without the ladder starts sooner."""
        self.refused(*args, names=names, program="FAULT_BENCH")

    def test_several_gpus(self) -> None:
        for options, names in (
            (("--gpus", "1"), "2 .. 8"),
            (("--gpus", "9"), "2 .. 8"),
            (("--kernel", "m3"), "--gpus 2"),
            (("--gpus", "2", "--beta", "1"), "--beta does not go with --gpus"),
            (("--gpus", "2", "--kernel", "m9"), "m1, m2, m3, m4, m5"),
            (("--gpus", "2", "--dtype", "f32"), "f16 or bf16"),
            (("--gpus", "2", "--op", "tn"), "nn, nt or both"),
            (("--gpus", "2", "--variant", "zz"), "128x192 s5"),
        ):
            self.refused(*SMALL, *options, names=names)
        self.refused(
            "--backend", "gpu", "--gpus", "2", names="there is 1 GPU", program="FAULT_BENCH"
        )

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
            self.soon_refused("--size", size, names="size")
        for options, names in (
            (("--sample", "0"), "--sample '0'.*1 or more"),
            (("--sample", "few"), "--sample 'few'"),
            (("--sample", ""), "--sample has an empty value"),
            (("--sample", "2", "--seed", "-1"), "--seed '-1'"),
            (("--seed", "2"), "--seed belongs to --sample"),
            (("--time-limit", "0"), "--time-limit '0': want seconds above 0"),
            (("--time-limit", "soon"), "--time-limit 'soon'"),
            (("--time-limit", "1", "--explain"), "--time-limit ends a run"),
            (("--tune", "--kernel", "v27", "--epilogue", "bias"), "does not go with --tune"),
            (("--quick", "--verify-only"), "--quick is a way of timing"),
            (("--quick", "--backend", "sim"), "--quick times kernels on a GPU"),
        ):
            self.soon_refused("--kernel", "v1", *options, names=names)
        lists = ",".join(["4"] * 40)
        self.soon_refused("--shape", f"{lists}x{lists}x{lists}", names="at most 10000 shapes")
        for shape in ("4x4", "4x4x-4", "4,x4x4", "4x4x4x4", "axbxc", "x", "99999999999x1x1", ""):
            self.soon_refused("--shape", shape, names="(?i)MxNxK|M x N x K")

    def test_choices(self) -> None:
        self.refused(*SMALL, "--dtype", "f64", names="f32.*f16.*bf16")
        self.refused(*SMALL, "--backend", "tpu", names="gpu.*sim")
        self.refused(*SMALL, "--l2", "lukewarm", names="cold.*warm")
        self.refused(*SMALL, "--ld-pad", "-1", names="ld-pad")
        for scalar in ("much", "", " ", "nan", "inf", "-inf", "1e39", "1e38", "0x1p3", "1e-50"):
            self.soon_refused("--alpha", scalar, names=r"--alpha.*(finite|want \|alpha\|)")
            self.soon_refused("--beta", scalar, names=r"--beta.*(finite|want \|alpha\|)")
        self.refused(*SMALL, "--dtype", "f16", "--alpha", "3000", names="overflow f16 at K = 5")
        for pad in ("", "1.5", "1e3", "9999999"):
            self.soon_refused("--ld-pad", pad, names="--ld-pad.*0 .. 1048576")
        empty = ("--json", "--tune-cache", "--variant", "--backend", "--dtype", "--shapes")
        for option in empty:
            self.soon_refused(option, "", names=f"{option} has an empty value")
        for batch in ("0", "-1", "two", "", "65537"):
            self.soon_refused("--batch", batch, names="--batch .*1 .. 65536")
        self.soon_refused("--batch", "2", "--batch-pad", "-1", names="--batch-pad .*0 .. 1048576")
        self.soon_refused("--batch", "2", "--batch-shared", "C", names="choose from A, B, AB")
        self.refused(
            *SMALL,
            "--batch",
            "2",
            "--epilogue",
            "residual",
            names="residual, which is of one product",
        )
        self.refused(*SMALL, "--epilogue", "gated", names="an even N.*33x17x5")
        self.soon_refused("--epilogue", "gated", "--beta", "1", names="not go with --beta")
        self.soon_refused("--epilogue", "gated,residual", names="not go with --beta or residual")
        self.soon_refused("--epilogue", "gated,gated", names="a list, each once")
        self.soon_refused("--epilogue", "gated", "--tune", names="not go with --tune")
        self.soon_refused("--invariant", "--tune", names="not go with --tune")
        self.refused(*SMALL, "--invariant", "--batch", "2", names="compares rows of one product")
        self.soon_refused("--batch-pad", "8", names="belong to --batch of 2 or more")
        self.refused(*SMALL, "--batch", "2", "--inspect", "--html", "x", names="of one product")
        for ops in ("nx", "nnn", "", "nn,"):
            self.refused(*SMALL, "--op", ops, names="nn, nt, tn, tt")

    def test_devices(self) -> None:
        for device in ("-1", "99999999999", "two", "0,1", ""):
            self.refused(*SMALL, f"--device={device}", names="--device")
        self.refused(*SMALL, "--device", "1", names="--device 1: the simulator is one device, 0")
        self.refused("--inspect", "--device", "1", names="--device 1: the simulator is one")

    def test_compiling_at_run_time(self) -> None:
        needs = TileLayer.NEEDS
        self.soon_refused("--jit", "--inspect", names=needs)
        self.soon_refused("--jit", "--backend", "sim", names=needs)
        self.soon_refused(
            "--jit", "some", names="bad --jit 'some': leave the value out, or .* both"
        )
        for other in ("--tune", "--explain", "--list"):
            self.soon_refused("--jit", "both", other, names="--jit is a way of running rungs")

    def test_the_device_that_is_asked_for(self) -> None:
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

    def test_the_microscopes_page(self) -> None:
        self.refused(*SMALL, "--html", "page.html", names="--html belongs to --inspect")
        self.refused(*SMALL, "--inspect", "--html", "", names="--html has an empty value")
        self.refused("--inspect", "--html", "page.html", names="too many for a page: at most 8")
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            missing = Path(folder) / "none" / "page.html"
            one = (*SMALL, "--inspect", "--kernel", "v2", "--dtype", "f32")
            self.refused(*one, "--html", str(missing), names="existing, writable folder")
            self.assertEqual(bench(*one, "--html", str(page)).returncode, 0)
            self.assertIn("v02_block_tile.cu", page.read_text(encoding="utf-8"))
            self.assertEqual([p.name for p in Path(folder).iterdir()], ["page.html"])

    def test_inspected_warps(self) -> None:
        self.refused(*SMALL, "--warp", "0", names="--inspect")
        for warp in ("x", "-1", "0:1:2", "1:", ":"):
            self.refused(*SMALL, "--inspect", f"--warp={warp}", names="BLOCK:W")
        for warp in ("99:0", "0:99"):
            known = r"no warp \d+ of block \d+ in .*: it has \d+ blocks? of \d+ warps?"
            self.refused(*SMALL, "--inspect", "--kernel", "v2", "--warp", warp, names=known)
        with tempfile.TemporaryDirectory() as folder:  # v11 has that block, v22 has not
            two = ("--inspect", "--kernel", "v11,v22", "--dtype", "f16", "--shape", "256x256x16")
            json_file = f"{folder}/run.json"
            kept = (
                r"no warp 0 of block 3 in v22.*; the results until then are in .*run.json.partial"
            )
            self.refused(*two, "--warp", "3:0", "--json", json_file, names=kept)

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

    def test_groups(self) -> None:
        args = ("--backend", "sim", "--kernel", "v27", "--dtype", "f16", "--groups")
        with tempfile.TemporaryDirectory() as folder:
            groups = Path(folder, "groups.txt")

            def refused(text: str, *more: str, names: str) -> None:
                groups.write_text(text)
                self.refused(*args, str(groups), *more, names=names)

            refused("4 4\n", names="groups.txt:1: bad group '4 4': want M N K, each 0 ..")
            refused("4 4 -4\n", names="groups.txt:1: bad group '4 4 -4'")
            refused("4 4 4\n4 4 5\n", names="groups.txt:2: N and K are 4 and 5: want 4 and 4")
            refused("# none\n", names="names no group")
            refused("4 4 4\n" * 257, names="groups.txt:257: too many groups: at most 256")
            refused("2147480000 4 4\n" * 2, names="groups.txt:2: too many rows in all")
            refused("4 4 4\n", "--batch", "2", names="--groups does not go with --batch")
            refused("4 4 4\n", "--inspect", names="--groups does not go with --inspect")
            refused("4 4 4\n", "--epilogue", "bias", names="groups take --alpha, --beta")
        self.refused("--backend", "sim", "--groups", "/no/such/list.txt", names="/no/such/list.txt")

    def test_what_is_written_to(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "file").touch()
            for path in (folder, f"{folder}/", folder / "no" / "x", folder / "file" / "x"):
                self.refused(*SMALL, "--json", str(path), names="existing, writable folder")
                self.refused("--inspect", "--json", str(path), names="existing, writable folder")
            self.refused(*SMALL, "--json", f"{folder}/{'n' * 300}", names="File name too long")
            for flag in ("--benchmark_bogus", "--benchmark_filter=[", "--benchmark_filter=nothing"):
                self.refused(*SMALL, "--json", str(folder / "x.json"), flag, names="benchmark|re:")
            self.assertEqual([p.name for p in folder.iterdir()], ["file"], "nothing is left")
            if os.geteuid() != 0:  # root may write everywhere
                folder.chmod(0o500)
                self.refused(*SMALL, "--json", str(folder / "x"), names="Permission denied")
                folder.chmod(0o700)

    def test_google_benchmarks_flags(self) -> None:
        for flag, names in (
            ("--benchmark_repetitions=0", "1 .. 9999"),
            ("--benchmark_repetitions=-1", "1 .. 9999"),
            ("--benchmark_repetitions=abc", "1 .. 9999"),
            ("--benchmark_repetitions=99999999999", "1 .. 9999"),
            ("--benchmark_repetitions", "no value"),
            ("--benchmark_min_time=x", "seconds"),
            ("--benchmark_format=bogus", "console, json or csv"),
            ("--benchmark_out_format=csv", "json"),
            ("--benchmark_out=/nonexistent/x", "/nonexistent/x"),
            ("--benchmark_list_tests=maybe", "true or false"),
            ("--benchmark_filter=nothing", "Failed to match any benchmarks"),
            ("--benchmark_filter=[", "Could not compile"),
            ("--benchmark_bogus", "--benchmark_filter, "),
        ):
            self.soon_refused("--kernel", "v1", flag, names=names)
        for variable, value in (
            ("BENCHMARK_FILTER", "zzz"),
            ("BENCHMARK_REPETITIONS", "0"),
            ("BENCHMARK_OUT", "/nonexistent/x"),
        ):
            with self.subTest(variable=variable):
                done = run("FAULT_BENCH", "--kernel", "v1", env={variable: value})
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)

    def test_nothing_verified(self) -> None:
        self.refused(*SMALL, "--kernel", "v2", "--op", "tt", names="all were skipped: takes row")
        self.refused("--inspect", "--kernel", "v9", "--size", "8", names="nothing was inspected")
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
            listed.write("4x4x4 v2\n")
            listed.flush()
            args = ("--backend", "sim", "--kernel", "v1", "--shapes", listed.name)
            self.refused(*args, names="nothing to run")
            self.refused(*args, "--explain", names="nothing to run")
            self.refused("--inspect", *args[2:], names="nothing to run")

    def test_endless_and_huge_input(self) -> None:
        self.soon_refused("--shapes", "/dev/zero", names="too large")
        self.soon_refused("--shapes", "/", names="cannot read")
        self.soon_refused("--size", "0:2147482623:1", names="at most 10000 shapes")
        many = ("--size", "1:9000:1", "--size", "1:9000:1")
        self.soon_refused(*many, names="at most 10000")
        for text, names in (
            ("4x4x4\n4x4x4 v999\n", ":2: unknown kernel 'v999'"),
            ("4x4x4 v1 v2\n", ":1: 'v2' is too much"),
            ("4x4x4 nn nt\n", ":1: 'nt' is too much"),
            ("4x4x4 f16 nn f32\n", ":1: 'f32' is too much"),
            ("4x4x4 nx\n", "unknown kernel 'nx'"),
        ):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
                listed.write(text)
                listed.flush()
                self.refused("--backend", "sim", "--shapes", listed.name, names=names)

    def test_gpu_where_there_is_none(self) -> None:
        if (
            bench(
                "--backend", "gpu", "--kernel", "v1", "--shape", "4x4x4", "--verify-only"
            ).returncode
            == 0
        ):
            self.skipTest("this machine has a GPU")
        self.refused("--backend", "gpu", names="(?i)gpu.*sim")

    def test_one_file_for_two(self) -> None:
        """Nothing that a run writes spoils what it reads or writes besides, however that is named."""
        run = ("--backend", "sim", "--kernel", "v6", "--dtype", "f32")
        with tempfile.TemporaryDirectory() as there:
            Path(there, "deeper").mkdir()
            for option, text in (("--shapes", "16x16x16\n"), ("--groups", "16 16 16\n")):
                file = Path(there, option)
                file.write_text(text)
                os.link(file, f"{file}.hard")
                os.symlink(file, f"{file}.soft")
                for out in ("", ".hard", ".soft"):
                    for written in (f"{file}{out}", f"{there}/deeper/../{option}{out}"):
                        for flag in ("--json", "--benchmark_out", "--tune-cache"):
                            self.refused(*run, f"{option}={file}", f"{flag}={written}",
                                         names="would overwrite")  # fmt: skip
                            self.assertEqual(file.read_text(), text)
            for first, second in (
                ("q", "q"),
                ("q", "deeper/../q"),
                ("q", "q.partial"),
                ("q.partial", "q"),
            ):
                self.refused("--inspect", "--kernel", "v6", "--size", "16", "--json", f"{there}/{first}",
                             "--html", f"{there}/{second}", names="would overwrite")  # fmt: skip
                self.refused(*run, "--size", "16", "--json", f"{there}/{first}", "--tune-cache",
                             f"{there}/{second}", names="would overwrite")  # fmt: skip
            self.assertEqual(sorted(path.name for path in Path(there).glob("q*")), [])
        self.refused(*SMALL, "--json", "-", names="/dev/stdout is standard output")
        self.refused(
            *SMALL,
            "--html",
            "-",
            "--inspect",
            "--kernel",
            "v2",
            names="/dev/stdout is standard output",
        )

    def test_all_that_is_allowed_is_named(self) -> None:
        for value in ("3s", "x", "0", "-1", "inf", "1e99"):
            self.refused(*SMALL, f"--time-limit={value}", names="seconds above 0, as in 600")
        self.refused(*SMALL, "--dtype", "y" * 3000, names=r"^.{,600}$")
        for dtype in {d for r in RUNGS for d in r.dtypes}:
            self.refused(*SMALL, "--dtype", "f77", names=rf"\b{dtype}\b")

    def test_too_few_descriptors(self) -> None:
        """The machine's fault: 3, not "a result was wrong", however few there are."""
        for limit in range(4, 24):
            with self.subTest(limit=limit):
                done = bench(
                    *SMALL,
                    *("--kernel", "v6", "--dtype", "f32"),
                    preexec_fn=functools.partial(
                        resource.setrlimit, resource.RLIMIT_NOFILE, (limit, limit)
                    ),
                )  # fmt: skip
                self.assertIn(done.returncode, (0, 3), done.stderr)
                if done.returncode == 3:
                    self.assertRegex(
                        done.stderr, r"^gemm_bench: no more than \d+ files .* ulimit -n"
                    )
                    self.assertEqual(len(done.stderr.splitlines()), 1)


class Written(unittest.TestCase):
    """Where results and text go."""

    TINY = ("--backend", "sim", "--kernel", "v1", "--dtype", "f32", "--shape", "2x2x2")

    def test_devices_stay_what_they_are(self) -> None:
        for command in (self.TINY, ("--inspect", *self.TINY[2:])):
            with self.subTest(command=command):
                self.assertEqual(bench(*command, "--json", "/dev/null").returncode, 0)
                full = bench(*command, "--json", "/dev/full")
                self.assertEqual(full.returncode, 3)
                self.assertRegex(full.stderr, r"\A.*'/dev/full': No space left on device.*\n\Z")
                self.assertTrue(Path("/dev/null").is_char_device())
                self.assertTrue(Path("/dev/full").is_char_device())

    def test_stdout(self) -> None:
        """A pipe, and a file that the shell has opened."""
        for command in (self.TINY, ("--inspect", *self.TINY[2:])):
            piped = bench(*command, "--json", "/dev/stdout").stdout
            with tempfile.TemporaryFile("w+") as file:
                bench(*command, "--json", "/dev/stdout", stdout=file)
                file.seek(0)
                for text in (piped, file.read()):
                    found = json.loads(text[text.index("{") : text.rindex("}") + 1])
                    self.assertEqual(len(found["benchmarks"]), 1)

    def test_a_fifo_and_links(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            fifo, link, real = (Path(name, n) for n in ("fifo", "link", "real"))
            os.mkfifo(fifo)
            texts: list[str] = []
            reader = threading.Thread(target=lambda: texts.append(fifo.read_text()))
            reader.start()
            self.assertEqual(bench(*self.TINY, "--json", str(fifo)).returncode, 0)
            reader.join(60)
            self.assertEqual(len(json.loads(texts[0])["benchmarks"]), 1)
            self.assertTrue(fifo.is_fifo())
            link.symlink_to("real")
            self.assertEqual(bench(*self.TINY, "--json", str(link)).returncode, 0)
            self.assertTrue(link.is_symlink())
            self.assertEqual(len(json.loads(real.read_text())["benchmarks"]), 1)

    def test_benchmark_out_is_json(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for n, (args, env) in enumerate(
                (
                    ((f"--benchmark_out={name}/0", "--benchmark_out_format=json"), {}),
                    ((), {"BENCHMARK_OUT": f"{name}/1"}),
                )
            ):
                self.assertEqual(bench(*self.TINY, *args, env=env).returncode, 0)
                self.assertEqual(len(json.loads(Path(name, str(n)).read_text())["benchmarks"]), 1)

    def test_repetitions_and_their_aggregates(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name, "run.json")
            args = ("--benchmark_repetitions=3", "--json", str(file))
            self.assertEqual(bench(*self.TINY, *args).returncode, 0)
            text = file.read_text()
            entries = json.loads(text, parse_constant=self.fail)["benchmarks"]  # no NaN
            kinds = [e["run_type"] for e in entries]
            self.assertEqual(kinds[:3], ["iteration"] * 3)
            self.assertEqual(set(kinds[3:]), {"aggregate"})

    def test_list_of_benchmarks(self) -> None:
        done = bench(*self.TINY, "--benchmark_list_tests")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith("v01_naive/f32/nn/2x2x2"), done.stdout)

    def test_full_or_closed_stdout(self) -> None:
        commands = (
            ("--list",),
            ("--help",),
            (*self.TINY, "--verify-only"),
            ("--inspect", *self.TINY[2:]),
            ("--backend", "sim", "--explain", "--size", "8"),
        )
        for command in commands:
            with self.subTest(command=command), open("/dev/full", "w") as full:
                done = bench(*command, stdout=full)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertRegex(done.stderr, r"\A.*standard output: No space left.*\n\Z")
                closed = bench(*command, preexec_fn=lambda: os.close(1), stdout=None)
                self.assertEqual(closed.returncode, 3, closed.stderr)
                self.assertRegex(closed.stderr, r"\A.*standard output: .*\n\Z")

    def test_a_file_in_the_place_of_a_closed_stdout(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name, "run.json")
            args = (*self.TINY, "--json", str(file))
            bench(*args, preexec_fn=lambda: os.close(1), stdout=None)
            partial = Path(name, "run.json.partial")
            self.assertEqual(len(json.loads(partial.read_text())["benchmarks"]), 1)

    def test_keep_going(self) -> None:
        done = bench(*self.TINY, "--kernel", "v1,v2", "--keep-going")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("2 verified, 0 wrong, 0 skipped", done.stdout)


if __name__ == "__main__":
    for variable in ("GEMM_BENCH", "FAULT_BENCH"):
        if not os.environ.get(variable):
            sys.exit(f"set {variable} to the path of {variable.lower()}")
    unittest.main()
