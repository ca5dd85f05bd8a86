"""scripts/shapes.py, scripts/summary.py and the figures of many shapes, on an invented run."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Iterator, Optional

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

import matplotlib  # noqa: E402
import matplotlib.pyplot as plt  # noqa: E402

import shapes  # noqa: E402
import summary  # noqa: E402
from common import ladder, runs  # noqa: E402
from figures import figure_style, shape_map  # noqa: E402

Problem = tuple[int, int, int, str, str]


def problems(text: str) -> Iterator[Problem]:
    """The problems of a shapes file in which each line names op and dtype."""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        ms, ns, ks = (tuple(map(int, part.split(","))) for part in words[0].split("x"))
        yield from ((m, n, k, words[1], words[2]) for k in ks for n in ns for m in ms)


def invented_ratio(m: int, n: int, k: int) -> float:
    """A ratio that nobody measured: from 0.5 to 1.5, the same each time."""
    return 1 + 0.5 * math.sin(m * 7 + n * 3 + k)


def invented(found: list[Problem]) -> dict:
    entries = []
    for m, n, k, op, dtype in found:
        ratio = invented_ratio(m, n, k)
        speed = {f"TFLOPS{end}": 100 * ratio for end in ("", "_p10", "_p90")}
        entries.append({
            "name": f"v99_invented/{dtype}/{op}/{m}x{n}x{k}", "run_type": "iteration",
            "real_time": 1, "time_unit": "ms", "baseline_TFLOPS": 100, **speed,
            "ratio": ratio, "ratio_p10": ratio * 0.99, "ratio_p90": ratio * 1.01,
        })  # fmt: skip
    return {"context": {"gpu": "Invented"}, "benchmarks": entries}


class Sets(unittest.TestCase):
    def found(self, name: str) -> list[Problem]:
        return list(problems((ROOT / "bench" / "shapes" / f"{name}.txt").read_text()))

    def test_files_are_what_the_script_writes(self) -> None:
        command = [sys.executable, str(SCRIPTS / "shapes.py"), "--check"]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_a_changed_file_is_found_and_written_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "bench" / "shapes").mkdir(parents=True)
            command = [sys.executable, str(SCRIPTS / "shapes.py"), "--root", folder]
            subprocess.run(command, check=True, capture_output=True)
            layers = root / "bench" / "shapes" / "layers.txt"
            layers.write_text(layers.read_text().replace("4096x4096", "4096x4097"))
            done = subprocess.run([*command, "--check"], capture_output=True, text=True)
            self.assertEqual(
                (done.returncode, done.stdout), (1, "bench/shapes/layers.txt: stale\n")
            )
            subprocess.run(command, check=True, capture_output=True)
            self.assertEqual(subprocess.run([*command, "--check"]).returncode, 0)

    def test_the_grid(self) -> None:
        grid = self.found("grid1000")
        self.assertEqual(len(set(grid)), 1000)
        self.assertEqual({extent for p in grid for extent in p[:3]}, set(shapes.GRID))

    def test_the_layers(self) -> None:
        layers = self.found("layers")
        self.assertEqual(len(set(layers)), len(layers))
        self.assertEqual({p[3:] for p in layers}, {("nt", "bf16")})
        self.assertEqual({p[0] for p in layers}, set(shapes.TOKENS))
        self.assertGreaterEqual(len(shapes.MODELS), 8)
        for known in ((1280, 8192), (2112, 7168), (4608, 3584), (24576, 1536), (32768, 512)):
            self.assertIn(known, {p[1:3] for p in layers})

    def test_random_shapes(self) -> None:
        drawn = self.found("random")
        for dtype in ("f32", "f16"):
            for op in ("nn", "nt", "tn", "tt"):
                mine = [p[:3] for p in drawn if p[3:] == (op, dtype)]
                self.assertEqual(len(mine), 60)
                aligned = sum(all(extent % 8 == 0 for extent in shape) for shape in mine)
                self.assertIn(aligned, range(30, 34), "half, and those that happen to be")
                logs = [math.log2(extent) for shape in mine for extent in shape]
                self.assertTrue(5 <= min(logs) and max(logs) < 13)
                self.assertAlmostEqual(sum(logs) / len(logs), 9, delta=0.6)
        self.assertNotEqual(shapes.random_shapes(1), shapes.random_shapes(2))


class Summary(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / "run.json"
        self.layers = list(problems(shapes.layers(1)))
        self.data = invented(self.layers)
        self.save()

    def save(self) -> None:
        self.file.write_text(json.dumps(self.data))

    def told(self, *args: str, status: int = 0) -> str:
        command = [sys.executable, str(SCRIPTS / "summary.py"), str(self.file), *args]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def test_the_numbers(self) -> None:
        ratios = [invented_ratio(*p[:3]) for p in self.layers]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        below = 100 * sum(r < 0.97 for r in ratios) / len(ratios)
        least = min(self.layers, key=lambda p: invented_ratio(*p[:3]))
        shape = "x".join(map(str, least[:3]))
        told = self.told()
        line = rf"v99 bf16 nt +{len(ratios)} +{mean:.3f} +{min(ratios):.3f} +{shape} +{below:.1f} %"
        self.assertRegex(told, line)
        worst = re.findall(r"^  (0\.\d+)  v99 bf16 nt ", told, re.MULTILINE)
        self.assertEqual(worst, [f"{r:.3f}" for r in sorted(ratios)[:10]])

    def test_by_m(self) -> None:
        told = self.told("--by", "M")
        for m in shapes.TOKENS:
            ratios = [invented_ratio(*p[:3]) for p in self.layers if p[0] == m]
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            self.assertRegex(told, rf"v99 bf16 nt, M = {m} +{len(ratios)} +{mean:.3f} ")

    def test_what_was_not_measured_is_told(self) -> None:
        for entry in self.data["benchmarks"][-7:]:
            entry |= {
                "error_occurred": True,
                "error_message": "not measured: --time-limit 5 was over",
            }
        self.data["benchmarks"][0] |= {"error_occurred": True, "error_message": "wrong: all of it"}
        self.save()
        told = self.told()
        self.assertIn(f"Not measured: 7 of {len(self.layers)}, from v99_invented/bf16/nt/", told)
        self.assertIn(
            "Without a result: 1, the first v99_invented/bf16/nt/1x4800x1600: wrong", told
        )

    def test_bad_input(self) -> None:
        self.assertIn("want .png or .svg", self.told("--plot", "x.gif", status=2))
        self.assertIn("nothing in it was timed", self.told("--dtype", "f32", status=2))
        self.file.write_text("{}")
        self.assertIn("not Google Benchmark's JSON", self.told(status=2))


class Pictures(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.addCleanup(plt.close, "all")

    def run_of(self, name: str, file: str = "", most: Optional[int] = None) -> Path:
        path = self.root / "plots" / "results" / "invented" / f"{file or name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(invented(list(problems(shapes.SETS[name](1)))[:most])))
        return path

    def test_a_figure_for_each_set_and_type(self) -> None:
        for name in shapes.SETS:
            self.run_of(name)
        with matplotlib.rc_context(figure_style.STYLE):
            found = shape_map.figures(self.root, "invented", "invented")
        names = {"shapes_random_f32", "shapes_random_f16", "shapes_grid1000", "shapes_layers"}
        self.assertEqual({path.stem for path in found}, names)
        for path, figure in found.items():
            assert figure is not None
            with self.subTest(figure=path.stem):
                told = [t.get_text() for t in figure.findobj(matplotlib.text.Text)]
                worst = [t for t in told if re.fullmatch(r"\d+x\d+x\d+( [nt]{2})?", t)]
                self.assertEqual(len(worst), 10)
                self.assertTrue(any("below 0.97" in t for t in told))

    def test_a_run_of_the_figures_name_goes_first(self) -> None:
        self.run_of("random")
        self.run_of("random", "random_f16", most=300)  # 240 in FP32, 60 in FP16
        with matplotlib.rc_context(figure_style.STYLE):
            found = shape_map.figures(self.root, "invented", "invented")
        figure = next(f for path, f in found.items() if path.stem == "shapes_random_f16")
        assert figure is not None
        told = [t.get_text() for t in figure.findobj(matplotlib.text.Text)]
        self.assertTrue(any(t.startswith("60 shapes") for t in told), told)

    def test_a_figure_without_its_run_is_removed(self) -> None:
        (self.root / "plots").mkdir()
        old = self.root / "plots" / "shapes_layers.svg"
        old.touch()
        self.assertEqual(shape_map.figures(self.root, "invented", "invented"), {old: None})

    def test_colours_diverge_from_one(self) -> None:
        self.assertEqual(shape_map.COLORS[shape_map.band(1.0)], "#d9d9d9")
        self.assertEqual(
            [shape_map.band(r) for r in (0.5, 0.85, 0.95, 1.05, 1.2, 3)], [0, 1, 2, 4, 5, 6]
        )

    def test_every_shape_has_a_place_of_its_own(self) -> None:
        entries = summary.compared(runs.load(self.run_of("grid1000")))
        places = shape_map.stacked(entries, 0.06)
        self.assertEqual(len(set(places.values())), 1000)

    def test_no_failure_ends_as_a_regression_does(self) -> None:
        """2 and one line for a bad file, 3 for a full device: 1 would mean a regression."""
        results = ladder.stored(ROOT / "plots" / "results" / "h200" / "ladder.json")
        entry = {"name": "v06_bank_conflicts/f32/nn/64x64x64", "run_type": "iteration"}
        bad: dict[str, Any] = {
            "arrays": "[" * 100000,
            "objects": '{"a":' * 100000,
            "bytes": b"\xff\xfe",
            "empty": "",
            "a number": "5",
            "simulator": json.dumps({"context": {"backend": "simulator"}, "benchmarks": [entry]}),
            "no context": json.dumps({"benchmarks": [entry]}),
            "odd": json.dumps({"context": [], "benchmarks": [5]}),
        }
        with tempfile.TemporaryDirectory() as folder:
            for name, text in bad.items():
                file = Path(folder, "run.json")
                file.write_bytes(text if isinstance(text, bytes) else text.encode())
                calls: list[list[Any]] = [
                    ["compare.py", file],
                    ["compare.py", results, file],
                    ["compare.py", file, results],
                    ["summary.py", file],
                ]
                for arguments in calls:
                    with self.subTest(file=name, arguments=arguments):
                        command = [sys.executable, SCRIPTS / arguments[0], *arguments[1:]]
                        done = subprocess.run(command, capture_output=True, text=True, check=False)
                        self.assertEqual(done.returncode, 2, done.stderr)
                        self.assertEqual(len(done.stderr.splitlines()), 1)
        for script in ("compare.py", "summary.py"):
            with open("/dev/full", "w") as full:
                command = [sys.executable, SCRIPTS / script, results]
                done = subprocess.run(
                    command, stdout=full, stderr=subprocess.PIPE, text=True, check=False
                )
            self.assertEqual(done.returncode, 3)
            self.assertEqual(
                done.stderr.splitlines(), [f"{script}: [Errno 28] No space left on device"]
            )

    def test_a_picture_of_any_run(self) -> None:
        out = self.root / "all.png"
        command = [sys.executable, str(SCRIPTS / "summary.py"), str(self.run_of("random"))]
        done = subprocess.run([*command, "--plot", str(out)], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--dtype f32 or f16", done.stderr)
        subprocess.run(
            [*command, "--plot", str(out), "--dtype", "f32"], check=True, capture_output=True
        )
        with Image.open(out) as image:
            self.assertEqual(image.size[0], 1200)
            colors = {tuple(c) for _, c in image.convert("RGB").getcolors(1 << 20)}
        self.assertTrue({(0x8C, 0x0D, 0x25), (0x0B, 0x3D, 0x73)} <= colors, "wins and losses")


if __name__ == "__main__":
    unittest.main()
