"""scripts/compare.py and the end of scripts/bench.sh: on committed runs, on copies of them that were
changed on purpose, and on what other programs of Google Benchmark write."""

from __future__ import annotations

import copy
import json
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Callable

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
RESULTS = ROOT / "plots" / "results" / "h200"
sys.path.insert(0, str(SCRIPTS))

import matplotlib  # noqa: E402
from made_up_ladder import forked  # noqa: E402

from common import ladder, runs  # noqa: E402
from figures import figure_style, overlay  # noqa: E402

LADDER, SWEEP = RESULTS / "ladder.json", RESULTS / "rungs_sweep.json"
OTHER_CARD = RESULTS / "ladder_other_card.json"  # the ladder again, on another card of its type
REVISION = ladder.read_json(LADDER)["context"]["git_revision"][:7]
SPEED = re.compile(r"(baseline_)?TFLOPS(_p10|_p90)?|ratio(_p10|_p90)?")


class Fixture(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, name: str, data: Any) -> Path:
        path = self.root / name
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    def changed(
        self, name: str, change: Callable[[dict[str, Any]], None], source: Path = LADDER
    ) -> Path:
        """A copy of a run in which every entry went through `change`."""
        data = ladder.read_json(source)
        for entry in data["benchmarks"]:
            change(entry)
        return self.write(name, data)

    def compare(self, *args: object, status: int = 0) -> str:
        returned, told, complaints = forked([str(SCRIPTS / "compare.py"), *map(str, args)])
        self.assertEqual(returned, status, told + complaints)
        if status == 2:
            self.assertEqual(len(complaints.splitlines()), 1, complaints)
        else:
            self.assertEqual(complaints, "")
        return told + complaints


def scaled(
    entry: dict[str, Any], factor: float, prefixes: tuple[str, ...] = ("TFLOPS", "ratio")
) -> None:
    for key in entry:
        if key.startswith(prefixes):
            entry[key] *= factor


