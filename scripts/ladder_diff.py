#!/usr/bin/env python3
"""Prints what a rung changes in the rung before it, and how large that is.

Left out on both sides: comments, blank lines, the registration, the version's own name, and
functions that moved to src/device/ since the rung that introduced them. Lines are compared without
their indentation. The size counts, hunk by hunk, max(added, removed) lines; lines of the rung's
[region idea], and what they replace, count as the idea, the rest as outside.

  ladder_diff.py v06    ladder_diff.py --all    ladder_diff.py --all --json
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from common.ladder import (
    REGISTRATION,
    ROOT,
    BadInput,
    Rung,
    fail,
    find_rung,
    load_rungs,
    strip_comments,
)

AIM_IDEA, AIM_OUTSIDE = 30, 15  # changed lines, for v2-v8; a wish, never a reason to bend a kernel


@dataclass(frozen=True)
class Line:
    text: str
    idea: bool  # inside [region idea]

    @property
    def key(self) -> str:
        return self.text.strip()


@dataclass(frozen=True)
class Diff:
    rung: Rung
    prev: Rung
    text: str
    idea: int
    outside: int
    moved: tuple[str, ...]

    def summary(self) -> str:
        moved = f" Moved to src/device/: {', '.join(self.moved)}." if self.moved else ""
        return (
            f"{self.idea} changed lines carry out the idea, "
            f"{self.outside} others changed with them.{moved}"
        )


def code_lines(rung: Rung) -> list[Line]:
    """The rung's code lines, normalised."""
    begin, end = "\x01", "\x02"  # stand in for the region's comments while comments are stripped
    source = re.sub(r"// \[region idea\]", begin, rung.source)
    source = re.sub(r"// \[/region idea\]", end, source)
    source = REGISTRATION.sub("", strip_comments(source))
    source = re.sub(rf"\bgemm_{rung.tag}", "gemm_vNN", source)
    source = re.sub(rf"\b({rung.tag}|{rung.id})\b", "vNN", source)
    lines, idea = [], False
    for line in source.splitlines():
        if begin in line or end in line:
            idea = begin in line
        elif line.strip():
            lines.append(Line(line.rstrip(), idea))
    return lines


def local_functions(lines: list[Line]) -> dict[str, tuple[int, int]]:
    """Device functions at file scope: name -> first line and one past the last."""
    found, i = {}, 0
    while i < len(lines):
        start, depth, text = i, 0, ""
        if re.match(r"template|.*GEMM_DEVICE", lines[i].text) and lines[i].text[0] != " ":
            while i < len(lines):
                text += lines[i].text + "\n"
                depth += lines[i].text.count("{") - lines[i].text.count("}")
                if depth == 0 and lines[i].text[-1] in "};":
                    break
                i += 1
            name = re.search(r"GEMM_DEVICE[^;{(]*?(\w+)\(", text)
            if name:
                found[name[1]] = (start, i + 1)
        i += 1
    return found


def moved_functions(
    prev: list[Line], rung: list[Line], device_code: str
) -> dict[str, tuple[int, int]]:
    kept = local_functions(rung)
    return {
        name: span
        for name, span in local_functions(prev).items()
        if name not in kept and re.search(rf"GEMM_DEVICE[^;{{(]*\b{name}\(", device_code)
    }


def diff(rung: Rung, rungs: list[Rung], device_code: str) -> Diff:
    prev = find_rung(rungs, rung.prev)
    old, new = code_lines(prev), code_lines(rung)
    moved = moved_functions(old, new, device_code)
    gone = {i for first, last in moved.values() for i in range(first, last)}
    old = [line for i, line in enumerate(old) if i not in gone]

    matcher = difflib.SequenceMatcher(
        None, [l.key for l in old], [l.key for l in new], autojunk=False
    )
    text = [f"--- {prev.name}.cu", f"+++ {rung.name}.cu"]
    for group in matcher.get_grouped_opcodes(2):
        text.append(
            f"@@ -{group[0][1] + 1},{group[-1][2] - group[0][1]}"
            f" +{group[0][3] + 1},{group[-1][4] - group[0][3]} @@"
        )
        for op, i1, i2, j1, j2 in group:
            if op == "equal":
                text += [" " + line.text for line in new[j1:j2]]
            else:
                text += ["-" + line.text for line in old[i1:i2]]
                text += ["+" + line.text for line in new[j1:j2]]

    idea = outside = 0
    for op, i1, i2, j1, j2 in matcher.get_opcodes():
        if op == "equal":
            continue
        in_idea = sum(line.idea for line in new[j1:j2])
        out = j2 - j1 - in_idea
        size = max(i2 - i1, j2 - j1)
        inside_idea = in_idea > 0 or (
            j1 == j2 and 0 < j1 < len(new) and new[j1 - 1].idea and new[j1].idea
        )
        if not inside_idea:
            outside += size
        elif out == 0:
            idea += size
        else:
            idea += in_idea
            outside += size - in_idea
    return Diff(rung, prev, "\n".join(text), idea, outside, tuple(moved))


def device_sources(root: Path = ROOT) -> str:
    headers = sorted((root / "src" / "device").rglob("*.*h"))
    return "\n".join(strip_comments(h.read_text(encoding="utf-8")) for h in headers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("rung", nargs="?", help="v06, v6 or v06_bank_conflicts")
    which.add_argument("--all", action="store_true", help="the sizes of all rungs' diffs")
    parser.add_argument("--json", action="store_true", help="sizes as JSON")
    args = parser.parse_args()

    rungs, device_code = load_rungs(), device_sources()
    chosen = [r for r in rungs if r.prev] if args.all else [find_rung(rungs, args.rung)]
    if not chosen[0].prev:
        raise BadInput(
            f"{chosen[0].id} is the first rung: there is nothing before it to compare with"
        )
    diffs = [diff(r, rungs, device_code) for r in chosen]
    if args.json:
        sizes = [
            {
                "rung": d.rung.id,
                "prev": d.prev.id,
                "idea": d.idea,
                "outside": d.outside,
                "moved": d.moved,
            }
            for d in diffs
        ]
        print(json.dumps(sizes, indent=2))
        return
    for d in diffs:
        if not args.all:
            print(d.text)
        print(f"{d.rung.id} against {d.prev.id}: {d.summary()}")
    print(
        f"(a hunk counts max(added, removed); the aim, v2-v8: <= {AIM_IDEA} and <= {AIM_OUTSIDE})"
    )


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    try:
        main()
    except BadInput as error:
        fail(error)
