"""The index of terms: what docs/glossary.md defines, and where the course explains and uses it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from common import ladder
from common.course_path import BRIDGE, is_core, with_bridge

GLOSSARY = Path("docs") / "glossary.md"
INDEX = Path("docs") / "index_of_terms.md"
MANUAL = Path("docs") / "manual.md"  # explains no term
INTRODUCTION = Path("kernels") / "00_introduction.md"
FRAME = Path("docs") / "frame.md"  # the names that all code of the course shares
ROW = re.compile(r'^\| ((?:<a id="[^"]+"></a>)+)\*\*(.+?)\*\*', re.MULTILINE)
# What is no prose: code, what embed.py fills in but for single numbers, formulas.
BLANK = re.compile(
    r"^<!-- embed:(?!value )[^\n]*-->\n.*?^<!-- /embed -->$|^[ \t]*```.*?^[ \t]*```[^\n]*$|\$\$.*?\$\$",
    re.DOTALL | re.MULTILINE,
)
HEADING = re.compile(r"^#{1,4} (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Term:
    name: str
    anchors: tuple[str, ...]  # of its row in the glossary
    row: tuple[str, ...]  # all terms of that row

    @property
    def spellings(self) -> list[str]:
        """As the text may write it, the name first."""
        known = [self.name, *self.row, *(anchor.replace("-", " ") for anchor in self.anchors)]
        return [re.sub(r" \(.*?\)", "", name) for name in dict.fromkeys(known)]


@dataclass(frozen=True)
class Place:
    page: Path  # relative to the repository
    heading: str  # "": the page's beginning

    def link(self, index: Path) -> str:
        target = Path(os.path.relpath(self.page, index.parent)).as_posix()
        return f"{target}#{slug(self.heading)}" if self.heading else target


def slug(heading: str) -> str:
    """A heading's anchor, on GitHub and in the site."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    kept = re.sub(r"[^\w\- ]", "", plain.replace("`", "")).strip().lower()
    return kept.replace(" ", "-")


def terms(glossary: str) -> list[Term]:
    """A row may define two terms: `tensor map, box`."""
    found = []
    for anchors, names in ROW.findall(glossary):
        known = tuple(re.findall(r'id="([^"]+)"', anchors))
        row = tuple(names.split(", "))
        found += [Term(name, known, row) for name in row]
    return sorted(found, key=lambda term: term.name.lower())


def pages(root: Path) -> list[tuple[str, Path]]:
    """In the order of the course: what the index calls a page, and its path."""
    chapters = [("introduction", INTRODUCTION)]
    chapters += [
        ("bridge" if r.name == BRIDGE else r.id, Path("kernels") / f"{r.name}.md")
        for r in with_bridge(ladder.load_rungs(root))
    ]
    chapters.append(("closing", Path("kernels/99_closing.md")))
    others = sorted(p.relative_to(root) for p in (root / "docs").glob("*.md"))
    chapters += [
        (p.stem.replace("_", " "), p) for p in others if p not in (GLOSSARY, INDEX, MANUAL)
    ]
    return [(name, path) for name, path in chapters if (root / path).is_file()]


def read(path: Path) -> str:
    """The page's prose; what is blanked keeps its length."""
    return BLANK.sub(lambda m: " " * len(m[0]), path.read_text(encoding="utf-8"))


def heading_before(text: str, at: int) -> str:
    """The heading of the section that holds this place; "" under the page's own heading."""
    headings = [(m.start(), m[1]) for m in HEADING.finditer(text) if m.start() <= at]
    return headings[-1][1] if len(headings) > 1 else ""


def explained(
    term: Term, course: list[tuple[str, Path]], texts: dict[Path, str]
) -> Optional[Place]:
    """The first place that sets the term in bold or italics; else links to it; else names it.

    Each time the core of the course comes first: electives run ahead of it.
    """
    core_first = sorted(
        (page for _, page in course), key=lambda p: p != INTRODUCTION and not is_core(p.stem)
    )
    spellings = [rf"`?{re.escape(spelling)}(?:e?s)?`?(?![\w-])" for spelling in term.spellings]
    patterns = [
        *(rf"(?<!\*)\*\*?\[?(?:\*\*)?{spelling}" for spelling in spellings),
        *(rf"\[\*\*{spelling}" for spelling in spellings),
        linked(term),
        *(rf"(?<![\w-]){spelling}" for spelling in spellings),
    ]
    for pattern in patterns:
        for page in core_first:
            if found := re.search(pattern, texts[page], re.IGNORECASE):
                return Place(page, heading_before(texts[page], found.start()))
    return None  # a term of the code alone


