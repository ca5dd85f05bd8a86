"""Repeated measurements among the committed runs: pairs of runs of the ladder with the rungs whose
code was the same. Read from git's history, which keeps every version of a result."""

from __future__ import annotations

import re
import subprocess
import tempfile
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Iterator, Optional

from common import ladder, runs
from common.ladder import BadInput
from common.runs import Run


def git_bytes(root: Path, *args: str) -> Optional[bytes]:
    done = subprocess.run(["git", "-C", str(root), *args], capture_output=True)
    return done.stdout if done.returncode == 0 else None


@cache
def git(root: Path, *args: str) -> Optional[str]:
    found = git_bytes(root, *args)
    return None if found is None else found.decode("utf-8")


@cache
def code_of(root: Path, revision: str, rung: str) -> Optional[dict[str, str]]:
    """What a rung is compiled from at that revision: its file and the device code that it
    includes, without comments and spaces."""
    found: dict[str, str] = {}
    missing = [f"kernels/{rung}.cu"]
    while missing:
        path = missing.pop()
        source = git(root, "show", f"{revision}:{path}")
        if source is None:
            return None
        found[path] = re.sub(r"\s+", "", ladder.strip_comments(source))
        missing += [file for file in ladder.device_includes(path, source) if file not in found]
    return found


def committed(root: Path) -> list[Run]:
    """Every version of every ladder.json that was ever committed, plain or packed."""
    found: dict[str, Run] = {}
    history = git(root, "log", "--reverse", "--format=%h", "--", "plots/results/*/ladder.json*")
    with tempfile.TemporaryDirectory() as folder:
        for revision in (history or "").split():
            changed = git(root, "show", "--format=", "--name-only", revision) or ""
            for path, packed in re.findall(
                r"^(plots/results/[^/]+/ladder\.json)(\.gz)?$", changed, re.MULTILINE
            ):
                data = git_bytes(root, "show", f"{revision}:{path}{packed}")
                if data is None:
                    continue
                file = Path(folder) / f"ladder.json{packed}"
                file.write_bytes(data)
                run = runs.load(file)
                date = str(run.context.get("date", ""))
                run.label = f"{revision} of {date[:16].replace('T', ' ')}"
                found.setdefault(f"{path} {date}", run)
    return list(found.values())


def equal_runs(root: Path) -> Iterator[tuple[Run, Run]]:
    """Pairs of runs on one type of GPU, with only the entries that ran the same code."""
    history = committed(root)
    if len(history) < 2:
        raise BadInput(
            "--false-alarms: git has no two versions of a ladder.json (a shallow clone?)"
        )
    for a, b in combinations(history, 2):
        revisions = [str(run.context.get("git_revision", "")) for run in (a, b)]
        if a.gpu != b.gpu or any("dirty" in r for r in revisions):
            continue

        same = {
            name
            for name in a.timed().keys() & b.timed().keys()
            if (code := code_of(root, revisions[0], name.split("/")[0])) is not None
            and code == code_of(root, revisions[1], name.split("/")[0])
        }
        if same:
            yield only(a, same), only(b, same)


def only(run: Run, names: set[str]) -> Run:
    kept = {name: entry for name, entry in run.entries.items() if name in names}
    return Run(run.path, run.context, kept, run.label)
