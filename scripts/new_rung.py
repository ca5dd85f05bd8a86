#!/usr/bin/env python3
"""Starts a rung: kernels/<name>.cu, a renamed copy of the rung before, and its chapter beside it.

new_rung.py v11_warp_tiling --prev v8
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from common import ladder
from common.ladder import NAME, ROOT, BadInput, Rung, fail
from embed import Embedder, fill

HEADER = """\
// {id} {title}: TODO one sentence.
//
// before: TODO what {prev} still does badly, with its counter or figure
// idea:   TODO the one thing that changes
// watch:  TODO the counter that should move, and the price
// needs:  TODO any GPU, or what `.needs` of the registration says
"""

CHAPTER = """\
# {id} {title}

| | |
|---|---|
| You will be able to | TODO |
| You need | [{prev}]({prev_chapter}); TODO minutes |

**The idea in one sentence.** TODO

<!-- embed:header kernels/{name}.cu -->
<!-- /embed -->

<!-- embed:row {tag} -->
<!-- /embed -->

## The question

TODO

## The picture

TODO

## The diff

<!-- embed:region kernels/{name}.cu idea -->
<!-- /embed -->

<!-- embed:diff {tag} -->
<!-- /embed -->

## The main loop

TODO

## The counters

TODO

## What is still slow

TODO

## Questions

**1. TODO**

<details><summary>Answer</summary>

TODO

</details>

**2. TODO**

<details><summary>Answer</summary>

TODO

</details>

**3. TODO**

<details><summary>Answer</summary>

TODO

</details>
"""


def kernel_source(prev: Rung, rung: Rung, title: str) -> str:
    source = re.sub(r"\A(//[^\n]*\n)+", "", prev.source)
    source = re.sub(rf"\bgemm_{prev.tag}", f"gemm_{rung.tag}", source)
    source = re.sub(r"\.prev = \"[^\"]*\"", f'.prev = "{prev.id}"', source)
    source = re.sub(rf"\.idea = {ladder.STRING}", '.idea = "TODO one line"', source)
    return HEADER.format(id=rung.id, title=title, prev=prev.id) + source


def create(root: Path, name: str, prev_id: str) -> Rung:
    if not NAME.fullmatch(name):
        raise BadInput(
            f"'{name}': a rung is named like v11_warp_tiling (v, number, lower case words)"
        )
    rungs = ladder.load_rungs(root)
    prev = ladder.find_rung(rungs, prev_id)
    rung = Rung(root / "kernels" / f"{name}.cu", "", prev.id, "", ())
    for other in rungs:
        if other.id == rung.id:
            raise BadInput(f"{rung.id} exists: {other.path.relative_to(root)}")
    if rung.chapter.exists():
        raise BadInput(f"{rung.chapter.relative_to(root)} exists")
    if prev.order >= rung.order:
        raise BadInput(f"{prev.id} does not come before {rung.id}")
    if ladder.region(prev.source, "idea") is None:
        raise BadInput(f"{prev.path.relative_to(root)} has no [region idea] to start from")

    title = name.split("_", 1)[1].replace("_", " ")
    rung.path.write_text(kernel_source(prev, rung, title), encoding="utf-8")
    text = CHAPTER.format(
        id=rung.id,
        tag=rung.tag,
        name=name,
        title=title,
        prev=prev.id,
        prev_chapter=prev.chapter.name,
    )
    rung.chapter.write_text(text, encoding="utf-8")
    text, _ = fill(rung.chapter, Embedder(root, ladder.reference_gpu(root)))
    rung.chapter.write_text(text, encoding="utf-8")
    return rung


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", help="v<number>[letter]_<words>; the id v<number> is permanent")
    parser.add_argument("--prev", required=True, help="the rung that it changes, e.g. v8")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()

    root = args.root.resolve()
    rung = create(root, args.name, args.prev)
    print(f"""\
created {rung.path.relative_to(root)} and {rung.chapter.relative_to(root)}
next:
  1. move what {rung.prev} taught (its [region idea]) to src/device/, and mark the new idea
  2. fill in the TODOs, then build and check: scripts/bench.sh --kernel {rung.id}
  3. see that the diff shows one idea: scripts/ladder_diff.py {rung.id}
  4. fill chapter and index: scripts/embed.py""")


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        fail(error)