def linked(term: Term) -> str:
    return rf"glossary\.md#(?:{'|'.join(map(re.escape, term.anchors))})\)"


def index(root: Path) -> str:
    """The body of docs/index_of_terms.md."""
    course = pages(root)
    texts = {path: read(root / path) for _, path in course}
    called = {path: name for name, path in course}
    lines: list[str] = []
    letters: list[str] = []
    for term in terms((root / GLOSSARY).read_text(encoding="utf-8")):
        if (letter := term.name[0].upper()) not in letters:
            letters.append(letter)
            lines += ["", f"## {letter}", ""]
        line = f"- [**{term.name}**]({GLOSSARY.name}#{term.anchors[0]})"
        if place := explained(term, course, texts):
            line += f": [{called[place.page]}]({place.link(INDEX)})"
            also = [
                f"[{called[path]}]({Place(path, '').link(INDEX)})"
                for _, path in course
                if path != place.page and re.search(linked(term), texts[path])
            ]
            line += f"; also {', '.join(also)}" if also else ""
        lines.append(line)
    top = " ".join(f"[{letter}](#{letter.lower()})" for letter in letters)
    return "\n".join([top, *lines])


# Names in code that a page shows
# --------------------------------------------------------------------------------------------------

DECLARED = (
    r"#define (GEMM_\w+)",
    r"\b(?:struct|class|enum class) (?:alignas\(\d+\) )?(\w+)",
    r"\busing (\w+) =",
    r"\bconstexpr [\w:<>\[\] ]+? (\w+)(?: =|\[|<)",
    r"(?:GEMM_DEVICE|GEMM_INLINE_ANYWHERE|inline|constexpr)[^;{}()=]*?\b(\w+)\(",
    r"^(?:\[\[nodiscard\]\] )?[A-Za-z_][\w:<>&*, ]* (\w+)\([^;]*\) \{",
)
NO_NAMES = {"T", "TC", "TA", "TB", "operator", "if", "for", "min", "max", "half", "float"}
SHOWN = re.compile(r"^```(cpp|diff)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def declared(root: Path) -> set[str]:
    """Names of the project's own: of functions, types and constants that kernels use."""
    files = [*(root / "src").glob("*.h"), *(root / "kernels").rglob("*.cu*")]
    files += (root / "src" / "device").rglob("*.*h")
    names: set[str] = set()
    for path in files:
        code = ladder.strip_comments(path.read_text(encoding="utf-8"))
        for pattern in DECLARED:
            names |= set(re.findall(pattern, code, re.MULTILINE))
    return names - NO_NAMES


def shown(text: str, diffs: bool = True) -> set[str]:
    """The words of a page's code; of a diff those of its new lines."""
    words: set[str] = set()
    for language, code in SHOWN.findall(text):
        if language == "diff":
            added = re.findall(r"^\+(?!\+\+ )(.*)", code, re.MULTILINE) if diffs else []
            code = "\n".join(added)
        code = re.sub(r'//[^\n]*|"[^"\n]*"', "", code)
        words |= set(re.findall(r"\b[A-Za-z_]\w*", code))
    return words


def unexplained(root: Path) -> list[str]:
    """Names of ours in the core's code that neither its prose nor an earlier page has."""
    core = [path for _, path in pages(root) if is_core(path.stem)]
    names, known, wrong = declared(root), set[str](), []
    for path in (FRAME, INTRODUCTION, *core):
        known |= set(re.findall(r"\w+", read(root / path)))
        text = (root / path).read_text(encoding="utf-8")
        new = (shown(text) & names) - known
        wrong += [f"{path}: {name}" for name in sorted(new)]
    return wrong
