#!/usr/bin/env python3
"""Stages the course's Markdown, what is generated from it and the microscope's pages, and builds the site.

  scripts/build_site.py                 everything, into site/build/html
  scripts/build_site.py --only v6,v24   microscope pages of these rungs alone

Run it by scripts/docs.sh, which installs and builds what this needs.
"""

from __future__ import annotations

import argparse
import html
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Optional

from common import course_path, ladder
from common.ladder import ROOT, BadInput, Rung

SITE = ROOT / "site"
BUILD = SITE / "build"
STAGED = BUILD / "docs"
MKDOCS = ROOT / ".venv-site" / "bin" / "mkdocs"
CHART = Path("/usr/share/javascript/chart.js/chart.min.js")
# What is read first; the rest of the navigation is the ladder.
FRONT = ("kernels/00_introduction.md", "docs/frame.md")
BACK = {
    "More": (
        "kernels/99_closing.md",
        "docs/manual.md",
        "docs/library.md",
        "docs/python.md",
        "docs/fused_epilogue.md",
        "docs/every_shape.md",
        "docs/own_kernels.md",
        "docs/how_a_wrong_kernel_passes.md",
        "docs/tile_languages.md",
        "docs/promises.md",
        "docs/faq.md",
        "docs/teaching.md",
        "docs/LICENSE-text.md",
        "docs/glossary.md",
        "docs/index_of_terms.md",
        "src/sim/README.md",
        "plots/NOTES.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    )
}
LANGUAGES = {
    ".cu": "cuda",
    ".cuh": "cuda",
    ".h": "cpp",
    ".cpp": "cpp",
    ".py": "python",
    ".sh": "bash",
}
# Terms that the text also uses as everyday words, or of something else.
NO_TOOLTIP = {"request", "leading dimension"}
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^()\s]+)(?=\))")
LONG_DIFF = 12  # lines; longer ones are folded


def sources() -> list[Path]:
    """The Markdown that becomes pages, relative to the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    return [Path(name) for name in sorted(listed) if not name.startswith("site/")]


def page_of(source: Path) -> Path:
    """Where a file of the repository stands in the site: README.md is a folder's index."""
    return source.with_name("index.md") if source.name == "README.md" else source


def code_page(path: Path) -> Path:
    return Path("code") / path.parent / (path.name + ".md")


class Stage:
    """Copies pages and what they link to."""

    def __init__(self) -> None:
        self.markdown = sources()
        self.pages = {source: page_of(source) for source in self.markdown}
        self.code: set[Path] = set()

    def write(self, page: Path, text: str) -> None:
        target = STAGED / page
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def target(self, source: Path, link: str) -> Optional[str]:
        """What a link in `source` becomes; None: it stays."""
        path, _, anchor = link.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return None
        found = Path(os.path.normpath(source.parent / path))
        if not (ROOT / found).exists() or str(found).startswith(".."):
            return None
        here = self.pages[source].parent
        if (ROOT / found).is_dir():
            found = found / "README.md" if found / "README.md" in self.pages else found
        if found in self.pages:
            page = self.pages[found]
        elif found.suffix in (".svg", ".png"):
            page = found
            self.copy(found)
        else:
            page = code_page(found)
            self.code.add(found)
        return os.path.relpath(page, here) + (f"#{anchor}" if anchor else "")

    def copy(self, path: Path) -> None:
        target = STAGED / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)

    def translate(self, source: Path, text: str) -> str:
        """GitHub's Markdown as MkDocs reads it; what stands in fences stays."""
        parts, last = [], 0
        for fence in FENCE.finditer(text):
            parts += [self.prose(source, text[last : fence.start()]), folded(fence[0])]
            last = fence.end()
        parts.append(self.prose(source, text[last:]))
        return "".join(parts)

    def prose(self, source: Path, text: str) -> str:
        text = re.sub(r"<!-- /?embed.*?-->", "", text)
        text = LINK.sub(lambda m: self.target(source, m[1]) or m[1], text)
        text = text.replace("<details>", '<details markdown="1">')
        # A list right after a paragraph, and the blank line that a table wants.
        text = re.sub(r"(?m)^(?![-*|>\s]|\d+\.)(.+)\n(?=[-*] |1\. )", r"\1\n\n", text)
        return re.sub(r"(?m)^(?![|\s])(.+)\n(?=\|)", r"\1\n\n", text)

    def stage_code(self) -> None:
        """A page for each file of code that a page links to, and a list for each folder."""
        done: set[Path] = set()
        while todo := self.code - done:
            for path in sorted(todo):
                done.add(path)
                page = code_page(path)
                if (ROOT / path).is_dir():
                    files = sorted(p for p in (ROOT / path).iterdir() if not p.name.startswith("."))
                    names = [p.relative_to(ROOT) for p in files if p.is_file()]
                    names = [p for p in names if p.suffix in LANGUAGES]
                    self.code |= set(names)
                    lines = [
                        f"- [{p.name}]({os.path.relpath(code_page(p), page.parent)})" for p in names
                    ]
                    self.write(page, f"# {path}/\n\n" + "\n".join(lines) + "\n")
                else:
                    text = ladder.unpacked(ROOT / path).decode("utf-8", errors="replace")
                    language = LANGUAGES.get(path.suffix, "text")
                    fence = f'````{language} title="{path}" linenums="1"\n{text.rstrip()}\n````\n'
                    self.write(
                        page,
                        f"---\nsearch: {{exclude: true}}\nhide: [toc]\n---\n# {path.name}\n\n{fence}",
                    )