class Rule(Fixture):
    def test_a_slower_rung_is_found(self) -> None:
        worse = self.changed(
            "worse.json",
            lambda e: scaled(e, 0.9) if e["name"].startswith("v08_double_buffer/f32/") else None,
        )
        told = self.compare(f"good={LADDER}", f"bad={worse}", "--fail-below", "0.98", status=1)
        below = [line for line in told.splitlines() if line.startswith("below 0.98: ")]
        self.assertIn("below 0.98: v8 f32 nn all 9 shapes slower 0.900 (bad)", below)
        self.assertIn("below 0.98: v8 f32 nn 4096x4096x4096 slower 0.900 (bad)", below)
        self.assertTrue(all(": v8 f32 " in line for line in below), below)
        self.assertIn("0 faster", told)
        self.compare(LADDER, worse, "--fail-below", "0.85")

    def test_a_rung_three_percent_slower_everywhere_is_found(self) -> None:
        worse = self.changed(
            "worse.json",
            lambda e: scaled(e, 0.97) if e["name"].startswith("v24_pingpong/f16/") else None,
        )
        told = self.compare(LADDER, worse, "--kernel", "v24", "--fail-below", "0.98", status=1)
        self.assertIn("v24 f16 nn all 9 shapes slower 0.970", told)

    def test_noise_is_not(self) -> None:
        """Noise as measured: 0.5 % of the rung, 1 % of clocks, 1 % of the baseline. 20 runs of it."""
        rng = random.Random(20)
        base = runs.load(LADDER)
        found = 0
        for _ in range(20):

            def noisy(entry: dict[str, Any]) -> None:
                rung, clock, baseline = (rng.gauss(0, s) for s in (0.005, 0.01, 0.01))
                scaled(entry, 2.718281828 ** (rung + clock), ("TFLOPS",))
                scaled(entry, 2.718281828 ** (rung - baseline), ("ratio",))
                scaled(entry, 2.718281828 ** (clock + baseline), ("baseline_TFLOPS",))

            other = runs.load(self.changed("noisy.json", noisy))
            found += bool(runs.compare(base, other).different())
        self.assertLessEqual(found, 2)
        self.compare(LADDER, self.root / "noisy.json", "--fail-below", "0.98")

    def test_clock_or_baseline_alone_is_no_difference(self) -> None:
        def clock(entry: dict[str, Any]) -> None:
            scaled(entry, 0.8, ("TFLOPS", "baseline_TFLOPS"))

        def baseline(entry: dict[str, Any]) -> None:
            scaled(entry, 0.8, ("baseline_TFLOPS",))
            scaled(entry, 1.25, ("ratio",))

        for change in (clock, baseline):
            moved = self.changed("moved.json", change)
            self.assertIn("0 slower, 0 faster", self.compare(LADDER, moved, "--fail-below", "0.98"))

    def test_a_contradiction_counts_as_the_worse(self) -> None:
        for key in ("ratio", "TFLOPS"):

            def edit(entry: dict[str, Any], key: str = key) -> None:
                if entry["name"].startswith("v08_double_buffer/f32/"):
                    scaled(entry, 0.8, (key,))

            edited = self.changed("edited.json", edit)
            told = self.compare(LADDER, edited, "--fail-below", "0.98", status=1)
            self.assertIn("contradict each other", told)
            self.assertIn("v8 f32 nn 4096x4096x4096 slower 0.800", told)

    def test_another_gpu_is_compared_by_its_share_of_cublas(self) -> None:
        other = ladder.read_json(LADDER)
        other["context"]["gpu"] = "NVIDIA A100"
        for entry in other["benchmarks"]:
            scaled(entry, 0.3, ("TFLOPS", "baseline_TFLOPS"))
        told = self.compare(LADDER, self.write("a100.json", other), "--kernel", "v24,v27")
        self.assertIn("They differ in: gpu NVIDIA H200 / NVIDIA A100", told)
        self.assertIn("0 slower, 0 faster", told)
        self.assertIn(f"B: A100 {REVISION}", told)

    def test_more_rows_need_more(self) -> None:
        self.assertAlmostEqual(runs.quantile_for(1), 1.96, 2)
        self.assertGreater(runs.quantile_for(400), 3.7)

    def test_quantiles_are_those_of_the_file(self) -> None:
        value = runs.measured({"ratio": 1.0, "ratio_p10": 0.77, "ratio_p90": 1.01}, "ratio")
        assert value and value.deviation
        self.assertEqual(value.ends, (0.77, 1.01))  # lopsided, as drawn
        self.assertAlmostEqual(value.deviation, math.log(1.01 / 0.77) / runs.P10_TO_P90)
        self.assertEqual(runs.Value(2.0).ends, (2.0, 2.0))

    def test_rate_of_false_alarms(self) -> None:
        told = self.compare("--false-alarms", LADDER, OTHER_CARD, LADDER)
        self.assertIn("0 of 3 tables of equal runs with a difference", told)
        worse = self.changed("worse.json", lambda e: scaled(e, 0.8))
        told = self.compare("--false-alarms", LADDER, worse, "--kernel", "v24")
        self.assertIn("1 of 1 tables of equal runs with a difference: 100.00 %", told)
        self.assertAlmostEqual(runs.at_most(0, 45), 1 - 0.05 ** (1 / 45), 6)


