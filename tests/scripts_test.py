"""The scripts, on a small made-up ladder in a temporary folder. Its figures are synthetic."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import astuple
from pathlib import Path
from typing import Any, Optional, Sequence
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

import accuracy  # noqa: E402
import compare_counters  # noqa: E402
import figure_style  # noqa: E402
import ladder  # noqa: E402
import ladder_diff  # noqa: E402
import mutate  # noqa: E402
import mutations  # noqa: E402
import phases  # noqa: E402
import runs  # noqa: E402
import simulate  # noqa: E402

KERNEL = """\
// {id} {word}: made up.
//
// before: nothing
// idea:   none
// watch:  "// not a comment" below
// needs:  any GPU
{includes}#include "rung.h"

namespace {{
{helper}
template <class T>
__global__ void gemm_{tag}(GemmArgs<T> p) {{
  const char* url = "http://x";  // a comment
  // [region idea]
#pragma unroll
  for (int i = 0; i < {steps}; ++i) work(i);
  // [/region idea]
  finish({steps});
}}

const Registration rung({{.prev = "{prev}",
                         .idea = "made-up "
                                 "{word}",
                         .needs = {{.sm = 80}}}},
                        {{{entries}}});

}}  // namespace
"""
HELPER = """
template <class T>
GEMM_DEVICE void work(int i) {
  step(i);
}
"""
PAGE = """\
# A page

<!-- embed:region kernels/v02_second.cu idea -->
<!-- /embed -->
<!-- embed:header kernels/v02_second.cu -->
<!-- /embed -->
<!-- embed:diff v02 -->
<!-- /embed -->
<!-- embed:row v2 -->
stale
<!-- /embed -->
<!-- embed:table -->
<!-- /embed -->
<!-- embed:index -->
<!-- /embed -->
<!-- embed:conditions -->
<!-- /embed -->