def folded(fence: str) -> str:
    """A long difference, to unfold."""
    lines = fence.count("\n") - 1
    if not fence.startswith("```diff") or lines <= LONG_DIFF:
        return fence
    summary = f"<summary>The difference, {lines} lines</summary>"
    return f'<details markdown="1" class="diff">{summary}\n\n{fence}\n\n</details>'


# Rungs
# --------------------------------------------------------------------------------------------------


def exercises() -> dict[str, list[tuple[str, str]]]:
    """By a rung's chapter: exercises (title, page), from the table of exercises/README.md."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in (ROOT / "exercises" / "README.md").read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| \[(ex\d+)\]\((\w+)/README\.md\)(.*?)\|(.*?)\|", line)
        if row:
            for chapter in re.findall(r"kernels/(\w+)\.md", row[4]):
                found.setdefault(chapter, []).append((row[1], f"exercises/{row[2]}/index.md"))
    return found


def bar(rung: Rung, microscope: bool, tasks: list[tuple[str, str]], here: str) -> str:
    """The links that stand above each of a rung's pages."""
    entries = [("Chapter", f"kernels/{rung.name}.md"), ("Code", f"code/kernels/{rung.name}.cu.md")]
    if microscope:
        entries.append(("Microscope", f"microscope/{rung.name}.html"))
    entries += [(f"Exercise {name}", page) for name, page in tasks]
    entries.append(("Results", f"results/{rung.name}.md"))
    folder = str(Path(here).parent)
    links = [
        f"**{name}**" if page == here else f"[{name}]({os.path.relpath(page, folder)})"
        for name, page in entries
    ]
    return '<div class="rung" markdown="1">\n' + " ".join(links) + "\n</div>\n\n"


def with_bar(text: str, links: str) -> str:
    """Behind the page's heading."""
    return re.sub(r"(?m)^(# .*)$", lambda m: f"{m[1]}\n\n{links}", text, count=1)


