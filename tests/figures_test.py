"""The scripts that draw, on a made-up ladder and on the committed results."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import unittest
from dataclasses import astuple
from typing import Any, Optional, Sequence
from unittest import mock

from made_up_ladder import CONTEXT, ENTRIES, ROOT, Fixture, entry

import accuracy
import simulate
from common import ladder
from figures import figure_style, overlay, phases


class Plot(Fixture):
    FIGURES = ("sizes_f32", "sizes_f16", "ladder_f32", "ladder_f16")

    def figure(self, name: str) -> str:
        return (self.root / "plots" / f"{name}.svg").read_text()

    def test_same_results_same_bytes(self) -> None:
        self.measure()
        told = self.script("plot.py")
        for name in self.FIGURES:
            self.assertIn(f"plots/{name}.svg: drawn", told)
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
        drawn = plot.draw_sizes(results, rungs, "f32")
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
            self.assertIn(wanted, self.figure("sizes_f32"))

    def test_bars_say_the_gain(self) -> None:
        self.kernel("v04_parts", "v2", 2, ".product_error = 0x1p-19}, {f32(launch<float>)")
        self.measure([*ENTRIES, entry("v04_parts", "f32", 4096, 200, 50)])
        self.script("plot.py")
        bars = self.figure("ladder_f32")
        for wanted in ("v2 has 0.30 of", "0.300", "x3.00 over v1"):
            self.assertIn(wanted, bars)
        self.assertIn("v3 third (TF32)", bars)
        self.assertNotIn("v4 parts", bars)  # 22 bits: no FP32
        self.assertIn("v4: FP32 from parts on tensor cores", bars)

    def test_the_most_complete_ladder_is_the_reference(self) -> None:
        """A folder more is found by itself; which GPU the README is of depends on what it holds."""
        beside = self.root / "plots/results/rtx-4090/sizes_f32.svg"
        self.page.write_text(
            "<!-- embed:conditions -->\n<!-- /embed -->\n<!-- embed:gpus -->\n<!-- /embed -->\n"
        )
        self.measure()
        other = {**CONTEXT, "gpu": "NVIDIA GeForce RTX 4090"}
        self.measure(ENTRIES[:-3], gpu="rtx-4090", context=other)
        self.script("plot.py")
        self.script("embed.py")
        self.assertIn("NVIDIA H200", self.figure("sizes_f32"))
        self.assertIn("RTX 4090", beside.read_text())
        text = self.page.read_text()
        self.assertIn("Measured on one NVIDIA H200,", text)
        self.assertIn("| NVIDIA H200 | 2 | v2: 30.0 % of cuBLAS | ", text)
        self.assertIn("| NVIDIA GeForce RTX 4090 | 1 |", text)
        self.assertIn("(plots/results/rtx-4090/)", text)

        self.measure(ENTRIES[:-3])
        self.measure(gpu="rtx-4090", context=other)
        self.assertIn("plots/sizes_f32.svg: stale", self.script("plot.py", "--check", status=1))
        self.script("embed.py")
        self.assertIn("Measured on one NVIDIA GeForce RTX 4090,", self.page.read_text())

    def test_gpu_asked_for(self) -> None:
        self.measure()
        other = {**CONTEXT, "gpu": "NVIDIA GeForce RTX 4090"}
        self.measure(ENTRIES[:-3], gpu="rtx-4090", context=other)
        self.script("plot.py", "--gpu", "rtx-4090")
        self.assertIn("RTX 4090", self.figure("sizes_f32"))
        self.script("embed.py", "--gpu", "rtx-4090")
        self.assertIn("Measured on one NVIDIA GeForce RTX 4090,", self.page.read_text())
        for script in ("plot.py", "embed.py"):
            told = self.script(script, "--gpu", "a100", status=2)
            self.assertEqual(told, "--gpu a100: plots/results has h200, rtx-4090\n")

    def test_without_results_there_are_no_figures(self) -> None:
        self.assertEqual(self.script("plot.py"), "")
        stray = self.root / "plots/sizes_f32.svg"
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

    def test_say_what_was_counted_and_are_the_same_for_the_same_data(self) -> None:
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
        self.assertEqual(self.script("plot.py", "--check"), "")
        (self.root / "plots" / "swizzle.svg").unlink()
        self.requests[0]["wavefront_of_lane"][1] = 0
        self.simulate()
        told = self.script("plot.py", "--check", status=1)
        self.assertIn("plots/banks_v05_v06_v07.svg: stale", told)
        self.assertIn("plots/swizzle.svg: missing", told)
        self.assertNotIn("sectors", told)

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


class Limits(Fixture):
    def test_constants_are_those_of_the_source(self) -> None:
        from figures import layouts

        sizes = layouts.constants(ladder.find_rung(ladder.load_rungs(ROOT), "v8"), "f16")
        wanted = {"BM": 128, "BN": 128, "TM": 8, "TN": 8, "THREADS": 256, "BK": 16}
        self.assertEqual({name: sizes[name] for name in wanted}, wanted)

    def test_timelines(self) -> None:
        from figures import limits

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
        from figures import limits

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

    def test_climb_follows_the_chain(self) -> None:
        self.measure()
        self.script("plot.py")
        steps = (self.root / "plots/climb.svg").read_text()
        for wanted in ("v1 first", "15.0", "30 %", "f32 from 10 % to 30 % of cuBLAS", "limit 64"):
            self.assertIn(wanted, steps)
        self.assertNotIn("third", steps)
        self.assertNotIn("f16", steps)  # one step is none

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
    """Those of the committed results, as plot.py --check says; and as pictures: no text over another,
    none beyond the page; the drawn mechanisms in both themes."""

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
        # Boxes of the texts. An annotation counts without its arrow, which may cross what it likes.
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

    def test_is_drawn_from_results_and_no_text_is_hidden_or_cut(self) -> None:
        import matplotlib
        import matplotlib.pyplot as plt

        import plot
        from figures import mechanisms

        gpu = ladder.reference_gpu(ROOT)
        drawn: dict[str, Any] = {}

        def keep(fig: Any) -> bytes:
            title = next((t.get_text() for t in fig.texts if t.get_text().strip()), "")
            drawn[f"{len(drawn)}: {title}"] = fig
            return figure_style.svg(fig)

        # Everything that becomes a file goes through svg(), wherever it is drawn.
        with contextlib.ExitStack() as patches:
            style = {**figure_style.STYLE, "figure.max_open_warning": 0}
            patches.enter_context(matplotlib.rc_context(style))
            for module in (plot, overlay, mechanisms, phases):
                patches.enter_context(mock.patch.object(module, "svg", keep))
            images = plot.figures(ROOT, gpu)
            self.assertEqual(len(drawn), sum(image is not None for image in images.values()))
            for path, image in images.items():
                committed = path.read_bytes() if path.exists() else None
                with self.subTest(file=path.name):
                    self.assertTrue(committed == image, "stale: run scripts/plot.py")
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
        from figures import mechanisms

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
        placed = overlay.spread_apart([0.9, 0.1, 0.12, 0.11], 0.2, 0.0, 1.0)
        self.assertEqual(sorted(range(4), key=placed.__getitem__), [1, 3, 2, 0])
        ordered = sorted(placed)
        self.assertTrue(all(b - a > 0.19 for a, b in zip(ordered, ordered[1:])))

    def test_another_file_is_bad_input(self) -> None:
        path = self.root / "x.json"
        path.write_text("[]")
        with self.assertRaises(ladder.BadInput):
            accuracy.load(path)


if __name__ == "__main__":
    unittest.main()
