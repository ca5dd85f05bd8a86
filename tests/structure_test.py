"""The mechanical half of the rung contract: what every file in kernels/ looks like, and that the
registry is exactly those files (needs GEMM_BENCH, the path of the executable)."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from common import course_path, ladder  # noqa: E402

RUNGS = ladder.load_rungs(ROOT)  # also: the name's form, and exactly one registration
SHARDED = sorted((ROOT / "kernels").glob("m*.cu"))  # rungs of several GPUs
EXERCISE_LINES, MAX_COLUMNS = 150, 100
DEVICE = sorted(p for p in (ROOT / "src/device").rglob("*") if p.suffix in (".h", ".cuh"))


def device_code(rung: Path) -> dict[str, str]:
    """The device code that a rung's file is compiled from: path from the root -> source."""
    found: dict[str, str] = {}
    missing = [str(rung.relative_to(ROOT))]
    while missing:
        path = missing.pop()
        if path not in found:
            found[path] = (ROOT / path).read_text(encoding="utf-8")
            missing += ladder.device_includes(path, found[path])
    return found


class EveryRung(unittest.TestCase):
    def test_lines_fit_in_a_window(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung.name):
                lines = rung.source.splitlines()
                long = [f"{n}: {len(l)}" for n, l in enumerate(lines, 1) if len(l) > MAX_COLUMNS]
                self.assertEqual(long, [], f"lines of more than {MAX_COLUMNS} columns")

    def test_opens_with_its_header(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung.name):
                found = re.match(r"(?://[^\n]*\n)+", rung.source)
                header = found[0] if found else ""
                self.assertTrue(header, "opens with a // comment")
                self.assertTrue(
                    header.startswith(f"// {rung.id} "), f"the first line names {rung.id}"
                )
                labels = re.findall(r"^// (before|idea|watch|needs):\s+\S", header, re.MULTILINE)
                self.assertEqual(labels, ["before", "idea", "watch", "needs"])

    def test_includes_only_what_a_rung_may(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung.name):
                included = re.findall(
                    r'^\s*#\s*include\s+["<]([^">]+)[">]', rung.source, re.MULTILINE
                )
                self.assertIn("rung.h", included)
                # <string> for one that explains its plan, the registry for one that plans by others.
                allowed = re.compile(
                    rf"rung\.h|string|registry\.h|(?:device|engine|plan|tile)/.+|{rung.name}/\w+\.cuh"
                )
                self.assertEqual([i for i in included if not allowed.fullmatch(i)], [])

    def test_device_headers_include_no_rung_and_no_planning(self) -> None:
        values = {"plan/arch.h", "plan/row_panels.h"}  # plain, which kernels and launches are given
        for path in sorted((ladder.ROOT / "src" / "device").rglob("*.*h")):
            included = set(re.findall(r'#\s*include\s+"([^"]+)"', path.read_text(encoding="utf-8")))
            wrong = {i for i in included if re.match(r"rung\.h|regist\w+\.h|plan/|engine/", i)}
            self.assertEqual(wrong - values, set(), path.name)
        for path in sorted((ladder.ROOT / "src" / "plan").iterdir()):
            self.assertNotIn('#include "device/', path.read_text(encoding="utf-8"), path.name)

    def test_kernels_carry_its_id(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung.name):
                code = ladder.strip_comments(rung.source)
                kernels = re.findall(r"__global__[^;{]*?\b(\w+)\(GemmArgs|\b(gemm_v\w+)\b", code)
                names = {name for pair in kernels for name in pair if name}
                allowed = re.compile(rf"gemm_{rung.tag}(_\w+)?")
                self.assertEqual([n for n in sorted(names) if not allowed.fullmatch(n)], [])
                if "__global__" in code:
                    self.assertIn(f"gemm_{rung.tag}", names)
                self.assertNotIn("<<<", code, "launch through gemm::launch")
                self.assertIn("namespace {", code)

    def test_regions_are_closed(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung.name):
                opened = re.findall(r"// \[region (\w+)\]", rung.source)
                self.assertEqual(sorted(opened), sorted(set(opened)), "region names are unique")
                self.assertIn("idea", opened)
                for name in opened:
                    self.assertIsNotNone(
                        ladder.region(rung.source, name), f"[region {name}] is closed"
                    )

    def test_registration(self) -> None:
        for rung in RUNGS:
            with self.subTest(rung=rung.name):
                self.assertTrue(rung.idea)
                self.assertTrue(rung.dtypes)
                if rung is RUNGS[0]:
                    self.assertEqual(rung.prev, "", "the first rung has nothing before it")
                else:
                    self.assertLess(ladder.find_rung(RUNGS, rung.prev).order, rung.order)

    def test_chapter_embeds_its_facts(self) -> None:
        """An elective is short: it links its code, and shows results of the shapes it is made for."""
        for rung in RUNGS:
            with self.subTest(rung=rung.name):
                self.assertTrue(rung.chapter.is_file(), f"{rung.chapter.name} stands beside it")
                text = rung.chapter.read_text(encoding="utf-8")
                elective = course_path.kind(RUNGS, rung) == "elective"
                wanted = [
                    rf"header kernels/{rung.name}\.cu",
                    rf"region kernels/{rung.name}\.cu idea",
                ]
                own = rf"({rung.id}|{rung.tag}|{rung.name})"
                if not elective:
                    wanted += [f"row {own}"] + ([f"diff {own}"] if rung.prev else [])
                for marker in wanted:
                    self.assertTrue(
                        re.search(rf"(?m)^<!-- embed:{marker} -->$", text), f"no embed:{marker}"
                    )
                if elective:
                    table = rf"(?m)^<!-- embed:(row {own}|compare |summary )|^\|.*<!-- embed:value "
                    self.assertRegex(text, table, "no table of results")
                    linked = f"({rung.name}.cu)" in text or f"<!-- embed:diff {rung.tag}" in text
                    self.assertTrue(linked, "no link to its code")


