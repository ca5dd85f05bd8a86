"""What scripts/embed.py writes into pages, on a made-up ladder."""

from __future__ import annotations

import gzip
import json
import re
import unittest
from typing import Any

from made_up_ladder import CONTEXT, PAGE, Fixture, entry


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
            "\nIn f32 at 4096: **15.0 TFLOPS**; **30.0 %** of cuBLAS; **3.00 times** v1.\n",
            "| [v2](kernels/v02_second.md) | made-up second | f32 30.0 % |  |",
            "| [v2](kernels/v02_second.cu) | made-up second | f32 15.0 | 30.0 % |",
            "| made-up third | tf32 100 | 28.6 % of cuBLAS TF32 |",
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

    def test_compare_at_some_shapes(self) -> None:
        sizes = ((512, 40), (768, 60), (1024, 70))
        self.measure([entry("v01_first", "f16", n, t, 50) for n, t in sizes], file="other.json")
        marker = "<!-- embed:compare other.json f16 v1 {} -->\n<!-- /embed -->\n"
        self.page.write_text(marker.format("1024x1024x1024,512x512x512"))
        self.script("embed.py")
        rows = "| 1024 x 1024 x 1024 | 1.40 |\n| 512 x 512 x 512 | 0.80 |\n\n"
        self.assertIn(rows, self.page.read_text())
        self.page.write_text(marker.format("1x2x3"))
        self.assertIn("other.json has no shape 1x2x3", self.script("embed.py", status=2))

    def test_summary_of_some_rungs_of_a_packed_run(self) -> None:
        speeds = (("v01_first", 40), ("v02_second", 60))
        self.measure([entry(r, "f16", 512, t, 50) for r, t in speeds], file="other.json")
        plain = self.root / "plots" / "results" / "h200" / "other.json"
        plain.with_suffix(".json.gz").write_bytes(gzip.compress(plain.read_bytes()))
        self.page.write_text(
            "<!-- embed:summary other.json.gz type v2 -->\n<!-- /embed -->\n"
            "<!-- embed:summary other.json.gz M v1,v2 -->\n<!-- /embed -->\n"
        )
        self.script("embed.py")
        by_type, _, by_m = self.page.read_text().partition("embed:summary other.json.gz M")
        self.assertIn("| v2 f16 nn | 1 | 1.200 | 1.200 | 512x512x512 |", by_type)
        self.assertNotIn("| v1 ", by_type)
        self.assertIn("| v1 f16 nn, M = 512 | 1 | 0.800 |", by_m)

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

    def test_a_process_for_each_gpu(self) -> None:
        self.page.write_text("<!-- embed:ranks two_ranks.json -->\n<!-- /embed -->\n")
        self.script("embed.py")
        self.assertIn("not measured", self.page.read_text())

        def way(name: str, ms: float) -> dict[str, Any]:
            speeds = {"speedup": 2 / ms, "speedup_p10": 1.9 / ms, "speedup_p90": 2.1 / ms}
            return {"name": f"{name}/bf16/nn/all_gather/64x32x16/gpus:2", "ms": ms} | speeds

        ways = [way("ours", 1.6), way("nccl, cublas", 2), way("torch", 4)]
        ways.append({"name": "torch native/bf16/nn/all_gather/64x32x16/gpus:2", "skipped": "why"})
        file = self.root / "plots" / "results" / "two_ranks.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"context": {}, "benchmarks": ways}))
        self.script("embed.py")
        row = "| all-gather | 64 x 32 x 16 | 2.000 |  | 1.600 | 1.25 (1.19 - 1.31) | "
        self.assertIn(row + "0.50 (0.47 - 0.53) |  |", self.page.read_text())

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
            "The difference to wgmma without loads: 14 to 20 pJ per byte from L2.",
        ):
            self.assertIn(line, text)

    def test_a_rung_beside_the_core_has_a_table(self) -> None:
        self.kernel("v11_more", "v2", 2, "f32(launch<float>), f16(launch<half>)")
        self.measure([entry("v02_second", "f32", 4096, 15, 50), entry("v11_more", "f32", 4096, 45, 50)])  # fmt: skip
        self.page.write_text("<!-- embed:row v11 -->\n<!-- /embed -->\n")
        self.script("embed.py")
        for row in (
            "| f32 | 45.0 (40.5 - 49.5) | 50.0 | 90.0 % | 70.3 % (FFMA, 64.0) | x3.00 of v2 |",
            "| f16 | not measured | | | | |",
        ):
            self.assertIn(row, self.page.read_text())

    def test_bf16_has_a_file_of_its_own(self) -> None:
        self.kernel("v14_brain", "v2", 2, "f16(launch<half>), bfloat16(launch<bf16>)")
        variant = entry("v14_brain", "bf16", 4096, 999, 700)
        variant["name"] += "/variant:a b"
        self.measure()
        self.measure([entry("v14_brain", "bf16", 4096, 650, 700), variant], file="bf16.json")
        self.page.write_text("<!-- embed:row v14 -->\n<!-- /embed -->\n")
        self.script("embed.py")
        self.assertIn("| bf16 | 650 (585 - 715) | 700 | 92.9 % | 81.2 %", self.page.read_text())

    def test_a_quick_run_has_the_ratio_alone(self) -> None:
        for name in ("v04_brain", "v14_brain"):  # of the core, and beside it
            self.kernel(name, "v2", 2, "f16(launch<half>), bfloat16(launch<bf16>)")
        self.measure()
        markers = ("row v04", "row v14", "core", "index")
        self.page.write_text("".join(f"<!-- embed:{m} -->\n<!-- /embed -->\n" for m in markers))
        self.script("embed.py")
        self.assertIn("\nIn f16 at 4096: not measured.\n", self.page.read_text())
        self.assertIn("| bf16 | not measured | | | | |", self.page.read_text())
        quick = [
            entry("v04_brain", "f16", 4096, 70, 700),
            entry("v14_brain", "f16", 4096, 70, 700),
            entry("v02_second", "f16", 4096, 35, 700),
        ]
        brain = entry("v14_brain", "bf16", 4096, 650, 700)
        self.measure(
            [*quick, brain, entry("v02_second", "f32", 4096, 18, 50)], file="ladder_quick.json"
        )
        self.script("embed.py")
        for wanted in (
            "In f16 at 4096: **10.0 %** of cuBLAS, quick run; **2.00 times** v2, quick run.",
            "| bf16 | | | 92.9 %, quick run | | |",
            "| f16 | | | 10.0 %, quick run | | x2.00 of v2, quick run |",
            "| made-up brain | f16 10.0 % † |",
            "| made-up brain | f16 | 10.0 % † |",
            "† From a quick run, where the other shares differ by up to 20 %.",
        ):
            self.assertIn(wanted, self.page.read_text())

    def test_output_of_a_command(self) -> None:
        golden = self.root / "tests/golden/shown.txt"
        golden.parent.mkdir(parents=True)
        golden.write_text("$ ./program\n\n  one 1\n\n  two a.cu:LINE\n  more\nexit status 0\n")
        markers = ("output shown", "output shown two 2", "output shown two 1")
        self.page.write_text("".join(f"<!-- embed:{m} -->\n<!-- /embed -->\n" for m in markers))
        self.script("embed.py")
        text = self.page.read_text()
        self.assertIn("```text\n$ ./program\n\n  one 1\n\n  two a.cu\n  more\n```", text)
        self.assertIn("```text\n$ ./program\n  two a.cu\n  more\n```", text)
        self.assertIn("```text\n$ ./program\n  two a.cu\n  ...\n```", text)
        self.page.write_text("<!-- embed:output shown three 1 -->\n<!-- /embed -->\n")
        self.assertIn("begins with three", self.script("embed.py", status=2))

    def test_needs(self) -> None:
        self.page.write_text("<!-- embed:needs -->\n<!-- /embed -->\n")
        self.script("embed.py")
        self.assertIn("| 8.0 or newer | v1, v2, v3 |", self.page.read_text())

    def test_worst_shape_of_each_set(self) -> None:
        self.page.write_text(
            "<!-- embed:worst grid.json,random_both.json:f16 -->\n<!-- /embed -->\n"
        )
        self.script("embed.py")
        self.assertIn("not measured", self.page.read_text())
        shapes = [entry("v01_first", "f16", size, t, 100) for size, t in ((512, 50), (768, 200))]
        self.measure(shapes, file="grid.json")
        self.measure([*shapes, entry("v01_first", "f32", 512, 1, 100)], file="random_both.json")
        self.script("embed.py")
        row = "| 2 | 1.000 | 50.0 % | 0.500 | 512x512x512 nn |"
        self.assertIn(f"| grid, f16 {row}\n| random, f16 {row}\n", self.page.read_text())

    def test_bf16_of_another_run_says_so(self) -> None:
        self.kernel("v14_brain", "v2", 2, "f16(launch<half>), bfloat16(launch<bf16>)")
        self.measure()
        other = CONTEXT | {"git_revision": "1234567", "peak_tensor_f16_tflops": "1000"}
        self.measure([entry("v14_brain", "bf16", 4096, 650, 700)], file="bf16.json", context=other)
        self.page.write_text(
            "<!-- embed:row v14 -->\n<!-- /embed -->\n<!-- embed:conditions -->\n<!-- /embed -->\n"
        )
        self.script("embed.py")
        self.assertIn("| 65.0 % (f16 tensor, 1000)", self.page.read_text())
        self.assertIn("revision abcdef0, bf16 of revision 1234567.", self.page.read_text())

    def test_without_results_nothing_is_made_up(self) -> None:
        self.script("embed.py")
        text = self.page.read_text()
        self.assertIn("In f32 at 4096: not measured.", text)
        self.assertIn("Nothing measured yet on a GPU.", text)
        self.assertNotRegex(text, r"\d %")

    def test_check_names_file_and_marker(self) -> None:
        self.measure()
        self.script("embed.py")
        source = self.root / "kernels/v02_second.cu"
        source.write_text(source.read_text().replace("work(i)", "work(i + 1)"))
        told = self.script("embed.py", "--check", status=1)
        self.assertIn("page.md: stale: <!-- embed:region kernels/v02_second.cu idea -->", told)
        self.assertNotIn("embed:core", told)

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
            ("v1 f32 4096 colour", "known: ratio, share, tflops, gain, spread, baseline"),
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
        self.page.write_text("<!-- embed:core -->\n<!-- embed:index -->\n<!-- /embed -->\n")
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


if __name__ == "__main__":
    unittest.main()