def results_page(rung: Rung, rows: list[dict[str, Any]]) -> str:
    lines = [f"# {rung.id}: results", ""]
    mine = [r for r in rows if r["rung"] == rung.name]
    if not mine:
        return "\n".join(lines + ["Not measured yet.", ""])
    lines += [
        f"[Plot them](../plot.md?rungs={rung.id}&dtype={mine[0]['dtype']}){{.md-button}}",
        "",
        "| GPU | type | M x N x K | TFLOPS, median (p10 - p90) | the baseline's | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for r in mine:
        lines.append(
            f"| {r['gpu']} | {r['dtype']} | {r['m']} x {r['n']} x {r['k']} | "
            f"{r['tflops']:.1f} ({r['p10']:.1f} - {r['p90']:.1f}) | {r['baseline']:.1f} | {r['ratio']:.3f} |"
        )
    return "\n".join(lines) + "\n"


def measured() -> list[dict[str, Any]]:
    """All committed results of square problems, one entry a rung, type and size of each GPU."""
    found: dict[tuple[str, str, str, int], dict[str, Any]] = {}
    for name in (*ladder.SWEEPS.values(), ladder.BF16, ladder.LADDER):  # later ones win
        for folder in sorted((ROOT / "plots" / "results").glob("*/")):
            if not ladder.result_exists(folder / name):
                continue
            data = ladder.read_json(folder / name)
            for b in data["benchmarks"]:
                parts = b["name"].split("/")
                if b.get("run_type") != "iteration" or "ratio" not in b or len(parts) < 4:
                    continue
                if parts[2] != "nn" or not b["m"] == b["n"] == b["k"]:
                    continue
                rung = ladder.RENAMED.get(parts[0], parts[0])
                found[data["context"]["gpu"], rung, parts[1], int(b["m"])] = {
                    "gpu": data["context"]["gpu"],
                    "rung": rung,
                    "dtype": parts[1],
                    "m": int(b["m"]),
                    "n": int(b["n"]),
                    "k": int(b["k"]),
                    "tflops": round(b["TFLOPS"], 3),
                    "p10": round(b["TFLOPS_p10"], 3),
                    "p90": round(b["TFLOPS_p90"], 3),
                    "baseline": round(b["baseline_TFLOPS"], 3),
                    "ratio": round(b["ratio"], 4),
                }
    return [found[key] for key in sorted(found)]


# The microscope
# --------------------------------------------------------------------------------------------------


def microscope(rung: Rung, bench: Path) -> Optional[Path]:
    """The rung's page, unless the program that made it is older; None: nothing of it is traced."""
    if rung.is_baseline:
        return None
    kept = BUILD / "microscope" / f"{rung.name}.html"
    if kept.exists() and kept.stat().st_mtime > bench.stat().st_mtime:
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    command = [str(bench), "--inspect", "--kernel", rung.id, "--dtype", rung.dtypes[0]]
    command += ["--shape", "512x512x256", "--blocks", "2", "--html", str(kept)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise BadInput(f"{' '.join(command[1:])}: {done.stderr.strip() or done.stdout[-500:]}")
    return kept


# The whole
# --------------------------------------------------------------------------------------------------


def abbreviations() -> str:
    """The glossary's terms, for tooltips."""
    lines = []
    for row in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        term = re.match(r"\| (?:<a id=[^>]*></a>)+\*\*(.+?)\*\*[^|]*\| (.*?) \|", row)
        if not term:
            continue
        text = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", lambda m: m[1] or "", term[2])
        for name in re.sub(r" \(.*?\)", "", term[1]).split(", "):
            if name in NO_TOOLTIP:
                continue
            for form in (name, name + "s"):
                lines.append(f"*[{form}]: {html.escape(text)}")
    return "\n".join(lines) + "\n"


def navigation(stage: Stage, rungs: list[Rung]) -> list[Any]:
    nav: list[Any] = [{"Home": "index.md"}, *(str(page_of(Path(path))) for path in FRONT)]
    tracks: dict[str, list[Any]] = {"the core": []}  # one path: its pages link to their next
    for rung in course_path.with_bridge(rungs):
        name = "bridge" if rung.name == course_path.BRIDGE else rung.id
        of = "the core" if course_path.is_core(rung.name) else course_path.track(rungs, rung)
        tracks.setdefault(of, []).append(
            {f"{name} {rung.idea.split(':')[0]}": f"kernels/{rung.name}.md"}
        )
    nav.append({"The ladder": ["kernels/index.md", *({name: t} for name, t in tracks.items())]})
    sharded = sorted(p for p in stage.markdown if re.match(r"kernels/m\d+_\w+", str(p)))
    several = [str(page_of(Path("docs/several_gpus.md"))), *(str(page_of(p)) for p in sharded)]
    nav.append({"Several GPUs": several})
    nav.append({"Plot": "plot.md"})
    tasks = sorted(p for p in stage.markdown if re.match(r"exercises/ex\d+\w*/README", str(p)))
    nav.append({"Exercises": ["exercises/index.md", *(str(page_of(p)) for p in tasks)]})
    labs = sorted(p for p in stage.markdown if re.match(r"labs/v\d+\w?/README", str(p)))
    nav.append({"Labs": ["labs/index.md", *(str(page_of(p)) for p in labs)]})
    nav += [
        {name: [str(page_of(Path(p))) for p in pages if (ROOT / p).exists()]}
        for name, pages in BACK.items()
    ]
    return nav


def build(only: Optional[str]) -> None:
    rungs = ladder.load_rungs()
    bench = ROOT / "gemm_bench"
    for needed in (bench, MKDOCS, CHART):
        if not needed.exists():
            raise BadInput(f"{needed} is missing: scripts/docs.sh makes or installs it")
    shutil.rmtree(STAGED, ignore_errors=True)
    stage = Stage()
    chosen = ladder.select_rungs(rungs, only) if only else rungs
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        made = dict(zip(chosen, threads.map(lambda r: microscope(r, bench), chosen)))
    pages = {rung.name: page for rung, page in made.items() if page is not None}
    for name, page in pages.items():
        (STAGED / "microscope").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, STAGED / "microscope" / f"{name}.html")

    rows, tasks = measured(), exercises()
    by_name = {rung.name: rung for rung in rungs}
    for source in stage.markdown:
        text = stage.translate(source, (ROOT / source).read_text(encoding="utf-8"))
        rung = by_name.get(source.stem) if source.parent == Path("kernels") else None
        if rung:
            here = f"kernels/{rung.name}.md"
            text = with_bar(text, bar(rung, rung.name in pages, tasks.get(rung.name, []), here))
        stage.write(stage.pages[source], text)
    stage.code |= {rung.path.relative_to(ROOT) for rung in rungs}
    stage.stage_code()
    for rung in rungs:
        mine = tasks.get(rung.name, [])
        for name in (f"code/kernels/{rung.name}.cu.md", f"results/{rung.name}.md"):
            text = results_page(rung, rows)
            if name.startswith("code"):
                text = (STAGED / name).read_text(encoding="utf-8")
            stage.write(Path(name), with_bar(text, bar(rung, rung.name in pages, mine, name)))

    shutil.copytree(SITE / "assets", STAGED / "assets", dirs_exist_ok=True)
    shutil.copyfile(CHART, STAGED / "assets" / "chart.min.js")
    shutil.copyfile(SITE / "plot.md", STAGED / "plot.md")
    ideas = {rung.name: rung.idea for rung in rungs}
    data = json.dumps({"rows": rows, "ideas": ideas}, separators=(",", ":"))
    (STAGED / "assets" / "results.js").write_text(f"const RESULTS = {data};\n", encoding="utf-8")
    (BUILD / "abbreviations.txt").write_text(abbreviations(), encoding="utf-8")
    config = BUILD / "mkdocs.yml"
    nav = json.dumps({"INHERIT": "../../mkdocs.yml", "nav": navigation(stage, rungs)})  # is YAML
    paths = {"docs_dir": str(STAGED), "site_dir": str(BUILD / "html")}
    config.write_text(json.dumps({**json.loads(nav), **paths}), encoding="utf-8")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        [str(MKDOCS), "build", "--quiet", "--strict", "--config-file", str(config)],
        cwd=ROOT,
        env=environment,
    )
    if done.returncode != 0:
        raise BadInput("mkdocs found something wrong (above)")
    # Source maps of the theme's scripts: for who debugs those.
    for source_map in (BUILD / "html").rglob("*.map"):
        source_map.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", help="microscope pages of these rungs alone, as in v6,v24")
    build(parser.parse_args().only)
    print(f"site: {(BUILD / 'html' / 'index.html').relative_to(ROOT)}")


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        ladder.fail(error)