class EveryShardedRung(unittest.TestCase):
    def test_its_file_and_its_chapter(self) -> None:
        self.assertGreaterEqual(len(SHARDED), 4)
        for path in SHARDED:
            with self.subTest(rung=path.stem):
                source = path.read_text(encoding="utf-8")
                self.assertLessEqual(max(map(len, source.splitlines())), MAX_COLUMNS)
                tag = path.stem.split("_")[0]
                self.assertRegex(source, rf"\A// {tag.replace('m0', 'm')} .+\n//\n// before: ")
                kernels = re.findall(r"\b(gemm_m\w+)\(", ladder.strip_comments(source))
                self.assertLessEqual(set(kernels), {f"gemm_{tag}"})
                self.assertIsNotNone(ladder.region(source, "idea"))
                text = path.with_suffix(".md").read_text(encoding="utf-8")
                self.assertIn(f"\n<!-- embed:header kernels/{path.name} -->\n", text)
                shown = f"\n<!-- embed:region kernels/{path.name} idea -->\n" in text
                self.assertTrue(shown or f"({path.name})" in text, "neither its idea nor a link")


class WhatAChangeTouches(unittest.TestCase):
    """CONTRIBUTING.md's table: a name that only its own file knows needs no other file edited."""

    CODE = {
        path.relative_to(ROOT).as_posix(): ladder.strip_comments(path.read_text(encoding="utf-8"))
        for folder in ("src", "kernels", "bench")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".h", ".cuh", ".cpp", ".cu")
    }

    def users(self, name: str) -> set[str]:
        return {path for path, code in self.CODE.items() if re.search(rf"\b{name}\b", code)}

    def rows(self, path: str, macro: str) -> list[str]:
        table = re.search(rf"#define {macro}\(ROW\)(?:.*\\\n)+.*", self.CODE[path])
        assert table is not None
        return re.findall(r"\bROW\((\w+),", table[0])

    def test_an_activation_is_one_file(self) -> None:
        tables = ("GEMM_PLAIN_ACTIVATIONS", "GEMM_ACTIVATIONS")
        names = [name for table in tables for name in self.rows("src/epilogue.h", table)]
        self.assertIn("silu", names)
        named_by_programs = {"src/library/gemm.cpp"}  # what C calls it
        fused = "src/device/fused_epilogue.cuh"  # functions that are faster there
        own = {
            "leaky_relu": {"src/tile/expression.cuh"},  # the tile layer has one of its own
            "gelu": {fused, "src/harness/gpu/blas.cu"},  # cuBLASLt has it too
            "silu": {fused},
            "gelu_erf": {fused},
        }
        for name in set(names) - {"none", "relu"}:  # a default, and an example
            with self.subTest(activation=name):
                self.assertEqual(
                    self.users(name) - named_by_programs - own.get(name, set()), {"src/epilogue.h"}
                )

    def test_an_output_type_is_its_row_and_its_rungs(self) -> None:
        names = self.rows("src/dtypes.h", "GEMM_DTYPES")
        mixed = [name for name in names if name.endswith("_f32")]
        self.assertGreaterEqual(len(mixed), 2)
        for name in mixed:
            with self.subTest(type=name):
                others = {path for path in self.users(name) if not path.startswith("kernels/")}
                self.assertEqual(others, {"src/dtypes.h"})

    def test_an_architectures_costs_are_one_file(self) -> None:
        files = {path for path in self.CODE if path.startswith("src/plan/costs_")}
        self.assertTrue(files)
        for path in files:
            name = f"{path.removeprefix('src/plan/costs_').removesuffix('.h').upper()}_COSTS"
            with self.subTest(costs=name):
                # An H200's are those of a GPU that was not measured, or not in full.
                default = {"src/plan/arch.cpp", "src/plan/costs_h100.h"}
                default = default if name == "H200_COSTS" else set()
                self.assertEqual(self.users(name) - default, {path})


