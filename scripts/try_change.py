#!/usr/bin/env python3
"""Builds gemm_bench with one change to one rung, and runs it; the rung's file stays as it is.

  scripts/try_change.py v6 --old 'i * (BM / TM) + t' --new 't * TM + i' -- --inspect --dtype f32

`--old` is text that stands once in the kernel. The copy lies in build/changed. In the simulator alone.
What stands behind -- goes to gemm_bench.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from common import ladder
from common.ladder import ROOT, BadInput, Rung

BUILD = ROOT / "build"
CHANGED = BUILD / "changed"


def run(command: str) -> None:
    done = subprocess.run(command, shell=True, cwd=BUILD, capture_output=True, text=True)
    if done.returncode != 0:
        raise BadInput(f"the changed kernel does not compile:\n{done.stderr.strip()}")


def commands() -> list[str]:
    """What Ninja runs to build gemm_bench, the link last."""
    asked = ["ninja", "-C", str(BUILD), "-t", "commands", "gemm_bench"]
    done = subprocess.run(asked, capture_output=True, text=True)
    if done.returncode != 0:
        raise BadInput("try_change.py needs a build by Ninja: cmake --preset release")
    return done.stdout.splitlines()


def build(rung: Rung, source: str) -> Path:
    copy = CHANGED / "kernels" / rung.path.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(source, encoding="utf-8")
    known = commands()
    bench = CHANGED / "gemm_bench"
    link = next(part for part in known[-1].split(" && ") if " -o gemm_bench " in part)
    link = link.replace(" -o gemm_bench ", f" -o {bench} ")
    for library in ("rungs_sim", "rungs_traced"):
        objects = f"src/sim/CMakeFiles/{library}.dir/__/__/kernels/{rung.path.name}.o"
        compile_it = next((c for c in known if f" -o {objects} " in c), "")
        if not compile_it:
            continue  # this build has it for the other use alone
        new = CHANGED / f"{library}.o"
        compile_it = compile_it.replace(objects, str(new)).replace(
            f" -c {rung.path}", f" -I{rung.path.parent} -c {copy}"
        )
        run(compile_it)
        link = link.replace(f" {objects} ", f" {new} ")
    run(link)
    return bench


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rung", help="as in v6")
    parser.add_argument("--old", required=True, help="text that stands once in its file")
    parser.add_argument("--new", required=True, help="what takes its place")
    own, rest = sys.argv[1:], []
    if "--" in own:
        own, rest = own[: own.index("--")], own[own.index("--") + 1 :]
    args = parser.parse_args(own)
    rung = ladder.find_rung(ladder.load_rungs(), args.rung)
    found = rung.source.count(args.old)
    if not args.old or found != 1:
        raise BadInput(
            f"--old stands {found} times in {rung.path.name}: want a text that is there once"
        )
    asked = ["scripts/build.py", "bench", "--kernel", rung.id, *rest]
    if subprocess.run(asked, cwd=ROOT, stdout=sys.stderr).returncode != 0:
        return 1
    bench = build(rung, rung.source.replace(args.old, args.new))
    return subprocess.run([str(bench), "--kernel", rung.id, *rest]).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadInput as error:
        ladder.fail(error)