class Input(Fixture):
    def test_bad_input_is_one_line(self) -> None:
        text = self.write("text.json", "{")
        other = self.write("other.json", {"a": 1})
        untimed = self.write("none.json", {"context": {}, "benchmarks": []})
        odd = self.write("odd.json", {"context": {}, "benchmarks": [{"time": 1}]})
        elsewhere = self.changed(
            "elsewhere.json", lambda e: e.update(name="x" + e["name"], run_name="x" + e["name"])
        )
        for args, wanted in (
            ((), "no run"),
            (("missing.json", LADDER), "missing.json: no JSON that can be read"),
            ((LADDER, text), "text.json: no JSON that can be read"),
            ((LADDER, other), "other.json: not Google Benchmark's JSON"),
            ((LADDER, odd), "odd.json: not Google Benchmark's JSON"),
            ((LADDER, elsewhere), "have no timed entry in common"),
            ((untimed,), "nothing in it was timed"),
            (
                (LADDER, LADDER, "--kernel", "v99"),
                "nothing of what was asked for; it has v1 f32 nn",
            ),
            ((LADDER, LADDER, "--plot", "x.bmp"), "want .png, .svg, .html in an existing folder"),
            ((LADDER, LADDER, "--plot", self.root / "no/x.png"), "in an existing folder"),
            ((LADDER, LADDER, "--fail-below", "0"), "want a factor above 0"),
            ((LADDER, "--fail-below", "0.9"), "--fail-below compares"),
            ((LADDER, LADDER, "--by", "speed"), "--help lists what is allowed"),
            (("--false-alarms", LADDER), "two or more runs"),
        ):
            with self.subTest(wanted):
                self.assertIn(wanted, self.compare(*args, status=2))

    def test_labels(self) -> None:
        told = self.compare(LADDER, f"new={SWEEP}", "--kernel", "v24")
        self.assertIn(f"A: H200 {REVISION}  (", told)
        self.assertIn("B: new  (", told)
        told = self.compare(LADDER, LADDER, "--kernel", "v24")
        self.assertIn("0 slower, 0 faster", told)

    def plain(self, name: str, factor: float, repetitions: int, aggregates: bool = False) -> Path:
        """What another program of Google Benchmark writes: no counters of ours."""
        rng, lines = random.Random(name), []
        for size in (64, 512, 4096):
            common = {"run_name": f"BM_copy/{size}", "time_unit": "us", "threads": 1}
            samples = [factor * size / 50 * rng.gauss(1, 0.01) for _ in range(repetitions)]
            for i, time in enumerate([] if aggregates else samples):
                lines.append({**common, "name": f"BM_copy/{size}", "run_type": "iteration",
                              "repetition_index": i, "real_time": time, "cpu_time": time})  # fmt: skip
            if repetitions > 1:
                for kind, time in (
                    ("median", sorted(samples)[repetitions // 2]),
                    ("stddev", 0.01 * samples[0]),
                ):
                    lines.append({**common, "name": f"BM_copy/{size}_{kind}", "run_type": "aggregate",
                                  "aggregate_name": kind, "real_time": time, "cpu_time": time})  # fmt: skip
        return self.write(name, {"context": {"host_name": "x"}, "benchmarks": lines})

    def test_other_programs_of_google_benchmark(self) -> None:
        a, same = self.plain("a.json", 1, 9), self.plain("same.json", 1, 9)
        slow = self.plain("slow.json", 1.2, 9)
        told = self.compare(a, same, "--fail-below", "0.98")
        self.assertIn("3 entries: 0 slower, 0 faster, 3 the same", told)
        told = self.compare(a, slow, "--fail-below", "0.98", status=1)
        self.assertIn("3 entries: 3 slower", told)
        self.assertRegex(told, r"BM_copy +4096 +8\d\.\d+ us +9\d\.\d+ us +0\.8[0-9]{2}")
        picture = self.root / "plain.svg"
        self.compare(a, slow, "--plot", picture)
        self.assertIn("BM_copy", picture.read_text())

    def test_aggregates_only(self) -> None:
        a, slow = self.plain("a.json", 1, 5, True), self.plain("slow.json", 1.3, 5, True)
        self.assertIn("3 slower", self.compare(a, slow, "--fail-below", "0.98", status=1))

    def test_one_sample_each_says_so(self) -> None:
        a, slow = self.plain("a.json", 1, 1), self.plain("slow.json", 1.3, 1)
        told = self.compare(a, slow)
        self.assertIn("how much is noise is not known", told)
        self.compare(a, slow, "--fail-below", "0.98", status=1)


class Picture(Fixture):
    def worse(self) -> Path:
        return self.changed(
            "worse.json",
            lambda e: scaled(e, 0.9) if e["name"].startswith("v08_double_buffer/f32/") else None,
        )

    def test_two_runs_in_every_form(self) -> None:
        worse = self.worse()
        for suffix in ("png", "svg", "html"):
            path = self.root / f"picture.{suffix}"
            told = self.compare(
                f"before={LADDER}",
                f"after={worse}",
                "--kernel",
                "v8",
                "--dtype",
                "f32",
                "--plot",
                path,
            )
            self.assertEqual(told.splitlines()[-1], f"picture: {path}")
        svg, page = ((self.root / f"picture.{s}").read_text() for s in ("svg", "html"))
        for wanted in (
            "v8 f32 nn: after is 10.0 % slower on average",
            "before",
            "after",
            "cuBLAS = 1",
        ):
            self.assertIn(wanted, svg)
            self.assertIn(wanted, page)
        self.assertIn("B/A 0.900: slower</title>", svg)
        self.assertIn('<tr class="slower">', page)
        self.assertNotRegex(page, r'(src|href)="https?:')  # one file, whole
        first = svg
        self.compare(f"before={LADDER}", f"after={worse}", "--kernel", "v8", "--dtype", "f32",
                     "--plot", self.root / "picture.svg")  # fmt: skip
        self.assertEqual(first, (self.root / "picture.svg").read_text())

    def test_png_has_both_lines_on_a_white_card(self) -> None:
        path = self.root / "x.png"
        self.compare(LADDER, self.worse(), "--kernel", "v8", "--dtype", "f32", "--plot", path)
        image = Image.open(path).convert("RGB")
        corner, seen = image.getpixel((2, 2)), {color for _, color in image.getcolors(1 << 24)}
        self.assertEqual(corner, (255, 255, 255))
        for color in overlay.COLORS[:2]:
            self.assertIn(tuple(int(color[i : i + 2], 16) for i in (1, 3, 5)), seen)

    def drawn(
        self, *paths: Path, kernel: str = "", dtype: str = ""
    ) -> tuple[list[overlay.Line], Any]:
        shown = [runs.load(path) for path in paths]
        for run in shown:
            run.entries = {
                n: e
                for n, e in run.entries.items()
                if e.key[0].startswith(kernel) and e.key[1].startswith(dtype)
            }
        runs.name_runs(shown)
        comparisons = [runs.compare(shown[0], other) for other in shown[1:]]
        comparisons = [c for c in comparisons if c.changes]
        matplotlib.rcParams.update(figure_style.STYLE)
        lines, _, _ = overlay.lines_of(shown, comparisons, "ratio")
        fig, _ = overlay.draw(shown, comparisons, None)
        self.addCleanup(overlay.plt.close, fig)
        return lines, fig

    def test_at_most_six_lines_the_most_changed(self) -> None:
        lines, fig = self.drawn(LADDER, self.worse())
        self.assertEqual(len(lines), 6)
        self.assertIn(("v08_double_buffer", "f32", "nn"), {line.key for line in lines})
        self.assertTrue(any("more in the table" in text.get_text() for text in fig.texts))

    def test_gaps_break_the_line(self) -> None:
        def gone(entry: dict[str, Any]) -> None:
            if entry["name"] == "v08_double_buffer/f32/nn/2048x2048x2048":
                entry.update(error_occurred=True, error_message="skipped: no reason")

        lines, fig = self.drawn(LADDER, self.changed("gap.json", gone), kernel="v08", dtype="f32")
        a, b = lines
        sizes = sorted(a.points)
        self.assertEqual((a.gaps(sizes), b.gaps(sizes)), ([], [2048.0]))
        gone_at = [s for s, v in zip(sizes, b.values(sizes)) if math.isnan(v.median)]
        self.assertEqual(gone_at, [2048.0])
        self.assertIn("x: no measurement.", fig.texts[-1].get_text())

    def provider(self, name: str, factor: float, *shapes: str) -> Path:
        """What another provider would have written: a file of one rung, at these shapes."""
        data = ladder.read_json(LADDER)
        old = "v24_pingpong/f16/nn/4096x4096x4096"
        entry = next(e for e in data["benchmarks"] if e["name"] == old)
        scaled(entry, factor)
        names = [f"{name}/f16/nn/{shape}" for shape in shapes]
        data["benchmarks"] = [{**entry, "name": n, "run_name": n} for n in names]
        return self.write(f"{name}.json", data)

    def test_files_of_different_rungs_are_drawn_together(self) -> None:
        shapes = "64x512x256", "64x256x512", "128x256x512"  # two of one cube root
        files = [self.provider(f"peer{i}", 1 - 0.1 * i, *shapes) for i in range(4)]
        path = self.root / "peers.svg"
        told = self.compare(*files, "--plot", path)
        for i in range(4):
            self.assertRegex(told, rf"(?m)^peer{i} +f16 +nn +128x256x512")
        svg = path.read_text()
        for wanted in (
            *shapes,
            "peer0",
            "peer3",
            "cuBLAS = 1",
            "M, and below it N x K",
            "of 3 sizes",
        ):
            self.assertIn(wanted, svg)
        self.assertEqual(svg.count("<title>peer"), 12)  # no point covers another
        self.assertNotIn("stroke-dasharray: 6", svg)  # nothing is compared: all lines are solid
        self.compare(*files, "--plot", path, "--fail-below", "0.9", status=2)
        lines, _ = self.drawn(*files)
        self.assertEqual([line.name for line in lines], [f"peer{i}" for i in range(4)])

    def test_where_cublas_is_the_fastest_the_title_says_so(self) -> None:
        files = [self.provider(f"peer{i}", 0.5, "1024x1024x1024", "2048x2048x2048") for i in (1, 2)]
        _, fig = self.drawn(*files)
        title = fig.texts[0].get_text()
        self.assertEqual(title, "cuBLAS is the fastest at 2 of 2 sizes, f16 nn")

    def test_own_run_alone(self) -> None:
        path = self.root / "own.svg"
        self.compare(LADDER, "--kernel", "v24,v27,v28", "--dtype", "f16", "--plot", path)
        self.assertIn("is the fastest", path.read_text())
        self.assertIn("no multiple of 64", path.read_text())  # 1000

    def test_runs_of_other_kernels_share_a_picture(self) -> None:
        path = self.root / "both.svg"
        languages = (RESULTS / "tiles.json", RESULTS / "tiles_triton.json")
        told = self.compare(*languages, "--y", "TFLOPS", "--plot", path)
        self.assertIn("triton", told)
        for wanted in (
            "v28 is the fastest, or level with it, at 5 of 5 sizes",
            "triton",
            "cuBLAS",
            "H200",
        ):
            self.assertIn(wanted, path.read_text())
        self.compare(*languages, "--plot", path, "--fail-below", "0.9", status=2)


class Bench(Fixture):
    """The end of scripts/bench.sh, with a program in the place of ./gemm_bench."""

    def setUp(self) -> None:
        super().setUp()
        for folder in ("build", "bin", "plots"):
            (self.root / folder).mkdir()
        shutil.copytree(
            SCRIPTS, self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__")
        )
        shutil.copytree(ROOT / "plots" / "results", self.root / "plots" / "results")
        (self.root / ".venv").symlink_to(Path(sys.prefix))
        (self.root / "kernels").mkdir()
        for rung in (ROOT / "kernels").glob("*.cu"):
            shutil.copy(rung, self.root / "kernels")
        self.executable("scripts/setup.sh", "")
        for tool in ("cmake", "ninja", "nvidia-smi"):  # a machine with a GPU, and all is built
            self.executable(f"bin/{tool}", "")

    def executable(self, name: str, body: str) -> None:
        path = self.write(name, f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)

    def program(
        self,
        entries: list[dict[str, Any]],
        context: dict[str, Any],
        status: int = 0,
        suffix: str = "",
    ) -> None:
        """A gemm_bench that writes this run to the file after its last --json, and this suffix."""
        self.write("run.json", {"context": context, "benchmarks": entries})
        self.executable(
            "gemm_bench",
            'echo "ran: $*"\n'
            f"while (($#)); do [[ $1 != --json ]] || cp run.json $2{suffix}; shift; done\n"
            f"exit {status}",
        )

    def bench(self, *args: str, status: int = 0) -> str:
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(
            [self.root / "scripts" / "bench.sh", *args],
            capture_output=True, text=True, timeout=120, env=environment,
        )  # fmt: skip
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_ends_with_the_picture_beside_the_committed_run(self) -> None:
        committed = ladder.read_json(LADDER)
        entries = [
            e for e in committed["benchmarks"] if e["name"].startswith("v08_double_buffer/f32/")
        ]
        mine = copy.deepcopy(entries)
        for entry in mine:
            scaled(entry, 0.9)
        self.program(mine, committed["context"], status=1)
        told = self.bench(
            "--kernel", "v8", "--dtype", "f32", status=1
        )  # the status of the run is kept
        self.assertIn("ran: --kernel v8 --dtype f32 --json build/run.json", told)
        self.assertIn(f"A: committed, H200 {REVISION}  (", told)
        self.assertIn("v8 f32 nn slower 0.900", told)
        self.assertEqual(told.splitlines()[-1], "picture: build/run.png")
        self.assertTrue((self.root / "build/run.png").exists())

        named = self.bench("--kernel", "v8", "--json", "mine.json", status=1)
        self.assertIn("ran: --kernel v8 --json mine.json\n", named)
        self.assertIn("picture: build/run.png", named)

        other = {**committed["context"], "gpu": "NVIDIA A100", "compute_capability": "8.0"}
        self.program(mine, other)
        told = self.bench("--kernel", "v8")
        self.assertIn("no committed run of NVIDIA A100: beside NVIDIA H200's", told)

    def test_the_ladder_begins_with_the_core(self) -> None:
        committed = ladder.read_json(LADDER)
        self.program(committed["benchmarks"], committed["context"])
        core, quick = re.findall(r"^ran: (.*)$", self.bench(), re.MULTILINE)
        self.assertEqual(core, "--quick --dtype f32,f16 --size 512,4096")
        self.assertIn("--quick", quick)
        self.assertIn("--json build/ladder.json", quick)
        self.assertTrue((self.root / "build/ladder.png").exists())  # and not by a new committed run
        self.assertFalse(list((self.root / "plots").glob("*.svg")))

    def test_draws_what_an_interrupted_run_has_measured(self) -> None:
        committed = ladder.read_json(LADDER)
        self.program(committed["benchmarks"][:40], committed["context"], 130, ".partial")
        told = self.bench("--kernel", "v8", status=130)
        self.assertEqual(told.splitlines()[-1], "picture: build/run.png")

    def test_draws_nothing_where_nothing_was_timed(self) -> None:
        verified = {"name": "v08_double_buffer/f32/nn/256x256x256", "run_type": "iteration",
                    "real_time": 0.0, "time_unit": "ms", "verified": 1}  # fmt: skip
        self.program([verified], {"backend": "sim"})
        self.assertNotIn("picture", self.bench("--kernel", "v8"))
        self.executable("bin/nvidia-smi", "exit 9")
        told = self.bench("--kernel", "v2")
        self.assertIn("ran: --inspect --kernel v1,v2 --dtype f32", told)
        self.assertIn("Next, type\n  scripts/bench.sh --inspect --kernel v1,v2", told)
        self.assertEqual(
            self.bench("--kernel", "v8", "--verify-only").splitlines()[-1],
            "ran: --kernel v8 --verify-only",
        )
        self.assertFalse((self.root / "build/run.png").exists())


if __name__ == "__main__":
    unittest.main()