class DeviceCode(unittest.TestCase):
    """src/device serves several rungs; what one alone uses stands beside it, in its folder."""

    SHARED = {
        "src/device/blas.h": "v9 and the harness's baselines call cuBLAS",
        "src/device/row_panels.cuh": "v27 shows src/engine, whose kernels are for every program",
    }

    def test_src_device_serves_two_rungs_or_more(self) -> None:
        users: dict[str, list[str]] = {str(p.relative_to(ROOT)): [] for p in DEVICE}
        for file in [rung.path for rung in RUNGS] + SHARDED:
            for path in device_code(file).keys() & users.keys():
                users[path].append(file.stem)
        self.assertGreater(len(users), 20)
        few = {path: ids for path, ids in users.items() if len(ids) < 2}
        self.assertEqual(few.keys(), self.SHARED.keys(), few)

    def test_a_rungs_folder_is_its_own(self) -> None:
        folders = {p.name for p in (ROOT / "kernels").iterdir() if p.is_dir()}
        self.assertLessEqual(folders, {rung.name for rung in RUNGS})
        for rung in RUNGS:
            with self.subTest(rung=rung.name):
                used = {path for path in device_code(rung.path) if re.match(r"kernels/.+/", path)}
                there = (ROOT / "kernels" / rung.name).glob("*")
                self.assertEqual(used, {str(p.relative_to(ROOT)) for p in there})

    def test_files_include_the_instructions_that_they_call(self) -> None:
        """A function of src/device/ptx is included where it is called, not by way of others."""
        functions: dict[str, str] = {}
        for header in (ROOT / "src/device/ptx").glob("*.cuh"):
            code = ladder.strip_comments(header.read_text(encoding="utf-8"))
            for name in re.findall(r"GEMM_DEVICE[^;{(]*?\b(\w+)\(", code):
                functions[name] = f"src/device/ptx/{header.name}"
        self.assertGreater(len(functions), 40)
        sources = {path: text for rung in RUNGS for path, text in device_code(rung.path).items()}
        for path, text in sources.items():
            called = re.findall(r"(?<![:.\w])(\w+)(?:<[^;()]*>)?\(", ladder.strip_comments(text))
            wanted = {functions[name] for name in called if name in functions} - {path}
            with self.subTest(file=path):
                self.assertLessEqual(wanted, set(ladder.device_includes(path, text)))


