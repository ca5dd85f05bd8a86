#!/usr/bin/env python3
"""Checks what people should not have to: formats, and what linters find. All of it takes seconds.

  scripts/lint.py         exit 1 where something is wrong
  scripts/lint.py --fix   writes what the formatters and ruff can put right

clang-format (C++ and CUDA), ruff and mypy (Python), shellcheck (shell), in the versions of
scripts/requirements.txt, on every file that git knows or would add.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common.ladder import ROOT, BadInput, fail

TOOLS = ROOT / ".venv" / "bin"
CPP = (".h", ".cpp", ".cu", ".cuh")


def tracked() -> list[str]:
    """Every file that is committed or would be; a deleted one is not."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise BadInput(f"lint.py needs git's list of files: {done.stderr.strip()}")
    return [
        name for name in sorted(set(done.stdout.split("\n"))) if name and (ROOT / name).is_file()
    ]


def is_shell(name: str) -> bool:
    if name.endswith(".sh"):
        return True
    with open(ROOT / name, "rb") as file:
        return file.read(64).startswith((b"#!/usr/bin/env bash", b"#!/bin/bash", b"#!/bin/sh"))


def commands(files: list[str], fix: bool) -> list[list[str]]:
    cpp = [name for name in files if Path(name).suffix in CPP]
    python = [name for name in files if name.endswith(".py")]
    shell = [name for name in files if "." not in Path(name).name[1:] or name.endswith(".sh")]
    return [
        ["clang-format", *(["-i"] if fix else ["--dry-run", "--Werror"]), *cpp],
        ["ruff", "check", "--quiet", *(["--fix"] if fix else []), *python],
        ["ruff", "format", "--quiet", *([] if fix else ["--check"]), *python],
        ["mypy", "--no-error-summary"],
        ["shellcheck", *filter(is_shell, shell)],
    ]


def run(command: list[str]) -> tuple[str, bool]:
    """What the tool says, and whether it was content."""
    done = subprocess.run(
        [str(TOOLS / command[0]), *command[1:]], cwd=ROOT, capture_output=True, text=True
    )
    return (done.stdout + done.stderr).strip(), done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fix", action="store_true", help="write what can be put right")
    args = parser.parse_args()
    wanted = commands(tracked(), args.fix)
    missing = [command[0] for command in wanted if not (TOOLS / command[0]).exists()]
    if missing:
        raise BadInput(
            f"{', '.join(dict.fromkeys(missing))} missing: scripts/setup.sh installs them"
        )
    if args.fix:
        results = [run(command) for command in wanted]  # one after the other: they write
    else:
        with ThreadPoolExecutor() as threads:
            results = list(threads.map(run, wanted))
    for command, (told, content) in zip(wanted, results):
        name = " ".join(command[: 2 if command[0] == "ruff" else 1])
        print(f"{name}: {'clean' if content else told or 'failed'}")
    return int(not all(content for _, content in results))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        fail(error)