the end
"""
CONTEXT = {
    "gpu": "NVIDIA H200",
    "driver": "1.2",
    "cuda_runtime": "13.0",
    "cublas": "13.1",
    "power_limit_w": "700",
    "l2": "cold",
    "git_revision": "abcdef0",
    "peak_ffma_tflops": "64",
    "peak_tensor_f16_tflops": "800",
    "peak_tensor_tf32_tflops": "400",
}


def entry(rung: str, dtype: str, size: int, tflops: float, baseline: float) -> dict:
    return {
        "name": f"{rung}/{dtype}/nn/{size}x{size}x{size}",
        "run_type": "iteration",
        "label": "cuBLASLt#3",
        "m": size,
        "n": size,
        "k": size,
        "ratio": tflops / baseline,
        "TFLOPS": tflops,
        "TFLOPS_p10": 0.9 * tflops,
        "TFLOPS_p90": 1.1 * tflops,
        "baseline_TFLOPS": baseline,
    }


def failed(rung: str, dtype: str, size: int, why: str) -> dict:
    name = f"{rung}/{dtype}/nn/{size}x{size}x{size}"
    return {"name": name, "run_type": "iteration", "error_occurred": True, "error_message": why}


ENTRIES = [
    entry("v01_first", "f32", 1024, 2, 40),
    entry("v01_first", "f32", 4096, 5, 50),
    entry("v01_first", "f16", 4096, 4, 640),
    entry("v02_second", "f32", 1024, 8, 40),
    failed("v02_second", "f32", 2048, "rows not aligned"),
    entry("v02_second", "f32", 4096, 15, 50),
    entry("v02_second", "f32", 8192, 16, 50),
    entry("v03_third", "tf32", 4096, 100, 350),
]


class Fixture(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        for part in ("kernels", "src/device", "plots/results/h200"):
            (self.root / part).mkdir(parents=True)
        self.kernel("v01_first", "", 1, "f32(launch<float>), f16(launch<half>)", helper=HELPER)
        both = "f32(launch<float>), f16(launch<half>)"
        self.kernel("v02_second", "v1", 2, both, includes='#include "device/work.cuh"\n')
        self.kernel(
            "v03_third", "v2", 2, "tf32(launch<float>)", includes='#include "device/work.cuh"\n'
        )
        (self.root / "src/device/work.cuh").write_text(HELPER)
        self.page = self.root / "page.md"
        self.page.write_text(PAGE)

    def kernel(
        self, name: str, prev: str, steps: int, entries: str, helper: str = "", includes: str = ""
    ) -> None:
        tag, word = name.split("_")
        text = KERNEL.format(
            id=f"v{int(tag[1:])}",
            tag=tag,
            word=word,
            prev=prev,
            steps=steps,
            entries=entries,
            helper=helper,
            includes=includes,
        )
        (self.root / "kernels" / f"{name}.cu").write_text(text)

    def measure(
        self,
        entries: list[dict] = ENTRIES,
        gpu: str = "h200",
        file: str = "ladder.json",
        context: dict[str, str] = CONTEXT,
    ) -> None:
        path = self.root / "plots/results" / gpu / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"context": context, "benchmarks": entries}))

    def script(self, name: str, *args: str, status: int = 0) -> str:
        """Runs scripts/<name> on the made-up ladder; its output, stdout then stderr."""
        run = subprocess.run(
            [sys.executable, SCRIPTS / name, *args, "--root", self.root],
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        if status == 2:
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        return run.stdout + run.stderr


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


class Embed(Fixture):
    def test_fills_every_marker_once(self) -> None:
        self.measure()
        self.script("embed.py", "--check", status=1)
        self.assertEqual(self.page.read_text(), PAGE)
        self.script("embed.py")
        text = self.page.read_text()
        for wanted in (
            "```cpp\n#pragma unroll\nfor (int i = 0; i < 2; ++i) work(i);\n```",
            "```text\nv2 second: made up.\n\nbefore: nothing\n",
            "```diff\n--- v01_first.cu\n+++ v02_second.cu\n",
            "| f32 | 15.0 (13.5 - 16.5) | 50.0 | 30.0 % | 23.4 % (FFMA, 64.0) | x3.00 of v1 |",
            "| f16 | not measured | | | | |",
            "| [v2](kernels/v02_second.cu) | made-up second | 15.0 | 30.0 % | not measured |  |",
            "| [v3](kernels/v03_third.cu) | made-up third | 100 (TF32) | 28.6 % of cuBLAS TF32 |  |  |",
            "f32 5.00<br>f16 4.00",
            "Measured on one NVIDIA H200, driver 1.2, CUDA 13.0, cuBLAS 13.1, power limit 700 W, L2 cold,",
        ):
            self.assertIn(wanted, text)
        self.assertNotIn("stale", text)
        self.assertTrue(text.endswith("\nthe end\n"))
        self.assertEqual(self.script("embed.py"), "")
        self.assertEqual(self.script("embed.py", "--check"), "")

    def test_sweep_has_both_ops(self) -> None:
        self.page.write_text("<!-- embed:sweep v1 f16 -->\n<!-- /embed -->\n")
        self.script("embed.py")
        self.assertIn("not measured", self.page.read_text())
        as_stored = entry("v01_first", "f16", 512, 64, 50)
        as_stored["label"] = "cuBLASLt#3, throttle none; variant 64x64"
        transposed = entry("v01_first", "f16", 512, 60, 50)
        transposed["name"] = transposed["name"].replace("/nn/", "/nt/")
        other = entry("v01_first", "f16", 768, 70, 100)
        another = entry("v02_second", "f16", 999, 1, 1)
        self.measure([as_stored, other, transposed, another], file="hgemm_sweep.json")
        self.script("embed.py")
        text = self.page.read_text()
        self.assertIn("| 512 x 512 x 512 | 64x64 | 64.0 | 128.0 % | 60.0 | 120.0 % |", text)
        self.assertIn("| 768 x 768 x 768 |  | 70.0 | 70.0 % | not measured |  |", text)
        self.assertNotIn("999", text)

    def test_compare_has_the_rungs_asked_for(self) -> None:
        self.page.write_text("<!-- embed:compare other.json f16 v1,v2 -->\n<!-- /embed -->\n")
        self.script("embed.py")
        self.assertIn("not measured", self.page.read_text())
        rows = [("v01_first", 512, 40), ("v02_second", 512, 60), ("v02_second", 768, 70)]
        measured = [entry(rung, "f16", size, tflops, 50) for rung, size, tflops in rows]
        transposed = entry("v02_second", "f16", 512, 45, 50)
        transposed["name"] = transposed["name"].replace("/nn/", "/nt/")
        self.measure([entry("v03_other", "f16", 512, 1, 1)], file="other.json")
        self.script("embed.py")
        self.assertIn("not measured", self.page.read_text())
        self.measure([*measured, transposed], file="other.json")
        self.script("embed.py")
        text = self.page.read_text()
        self.assertIn("| M x N x K | nn: v1 | nn: v2 | nt: v2 |", text)
        self.assertIn("| 512 x 512 x 512 | 0.80 | 1.20 | 0.90 |", text)
        self.assertIn("| 768 x 768 x 768 |  | 1.40 |  |", text)
        asked = entry("v01_first", "f16", 512, 30, 50)
        asked["name"] += "/variant:64x64 s3"
        self.measure([measured[1], asked], file="other.json")
        self.script("embed.py")
        self.assertIn("| M x N x K | nn: v1 64x64 s3 | nn: v2 |", self.page.read_text())
        self.assertIn("| 512 x 512 x 512 | 0.60 | 1.20 |", self.page.read_text())

    def test_alone_beside_pairs(self) -> None:
        self.page.write_text("<!-- embed:alone alone.json f16 v1,v2 -->\n<!-- /embed -->\n")
        self.script("embed.py")
        self.assertIn("not measured", self.page.read_text())
        both = entry("v01_first", "f16", 512, 40, 50) | {
            "alone_ratio": 0.9,
            "alone_sm_clock_mhz": 1400,
        }
        self.measure([both, entry("v02_second", "f16", 512, 60, 50)], file="alone.json")
        self.script("embed.py")
        text = self.page.read_text()
        self.assertIn("| M x N x K | nn: v1 | nn: v2 |", text)
        row = "| 512 x 512 x 512 | 0.800, 0.900 at 1400 MHz | 1.200, not measured |"
        self.assertIn(row, text)

    def test_energy(self) -> None:
        self.page.write_text("<!-- embed:energy -->\n<!-- /embed -->\n")
        self.script("embed.py")
        self.assertIn("not measured", self.page.read_text())
        loads = {"from": "L2", "bytes_a_k_tile": 40960, "tbs": 8.9}
        without = {"from": "", "bytes_a_k_tile": 0, "tbs": 0}
        rest = {"sm_clock_mhz": 1440, "power_w": 684.3, "nj_a_k_tile": 3137.1}
        wgmma = {"wgmma_n": 192, "blocks_of_64": 2, "tflops": 686}
        none = {"wgmma_n": 0, "blocks_of_64": 0, "tflops": 0}
        results = [wgmma | loads | rest, wgmma | without | rest | {"nj_a_k_tile": 2563.66}]
        results.append(none | loads | rest)
        fewer = {"bytes_a_k_tile": 10240, "nj_a_k_tile": 2563.66 + 20 * 10.240}
        results.append(wgmma | loads | rest | fewer)
        file = self.root / "plots" / "results" / "h200" / "energy_limits.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"gpu": "one", "results": results}))
        self.script("embed.py")
        text = self.page.read_text()
        for line in (
            "| 2 of m64n192 | 40960 bytes from L2 | 686 | 8.90 | 1440 | 684 | 3137 |",
            "| 2 of m64n192 | none | 686 |  | 1440 | 684 | 2564 |",
            "| none | 40960 bytes from L2 |  | 8.90 | 1440 | 684 | 3137 |",
            "The difference to wgmma without loads: 14 to 20 pJ a byte from L2.",
        ):
            self.assertIn(line, text)

    def test_bf16_has_a_file_of_its_own(self) -> None:
        self.kernel("v04_brain", "v2", 2, "f16(launch<half>), bfloat16(launch<bf16>)")
        variant = entry("v04_brain", "bf16", 4096, 999, 700)
        variant["name"] += "/variant:a b"
        self.measure()
        self.measure([entry("v04_brain", "bf16", 4096, 650, 700), variant], file="bf16.json")
        self.page.write_text("<!-- embed:row v04 -->\n<!-- /embed -->\n")
        self.script("embed.py")
        self.assertIn("| bf16 | 650 (585 - 715) | 700 | 92.9 % | 81.2 %", self.page.read_text())

    def test_bf16_of_another_run_says_so(self) -> None:
        self.kernel("v04_brain", "v2", 2, "f16(launch<half>), bfloat16(launch<bf16>)")
        self.measure()
        other = CONTEXT | {"git_revision": "1234567", "peak_tensor_f16_tflops": "1000"}
        self.measure([entry("v04_brain", "bf16", 4096, 650, 700)], file="bf16.json", context=other)
        self.page.write_text(
            "<!-- embed:row v04 -->\n<!-- /embed -->\n<!-- embed:conditions -->\n<!-- /embed -->\n"
        )
        self.script("embed.py")
        self.assertIn("| 65.0 % (f16 tensor, 1000)", self.page.read_text())
        self.assertIn("revision abcdef0, bf16 of revision 1234567.", self.page.read_text())

    def test_without_results_nothing_is_made_up(self) -> None:
        self.script("embed.py")
        text = self.page.read_text()
        self.assertIn("| f32 | not measured | | | | |", text)
        self.assertIn("Nothing measured yet on a GPU.", text)
        self.assertNotRegex(text, r"\d %")

    def test_check_names_file_and_marker(self) -> None:
        self.measure()
        self.script("embed.py")
        source = self.root / "kernels/v02_second.cu"
        source.write_text(source.read_text().replace("work(i)", "work(i + 1)"))
        told = self.script("embed.py", "--check", status=1)
        self.assertIn("page.md: stale: <!-- embed:region kernels/v02_second.cu idea -->", told)
        self.assertNotIn("embed:table", told)

    def test_values_in_a_line(self) -> None:
        self.measure()
        fence = "```text\n<!-- embed:value v1 f32 4096 ratio -->old<!-- /embed -->\n```\n"
        self.page.write_text(
            "From <!-- embed:value v1 f32 4096 ratio -->old<!-- /embed --> to "
            "<!-- embed:value v2 f32 4096 ratio --><!-- /embed -->, times "
            "<!-- embed:value v2 f32 4096 gain --><!-- /embed -->; of "
            "<!-- embed:value limit peak_ffma_tflops --><!-- /embed -->;\n"
            "<!-- embed:value v1 f32 77 tflops --><!-- /embed -->.\n" + fence
        )
        told = self.script("embed.py", "--check", status=1)
        self.assertIn("page.md: stale: embed:value in line 1", told)
        self.script("embed.py")
        text = self.page.read_text()
        shown = re.sub("<!--.*?-->", "", text.replace(fence, ""))
        self.assertEqual(shown, "From 0.100 to 0.300, times 3.00; of 64.0;\nnot measured.\n")
        self.assertTrue(text.endswith(fence))  # an example in a code block stays
        self.assertEqual(self.script("embed.py", "--check"), "")
        for marker, told in (
            ("v1 f32 4096", "takes a rung, a type, a size"),
            ("v1 f32 4096 colour", "known: ratio, tflops, gain, spread, baseline"),
            ("v77 f32 4096 ratio", "unknown rung 'v77'"),
        ):
            self.page.write_text(f"a <!-- embed:value {marker} --><!-- /embed -->\n")
            self.assertIn(told, self.script("embed.py", status=2))

    def test_sizes_show_the_spread_of_the_ratios(self) -> None:
        def around(e: dict, part: float) -> dict:
            ends = {"ratio_p10": e["ratio"] * (1 - part), "ratio_p90": e["ratio"] * (1 + part)}
            return e | ends

        first = around(entry("v01_first", "f32", 4096, 10, 40), 0.03)
        self.measure([first, around(entry("v02_second", "f32", 4096, 20, 50), 0.04)])
        self.page.write_text(
            "<!-- embed:sizes f32 v1,v2 4096,8192 -->\n<!-- /embed -->\n"
            "Of <!-- embed:value v2 f32 4096 baseline --><!-- /embed -->: "
            "<!-- embed:value v2 f32 4096 gain --><!-- /embed -->, "
            "<!-- embed:value v2 f32 4096 spread --><!-- /embed -->.\n"
        )
        self.script("embed.py")
        text = re.sub("<!--.*?-->", "", self.page.read_text())
        self.assertIn(
            "| 4096 | 0.250 (0.242 - 0.258) | 0.400 (0.384 - 0.416) | 40.0 - 50.0 |", text
        )
        self.assertIn("| 8192 | not measured | not measured | not measured |", text)
        self.assertIn("Of 50.0: 1.60, 1.52 to 1.68.", text)  # 5 %: the root of 3 and 4 squared

    def test_bad_markers(self) -> None:
        for marker, told in (
            ("embed:poem v2", "unknown marker; known: region,"),
            ("embed:region kernels/v02_second.cu main", "has no // [region main]"),
            ("embed:region kernels/none.cu idea", "no such file"),
            ("embed:row v77", "unknown rung 'v77'"),
            ("embed:sweep v1 f64", "no sweep of 'f64'"),
            ("embed:row", "0 arguments where embed:row takes 1"),
            ("embed:diff v1", "first rung"),
        ):
            with self.subTest(marker=marker):
                self.page.write_text(f"<!-- {marker} -->\n<!-- /embed -->\n")
                told_all = self.script("embed.py", status=2)
                self.assertIn(f"page.md: <!-- {marker} -->: ", told_all)
                self.assertIn(told, told_all)
        self.page.write_text("<!-- embed:table -->\n<!-- embed:index -->\n<!-- /embed -->\n")
        self.assertIn("no <!-- /embed --> after it", self.script("embed.py", status=2))

    def test_bad_results(self) -> None:
        path = self.root / "plots/results/h200/ladder.json"
        for text in ("", "[]", '{"context": {}}'):
            path.write_text(text)
            self.assertIn("ladder.json: not gemm_bench's JSON", self.script("embed.py", status=2))
        lame = entry("v01_first", "f32", 4096, 5, 50)
        del lame["TFLOPS_p10"]
        self.measure([lame])
        self.assertIn("has no 'TFLOPS_p10'", self.script("embed.py", status=2))


class Plot(Fixture):
    FIGURES = ("tflops_f32", "tflops_f16", "ladder_f32", "ladder_f16")

    def figure(self, name: str) -> str:
        return (self.root / "plots" / f"{name}.svg").read_text()

    def test_same_results_same_bytes(self) -> None:
        self.measure()
        self.script("plot.py")
        first = {name: self.figure(name) for name in self.FIGURES}
        for name in self.FIGURES:
            (self.root / "plots" / f"{name}.svg").unlink()
        self.script("plot.py")
        self.assertEqual(first, {name: self.figure(name) for name in self.FIGURES})
        self.assertEqual(self.script("plot.py", "--check"), "")

    def test_check_names_every_stale_figure(self) -> None:
        self.measure()
        told = self.script("plot.py", "--check", status=1)
        for name in self.FIGURES:
            self.assertIn(f"plots/{name}.svg: missing", told)
        self.script("plot.py")
        self.measure(ENTRIES[:-1])
        told = self.script("plot.py", "--check", status=1)
        self.assertIn("plots/ladder_f32.svg: stale", told)
        self.assertNotIn("f16", told)

    def test_sweeps_have_figures_of_their_own(self) -> None:
        self.kernel("v04_parts", "v2", 2, ".product_error = 0x1p-19}, {f32(launch<float>)")
        sizes = range(512, 2048, 256)
        sweep = [entry(r, "f32", n, n / 20, 50) for r in ("v01_first", "v04_parts") for n in sizes]
        sweep.append(entry("v01_first", "f32", 1000, 44, 50))
        self.measure(sweep, file="sgemm_sweep.json")
        self.script("plot.py")
        text = self.figure("sweep_f32")
        for wanted in (
            "FP32: v1 is above cuBLAS at 4 of 6 multiples of 256, v4 at 4",
            "v1 first",
            "v4 parts (tensor cores)",
            "0.88",  # beside the line
        ):
            self.assertIn(wanted, text)
        for other in (*self.FIGURES, "sweep_f16"):
            self.assertFalse((self.root / "plots" / f"{other}.svg").exists())
        (self.root / "plots/results/h200/sgemm_sweep.json").unlink()
        self.script("plot.py")
        self.assertFalse((self.root / "plots/sweep_f32.svg").exists())

    def test_gaps_break_lines_and_give_their_reason(self) -> None:
        import plot

        self.measure([*ENTRIES, entry("v01_first", "f32", 2048, 3, 50)])
        results, rungs = ladder.results_of("h200", self.root), ladder.load_rungs(self.root)
        assert results is not None
        drawn = plot.draw_tflops(results, rungs, "f32")
        assert drawn is not None
        axes, tips = drawn[0].axes, drawn[1]
        lines = [
            list(line.get_ydata()) for line in axes[0].get_lines() if line.get_linestyle() == "-"
        ]
        shown = [[f"{y:.2f}" for y in ys] for ys in lines if len(ys) > 2]
        self.assertEqual(shown, [["0.05", "0.06", "0.10"], ["0.20", "nan", "0.30", "0.32"]])
        self.assertEqual(lines[0], [1, 1])  # cuBLAS
        self.assertIn("0.3 of cuBLAS", "\n".join(tips.values()))
        self.script("plot.py")
        for wanted in (
            "v2: rows not aligned",
            "v3 TF32",
            "NVIDIA H200",
            "cuBLAS = 1",
            "v2 has 0.30 of",
        ):
            self.assertIn(wanted, self.figure("tflops_f32"))

    def test_bars_say_the_gain(self) -> None:
        self.measure()
        self.script("plot.py")
        bars = self.figure("ladder_f32")
        for wanted in ("v2 has 0.30 of", "0.300", "x3.00 over v1"):
            self.assertIn(wanted, bars)
        self.assertIn("v3 third (TF32)", bars)

    def test_the_most_complete_ladder_is_the_reference(self) -> None:
        """A folder more is found by itself; which GPU the README is of depends on what it holds."""
        beside = self.root / "plots/results/rtx-4090/tflops_f32.svg"
        self.page.write_text(
            "<!-- embed:conditions -->\n<!-- /embed -->\n<!-- embed:gpus -->\n<!-- /embed -->\n"
        )
        self.measure()
        other = {**CONTEXT, "gpu": "NVIDIA GeForce RTX 4090"}
        self.measure(ENTRIES[:-3], gpu="rtx-4090", context=other)
        self.script("plot.py")
        self.script("embed.py")
        self.assertIn("NVIDIA H200", self.figure("tflops_f32"))
        self.assertIn("RTX 4090", beside.read_text())
        text = self.page.read_text()
        self.assertIn("Measured on one NVIDIA H200,", text)
        self.assertIn("| NVIDIA H200 | 2 | v2: 15.0 TFLOPS, 30.0 % of cuBLAS | ", text)
        self.assertIn("| NVIDIA GeForce RTX 4090 | 1 |", text)
        self.assertIn("(plots/results/rtx-4090/)", text)

        self.measure(ENTRIES[:-3])
        self.measure(gpu="rtx-4090", context=other)
        self.assertIn("plots/tflops_f32.svg: stale", self.script("plot.py", "--check", status=1))
        self.script("embed.py")
        self.assertIn("Measured on one NVIDIA GeForce RTX 4090,", self.page.read_text())

    def test_gpu_asked_for(self) -> None:
        self.measure()
        other = {**CONTEXT, "gpu": "NVIDIA GeForce RTX 4090"}
        self.measure(ENTRIES[:-3], gpu="rtx-4090", context=other)
        self.script("plot.py", "--gpu", "rtx-4090")
        self.assertIn("RTX 4090", self.figure("tflops_f32"))
        self.script("embed.py", "--gpu", "rtx-4090")
        self.assertIn("Measured on one NVIDIA GeForce RTX 4090,", self.page.read_text())
        for script in ("plot.py", "embed.py"):
            told = self.script(script, "--gpu", "a100", status=2)
            self.assertEqual(told, "--gpu a100: plots/results has h200, rtx-4090\n")

    def test_without_results_there_are_no_figures(self) -> None:
        self.assertEqual(self.script("plot.py"), "")
        stray = self.root / "plots/tflops_f32.svg"
        stray.write_text("<svg/>")
        self.assertIn("no results to draw it from", self.script("plot.py", "--check", status=1))


def request(
    access: str, memory: str, width: int, offsets: Sequence[Optional[int]], **costs
) -> dict:
    space = "shared" if memory.startswith("s") else "global"
    known = {"access": access, "memory": memory, "space": space, "width": width}
    return {**known, **costs, "offsets": offsets}


class Pictures(Fixture):
    """Made-up requests: sA's lanes 128 bytes apart, a lane out; A's 4 bytes apart, C's all alike."""

    FIGURES = ("banks_v05_v06_v07", "sectors_v01u_v01_v05", "swizzle")

    def setUp(self) -> None:
        super().setUp()
        for name in ("v05_fifth", "v06_sixth", "v07_seventh"):
            self.kernel(name, "v1", 1, "f32(launch<float>)")
        shutil.copy(self.root / "kernels/v01_first.cu", self.root / "kernels/v01u_variant.cu")
        (self.root / "plots/results/simulator").mkdir()
        far, near = [128 * lane for lane in range(31)] + [None], [4 * lane for lane in range(32)]
        waves = {"wavefronts": 31, "ideal_wavefronts": 1, "wavefront_of_lane": [*range(31), None]}
        free = {"wavefronts": 1, "ideal_wavefronts": 1, "wavefront_of_lane": [0] * 32}
        self.requests = [
            request("load", "sA", 4, far, **waves),
            request("load", "sB", 4, near, **free),
            request("store", "sA", 4, near, **free),
            request("load", "A", 4, near, sectors=4, ideal_sectors=4),
            request("load", "B", 4, [32 * lane for lane in range(32)], sectors=32, ideal_sectors=4),
            request("store", "C", 4, [-64] * 32, sectors=1, ideal_sectors=1),
        ]
        tile = {"row_bytes": 32, "offsets": [[32 * row + 16, 32 * row] for row in range(8)]}
        plain = {**tile, "swizzle": 0, "wavefronts_of_column": [2, 2]}
        swizzled = {**tile, "swizzle": 32, "wavefronts_of_column": [1, 1]}
        self.simulated({"chunk": 16, "tiles": [plain, swizzled]}, "swizzles")
        self.simulate()

    def simulated(self, data: object, name: str) -> None:
        path = self.root / "plots/results/simulator" / f"{name}.json"
        path.write_text(json.dumps(data))

    def simulate(self) -> None:
        names = ("v01_first", "v01u_variant", "v05_fifth", "v06_sixth", "v07_seventh")
        warps = [{"name": f"{n}/f32/nn/8x8x8", "requests": self.requests} for n in names]
        self.simulated({"warps": warps}, "warp_requests")

    def figure(self, name: str) -> str:
        return (self.root / "plots" / f"{name}.svg").read_text()

    def test_same_data_same_bytes(self) -> None:
        told = self.script("plot.py", "--check", status=1)
        for name in self.FIGURES:
            self.assertIn(f"plots/{name}.svg: missing", told)
        self.script("plot.py")
        first = [self.figure(name) for name in self.FIGURES]
        for name in self.FIGURES:
            (self.root / "plots" / f"{name}.svg").unlink()
        self.script("plot.py")
        self.assertEqual(first, [self.figure(name) for name in self.FIGURES])
        self.assertEqual(self.script("plot.py", "--check"), "")

    def test_check_sees_other_data(self) -> None:
        self.script("plot.py")
        self.requests[0]["wavefront_of_lane"][1] = 0
        self.simulate()
        told = self.script("plot.py", "--check", status=1)
        self.assertIn("plots/banks_v05_v06_v07.svg: stale", told)
        self.assertNotIn("sectors", told)

    def test_figures_say_what_was_counted(self) -> None:
        self.script("plot.py")
        for wanted in (
            "v6 sixth",
            "4 bytes a lane: 31 wavefronts, 31-way",
            "1 wavefront, no conflict",
        ):
            self.assertIn(wanted, self.figure("banks_v05_v06_v07"))
        for wanted in ("4 sectors, 100 %", "32 sectors, 12.5 %", "1 sector, 12.5 %"):
            self.assertIn(wanted, self.figure("sectors_v01u_v01_v05"))
        for wanted in ("rows of 32 bytes, plain: 2 wavefronts", "32-byte swizzle: 1 wavefront"):
            self.assertIn(wanted, self.figure("swizzle"))

    def test_bad_data(self) -> None:
        self.requests[3]["sectors"] = 5
        self.simulate()
        self.assertIn("4 sectors where 5 were counted", self.script("plot.py", status=2))
        del self.requests[0]
        self.simulate()
        self.assertIn("no load of sA by v5", self.script("plot.py", status=2))
        self.simulated({"warps": [{}]}, "warp_requests")
        self.assertIn("not gemm_bench's requests", self.script("plot.py", status=2))

    def test_written_json_reads_back(self) -> None:
        for data in (
            {"warps": [{"a": [1, None], "b": [{"c": 2}, {"d": []}]}, {}], "e": 3},
            {},
            [1],
        ):
            self.assertEqual(json.loads(simulate.written(data)), data)
        self.assertIn('    {"a": [1, null]},', simulate.written({"x": [{"a": [1, None]}, {}]}))