class Version(unittest.TestCase):
    """VERSION is the one place: the program, and the newest entry of the changelog, say the same."""

    def test_program_and_changelog(self) -> None:
        version = (ROOT / "VERSION").read_text().strip()
        self.assertRegex(version, r"^\d+\.\d+\.\d+$")
        program = [os.environ["GEMM_BENCH"], "--version"]
        told = subprocess.run(program, capture_output=True, text=True, check=True).stdout
        self.assertEqual(told, f"gemm_bench {version}\n")
        changes = (ROOT / "CHANGELOG.md").read_text()
        heading = r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$"
        self.assertEqual(re.findall(heading, changes, re.MULTILINE)[0], version)


class EveryExercise(unittest.TestCase):
    FOLDERS = sorted((ROOT / "exercises").glob("ex*/"))
    FILES = ("README.md", "hint.md", "solution.cu", "start.cu", "test.cpp")

    def test_ids_count_up(self) -> None:
        ids = [re.sub(r"^ex(\d\d)_[a-z0-9_]+$", r"\1", f.name) for f in self.FOLDERS]
        self.assertGreaterEqual(len(ids), 12)
        self.assertEqual(list(map(int, ids)), list(range(1, len(ids) + 1)))

    def test_has_its_files(self) -> None:
        for folder in self.FOLDERS:
            with self.subTest(exercise=folder.name):
                there = {f.name for f in folder.iterdir()} - {"work.cu"}
                self.assertEqual(there, set(self.FILES))
                title = (folder / "README.md").read_text(encoding="utf-8").split("\n")[0]
                self.assertTrue(title.startswith(f"# {folder.name.split('_')[0]}: "), title)

    def test_is_small_and_on_a_page(self) -> None:
        for folder in self.FOLDERS:
            with self.subTest(exercise=folder.name):
                start, solution = (
                    (folder / name).read_text(encoding="utf-8").splitlines()
                    for name in ("start.cu", "solution.cu")
                )
                for line in start + solution:
                    self.assertLessEqual(len(line), MAX_COLUMNS, line)
                self.assertLessEqual(max(len(start), len(solution)), EXERCISE_LINES)
                self.assertRegex("\n".join(start), r"const (Exercise|Benchmark) exercise\(")
                changed = [l for l in difflib.ndiff(start, solution) if l[0] in "+-"]
                self.assertTrue(0 < len(changed) <= 30, f"{len(changed)} lines differ")


def pages() -> list[Path]:
    """All Markdown files but those of hidden and build folders."""
    return [
        page
        for page in sorted(ROOT.rglob("*.md"))
        if not any(part.startswith((".", "build")) for part in page.relative_to(ROOT).parts)
    ]


class EveryPage(unittest.TestCase):
    def test_the_readme_fits_on_one_screen(self) -> None:
        text = re.sub(
            r"<!--.*?-->", "", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S
        )
        words = re.sub(r"\]\([^)]*\)", "]", text).split()
        self.assertLessEqual(sum(bool(re.search(r"\w", word)) for word in words), 900)
        self.assertNotIn("not measured", text)

    def test_links_lead_somewhere(self) -> None:
        for page in pages():
            text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
                with self.subTest(page=page.name, link=target):
                    there = target.startswith("http") or (page.parent / target).exists()
                    self.assertTrue(there, "no such file")

    def test_figures_are_shown_and_told(self) -> None:
        """Each is on some page, with words for those who cannot see it."""
        told = set()
        for page in pages():
            text = page.read_text(encoding="utf-8")
            for alt, file in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", text):
                self.assertGreater(len(alt), 20, f"{page.name}: {file} has no alternative text")
                told.add(Path(file).name)
        for figure in sorted((ROOT / "plots").glob("*.svg")):
            with self.subTest(figure=figure.name):
                self.assertTrue(figure.name in told, "no page shows it: it belongs in a chapter")


