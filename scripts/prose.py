#!/usr/bin/env python3
"""Checks the prose of the course: what a reader stumbles over, and what every chapter must have.

  scripts/prose.py                     exit 1 names file, line and what is wrong
  scripts/prose.py kernels/v05_*.md    some files
  scripts/prose.py --words             words of prose, page by page

Every page: no sentence of more than 40 words, no word that docs/glossary.md lists under "not", and no
link to a term that it does not have. A figure with a unit of speed, time, clock or power comes from a
committed file by embed.py, or stands in DERIVED, which says where it is from. No such number is missing.
Every chapter: it opens with what the reader will be able to do and needs, with minutes; it ends with
three questions, each with a folded answer; it keeps to its number of words. Code, tables, what
embed.py fills in and the words of links count for nothing.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from common.course_path import BRIDGE, is_core
from common.ladder import NAME, ROOT, BadInput, fail

SENTENCE_WORDS, CORE_WORDS, CHAPTER_WORDS, QUESTIONS = 40, 1800, 2500, 3
# Pages whose turn has not come. Take a page out when it is rewritten; none may be added.
NOT_YET: set[str] = set()
# Private words, as long as there is no docs/glossary.md.
PRIVATE = (
    *("slice", "stripe", "handover", "busiest", "turned round", "ends first", "hands in"),
    *("per mille", "whoever", "in vain", "leaves lying", "keeps the books"),
)
# Words of the glossary's "not" column that have an everyday meaning, too: only a person can tell.
EVERYDAY = {
    *("panel", "sums", "ring", "slot", "place", "round", "turn", "turns", "stack", "groups", "run"),
    *("work", "wide", "split", "the end", "scheduling", "grouping", "masking", "whole tile"),
    *("resident", "piece", "loader", "worker", "patch", "lap"),
}
UNITS = "TFLOPS|GFLOPS|TB/s|GB/s|MHz|GHz|W|watts?|pJ|nJ|us|ns|ms|(?:micro|nano|milli)?seconds?"
FIGURE = re.compile(rf"(?<![\w.])\d[\d.,]*(?: to \d[\d.]*)? ?(?:{UNITS})(?!\w)")
# Figures that no file holds, by page, and why they may stand.
DERIVED = {
    "docs/manual.md": {"200 ms": "a rule of the harness"},
    "docs/every_shape.md": {"10 ms": "a rule of the harness"},
    "kernels/00_introduction.md": {
        "262 TB/s": "FFMA's limit, 8 bytes for 2 operations",
        "989 TFLOPS": "NVIDIA's data sheet",
        "1830 MHz": "989 TFLOPS over 132 SMs and 4096 operations",
        "1980 MHz": "the card's highest clock: embed:conditions",
        "700 W": "the card's power limit: embed:conditions",
        "600 TFLOPS": "made up, for a question",
    },
    "kernels/v16_multistage_mma.md": {"1.65 to 1.98 GHz": "a range of clocks, for a division"},
    "kernels/v22_multicast.md": {
        "6.6 TB/s": "the tile's bytes over its time",
        "9.45 TB/s": "energy_limits.json, in the introduction's table",
    },
}
EMBED = re.compile(
    r"^<!-- embed:(?!value )[^\n]*-->\n.*?^<!-- /embed -->$", re.DOTALL | re.MULTILINE
)
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|No|Fig)\.(?= )")


@dataclass(frozen=True)
class Sentence:
    line: int
    text: str

    @property
    def words(self) -> int:
        return sum(bool(re.search(r"[A-Za-z0-9]", word)) for word in self.text.split())


def blank(match: re.Match[str]) -> str:
    """Nothing but the lines that were there, so that numbers of lines stay."""
    return "\n" * match[0].count("\n")


def prose(text: str) -> list[str]:
    """The page line by line, with what is not prose taken out."""
    text = EMBED.sub(blank, text)
    text = re.sub(r"^[ \t]*```.*?^[ \t]*```[^\n]*$", blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", blank, text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.DOTALL)
    text = re.sub(r"\$\$.*?\$\$", "\n\n", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    text = re.sub(r"`[^`\n]*`", "`code`", text)
    text = re.sub(r"</?(details|summary|br)[^>]*>", " ", text)
    # A table, a heading or indented code is no sentence.
    return ["" if re.match(r"\||#|    \S", line) else line for line in text.split("\n")]


def sentences(text: str) -> list[Sentence]:
    found: list[Sentence] = []
    start, collected = 0, ""

    def flush() -> None:
        nonlocal collected
        plain = ABBREVIATION.sub(lambda m: m[0].replace(".", ""), collected)
        at = start
        for one in re.split(r"(?<=[.!?])[\")*_]*\s+|(?<=:)\n", plain):
            if one.strip():
                found.append(Sentence(at + 1, " ".join(one.split())))
        collected = ""

    for number, line in enumerate(prose(text)):
        if not line.strip() or re.match(r"\s*([-*]|\d+\.) ", line):
            flush()
        if not line.strip():
            continue
        if not collected:
            start = number
        collected += line + "\n"
    flush()
    return found


def private_words(root: Path) -> list[str]:
    """The column "not" of the glossary's tables, cut at commas; else the list above."""
    glossary = root / "docs" / "glossary.md"
    if not glossary.is_file():
        return list(PRIVATE)
    found: list[str] = []
    column = -1
    for line in glossary.read_text(encoding="utf-8").split("\n"):
        if not line.startswith("|"):
            column = -1
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        names = [cell.strip("*_ ").lower() for cell in cells]
        if column < 0:
            column = names.index("not") if "not" in names else len(cells)
        elif column < len(cells):
            words = re.sub(r"[`*\"]|\([^)]*\)", "", cells[column]).split(",")
            found += [word.strip().lower() for word in words]
    return [word for word in dict.fromkeys(found) if re.search(r"[a-z]", word)]


