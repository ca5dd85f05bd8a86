"""What scripts/prose.py refuses, what the course's figures say, and how a profile becomes a table."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

import slides  # noqa: E402

import group_m  # noqa: E402
import new_rung  # noqa: E402
import nsight  # noqa: E402
import prose  # noqa: E402
from common import course_path, ladder, terms  # noqa: E402
from figures import course_pictures, figure_style, limits  # noqa: E402

QUESTION = """**{n}. What is it?**

<details><summary>Answer</summary>

It is this.

</details>
"""
CHAPTER = """# v1 naive

| | |
|---|---|
| You will be able to | read |
| You need | nothing; 5 minutes |

One sentence.

## Questions

""" + "\n".join(QUESTION.format(n=n) for n in (1, 2, 3))
LONG = " ".join(["word"] * 41) + "."
AFTER_THE_SUMMIT = 30_000  # words of all pages after v24


class Prose(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for part in ("kernels", "docs"):
            (self.root / part).mkdir()
        self.page = self.root / "kernels" / "v01_naive.md"

    def told(self, text: str, status: int) -> str:
        self.page.write_text(text, encoding="utf-8")
        command = [sys.executable, str(SCRIPTS / "prose.py"), "--root", str(self.root)]
        done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout

    def test_a_good_chapter_passes(self) -> None:
        self.assertEqual(self.told(CHAPTER, 0), "")

    def test_long_sentences_are_named_by_line(self) -> None:
        told = self.told(CHAPTER.replace("One sentence.", f"Short. {LONG}"), 1)
        self.assertIn("kernels/v01_naive.md:8: 41 words in a sentence", told)

    def test_sentences_end_where_they_end(self) -> None:
        for text in (
            LONG.replace(" word word", " end. Word", 1),
            f"```text\n{LONG}\n```",
            f"| {LONG} |",
            f"<!-- embed:header x -->\n\n{LONG}\n\n<!-- /embed -->",
            f"![{LONG}](x.svg)",
            "\n".join(f"- {' '.join(['word'] * 20)}" for _ in range(3)),
        ):
            with self.subTest(text=text[:30]):
                self.told(CHAPTER.replace("One sentence.", text), 0)

    def test_words_of_a_sentence_over_several_lines_count_together(self) -> None:
        self.told(CHAPTER.replace("One sentence.", LONG.replace(" ", "\n")), 1)

    def test_private_words(self) -> None:
        slices = CHAPTER.replace("One sentence.", "It loads slices of A.")
        self.assertIn("'slice' is a private word", self.told(slices, 1))
        self.told(CHAPTER.replace("One sentence.", "Python has a `slice`."), 0)
        table = (
            "| Term | Means | Not |\n|---|---|---|\n| **stage** | one | pot, *kettle*, round |\n"
        )
        (self.root / "docs" / "glossary.md").write_text(f"# Glossary\n\n{table}")
        self.told(slices, 0)  # the glossary alone says which
        told = self.told(CHAPTER.replace("One sentence.", "Two kettles, a pot, a round."), 1)
        self.assertEqual(len(told.splitlines()), 2, told)

    def test_links_into_the_glossary(self) -> None:
        (self.root / "docs" / "glossary.md").write_text('# Glossary\n\n<a id="cta"></a>**CTA**\n')
        linked = "A [CTA](../docs/glossary.md#{}) runs."
        self.told(CHAPTER.replace("One sentence.", linked.format("cta")), 0)
        told = self.told(CHAPTER.replace("One sentence.", linked.format("ctas")), 1)
        self.assertIn("docs/glossary.md has no #ctas", told)

    def test_figures_come_from_files(self) -> None:
        marker = "<!-- embed:value v1 f32 4096 tflops -->612<!-- /embed --> TFLOPS"
        self.told(CHAPTER.replace("One sentence.", f"It has {marker}, with 128 threads."), 0)
        for figure in ("612 TFLOPS", "1.5 TB/s", "20 us", "3 to 4 microseconds", "700 W"):
            with self.subTest(figure=figure):
                told = self.told(CHAPTER.replace("One sentence.", f"It has {figure}."), 1)
                self.assertIn(f"'{figure}' comes from no file", told)

    def test_numbers_are_there_and_within_their_lines(self) -> None:
        marker = "<!-- embed:value v1 f32 4096 ratio -->not measured<!-- /embed -->"
        told = self.told(CHAPTER.replace("One sentence.", f"It has {marker} of it."), 1)
        self.assertIn("a sentence whose number is not measured", told)
        marker = marker.replace("not measured", "0.9")
        self.told(CHAPTER.replace("One sentence.", f"It has\nthe share {marker}."), 0)
        told = self.told(CHAPTER.replace("One sentence.", f"It has\n{marker}."), 1)
        self.assertIn("a line of prose begins with a comment", told)

    def test_every_derived_figure_is_still_there(self) -> None:
        for name, figures in prose.DERIVED.items():
            text = "\n".join(prose.prose((ROOT / name).read_text(encoding="utf-8")))
            for figure in figures:
                self.assertIn(figure, " ".join(text.split()), name)

    def test_the_form_of_a_chapter(self) -> None:
        for old, new, wanted in (
            ("| You need | nothing; 5 minutes |\n", "", "'You need'"),
            ("; 5 minutes", "", "no minutes"),
            ("**3. ", "**4. ", "3 numbered questions"),
            ("<details><summary>Answer</summary>\n", "", "2 folded answers"),
            ("One sentence.", "A word. " * 901, "1800 at most"),
        ):
            with self.subTest(wanted=wanted):
                self.assertIn(wanted, self.told(CHAPTER.replace(old, new, 1), 1))

    def test_a_new_rung_has_the_form(self) -> None:
        """Once its minutes are filled in, the template of new_rung.py passes."""
        names = {"id": "v9", "tag": "v09", "name": "v09_new", "title": "new"}
        text = new_rung.CHAPTER.format(prev="v8", prev_chapter="v08_old.md", **names)
        self.told(text.replace("TODO minutes", "5 minutes"), 0)

    def test_not_yet_shrinks(self) -> None:
        """Every page of the list has something to mend: else it leaves the list."""
        words = prose.private_words(ROOT)
        for name in sorted(prose.NOT_YET):
            page = ROOT / name
            text = page.read_text(encoding="utf-8")
            wrong = prose.language(name, text, words)
            if ladder.NAME.fullmatch(page.stem):
                wrong += prose.chapter(page, name, text)
            self.assertTrue(wrong, f"{name} is rewritten: take it out of NOT_YET")


class Terms(unittest.TestCase):
    INDEX = ROOT / terms.INDEX

    def anchors(self, page: Path) -> set[str]:
        text = page.read_text(encoding="utf-8")
        filled = page == self.INDEX  # its headings are embed.py's
        headings = terms.HEADING.findall(text if filled else terms.BLANK.sub("", text))
        return {*map(terms.slug, headings), *re.findall(r'<a id="([^"]+)">', text)}

    def test_every_link_of_the_index_leads_somewhere(self) -> None:
        links = re.findall(r"\]\(([^)]+)\)", self.INDEX.read_text(encoding="utf-8"))
        self.assertGreater(len(links), 200)
        for link in links:
            path, _, anchor = link.partition("#")
            page = (self.INDEX.parent / path).resolve() if path else self.INDEX
            with self.subTest(link=link):
                self.assertTrue(page.is_file())
                if anchor:
                    self.assertIn(anchor, self.anchors(page))

    def test_the_index_has_every_term_in_alphabetical_order(self) -> None:
        glossary = (ROOT / terms.GLOSSARY).read_text(encoding="utf-8")
        names = re.findall(r"^- \[\*\*(.+?)\*\*\]", self.INDEX.read_text("utf-8"), re.MULTILINE)
        self.assertEqual(names, sorted(names, key=str.lower))
        rows = re.findall(r"^\| <a id=.*?\*\*(.+?)\*\*", glossary, re.MULTILINE)
        self.assertEqual(sorted(names), sorted(name for row in rows for name in row.split(", ")))
        anchors = re.findall(r'<a id="([^"]+)">', glossary)
        self.assertEqual(len(anchors), len(set(anchors)), "two terms have one anchor")

    def test_a_term_is_explained_where_it_is_set_in_bold(self) -> None:
        term = terms.Term("pot", ("pot",), ("pot",))
        first, second = Path("kernels/v01_naive.md"), Path("kernels/v02_block_tile.md")
        for texts, wanted in (
            (("# A\n## B\nA pot.", "# A\n## The lid\nA **pot** is"), (second, "The lid")),
            (("# A\nA pot.", "# A\n[pot](../docs/glossary.md#pot)"), (second, "")),
            (("# A\n## B, `c`\nTwo [**pots**](x).", "# A\n**Pots** are"), (first, "B, `c`")),
            (("# A\n## B\nTwo pots.", "# A"), (first, "B")),
            (("# A\n## B\nA **potato**.", "# A"), None),
        ):
            with self.subTest(texts=texts):
                pages = dict(zip((first, second), texts))
                place = terms.explained(term, [("v1", first), ("v2", second)], pages)
                self.assertEqual(place and (place.page, place.heading), wanted)
        self.assertEqual(terms.slug("B, `c`: what it is"), "b-c-what-it-is")


class Names(unittest.TestCase):
    def test_code_of_the_core_has_no_name_that_no_page_explains(self) -> None:
        self.assertEqual(terms.unexplained(ROOT), [])

    def test_which_names_count(self) -> None:
        names = terms.declared(ROOT)
        self.assertLessEqual({"GemmArgs", "GEMM_DEVICE", "cdiv", "load_vec", "PANEL"}, names)
        page = "```cpp\nconst int x = cdiv(a, 2);  // not this\n```\n```diff\n+++ b.cu\n+new(x);\n-old();\n```\n"
        self.assertEqual(terms.shown(page), {"const", "int", "x", "cdiv", "a", "new"})
        self.assertNotIn("new", terms.shown(page, diffs=False))


class Course(unittest.TestCase):
    RUNGS = ladder.load_rungs(ROOT)

    def test_every_rung_has_a_place(self) -> None:
        kinds = {rung.id: course_path.kind(self.RUNGS, rung) for rung in self.RUNGS}
        self.assertEqual({kinds[i] for i in ("v1", "v10", "v18", "v24")}, {"core"})
        self.assertEqual({kinds[i] for i in ("v1u", "v27", "v28")}, {"elective"})
        self.assertEqual({kinds[i] for i in ("v11", "v16")}, {"track"})
        for rung in self.RUNGS:
            self.assertIn(course_path.track(self.RUNGS, rung), course_pictures.COLORS)
        tracks = [course_path.track(self.RUNGS, r) for r in self.RUNGS if r.id in ("v24", "v27")]
        self.assertEqual(tracks, ["Hopper: TMA and wgmma", "research"])

    def test_the_core_is_one_path(self) -> None:
        """Each page of it stands on the one before, but for v9, a library, and what follows it."""
        path = course_path.core(self.RUNGS)
        ids = [step.id for step in path]
        self.assertEqual(ids[9:14], ["v10", "10b", "v17t", "v17w", "v18"])
        self.assertEqual(ids[-1], course_path.SUMMIT)
        for before, step in zip(path, path[1:]):
            wanted = "v8" if before.is_baseline else before.id
            self.assertEqual(step.prev, wanted, step.id)

    def test_what_follows_the_summit_stays_short(self) -> None:
        """Its words, with code and tables: it had 51,000 once, as many as the core."""
        pages = [rung.chapter for rung in self.RUNGS if rung.order > (24, "")]
        for folder, pattern in (("kernels", "m*_*.md"), ("docs/reports", "*.md")):
            pages += (ROOT / folder).glob(pattern)
        pages += [ROOT / "kernels/99_closing.md"]
        pages += [ROOT / "docs" / name for name in ("every_shape.md", "several_gpus.md")]
        words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
        self.assertLessEqual(sum(words.values()), AFTER_THE_SUMMIT, words)

    def test_every_exercise_is_linked_from_the_page_that_it_follows(self) -> None:
        for task in sorted((ROOT / "exercises").glob("ex*/README.md")):
            opening = re.search(r"\*After (.+?)\*", task.read_text(encoding="utf-8"), re.DOTALL)
            assert opening is not None, task
            for page in re.findall(r"\.\./\.\./((?:kernels|docs/reports)/\w+\.md)", opening[1]):
                text = (ROOT / page).read_text(encoding="utf-8")
                self.assertIn(f"../exercises/{task.parent.name}/README.md", text, page)

    def test_no_line_of_the_map_runs_through_another_rung(self) -> None:
        steps = course_path.with_bridge(self.RUNGS)
        columns = course_pictures.lanes_of(steps)
        row = {rung.id: i for i, rung in enumerate(steps)}
        self.assertEqual(columns.keys(), row.keys())
        self.assertEqual(len({(columns[i], row[i]) for i in row}), len(row))
        for rung in steps:
            for other in steps:
                if rung.prev and row[rung.prev] < row[other.id] < row[rung.id]:
                    self.assertNotEqual(columns[other.id], columns[rung.id], (rung.id, other.id))
                    crossed = other.prev and row[other.prev] < row[rung.prev] < row[other.id]
                    between = columns[rung.prev] < columns[other.id] < columns[rung.id]
                    self.assertFalse(crossed and between, (rung.id, other.id))

    def test_no_text_of_its_figures_is_cut_off_or_covered(self) -> None:
        matplotlib.rcParams.update(figure_style.STYLE)
        figures = course_pictures.figures(ROOT, self.RUNGS, ladder.reference_gpu(ROOT))
        self.assertEqual(len(figures), 3)
        for path, figure in figures.items():
            assert figure
            renderer = FigureCanvasAgg(figure).get_renderer()
            figure.draw(renderer)
            texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
            self.assertGreater(len(texts), 10)
            boxes = [(t.get_text(), t.get_window_extent(renderer)) for t in texts]
            for text, box in boxes:
                with self.subTest(figure=path.name, text=text):
                    self.assertTrue(0 <= box.x0 and box.x1 <= figure.bbox.x1, "cut off at a side")
                    self.assertTrue(0 <= box.y0 and box.y1 <= figure.bbox.y1, "cut off")
            for i, (text, box) in enumerate(boxes):
                over = [other for other, b in boxes[:i] if b.shrunk(0.9, 0.8).overlaps(box)]
                with self.subTest(figure=path.name, text=text):
                    self.assertEqual(over, [], "lies on another text")

    def test_lanes(self) -> None:
        costs = [lanes.cost() for lanes in course_pictures.LANE_MAPS]
        self.assertEqual(costs, [12, 12, 12, 8])  # by --inspect --kernel v8,v11: 12 and 8
        for lanes in course_pictures.LANE_MAPS:
            self.assertEqual(len({lanes.place(lane) for lane in range(32)}), 32)


class Roofline(unittest.TestCase):
    def test_no_name_lies_on_another(self) -> None:
        matplotlib.rcParams.update(figure_style.STYLE)
        gpu = ladder.reference_gpu(ROOT)
        rungs = ladder.load_rungs(ROOT)
        results = ladder.results_of(gpu, ROOT)
        assert results
        figure = limits.draw_roofline(ROOT, gpu, results, rungs)
        assert figure
        figure.draw(FigureCanvasAgg(figure).get_renderer())
        for ax in figure.axes:
            names = [(text.get_text(), limits.along(text)) for text in ax.texts]
            self.assertGreater(len(names), 5)
            for i, (name, boxes) in enumerate(names):
                for other, theirs in names[:i]:
                    if "TB/s" in name or "TB/s" in other:
                        over = any(a.overlaps(b) for a in boxes for b in theirs)
                        self.assertFalse(over, f"{name} lies on {other}")
            # Slanted roofs first, then the limits of arithmetic, as draw_roof draws them.
            slanted = [line for line in ax.lines if line.get_color() == limits.BLUE]
            level = [line for line in ax.lines if line.get_color() == "black"]
            self.assertTrue(slanted and level)
            highest = max(level, key=lambda line: line.get_ydata()[0])
            for name, boxes in names:
                is_limit = name.startswith(("FFMA ", "mma.sync ", "wgmma "))
                for line in slanted if is_limit else [highest]:
                    path = line.get_transform().transform_path(line.get_path())
                    crossed = any(path.intersects_bbox(box, filled=False) for box in boxes)
                    self.assertFalse(crossed, f"{name} meets a line in '{ax.get_title('left')}'")


class Slides(unittest.TestCase):
    DECKS = slides.decks(ladder.load_rungs(ROOT))

    def test_every_chapter_is_on_a_deck(self) -> None:
        pages = [page for deck in self.DECKS.values() for page in deck]
        self.assertEqual(sorted(pages), sorted(set((ROOT / "kernels").glob("*_*.md"))))
        for page in pages:
            with self.subTest(page=page.name):
                chapter = slides.read(page)
                if page.name.startswith("m"):  # short pages of one chapter, docs/several_gpus.md
                    self.assertGreaterEqual(len(chapter.questions), 1)
                else:
                    self.assertEqual(len(chapter.questions), prose.QUESTIONS)
                self.assertTrue(not chapter.figure or (ROOT / chapter.figure).exists())
                self.assertNotIn("](", slides.markdown(chapter))

    @unittest.skipUnless(shutil.which("pandoc"), "no pandoc: scripts/setup.sh --site")
    def test_pandoc_makes_a_deck_that_needs_no_network(self) -> None:
        track, pages = next((t, p) for t, p in self.DECKS.items() if t.startswith("Hopper"))
        text = slides.make(track, pages).read_text(encoding="utf-8")
        for chapter in map(slides.read, pages):
            self.assertIn(f">{chapter.title}: questions</h1>", text)
        self.assertEqual(text.count("<details>"), len(pages) * prose.QUESTIONS)
        self.assertNotRegex(text, r'(?:src|href)="(?!data:|#)')


class Profile(unittest.TestCase):
    def test_from_ncu_to_a_table(self) -> None:
        metric = nsight.TABLES["stalls"][0][1]
        printed = (
            f'==PROF== words\n"ID","{metric}","{nsight.ISSUED}"\n"","inst","%"\n"0","{{}}","88.5"\n'
        )
        file = nsight.transposed(
            {"v2 at 64": printed.format(1.5), "v3 at 64": printed.format(0.25)}
        )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "ncu.csv")
            path.write_text(file)
            stalls, slots = nsight.table(path, "stalls"), nsight.table(path, "slots")
        self.assertIn("| v2 at 64 | v3 at 64 |", stalls)
        self.assertIn("| long scoreboard: global memory | 1.5 | 0.25 |", stalls)
        self.assertIn("| no instruction issued, % | 11.50 | 11.50 |", slots)

    def test_nothing_profiled(self) -> None:
        with self.assertRaisesRegex(ladder.BadInput, "ncu saw no kernel"):
            nsight.transposed({"v2": "==PROF== no kernels\n"})

    def test_without_a_gpu_one_line(self) -> None:
        command = [sys.executable, str(SCRIPTS / "nsight.py"), "v2", "x.csv"]
        done = subprocess.run(command, capture_output=True, text=True, env={"PATH": ""})
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "ncu (Nsight Compute) is not on the PATH\n")


class GroupM(unittest.TestCase):
    def test_from_ncu_to_a_table(self) -> None:
        names = '","'.join(group_m.METRICS)
        printed = f'words\n"ID","{names}"\n"","%","byte","byte","ns"\n"0","51.5","6,500,000,000","1","2000000"\n'
        counted = group_m.counted(printed)
        self.assertEqual(counted["dram_read_gb"], 6.5)
        self.assertEqual(counted["milliseconds"], 2)
        found = {"sizes": [{"name": "8192", "group_m": [{"name": "g8", **counted}]}]}
        self.assertIn("| 8192 | 8 | 2 | 51.5 | 6.5 | 0.268 |", group_m.table(found))

    def test_nothing_profiled(self) -> None:
        with self.assertRaisesRegex(ladder.BadInput, "ncu saw no kernel"):
            group_m.counted("==PROF== no kernels\n")


class Values(unittest.TestCase):
    """embed:value of other files than the ladder's."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        results = self.root / "plots" / "results" / "h200"
        results.mkdir(parents=True)
        (self.root / "kernels").mkdir()
        (results / "some.json").write_text(
            json.dumps(
                {"a": [{"b": 0.00026, "c": 817.2, "d": "x"}, {"name": "v1/f32", "e": -0.252}]}
            )
        )
        self.page = self.root / "page.md"

    def embed(self, marker: str) -> subprocess.CompletedProcess[str]:
        self.page.write_text(f"It is <!-- embed:value {marker} --><!-- /embed -->.\n")
        command = [sys.executable, str(SCRIPTS / "embed.py"), "--root", str(self.root)]
        return subprocess.run(command, capture_output=True, text=True)

    def test_numbers_of_a_file(self) -> None:
        for marker, wanted in (
            ("file some.json a.0.b", "0.00026"),
            ("file some.json a.0.c", "817"),
            ("file some.json a.v1/f32.e", "-0.25"),
            ("file none.json a", "not measured"),
        ):
            done = self.embed(marker)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"-->{wanted}<!--", self.page.read_text())
        for marker, wanted in (
            ("file some.json a.1.b", "some.json has no a.1.b"),
            ("file some.json a.v2/f32.e", "some.json has no a.v2/f32.e"),
            ("file some.json a.0.d", "is no number"),
        ):
            done = self.embed(marker)
            self.assertEqual(done.returncode, 2)
            self.assertIn(wanted, done.stderr)


if __name__ == "__main__":
    unittest.main()
