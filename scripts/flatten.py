#!/usr/bin/env python3
"""One rung as one file: its kernel below the project's headers that it uses, for nvcc alone.

  scripts/flatten.py v8 > v8.cu && nvcc -c -std=c++20 -arch=sm_90a v8.cu
  scripts/flatten.py v8 --check     compiles it too, and prints nothing but errors

The headers stand in the order in which they need each other, each once. The simulator's branches are
left out, and definitions that nothing in the file mentions. The file is for reading, and compiles to an
object: what registers a rung, plans for it and asks CUDA stays in src/registration.cpp, src/plan and
src/device/gpu.cu.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Optional

from common import ladder
from common.ladder import ROOT, BadInput, Rung, exit_by, strip_comments

INCLUDE = re.compile(r'\s*#\s*include\s+(?:"([^"]+)"|(<[^>]+>))')
DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b\s*(.*?)\s*(?://.*)?$")
KNOWN = {"GEMM_ON_GPU": True, "__CUDACC__": True, "GEMM_SIM_TRACED": False}  # under nvcc


# Conditions
# --------------------------------------------------------------------------------------------------


def evaluate(kind: str, condition: str) -> Optional[bool]:
    """What #if, #ifdef or #ifndef comes to; None: nvcc has to say."""
    if kind in ("ifdef", "ifndef"):
        known = KNOWN.get(condition)
        return known if known is None or kind == "ifdef" else not known
    if " || " in condition:
        return None
    parts: list[Optional[bool]] = []
    for term in condition.split(" && "):
        found = re.fullmatch(r"(!?)(?:defined\()?(\w+)\)?", term)
        known = KNOWN.get(found[2]) if found else None
        parts.append(known if known is None or not found or not found[1] else not known)
    if False in parts:
        return False
    return None if None in parts else True


def on_gpu(lines: list[str]) -> list[str]:
    """The lines that nvcc may see: conditions whose outcome is known are gone, the others stay."""
    kept: list[str] = []
    # Each open #if: whether a branch was taken, and whether this one is; None where its lines stay.
    open_ifs: list[list[Optional[bool]]] = []
    for line in lines:
        found = DIRECTIVE.match(line)
        if not found:
            if all(branch is not False for _, branch in open_ifs):
                kept.append(line)
            continue
        kind, condition = found[1], found[2]
        outer = all(branch is not False for _, branch in open_ifs[: len(open_ifs) - 1])
        if kind in ("if", "ifdef", "ifndef"):
            value = evaluate(kind, condition)
            inside = all(branch is not False for _, branch in open_ifs)
            open_ifs.append([value, value])
            if value is None and inside:
                kept.append(line)
            continue
        taken, _ = open_ifs[-1]
        if kind == "endif":
            open_ifs.pop()
            if taken is None and outer:
                kept.append(line)
        elif taken is None:  # all branches stay
            if outer:
                kept.append(line)
        elif taken:
            open_ifs[-1][1] = False
        elif kind == "else":
            open_ifs[-1] = [True, True]
        else:
            value = evaluate("if", condition)
            open_ifs[-1] = [value, value]
            if value is None and outer:
                kept.append(f"#if {condition}")
    return kept


# Files
# --------------------------------------------------------------------------------------------------


class Flat:
    """The files that a rung is made of, in order, and the system's headers that they include."""

    def __init__(self, rung: Path) -> None:
        self.system: set[str] = set()
        self.files: dict[Path, list[str]] = {}
        self._begun: set[Path] = set()
        self._add(rung)

    def _add(self, path: Path) -> None:
        self._begun.add(path)
        kept: list[str] = []
        depth = 0
        for line in on_gpu(path.read_text(encoding="utf-8").split("\n")):
            if directive := DIRECTIVE.match(line):
                depth += {"endif": -1, "else": 0, "elif": 0}.get(directive[1], 1)
            found = INCLUDE.match(line)
            if re.match(r"\s*(#\s*pragma once|// \[/?region )", line):
                continue
            if not found:
                kept.append(line)
            elif found[2] and depth > 0:
                kept.append(line)
            elif found[2]:
                self.system.add(found[2])
            elif (header := self._find(path, found[1])) not in self._begun:
                self._add(header)
        self.files[path] = kept  # behind all that it includes

    @staticmethod
    def _find(includer: Path, name: str) -> Path:
        for folder in (includer.parent, ROOT / "src"):
            if (folder / name).is_file():
                return (folder / name).resolve()
        raise BadInput(f"{includer.name} includes {name}, which is neither beside it nor in src")


# Definitions that nothing mentions
# --------------------------------------------------------------------------------------------------