def language(name: str, text: str, words: list[str]) -> list[str]:
    wrong = []
    forbidden = [w for w in words if w not in EVERYDAY]
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, forbidden))})s?\b", re.IGNORECASE)
    for one in sentences(text):
        if one.words > SENTENCE_WORDS:
            wrong.append(f"{name}:{one.line}: {one.words} words in a sentence: {one.text[:60]}...")
        for found in pattern.findall(one.text) if forbidden else ():
            wrong.append(f"{name}:{one.line}: '{found}' is a private word (docs/glossary.md)")
    return wrong


def unbacked(name: str, text: str) -> list[str]:
    """Figures that somebody measured, and no file says so."""
    text = re.sub(r"<!-- embed:value [^>]*-->[^<]*<!-- /embed -->", "it", text)
    known = DERIVED.get(name, {})
    return [
        f"{name}:{one.line}: '{figure}' comes from no file (embed:value, or DERIVED in prose.py)"
        for one in sentences(text)
        for figure in FIGURE.findall(one.text)
        if figure not in known
    ]


def markers(name: str, text: str) -> list[str]:
    """Numbers that got lost, as when a run was replaced by one of fewer shapes; and comments at the start
    of a line, which on GitHub end the paragraph."""
    wrong = []
    plain = re.sub(r"^```.*?^```$", blank, text, flags=re.DOTALL | re.MULTILINE)
    for i, line in enumerate(plain.split("\n"), 1):
        if "not measured<!-- /embed -->" in line:
            wrong.append(f"{name}:{i}: a sentence whose number is not measured")
        if re.match(r" *<!-- embed:value", line):
            wrong.append(f"{name}:{i}: a line of prose begins with a comment")
    return wrong


def anchors(name: str, page: Path, text: str, root: Path) -> list[str]:
    """Links into the glossary lead to one of its terms."""
    glossary = root / "docs" / "glossary.md"
    if not glossary.is_file():
        return []
    known = set(re.findall(r'<a id="([^"]+)">', glossary.read_text(encoding="utf-8")))
    wrong = []
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", text):
        if (page.parent / target).resolve() == glossary and anchor not in known:
            wrong.append(f"{name}: docs/glossary.md has no #{anchor}")
    return wrong


def words_of(text: str) -> int:
    return sum(one.words for one in sentences(text))


def chapter(path: Path, name: str, text: str) -> list[str]:
    wrong = []
    for row in ("You will be able to", "You need"):
        if not re.search(rf"\A#[^\n]*\n\n\|[^#]*?^\| {row} \| \S", text, re.MULTILINE):
            wrong.append(f"{name}:1: does not open with a table that has '{row}'")
    if not re.search(r"^\| You need \|[^\n]*\d minutes", text, re.MULTILINE):
        wrong.append(f"{name}:1: 'You need' names no minutes")
    asked = text.rpartition("\n## Questions\n")[2] if "\n## Questions\n" in text else ""
    numbers = re.findall(r"^\*\*(\d)\. ", asked, re.MULTILINE)
    answers = asked.count("<details><summary>Answer</summary>\n\n")
    wanted = [str(i + 1) for i in range(QUESTIONS)]
    if numbers != wanted or answers != QUESTIONS or asked.count("</details>") != QUESTIONS:
        wrong.append(
            f"{name}: ends with {len(numbers)} numbered questions and {answers} folded answers "
            f"under '## Questions', not {QUESTIONS}"
        )
    short = is_core(path.stem) and path.stem != BRIDGE  # which stands for three chapters
    most = CORE_WORDS if short else CHAPTER_WORDS
    if words_of(text) > most:
        wrong.append(f"{name}: {words_of(text)} words of prose, {most} at most")
    return wrong


def pages(root: Path) -> list[Path]:
    found = [*root.glob("kernels/*.md"), *root.glob("docs/*.md"), *root.glob("README.md")]
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="default: the course, docs, README.md")
    parser.add_argument("--words", action="store_true", help="words of prose, page by page")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()

    root = args.root.resolve()
    wrong, private = [], private_words(root)
    for page in [file.resolve() for file in args.files] or pages(root):
        if not page.is_file():
            raise BadInput(f"no such file: {page}")
        name, text = str(page.relative_to(root)), page.read_text(encoding="utf-8")
        if args.words:
            print(f"{words_of(text):6} {name}{'  (not yet)' if name in NOT_YET else ''}")
        if name in NOT_YET and not args.files:
            continue
        if page.name != "glossary.md":
            wrong += language(name, text, private)
            wrong += anchors(name, page, text, root)
            wrong += unbacked(name, text)
            wrong += markers(name, text)
        if NAME.fullmatch(page.stem) or page.stem in ("00_introduction", BRIDGE):
            wrong += chapter(page, name, text)
    gone = [name for name in NOT_YET if not (root / name).is_file()] if root == ROOT else []
    wrong += [f"scripts/prose.py: NOT_YET has {name}, which is not there" for name in gone]
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        fail(error)