class Lint(unittest.TestCase):
    def test_each_tool_finds_its_own(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / ".venv").symlink_to(Path(sys.prefix))
            for name in ("scripts", "tests"):
                (root / name).mkdir()
            for name in ("bench", "examples", "exercises", "python"):  # mypy wants a file in each
                (root / name).mkdir()
                (root / name / f"of_{name}.py").write_text("y: int = 1\n")
            for name in (".clang-format", ".shellcheckrc", "pyproject.toml"):
                shutil.copy(ROOT / name, root / name)
            for name in ("lint.py", "ladder.py"):
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


class Limits(Fixture):
    def test_constants_are_those_of_the_source(self) -> None:
        import layouts

        sizes = layouts.constants(ladder.find_rung(ladder.load_rungs(ROOT), "v8"), "f16")
        wanted = {"BM": 128, "BN": 128, "TM": 8, "TN": 8, "THREADS": 256, "BK": 16}
        self.assertEqual({name: sizes[name] for name in wanted}, wanted)

    def test_timelines(self) -> None:
        import limits

        one = limits.serial(1, 2, latency=100, commit=10, work=50)
        self.assertEqual(one[-1], limits.Span(0, 270, 320, "multiply", 1))
        two = [s for s in limits.serial(2, 1, 100, 10, 50) if s.kind == "multiply"]
        self.assertEqual([(s.start, s.end) for s in two], [(110, 160), (160, 210)])
        hidden = limits.pipelined(3, latency=40, commit=10, work=50)
        self.assertEqual(max(s.end for s in hidden), 40 + 3 * (10 + 50))
        exposed = limits.pipelined(2, latency=100, commit=10, work=50)
        self.assertEqual(max(s.end for s in exposed), 100 + 10 + 100 + 10 + 50)
        pipeline = [
            s
            for s in limits.pipeline(1, 2, 8, latency=100, issue=20, work=30)
            if s.kind == "multiply"
        ]
        self.assertEqual(pipeline[2].start, 130 + 100)  # its buffer was free when k-tile 0 was done
        full = [s for s in limits.pipeline(1, 6, 8, 100, 20, 30) if s.kind == "multiply"]
        self.assertEqual(full[-1].end, 100 + 8 * 30)  # deep enough: the tensor cores never wait
        two = [s for s in limits.pipeline(2, 3, 4, 100, 20, 30) if s.kind == "multiply"]
        self.assertEqual({s.row for s in two}, set(range(6)))  # the stages of two CTAs
        self.assertEqual(two[-1].end, 100 + 8 * 30)  # as deep, shared by two

    def test_phases_of_barriers(self) -> None:
        import limits

        for stages in (1, 3):
            spans = limits.pipeline(1, stages, 5 * stages, latency=100, issue=20, work=30)
            loads = [s for s in spans if s.kind == "load"]
            barriers = phases.phases(loads, stages, end=10_000)
            for load in loads:  # k-tile i ends phase i / stages of its stage's barrier
                box = barriers[load.k_tile % stages][load.k_tile // stages]
                self.assertEqual(box.end, load.end)
                self.assertEqual(box.color, phases.PARITIES[load.k_tile // stages % 2])
            for boxes in barriers:
                self.assertEqual(boxes[0].start, 0)
                self.assertEqual([b.end for b in boxes[:-1]], [b.start for b in boxes[1:]])
        multiplied = [s for s in spans if s.kind == "multiply"]
        told = phases.waits(multiplied, stages)
        self.assertEqual(told[0].words[0], "wait(full[0], 0)")
        self.assertEqual([t.start for t in told[1:]], [t.end for t in told[:-1]])

    def test_figures_of_phases_hold_both_themes(self) -> None:
        for name in ("phases_v17t", "phases_v18"):
            drawn = (ROOT / "plots" / f"{name}.svg").read_text()
            self.assertIn("prefers-color-scheme:dark", drawn)
            used = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawn.partition("<defs>")[2]))
            self.assertLessEqual(used, {*phases.DARK, "#fefefe", "#000000"}, name)

    def test_waterfall_follows_the_chain(self) -> None:
        self.measure()
        self.script("plot.py")
        steps = (self.root / "plots/waterfall_f32.svg").read_text()
        for wanted in ("v1 first", "0.300   x3.00", "from 0.1 to 0.3 of", "v2 adds most"):
            self.assertIn(wanted, steps)
        self.assertNotIn("third", steps)
        self.assertFalse((self.root / "plots/waterfall_f16.svg").exists())  # one step is none

    def test_waves_appear_with_their_results(self) -> None:
        self.measure()
        self.assertNotIn("wave", self.script("plot.py"))
        kernel = self.root / "kernels/v02_second.cu"
        sizes = "namespace {\nconstexpr int BM = 64, BN = 2 * BM;\n"
        text = kernel.read_text().replace(
            "__global__ void", "__global__ void __launch_bounds__(64, 2)"
        )
        kernel.write_text(text.replace("namespace {", sizes))
        entries = []
        for m, tflops in ((64, 5), (128, 10), (192, 7.5)):  # two CTAs on an SM make no larger wave
            entries.append(entry("v02_second", "f32", 0, tflops, 40))
            entries[-1]["name"] = f"v02_second/f32/nn/{m}x128x64"
        path = self.root / "plots/results/h200/wave_quantisation.json"
        context = {**CONTEXT, "sm_count": "2"}
        path.write_text(json.dumps({"context": context, "benchmarks": entries}))
        self.assertIn("plots/wave_quantisation.svg: drawn", self.script("plot.py"))
        drawn = (self.root / "plots/wave_quantisation.svg").read_text()
        self.assertIn("A wave is 2 tiles: v2 follows that model within 0 %", drawn)


class CommittedFigures(unittest.TestCase):
    """As pictures: no text over another, none beyond the page; the drawn mechanisms in both themes."""

    # Its bandwidths are written along slanted lines: the boxes of such words are not their shapes.
    SLANTED = {"Roofline: "}

    def faults(self, fig: Any) -> list[str]:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.text import Text

        renderer = FigureCanvasAgg(fig).get_renderer()
        fig.draw(renderer)
        outside = set()  # of the axes: these ticks are not drawn
        for axis in (axis for ax in fig.axes for axis in (ax.xaxis, ax.yaxis)):
            low, high = sorted(axis.get_view_interval())
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not low <= tick.get_loc() <= high:
                    outside |= {tick.label1, tick.label2}
        shown = [
            t
            for t in fig.findobj(Text)
            if t.get_visible() and t.get_text().strip() and t not in outside
        ]
        # Of an annotation without its arrow, which may cross what it likes.
        boxes = [(t.get_text(), Text.get_window_extent(t, renderer)) for t in shown]
        page, found = fig.bbox, []
        for i, (text, box) in enumerate(boxes):
            if min(box.x0, box.y0) < 2 or box.x1 > page.x1 - 2 or box.y1 > page.y1 - 2:
                found.append(f"beyond the page: {text}")
            for other, its in boxes[:i]:
                wide = min(box.x1, its.x1) - max(box.x0, its.x0)
                if wide > 1 and min(box.y1, its.y1) - max(box.y0, its.y0) > 1:
                    found.append(f"{text} over {other}")
        return found

    def test_no_text_is_hidden_or_cut(self) -> None:
        import matplotlib
        import matplotlib.pyplot as plt

        import mechanisms
        import overlay
        import plot

        gpu = ladder.reference_gpu(ROOT)
        drawn: dict[str, Any] = {}

        def keep(fig: Any) -> bytes:
            title = next((t.get_text() for t in fig.texts if t.get_text().strip()), "")
            drawn[f"{len(drawn)}: {title}"] = fig
            return b"<svg xmlns='http://www.w3.org/2000/svg'><defs></defs></svg>"

        # Everything that becomes a file goes through svg(), wherever it is drawn.
        with contextlib.ExitStack() as patches:
            style = {**figure_style.STYLE, "figure.max_open_warning": 0}
            patches.enter_context(matplotlib.rc_context(style))
            for module in (plot, overlay, mechanisms, phases):
                patches.enter_context(mock.patch.object(module, "svg", keep))
            files = sum(image is not None for image in plot.figures(ROOT, gpu).values())
            self.assertEqual(len(drawn), files)
            for name, (_, draw) in mechanisms.DRAWINGS.items():
                drawn[f"{name}, dark"] = draw(mechanisms.DARK)
            self.assertGreater(len(drawn), 30)
            for name, fig in drawn.items():
                if not any(slanted in name for slanted in self.SLANTED):
                    with self.subTest(figure=name):
                        self.assertEqual(self.faults(fig), [])
            a, b = plt.figure(), plt.figure()
            a.text(0.5, 0.5, "one"), a.text(0.5, 0.5, "two"), b.text(0.95, 0.5, "too long")
            self.assertEqual(self.faults(a), ["two over one"])
            self.assertEqual(self.faults(b), ["beyond the page: too long"])
            plt.close("all")

    def test_every_figure_lies_on_a_card(self) -> None:
        for path in sorted((ROOT / "plots").glob("*.svg")):
            opening = path.read_text(encoding="utf-8").partition("<defs>")[0]
            with self.subTest(figure=path.name):
                self.assertIn(f'viewBox="-{figure_style.CARD} -{figure_style.CARD} ', opening)
                self.assertRegex(opening, r'rx="8" style="fill: #ffffff; stroke: #\w{6}"')

    def test_dark_pages_get_dark_figures(self) -> None:
        import mechanisms

        for name in mechanisms.DRAWINGS:
            text = (ROOT / "plots" / f"{name}.svg").read_text(encoding="utf-8")
            self.assertIn("@media (prefers-color-scheme:dark)", text)
            used = set(re.findall(r"(?:fill|stroke): (#\w{6})", text.partition("</style>")[2]))
            self.assertLessEqual(used, set(astuple(mechanisms.LIGHT)), f"{name}: no dark fellow")


class AccuracyOfRungs(Fixture):
    """accuracy.py: the table is of the worst K, the simulator's where no GPU's is; the figure a GPU's."""

    def write(
        self, folder: str, backend: str, grades: dict[int, tuple[str, Optional[float]]]
    ) -> None:
        entries = [
            {
                "name": f"{rung}/f32/{inputs}/8x8x{k}",
                **{
                    "m": 8,
                    "n": 8,
                    "k": k,
                    "error_max": 0.5 * k,
                    "grade": grade,
                    "share_of_A": share,
                },
            }
            for rung in ("v14_3xtf32", "v09_cublas")
            for inputs in accuracy.PANELS
            for k, (grade, share) in grades.items()
        ]
        context = (
            {"backend": backend, "gpu": "NVIDIA H200"} if backend == "gpu" else {"backend": backend}
        )
        path = self.root / "plots/results" / folder / "accuracy.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"context": context, "entries": entries}))

    def table(self) -> str:
        found = accuracy.measured("h200", self.root, simulated=True)
        assert found
        return accuracy.table(found, "f32")

    def test_table_and_figure(self) -> None:
        figure = self.root / "plots/accuracy.svg"
        self.assertIsNone(accuracy.measured("h200", self.root, simulated=True))
        self.write("simulator", "simulator", {1: ("C", 4.25), 64: ("A", 0.25)})
        text = self.table()
        self.assertIn("| inputs | v14 | v9 |", text)
        self.assertIn("| uniform | C (4.2) |", text)
        self.assertIn("In the simulator, 8 x 8 x K, K from 1 to 64", text)
        self.assertEqual(accuracy.figures(self.root, "h200"), {figure: None})
        self.write("h200", "gpu", {1: ("A", 0.5), 64: ("-", None)})
        text = self.table()
        self.assertIn("| uniform | - (not finite) |", text)
        self.assertIn("One NVIDIA H200", text)
        self.assertIsNotNone(accuracy.figures(self.root, "h200")[figure])

    def test_labels_keep_their_distance_and_order(self) -> None:
        heights = [3.0, 1.0, 1.1, 1.05]
        placed = accuracy.spread(heights, 0.5)
        self.assertEqual(sorted(range(4), key=placed.__getitem__), [1, 3, 2, 0])
        ordered = sorted(placed)
        self.assertTrue(all(b - a > 0.49 for a, b in zip(ordered, ordered[1:])))

    def test_another_file_is_bad_input(self) -> None:
        path = self.root / "x.json"
        path.write_text("[]")
        with self.assertRaises(ladder.BadInput):
            accuracy.load(path)


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