def definitions(lines: list[str]) -> list[list[str]]:
    """The lines, cut behind each definition; a comment belongs to what follows it."""
    found: list[list[str]] = [[]]
    braces = conditions = 0
    macro = False
    for line in lines:
        if not line.strip() and len(found[-1]) == 0:
            found[-1].append("")
            continue
        if found[-1] == [""] and not line.strip():
            continue
        found[-1].append(line)
        if directive := DIRECTIVE.match(line):
            conditions += {"endif": -1, "else": 0, "elif": 0}.get(directive[1], 1)
        in_macro = macro or line.lstrip().startswith("#")
        macro = in_macro and line.endswith("\\")
        code = strip_comments(re.sub(r'"(?:\\.|[^"\\])*"|\'[{}]\'', '""', line)).rstrip()
        # A namespace's own braces are no body: what lies in it is told apart. A macro's close elsewhere.
        outside = re.match(r"\s*((inline )?namespace\b.*|}|GEMM_\w+NAMESPACE_\w+)\s*$", code)
        if not in_macro and (not outside or braces > 0):
            braces += code.count("{") - code.count("}")
        ends = (in_macro and not macro) or code.endswith((";", "}")) or outside or not line.strip()
        if ends and braces == 0 and conditions == 0:
            found.append([])
    return [lines for lines in found if "".join(lines).strip()]


# What stands before a bracket, "=" or the end of a definition and is no name of its own.
NO_NAMES = {
    *("alignas", "const", "constexpr", "decltype", "default", "delete", "noexcept", "requires"),
    *("sizeof", "__launch_bounds__"),
}


def defined(block: list[str]) -> set[str]:
    """The names that a block may define; none: it stays."""
    text = strip_comments("\n".join(block))
    if macro := re.match(r"\s*#\s*define\s+(\w+)", text):
        return {macro[1]}
    if re.match(r"\s*((inline )?namespace\b|}|GEMM_\w+NAMESPACE_|static_assert|#)", text):
        return set()
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    for inner, rest in ((r"\{[^{}]*\}", " ; "), (r"\([^()]*\)", "[]")):  # bodies, then parameters
        number = 1
        while number:
            text, number = re.subn(inner, rest, text)
    if "operator" in text:
        return set()
    text = re.sub(r"^\s*template\s*<.*?>\s*\n", "", text, flags=re.M | re.S)
    if type_of := re.match(r"\s*(?:struct|class|union|enum(?: class)?)\s+(\w+)", text):
        return {type_of[1]}
    names = set(re.findall(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:=[^=]|;|\[\])", text))
    return names - NO_NAMES


def without_unused(files: dict[Path, list[list[str]]], rung: Path) -> dict[Path, list[list[str]]]:
    """Drops a header's blocks as long as one defines only what nothing else mentions."""
    words = {
        id(block): set(re.findall(r"\w+", strip_comments("\n".join(block))))
        for of_file in files.values()
        for block in of_file
    }
    pasted = {  # beginnings of names that macros put together
        name
        for of_file in files.values()
        for block in of_file
        for name in re.findall(r"(\w+)##", "\n".join(block))
    }
    while True:
        count: dict[str, int] = {}
        for of_file in files.values():
            for block in of_file:
                for word in words[id(block)]:
                    count[word] = count.get(word, 0) + 1
        left = {
            path: [
                block
                for block in of_file
                if path == rung
                or not (names := defined(block))
                or any(count.get(name, 0) > 1 or name.startswith((*pasted,)) for name in names)
            ]
            for path, of_file in files.items()
        }
        if sum(map(len, left.values())) == sum(map(len, files.values())):
            return left
        files = left


def is_code(block: list[str]) -> bool:
    """Whether more than comments and an empty namespace is left."""
    code = strip_comments("\n".join(block))
    code = re.sub(r"GEMM_BUILD_NAMESPACE_(BEGIN|END)|(inline )?namespace \w*\s*\{|}", "", code)
    return bool(code.strip())


def arch(rung: Rung) -> str:
    """The least that it runs on."""
    return f"sm_{max(rung.sm, 75)}{'a' if rung.exact_arch else ''}"


def flatten(rung: Rung) -> str:
    path = rung.path.resolve()
    flat = Flat(path)
    files = without_unused({file: definitions(lines) for file, lines in flat.files.items()}, path)
    name = f"kernels/{rung.path.name}"
    text = [
        f"// {name} and all that it uses of this project, by scripts/flatten.py {rung.id}.",
        f"//   nvcc -c -std=c++20 -O3 -arch={arch(rung)} {rung.id}.cu",
        *(f"#include {header}" for header in sorted(flat.system)),
        "#pragma nv_diag_suppress 177, 20050  // what headers may do: constants unused, inline kernels",
    ]
    for file, of_file in files.items():
        if file != path and not any(map(is_code, of_file)):
            continue
        text += ["", f"// {'=' * 97}", f"// {file.relative_to(ROOT)}", f"// {'=' * 97}"]
        for block in of_file:
            text += block
    return "\n".join(text) + "\n"


def check(rung: Rung, text: str) -> None:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        raise BadInput("no nvcc: the PATH names CUDA's compiler")
    ccache = shutil.which("ccache")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{rung.name}.cu"
        source.write_text(text, encoding="utf-8")
        command = [*([ccache] if ccache else []), nvcc, "-c", "-std=c++20", "-Werror=all-warnings"]
        done = subprocess.run(
            [*command, f"-arch={arch(rung)}", source, "-o", source.with_suffix(".o")]
        )
    if done.returncode != 0:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rung", help="v8, or v08_double_buffer")
    parser.add_argument("--check", action="store_true", help="compile it, print nothing")
    args = parser.parse_args()
    rung = ladder.find_rung(ladder.load_rungs(), args.rung)
    text = flatten(rung)
    if args.check:
        check(rung, text)
    else:
        print(text, end="")


if __name__ == "__main__":
    exit_by(main)