class CommittedResults(unittest.TestCase):
    BY_CPP = "fp8_bits.json"  # which cannot read packed files

    def test_a_result_is_there_once_and_packed_where_it_is_large(self) -> None:
        """CONTRIBUTING.md has the command."""
        for path in sorted((ROOT / "plots/results").rglob("*.json")):
            with self.subTest(path=path.relative_to(ROOT)):
                self.assertFalse(path.with_name(path.name + ".gz").exists(), "packed, too: older?")
                if path.name != self.BY_CPP:
                    self.assertLessEqual(path.stat().st_size, 40 << 10, "not packed")


class TheHouse(unittest.TestCase):
    def test_there_are_rungs(self) -> None:
        self.assertTrue(RUNGS)

    def test_ids_are_unique(self) -> None:
        ids = [rung.id for rung in RUNGS]
        self.assertEqual(ids, sorted(set(ids), key=ids.index))

    def test_the_glossary_says_what_code_is_not_to_call_things(self) -> None:
        """Its last column gives, in backquotes, identifiers that had to go: none comes back."""
        page = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
        rows = [row for row in page.split("\n") if row.startswith("| <a id=")]
        self.assertTrue(all(row.count(" | ") in (2, 3) for row in rows), "term, meaning, not")
        anchors = re.findall(r'<a id="([\w-]+)"></a>', page)
        self.assertEqual(len(anchors), len(set(anchors)), "an anchor stands twice")
        old = [w for row in rows for w in re.findall(r"`(\w+)`", row.rsplit("|", 2)[1])]
        self.assertTrue(old)
        gone = re.compile(rf"\b(?:{'|'.join(old)})\b")
        for path in [rung.path for rung in RUNGS] + DEVICE + [*(ROOT / "kernels").rglob("*.cuh")]:
            with self.subTest(file=str(path.relative_to(ROOT))):
                code = ladder.strip_comments(path.read_text(encoding="utf-8"))
                self.assertEqual(gone.findall(re.sub(r'"[^"\n]*"', '""', code)), [])

    def test_a_gemm_in_tiles_is_25_lines(self) -> None:
        """Kernel and launch, whatever the shape, the layout, alpha and beta."""
        rung = ladder.find_rung(RUNGS, "v29")
        code = ladder.strip_comments(ladder.region(rung.source, "idea") or "")
        lines = [line for line in code.split("\n") if line.strip()]
        self.assertTrue(15 < len(lines) <= 25, f"{len(lines)} lines")

    def test_src_names_no_rung(self) -> None:
        """Neither in code nor in comments, but for where something is taught, and for examples: in
        the help of the command line, and as names of files."""
        rung = re.compile(r"(?<![\w.])(?:gemm_)?v\d{1,2}[a-z]?(?:_[a-z]\w*)?(?!\w*\.cu)")
        taught = re.compile(r"Taught in v\d+[a-z]?\.")
        for path in sorted((ROOT / "src").rglob("*")):
            if path.suffix not in (".h", ".cuh", ".cpp", ".cu"):
                continue
            source = path.read_text(encoding="utf-8")
            comments = re.sub(r"\n\s*// ?", " ", "\n".join(ladder.comments(source)))
            with self.subTest(file=str(path.relative_to(ROOT))):
                if path.stem != "cli":
                    self.assertEqual(rung.findall(ladder.strip_comments(source)), [])
                said = re.sub(r'"[^"]*"', "", taught.sub("", comments))
                self.assertEqual(rung.findall(said), [])

    @unittest.skipUnless(os.environ.get("GEMM_BENCH"), "GEMM_BENCH, the executable, is not set")
    def test_registry_is_the_files(self) -> None:
        run = subprocess.run(
            [os.environ["GEMM_BENCH"], "--list"], capture_output=True, text=True, timeout=120
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        listed = re.findall(r"^\s*(v\d+[a-z]?)\s+(v\d+[a-z]?_\w+)", run.stdout, re.MULTILINE)
        self.assertEqual(listed, [(r.id, r.name) for r in RUNGS])


if __name__ == "__main__":
    unittest.main()
