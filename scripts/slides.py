#!/usr/bin/env python3
"""Makes slides from the chapters: one HTML file a track, in site/build/slides, which Git ignores.

  scripts/slides.py           all tracks
  scripts/slides.py --list    the tracks and their files

A chapter gives three slides: its goal and its idea, its first figure, its three questions with folded answers.
It needs pandoc. Each file holds its figures, so it can be copied and shown without a network.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from common import course_path, ladder
from common.ladder import ROOT, BadInput, Rung

SLIDES = ROOT / "site" / "build" / "slides"
STYLE = ROOT / "site" / "assets" / "slides.html"
QUESTION = re.compile(
    r"^\*\*(\d\. .+?)\*\*\n+<details><summary>Answer</summary>\n+(.+?)\n+</details>",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Chapter:
    """What a chapter says in its head, its first figure and its questions; in Markdown."""

    title: str
    goal: str
    needs: str
    idea: str
    figure: str  # relative to the repository; "": it has none
    caption: str
    questions: list[tuple[str, str]]


def plain(text: str) -> str:
    """Without what makes sense only in the chapter: links and embedding marks."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    return re.sub(r"(?<!!)\[([^]]*)\]\([^()]*\)", r"\1", text).strip()


def read(page: Path) -> Chapter:
    text = page.read_text(encoding="utf-8")

    def row(name: str) -> str:
        found = re.search(rf"(?m)^\| {name} \| (.*) \|$", text)
        return plain(found[1]) if found else ""

    title = re.search(r"(?m)^# (.*)$", text)
    # The sentence is a paragraph; the embedded header follows.
    idea = re.search(r"(?ms)^(\*\*The (?:idea|problem) in one .+?)\n\n", text)
    figure = re.search(r"!\[([^]]*)\]\(\.\./(plots/[^)]*\.svg)\)", text)
    goal = row("You will be able to")
    questions = [(plain(q), plain(a)) for q, a in QUESTION.findall(text)]
    if not (title and goal and questions):
        raise BadInput(f"{page.name}: no title, no goal or no questions, so no slides")
    return Chapter(
        title[1], goal, row("You need"), plain(idea[1]) if idea else "",
        figure[2] if figure else "", plain(figure[1]) if figure else "", questions,
    )  # fmt: skip


def markdown(chapter: Chapter) -> str:
    """Its slides. A heading begins a slide."""
    parts = [
        f"# {chapter.title}",
        f"**You will be able to** {chapter.goal}.",
        chapter.idea,
        f"**You need** {chapter.needs}." if chapter.needs else "",
    ]
    if chapter.figure:
        alt = " ".join(chapter.caption.split()).replace('"', "&quot;")
        parts += [
            f"# {chapter.title}: the picture {{.picture}}",
            f'<img src="{chapter.figure}" alt="{alt}">',
        ]
    parts.append(f"# {chapter.title}: questions")
    for question, answer in chapter.questions:
        asked = re.sub(r"^(\d)\.", r"\1\\.", question)
        parts += [f"**{asked}**", "<details><summary>Answer</summary>", answer, "</details>"]
    return "\n\n".join(part for part in parts if part) + "\n"


def decks(rungs: list[Rung]) -> dict[str, list[Path]]:
    """Chapters by track, in the course's order."""
    kernels = ROOT / "kernels"
    found: dict[str, list[Path]] = {"introduction and closing": [kernels / "00_introduction.md"]}
    for rung in course_path.with_bridge(rungs):
        page = kernels / f"{rung.name}.md"
        found.setdefault(course_path.track(rungs, rung), []).append(page)
    found["several GPUs"] = sorted(kernels.glob("m*_*.md"))
    found["introduction and closing"].append(kernels / "99_closing.md")
    return found


def file_of(track: str) -> Path:
    return SLIDES / (re.sub(r"\W+", "_", track.lower()).strip("_") + ".html")


def make(track: str, pages: list[Path]) -> Path:
    target = file_of(track)
    target.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(markdown(read(page)) for page in pages)
    command = ["pandoc", "--from=markdown-smart-auto_identifiers", "--to=dzslides", "--standalone"]
    command += ["--self-contained", "--slide-level=1", f"--include-in-header={STYLE}"]
    command += ["--metadata", f"title=The GEMM ladder: {track}"]
    command += ["--metadata", "author=the GEMM ladder authors, CC BY 4.0", "--metadata", "lang=en"]
    command += ["--output", str(target)]
    done = subprocess.run(command, cwd=ROOT, input=text, text=True, capture_output=True)
    if done.returncode != 0 or done.stderr:
        raise BadInput(f"pandoc, {track}: {done.stderr.strip()}")
    return target


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true", help="name the tracks; make nothing")
    parser.add_argument("--track", help="make the deck of this track alone")
    given = parser.parse_args()
    wanted = decks(ladder.load_rungs())
    if given.list:
        for track in wanted:
            print(f"{file_of(track).relative_to(ROOT)}  {track}")
        return
    if given.track:
        if given.track not in wanted:
            raise BadInput(f"no track '{given.track}'; there are: {'; '.join(wanted)}")
        wanted = {given.track: wanted[given.track]}
    if not shutil.which("pandoc"):
        raise BadInput("pandoc is missing: scripts/setup.sh --site")
    for track, pages in wanted.items():
        print(make(track, pages).relative_to(ROOT))


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        ladder.fail(error)
