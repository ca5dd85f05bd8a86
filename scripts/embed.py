#!/usr/bin/env python3
"""Fills the markers of all .md files from the sources and the committed results.

  <!-- embed:region kernels/v05_float4.cu idea -->   a marked region of a source file
  <!-- embed:header kernels/v05_float4.cu -->        its opening comment
  <!-- embed:output inspect_v5 -->                   what a command prints, from tests/golden; with
                                                    "shared 3" the first lines of the paragraph
                                                    that begins with that word
  <!-- embed:diff v05 -->                            what it changes in the rung before
  <!-- embed:row v05 -->                             its results at 4096: of a rung of the core one
                                                    line, speed, share of cuBLAS, times the rung before
  <!-- embed:core -->                                the core of the course at 4096
  <!-- embed:sweep v28 f16 -->                       a rung at every shape of the committed sweep
  <!-- embed:compare flat.json f16 v24,v27 -->      rungs at every shape of another run; at a fourth
                                                    word's, such as 64x64x512,64x64x4096
  <!-- embed:sizes f16 v19,v20 1024,4096 -->        ratios to cuBLAS at some sizes, p10 to p90
  <!-- embed:alone alone.json f16 v24,v27 -->        the same beside each by itself (--alone)
  <!-- embed:summary layers.json M -->              ratios of a run of many shapes, by type, M, N or K;
                                                    with "v24,v27" of these rungs alone
  <!-- embed:worst grid1000.json,random.json:f32 --> the same in one line a run, of all or of one type
  <!-- embed:energy -->                              joules of wgmma and of bytes
  <!-- embed:accuracy f32 -->                        grades of the rungs' errors (accuracy.py)
  <!-- embed:index -->                               the whole ladder, as the index of kernels/
  <!-- embed:needs -->                               which rungs run on which GPUs
  <!-- embed:conditions -->                          GPU, driver, clocks ... of the results
  <!-- embed:gpus -->                                every GPU that plots/results has a folder of
  <!-- embed:counters -->                            the simulator's counters beside a GPU's
  <!-- embed:group_m group_m_l2.json -->             GROUP_M: hits in L2, bytes from memory
  <!-- embed:instructions -->                       of kernels compiled for any call, and for one
  <!-- embed:several h100/two_gpus.json -->          products on several GPUs, over a collective and a GEMM
  <!-- embed:ranks h200/four_ranks.json -->          the same with a process for each GPU, beside torch's
  <!-- embed:limits -->                              what the reference GPU can do
  <!-- embed:refusals -->                            kernels of the wrong precision, and what refuses them
  <!-- embed:false_alarms -->                        right results that were verified, and refused
  <!-- embed:figure plots/waves.svg What it shows --> a figure, as soon as there is one
  <!-- embed:exercises -->                           the exercises, from their own pages
  <!-- embed:terms -->                               the glossary's terms, and where they are explained
Within a line of prose, and followed by <!-- /embed --> on the same line, one number:

  <!-- embed:value v17 f16 8192 ratio -->           paired ratio to cuBLAS; also share, the same in
                                                    per cent, tflops, baseline,
                                                    gain, the ratio of that to the rung before's,
                                                    and spread, that gain's p10 to p90
  <!-- embed:value v24 f16 4096 ratio short.json --> from another run; also 16384x16384x512. A rung
                                                    that is gone goes by its full name: v27w_wide
  <!-- embed:value limit peak_mma_f16_tflops -->    a limit of the card, of the run's context or of
                                                    memory_limits.json
  <!-- embed:value file split.json errors.0.max --> a number of another file of that GPU
  <!-- embed:value counter v02 f32 global_load_sectors -->  a count of the profiler

Results are of the GPU with the most complete ladder in plots/results, or of that of --gpu.
Each is followed, on a line of its own, by <!-- /embed -->; what stands between is replaced.
Nothing measured yet reads "not measured". --check writes nothing and fails when a file is stale.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import re
import sys
from pathlib import Path
from typing import Any, Callable, Optional

import jit_instructions

import accuracy
import compare_counters
import group_m
import ladder_diff
import nsight
import summary
from common import course_path, ladder, runs, terms
from common.ladder import ROOT, BadInput, Point, Rung, fail
from figures import several_gpus

MARKER = re.compile(r"^<!-- embed:(?!value )(\S+)[ ]*(.*?) -->$")
INLINE = re.compile(r"<!-- embed:value ([^>]*?) -->[^<]*<!-- /embed -->")
END = "<!-- /embed -->"
NOT_MEASURED, QUICK = "not measured", "†"


class Embedder:
    """Everything that markers can be filled with."""

    def __init__(self, root: Path, gpu: str) -> None:
        self.root, self.gpu = root, gpu
        self.rungs = ladder.load_rungs(root)
        self.results = ladder.results_of(gpu, root)
        self.quick = ladder.quick_results_of(gpu, root)

    def content(self, kind: str, args: list[str], page: Path) -> str:
        """What belongs between the marker <!-- embed:kind args --> of `page` and its end."""
        fillers: dict[str, tuple[Callable[..., str], int]] = {
            "region": (self.region, 2),
            "header": (self.header, 1),
            "output": (self.output, 1),
            "diff": (self.diff, 1),
            "row": (self.row, 1),
            "core": (lambda: self.core(page), 0),
            "sweep": (self.sweep, 2),
            "compare": (self.compare, 3),
            "sizes": (self.sizes, 3),
            "alone": (self.alone, 3),
            "summary": (self.summary, 2),
            "worst": (self.worst, 1),
            "energy": (self.energy, 0),
            "accuracy": (self.accuracy, 1),
            "index": (lambda: self.index(page), 0),
            "needs": (self.needs, 0),
            "conditions": (self.conditions, 0),
            "gpus": (lambda: self.gpus(page), 0),
            "counters": (self.counters, 0),
            "counters_of": (self.counters_of, 2),
            "nsight": (self.nsight, 2),
            "group_m": (self.group_m, 1),
            "instructions": (self.instructions, 0),
            "several": (self.several, 1),
            "ranks": (self.ranks, 1),
            "limits": (self.limits, 0),
            "refusals": (self.refusals, 0),
            "false_alarms": (self.false_alarms, 0),
            "figure": (self.figure, 2),
            "exercises": (lambda: self.exercises(page), 0),
            "terms": (lambda: terms.index(self.root), 0),
        }
        if kind not in fillers:
            raise BadInput(f"unknown marker; known: {', '.join(fillers)}")
        filler, count = fillers[kind]
        if kind == "output" and len(args) == 3:
            return self.output(args[0], args[1], int(args[2]))
        if kind == "summary" and len(args) == 3:
            return self.summary(*args)
        if kind in ("compare", "alone") and len(args) == 4:
            return fillers[kind][0](*args)
        if kind == "figure" and len(args) > 2:  # the words of its alternative text
            return self.figure(page, args[0], " ".join(args[1:]))
        if len(args) != count:
            raise BadInput(f"{len(args)} arguments where embed:{kind} takes {count}")
        return filler(*args)

    # Code

    def source(self, file: str) -> str:
        path = self.root / file
        if not path.is_file():
            raise BadInput(f"no such file: {file} (paths start at the repository's root)")
        return path.read_text(encoding="utf-8")

    def region(self, file: str, name: str) -> str:
        code = ladder.region(self.source(file), name)
        if code is None:
            raise BadInput(f"{file} has no // [region {name}] ... // [/region {name}]")
        nested = r"^[ \t]*(?://|#) \[/?region [^\n]*\n"
        code = re.sub(nested, "", code, flags=re.MULTILINE)
        return f"```{'python' if file.endswith('.py') else 'cpp'}\n{dedent(code)}\n```"

    def header(self, file: str) -> str:
        comment = re.match(r"(?://[^\n]*\n)+", self.source(file))
        if not comment:
            raise BadInput(f"{file} does not open with a // comment")
        return "```text\n" + re.sub(r"^// ?", "", comment[0].strip(), flags=re.MULTILINE) + "\n```"

    def output(self, name: str, word: str = "", lines: int = 0) -> str:
        """tests/text_test.py holds it against the program. It has no numbers of lines."""
        text = self.source(f"tests/golden/{name}.txt").replace(":LINE", "").rstrip("\n")
        command, _, rest = text.rpartition("\nexit status ")[0].partition("\n")
        if word:
            chosen = [p for p in rest.split("\n\n") if p.split()[:1] == [word]]
            if not chosen:
                raise BadInput(f"tests/golden/{name}.txt has no paragraph that begins with {word}")
            every = chosen[0].split("\n")
            rest = "\n".join(every[:lines]) + ("\n  ..." if lines < len(every) else "")
        return f"```text\n{command}\n{rest}\n```"

    def diff(self, wanted: str) -> str:
        rung = ladder.find_rung(self.rungs, wanted)
        if not rung.prev:
            raise BadInput(f"{rung.id} is the first rung: there is nothing to compare it with")
        d = ladder_diff.diff(rung, self.rungs, ladder_diff.device_sources(self.root))
        return f"```diff\n{d.text}\n```\n\nAgainst {d.prev.id}, without comments: {d.summary()}"

    # Results

    def at(
        self, rung: Rung, dtype: str, shape: ladder.Shape = ladder.REFERENCE_SHAPE
    ) -> Optional[Point]:
        return self.results.at(rung, dtype, shape) if self.results else None

    def of_baseline(self, point: Point, dtype: str) -> str:
        """31.7 %, of what, when it is not cuBLAS at the column's own precision."""
        return f"{100 * point.ratio:.1f} %" + (" of cuBLAS TF32" if dtype == "tf32" else "")

    def row(self, wanted: str) -> str:
        rung = ladder.find_rung(self.rungs, wanted)
        if course_path.is_core(rung.name) or rung.id == "v24":
            return self.result_line(rung)
        lines = [
            "| 4096 x 4096 x 4096 | TFLOPS, median (p10 - p90) | cuBLAS beside it "
            "| of cuBLAS, in pairs | of its limit | gain in that ratio |",
            "|---|---|---|---|---|---|",
        ]
        for dtype in rung.dtypes:
            point = self.at(rung, dtype)
            if not (point and self.results):
                quick = self.quick.at(rung, dtype) if self.quick else None
                cells = ["", "", f"{100 * quick.ratio:.1f} %, quick run"] if quick else [NOT_MEASURED, "", ""]  # fmt: skip
                lines.append(f"| {' | '.join([dtype, *cells, '', self.gain(rung, dtype)])} |")
                continue
            peak = None if rung.tensor_cores and dtype == "f32" else self.results.peak(dtype)
            lines.append(
                f"| {dtype} | {tflops(point.tflops)} ({tflops(point.p10)} - {tflops(point.p90)}) "
                f"| {tflops(point.baseline)} | {100 * point.ratio:.1f} % "
                + (
                    f"| {100 * point.tflops / peak[0]:.1f} % ({peak[1]}, {tflops(peak[0])}) "
                    if peak
                    else "| "
                )
                + f"| {self.gain(rung, dtype)} |"
            )
        return "\n".join(lines).replace("|  |", "| |").replace("|  |", "| |")

    def result_line(self, rung: Rung) -> str:
        """Three figures, of one type: speed, share of cuBLAS's, times the rung before."""
        dtype = main_type(rung)
        point = self.at(rung, dtype)
        quick = self.quick.at(rung, dtype) if self.quick and not point else None
        share = point or quick
        if not share:
            return f"In {dtype} at 4096: {NOT_MEASURED}."
        figures = [f"**{tflops(point.tflops)} TFLOPS**"] if point else []
        figures.append(f"**{self.of_baseline(share, dtype).replace(' %', ' %**', 1)}")
        figures[-1] += "" if dtype == "tf32" else " of cuBLAS"
        figures[-1] += ", quick run" if quick else ""
        if found := self.pair_of_runs(rung, dtype):
            now, before, note = found
            figures.append(f"**{times(now.ratio / before.ratio)[1:]} times** {rung.prev}{note}")
        return f"In {dtype} at 4096: {'; '.join(figures)}."

    def pair_of_runs(self, rung: Rung, dtype: str) -> Optional[tuple[Point, Point, str]]:
        """The rung and the one before it, in the first run that has both; and which run, if quick."""
        for results, note in ((self.results, ""), (self.quick, ", quick run")):
            if rung.prev and results:
                now = results.at(rung, dtype)
                before = results.at(ladder.find_rung(self.rungs, rung.prev), dtype)
                if now and before:
                    return now, before, note
        return None

    def gain(self, rung: Rung, dtype: str) -> str:
        """Over the rung before."""
        found = self.pair_of_runs(rung, dtype)
        return f"{gain_of(found[0], found[1])} {rung.prev}{found[2]}" if found else ""

    def share(self, rung: Rung, dtype: str) -> str:
        """The share of cuBLAS's speed; the quick run's, and marked, where the long one has none."""
        point = self.at(rung, dtype)
        quick = self.quick.at(rung, dtype) if self.quick and not point else None
        note = ladder.label(rung, dtype) if dtype == "f32" else ""
        if point:
            return self.of_baseline(point, dtype) + note
        return f"{self.of_baseline(quick, dtype)}{note} {QUICK}" if quick else ""

    def quick_note(self, shown: list[tuple[Rung, str]]) -> list[str]:
        """What the mark means, where one of these has it: and how far the two runs are apart."""
        if not (self.quick and any(QUICK in self.share(*one) for one in shown)):
            return []
        both = [(self.quick.at(*one), self.at(*one)) for one in shown]
        apart = [abs(q.ratio / p.ratio - 1) for q, p in both if q and p]
        far = f", where the other shares differ by up to {100 * max(apart):.0f} %" if apart else ""
        return ["", f"{QUICK} From a quick run{far}."]

    def value(self, args: list[str]) -> str:
        """One number, for a sentence."""
        if len(args) == 2 and args[0] == "limit":
            found = self.results.context.get(args[1]) if self.results else None
            limit = float(found or ladder.limits("memory", self.gpu, self.root).get(args[1]) or 0)
            return tflops(limit) if limit else NOT_MEASURED
        if len(args) == 3 and args[0] == "file":
            return self.value_of_file(args[1], args[2])
        if len(args) == 4 and args[0] == "counter":
            counted = self.counted(args[1], args[2]).get(args[3])
            return NOT_MEASURED if counted is None else f"{counted:,}"
        if len(args) not in (4, 5):
            raise BadInput("embed:value takes a rung, a type, a size, what of it [and a file]")
        wanted, dtype, size, field = args[:4]
        m, n, k = map(int, size.split("x")) if "x" in size else [int(size)] * 3
        shape = (m, n, k)
        path = ladder.folder_of(self.gpu, self.root) / args[4] if len(args) == 5 else None
        results = self.results if path is None else ladder.load_results(path)
        rung = ladder.measured_rung(self.rungs, wanted)
        point = results.at(rung, dtype, shape) if results else None
        if not (point and results):
            return NOT_MEASURED
        if field == "tflops":
            return tflops(point.tflops)
        if field == "baseline":
            return tflops(point.baseline)
        if field == "ratio":
            return f"{point.ratio:.3f}"
        if field == "share":
            return self.of_baseline(point, dtype)
        if field not in ("gain", "spread"):
            raise BadInput(
                f"no '{field}' of a measurement; known: ratio, share, tflops, gain, spread, baseline"
            )
        before = results.at(ladder.find_rung(self.rungs, rung.prev), dtype, shape)
        if not before:
            return NOT_MEASURED
        gain = point.ratio / before.ratio
        return f"{gain:.2f}" if field == "gain" else spread_of(gain, point, before)

    def value_of_file(self, file: str, key: str) -> str:
        """errors.0.max: what stands under these names and indices of a file beside the results. An
        element of a list goes by its name, too."""
        path = ladder.folder_of(self.gpu, self.root) / file
        if not ladder.result_exists(path):
            return NOT_MEASURED
        found: Any = ladder.read_json(path)
        for part in key.split("."):
            try:
                if isinstance(found, list):
                    named = [one for one in found if one.get("name") == part]
                    found = named[0] if named else found[int(part)]
                else:
                    found = found[part]
            except (AttributeError, LookupError, ValueError, TypeError):
                raise BadInput(f"{file} has no {key}") from None
        if not isinstance(found, (int, float)):
            raise BadInput(f"{file}: {key} is no number")
        if found >= 100:
            return f"{found:,.0f}" if found >= 1e4 else f"{found:.0f}"
        return f"{found:.2g}" if abs(found) < 1 else f"{found:.3g}"

    def counted(self, wanted: str, dtype: str) -> dict[str, Any]:
        """What the profiler counted of a rung on this GPU; empty when it was not asked."""
        path = ladder.folder_of(self.gpu, self.root) / compare_counters.MEASURED
        if not ladder.result_exists(path):
            return {}
        tag = ladder.find_rung(self.rungs, wanted).tag
        kernels = ladder.read_json(path)["rungs"]
        return next((k for k in kernels if (k["rung"], k["dtype"]) == (tag, dtype)), {})

    def counters_of(self, wanted: str, dtype: str) -> str:
        rungs = [ladder.find_rung(self.rungs, one) for one in wanted.split(",")]
        measured = [self.counted(rung.id, dtype) for rung in rungs]
        simulated = self.root / compare_counters.SIMULATED
        if not all(measured) or not ladder.result_exists(simulated):
            return NOT_MEASURED
        entries = ladder.read_json(simulated)["benchmarks"]
        found = {entry["name"].rpartition("/nn/")[0]: entry for entry in entries}
        lines = [
            "| counter of Nsight Compute |"
            + "".join(f" {r.id}, GPU | {r.id}, simulator |" for r in rungs),
            "|---|" + "---:|---:|" * len(rungs),
        ]
        for metric, key, group, field in nsight.COUNTERS:
            cells = [f"`{metric}`"]
            for rung, kernel in zip(rungs, measured):
                cells.append(f"{kernel[key]:,}")
                cells.append(f"{found[f'{rung.name}/{dtype}'][group][field]:,}")
            lines.append(f"| {' | '.join(cells)} |")
        size = measured[0]["size"]
        return "\n".join([*lines, "", f"M = N = K = {size}, {dtype}, the whole grid."])

    def nsight(self, file: str, wanted: str) -> str:
        path = ladder.folder_of(self.gpu, self.root) / file
        return nsight.table(path, wanted) if path.exists() else NOT_MEASURED

    def group_m(self, file: str) -> str:
        path = ladder.folder_of(self.gpu, self.root) / file
        if not ladder.result_exists(path):
            return NOT_MEASURED
        return group_m.table(ladder.read_json(path))

    def instructions(self) -> str:
        path = self.root / jit_instructions.FILE
        if not ladder.result_exists(path):
            return NOT_MEASURED
        return jit_instructions.table(ladder.read_json(path))

    def core(self, page: Path) -> str:
        """One share a rung: in f32 where it multiplies that, else in f16."""
        lines = ["| rung | idea | of cuBLAS | minutes |", "|---|---|---|---:|"]
        shown = []
        for rung in course_path.core(self.rungs):
            speed, name = "", "bridge"
            if rung.name != course_path.BRIDGE:
                shown.append((rung, "f32" if "f32" in rung.dtypes else "f16"))
                share = self.share(*shown[-1]) or NOT_MEASURED
                speed, name = f"{shown[-1][1]} {share}", rung.id
            lines.append(
                f"| [{name}]({link(rung.chapter, page)}) | {rung.idea} | {speed} "
                f"| {course_path.minutes(rung)} |"
            )
        return "\n".join([*lines, *self.quick_note(shown)])

    def sweep(self, wanted: str, dtype: str) -> str:
        """As stored (nn) and with B transposed (nt), which cuBLAS calls TN."""
        if dtype not in ladder.SWEEPS:
            raise BadInput(f"no sweep of '{dtype}'; known: {', '.join(ladder.SWEEPS)}")
        rung = ladder.find_rung(self.rungs, wanted)
        ops = ("nn", "nt")
        sweeps = [ladder.sweep_of(dtype, self.gpu, self.root, op) for op in ops]
        shapes = [s for sweep in sweeps if sweep for s in sweep.points.get((rung.name, dtype), {})]
        if not shapes:
            return NOT_MEASURED
        lines = [
            "| M x N x K | variant |" + "".join(f" {op}: TFLOPS | of cuBLAS |" for op in ops),
            "|---|---|" + "---:|---:|" * len(ops),
        ]
        for shape in dict.fromkeys(shapes):
            points = [sweep.at(rung, dtype, shape) if sweep else None for sweep in sweeps]
            variants = dict.fromkeys(p.variant for p in points if p and p.variant)
            cells = [" x ".join(map(str, shape)), ", ".join(variants)]
            for p in points:
                cells += [tflops(p.tflops), self.of_baseline(p, dtype)] if p else [NOT_MEASURED, ""]
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def compare(self, file: str, dtype: str, wanted: str, shapes: str = "") -> str:
        """Ratios to the baseline, for each of nn, nt, tn and tt that was run."""
        return self.ratios(file, dtype, wanted, shapes, lambda p: f"{p.ratio:.2f}")

    def sizes(self, dtype: str, wanted: str, sides: str) -> str:
        """A row a size, a column a rung; and the baseline's speed in the same runs."""
        rungs = [ladder.find_rung(self.rungs, one) for one in wanted.split(",")]
        lines = [
            "| M = N = K |" + "".join(f" {rung.id} |" for rung in rungs) + " cuBLAS, TFLOPS |",
            "|---:|" + "---:|" * (len(rungs) + 1),
        ]
        for side in map(int, sides.split(",")):
            points = [self.at(rung, dtype, (side, side, side)) for rung in rungs]
            cells = [ratio_of(p) if p else NOT_MEASURED for p in points]
            speeds = [p.baseline for p in points if p]
            ends = dict.fromkeys(tflops(v) for v in (min(speeds), max(speeds))) if speeds else {}
            lines.append(f"| {side} | {' | '.join(cells)} | {' - '.join(ends) or NOT_MEASURED} |")
        return "\n".join(lines)

    def alone(self, file: str, dtype: str, wanted: str, shapes: str = "") -> str:
        """Ratios in pairs and by itself, and the clock that the rung then has."""

        def cell(p: Point) -> str:
            alone = f"{p.alone:.3f} at {p.alone_clock:.0f} MHz" if p.alone else NOT_MEASURED
            return f"{p.ratio:.3f}, {alone}"

        return self.ratios(file, dtype, wanted, shapes, cell)

    def several(self, file: str) -> str:
        """A row a problem of a run of --gpus: its parts' times, and each rung's best way."""
        path = self.root / "plots" / "results" / file
        if not ladder.result_exists(path):
            return NOT_MEASURED
        problems = several_gpus.load(path)[0]
        measured = sorted({tag for problem in problems for tag in problem.rungs} - {"m1"})
        lines = [
            "| collective | M x N x K | NCCL, ms | GEMM, ms | m1, ms | bound | "
            + " | ".join(measured)
            + " |",
            "|---|---|---:|---:|---:|---:|" + "---:|" * len(measured),
        ]
        for problem in problems:
            m1 = problem.rungs["m1"]
            longest = max(m1["wire_ms"], m1["gemm_ms"])
            cells = [f"{m1[part]:.3f}" for part in ("wire_ms", "gemm_ms", "serial_ms")]
            cells.append(f"{m1['serial_ms'] / longest:.2f}")
            for tag in measured:
                run = problem.rungs.get(tag)
                spread = f" ({run['speedup_p10']:.2f} - {run['speedup_p90']:.2f})" if run else ""
                cells.append(f"{run['speedup']:.2f}{spread}" if run else "")
            name = problem.collective.replace("_", "-")
            lines.append(f"| {name} | {problem.shape.replace('x', ' x ')} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def ranks(self, file: str) -> str:
        """A row a problem of bench/ranks.py: each way's time, and the serial time over it."""
        path = self.root / "plots" / "results" / file
        if not ladder.result_exists(path):
            return NOT_MEASURED
        problems = several_gpus.load_ranks(path)
        beside = ["ours", "one process", "torch", "torch native", "torch one shot"]
        beside = [way for way in beside if any(way in ways for ways in problems.values())]
        lines = [
            "| collective | M x N x K | NCCL, cuBLAS, ms | NCCL, our GEMM, ms | ours, ms | "
            + " | ".join(beside)
            + " |",
            "|---|---|---:|---:|---:|" + "---:|" * len(beside),
        ]
        for (collective, shape), ways in problems.items():
            cells = [collective.replace("_", "-"), shape.replace("x", " x ")]
            for way in ("nccl, cublas", "nccl, ours", "ours"):
                cells.append(f"{ways[way]['ms']:.3f}" if "ms" in ways.get(way, {}) else "")
            for way in beside:
                run = ways.get(way, {})
                spread = [f"{run.get(key, 0):.2f}" for key in ("speedup_p10", "speedup_p90")]
                has = "speedup" in run  # and was not skipped
                cells.append(f"{run['speedup']:.2f} ({' - '.join(spread)})" if has else "")
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines)

    def ratios(
        self, file: str, dtype: str, wanted: str, shapes: str, cell: Callable[[Point], str]
    ) -> str:
        path = ladder.folder_of(self.gpu, self.root) / file
        if not ladder.result_exists(path):
            return NOT_MEASURED
        runs = {op: ladder.load_results(path, op, variants=True) for op in ("nn", "nt", "tn", "tt")}
        rungs = [ladder.measured_rung(self.rungs, one) for one in wanted.split(",")]
        columns = [
            (f"{op}: {rung.id}{name.removeprefix(rung.name).replace(':', '')}", points)
            for op, run in runs.items()
            for rung in rungs
            for (name, of), points in run.points.items()
            if of == dtype and name.partition(":")[0] == rung.name
        ]
        if not columns:
            return NOT_MEASURED
        lines = [
            "| M x N x K |" + "".join(f" {title} |" for title, _ in columns),
            "|---|" + "---:|" * len(columns),
        ]
        measured = dict.fromkeys(s for _, points in columns for s in points)
        named = {"x".join(map(str, shape)): shape for shape in measured}
        asked = [one for one in shapes.split(",") if one]
        if lost := [one for one in asked if one not in named]:
            raise BadInput(f"{file} has no shape {lost[0]}")
        for shape in [named[one] for one in asked] or measured:
            here = [points.get(shape) for _, points in columns]
            cells = [cell(p) if p and not p.reason else "" for p in here]
            lines.append(f"| {' x '.join(map(str, shape))} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def summary(self, file: str, by: str, wanted: str = "") -> str:
        """As scripts/summary.py prints it; of the rungs asked for, where a run has more."""
        if by not in summary.BY:
            raise BadInput(f"embed:summary by one of {', '.join(summary.BY)}")
        path = ladder.folder_of(self.gpu, self.root) / file
        if not ladder.result_exists(path):
            return NOT_MEASURED
        run = runs.load(path)
        if wanted:
            names = [ladder.measured_rung(self.rungs, one).name for one in wanted.split(",")]
            of_these = {k: e for k, e in run.entries.items() if k.partition("/")[0] in names}
            run = dataclasses.replace(run, entries=of_these)
        return summary.markdown(run, by)

    def worst(self, wanted: str) -> str:
        """A line a run of many shapes: its mean, and where it is worst."""
        lines = [
            "| set | shapes | geometric mean | below 0.97 | lowest | at |",
            "|---|---:|---:|---:|---:|---|",
        ]
        for file, _, dtype in (one.partition(":") for one in wanted.split(",")):
            path = ladder.folder_of(self.gpu, self.root) / file
            entries = (
                summary.compared(runs.load(path), dtype or None)
                if ladder.result_exists(path)
                else []
            )
            if not entries:
                return NOT_MEASURED
            all_ = summary.Group(file, entries)
            _, kind, op = all_.least.key[:3]
            shape = runs.shape_name(all_.least.shape)
            lines.append(
                f"| {path.stem.partition('_')[0]}, {kind} | {len(entries)} | {all_.mean:.3f} "
                f"| {100 * all_.below(summary.CLEARLY_BELOW):.1f} % "
                f"| {summary.ratio(all_.least):.3f} | {shape} {op} |"
            )
        return "\n".join(lines)

    def energy(self) -> str:
        """What energy_limits measured on the reference GPU."""
        results = ladder.limits("energy", self.gpu, self.root).get("results")
        if not results:
            return NOT_MEASURED
        lines = [
            "| wgmma | loads per k-tile | TFLOPS | TB/s | MHz | W | nJ per k-tile |",
            "|---|---|---:|---:|---:|---:|---:|",
        ]
        for r in results:
            wgmma = f"{r['blocks_of_64']} of m64n{r['wgmma_n']}" if r["wgmma_n"] else "none"
            loads = (
                f"{r['bytes_a_k_tile']} bytes from {r['from']}" if r["bytes_a_k_tile"] else "none"
            )
            speeds = [
                tflops(r["tflops"]) if r["tflops"] else "",
                f"{r['tbs']:.2f}" if r["tbs"] else "",
            ]
            rest = [f"{r[key]:.0f}" for key in ("sm_clock_mhz", "power_w", "nj_a_k_tile")]
            lines.append(f"| {' | '.join([wgmma, loads, *speeds, *rest])} |")

        # What each row of the largest shape takes more than the mean of those without loads.
        shape = [r for r in results if r["wgmma_n"] == 192]
        none = [r["nj_a_k_tile"] for r in shape if not r["from"]]
        told = []
        for source in ("L2", "memory") if none else ():
            more = [
                (r["nj_a_k_tile"] - sum(none) / len(none)) / r["bytes_a_k_tile"] * 1e3
                for r in shape
                if r["from"] == source
            ]
            ends = list(dict.fromkeys(f"{pj:.0f}" for pj in (min(more), max(more)))) if more else []
            if ends:
                told.append(f"{' to '.join(ends)} pJ per byte from {source}")
        return "\n".join([*lines, "", f"The difference to wgmma without loads: {', '.join(told)}."])

    def accuracy(self, dtype: str) -> str:
        """The simulator's, with what that means, until there is a GPU's."""
        found = accuracy.measured(self.gpu, self.root, simulated=True)
        return accuracy.table(found, dtype) if found else NOT_MEASURED

    def index(self, page: Path) -> str:
        lines = ["| rung | idea | TFLOPS | of cuBLAS | chapter |", "|---|---|---|---|---|"]
        shown: list[tuple[Rung, str]] = []
        for rung in self.rungs:
            long = [(d, p) for d in rung.dtypes if (p := self.at(rung, d))]
            types = [d for d, _ in long] or [d for d in ("f32", "f16") if self.share(rung, d)]
            shown += [(rung, d) for d in types]
            speeds = "<br>".join(f"{d} {tflops(p.tflops)}" for d, p in long) or ", ".join(types)
            lines.append(
                f"| [{rung.id}]({link(rung.path, page)}) | {rung.idea} "
                f"| {speeds or NOT_MEASURED} "
                f"| {'<br>'.join(self.share(rung, d) for d in types)} "
                f"| [{rung.name}]({link(rung.chapter, page)}) |"
            )
        return "\n".join([*lines, *self.quick_note(shown)])

    def needs(self) -> str:
        """From the rungs' registrations."""
        found: dict[tuple[int, bool], list[str]] = {}
        for rung in self.rungs:
            found.setdefault((rung.sm, rung.exact_arch), []).append(rung.id)
        lines = ["| compute capability | rungs |", "|---|---|"]
        for (sm, exact), ids in sorted(found.items()):
            least = f"{sm // 10}.{sm % 10}" + (" only" if exact else " or newer")
            lines.append(f"| {least if sm else 'any'} | {', '.join(ids)} |")
        return "\n".join(lines)

    def conditions(self) -> str:
        if not self.results:
            return "Nothing measured yet on a GPU."
        return f"Measured on one {self.results.conditions()}."

    def gpus(self, page: Path) -> str:
        """A line a folder of plots/results, the one that tables and figures are of first."""
        lines = [
            "| GPU | rungs at 4096 | best f32 | best f16 | figures |",
            "|---|---:|---|---|---|",
        ]
        others = [gpu for gpu in ladder.measured_gpus(self.root) if gpu != self.gpu]
        for gpu in [self.gpu, *others] if self.gpu else others:
            results = ladder.results_of(gpu, self.root) or ladder.quick_results_of(gpu, self.root)
            here = (self.root / "plots") if gpu == self.gpu else ladder.folder_of(gpu, self.root)
            measured, cells = set(), []
            for dtype in ("f32", "f16"):
                found = [(p, r) for r in self.rungs if results and (p := results.at(r, dtype))]
                measured |= {rung.id for _, rung in found}
                own = [(p.ratio, r.id) for p, r in found if not (r.is_baseline or ladder.label(r, dtype))]  # fmt: skip
                cells.append(f"{max(own)[1]}: {100 * max(own)[0]:.1f} % of cuBLAS" if own else NOT_MEASURED)  # fmt: skip
            name = results.context.get("gpu", gpu) if results else gpu
            name += ", quick run" if results and results.path.name == ladder.QUICK else ""
            cells += [f"[{link(here, page)}/]({link(here, page)}/)"]
            lines.append(f"| {name} | {len(measured)} | {' | '.join(cells)} |")
        return "\n".join(lines) if len(lines) > 2 else NOT_MEASURED

    def counters(self) -> str:
        measured = ladder.folder_of(self.gpu, self.root) / compare_counters.MEASURED
        files = (self.root / compare_counters.SIMULATED, measured)
        if not all(map(ladder.result_exists, files)):
            return NOT_MEASURED
        return compare_counters.table(self.gpu, self.root)

    def limits(self) -> str:
        """Arithmetic and memory levels of the reference GPU, as measured."""
        if not self.results:
            return NOT_MEASURED
        context, memory = self.results.context, ladder.limits("memory", self.gpu, self.root)
        peak = float(context.get("peak_ffma_tflops") or 0)

        def level(name: str, tbs: float, latency: Optional[float]) -> str:
            bandwidth = f"{tbs:.3g} TB/s" if tbs else NOT_MEASURED
            needed = f"{peak / tbs:.2g}" if tbs and peak else ""
            return f"| {name} | {bandwidth} | {f'{latency:.0f} cycles' if latency else ''} | {needed} |"

        lines = ["| | bandwidth | one load takes | FLOP per byte for FFMA |", "|---|---|---|---|"]
        hbm = float(context.get("peak_copy_tbs") or 0)
        lines.append(level("HBM, copy", hbm, memory.get("hbm_latency_cycles")))
        if memory:
            lines.append(level("L2", memory["l2_tbs"], memory["l2_latency_cycles"]))
            shared = (memory["shared_tbs"], memory["shared_latency_cycles"])
            lines.append(level("shared memory", *shared))
        lines += ["", "| arithmetic | TFLOPS |", "|---|---:|"]
        for name, key in (
            ("FP32 on CUDA cores (FFMA)", "peak_ffma_tflops"),
            ("TF32 on tensor cores, mma.sync", "peak_mma_tf32_tflops"),
            ("TF32 on tensor cores, the best instruction", "peak_tensor_tf32_tflops"),
            ("f16 on tensor cores, mma.sync", "peak_mma_f16_tflops"),
            ("f16 on tensor cores, the best instruction", "peak_tensor_f16_tflops"),
        ):
            value = float(context.get(key) or 0)
            lines.append(f"| {name} | {tflops(value) if value else NOT_MEASURED} |")
        return "\n".join(lines)

    def figure(self, page: Path, file: str, alt: str) -> str:
        """A figure that appears when its results do."""
        there = (self.root / file).exists()
        return f"![{alt}]({link(self.root / file, page)})" if there else NOT_MEASURED

    # Exercises

    # Verification, by verification_study

    def study(self) -> dict:
        """The GPU's, or the simulator's until there is one."""
        for folder in (self.gpu, "simulator"):
            path = ladder.folder_of(folder, self.root) / "verification.json"
            if ladder.result_exists(path):
                return ladder.read_json(path)
        return {}

    def studied_on(self) -> str:
        gpu = self.study()["context"].get("gpu")
        return f"on one {gpu}" if gpu else "in the simulator"

    def refusals(self) -> str:
        mutants = self.study().get("mutants")
        if not mutants:
            return NOT_MEASURED
        lengths = list(mutants[0]["refused_by"])
        lines = [
            f"| claims to be | but | {' | '.join(f'K = {k}' for k in lengths)} |",
            "|---|---|" + "---|" * len(lengths),
        ]
        for m in mutants:
            cells = [f"`{by}`" if by else "-" for by in m["refused_by"].values()]
            lines.append(f"| {m['claims']} | {m['does']} | {' | '.join(cells)} |")
        size = self.study()["context"]["size"]
        lines += ["", f"C of {size} x {size}, {self.studied_on()}."]
        return "\n".join(lines)

    def false_alarms(self) -> str:
        right = self.study().get("right")
        if not right:
            return NOT_MEASURED
        lines = [
            "| right results | verified | refused | largest error on uniform inputs, of the bound |",
            "|---|---:|---:|---:|",
        ]
        rows = [*right["by_class"].items(), ("**all**", right)]
        for name, r in rows:
            lines.append(
                f"| {name} | {r['results']} | {r['refused']} | {100 * r['largest']:.0f} % |"
            )
        lines += ["", f"Verified {self.studied_on()}."]
        return "\n".join(lines)

    def exercises(self, page: Path) -> str:
        """From the pages' first lines: `# ex01: title`, `*After [v1](file). What to do.*`"""
        lines = ["| exercise | after | |", "|---|---|---|"]
        for file in sorted((self.root / "exercises").glob("ex*/README.md")):
            opening = re.match(
                r"# (ex\d+): ([^\n]+)\n\n\*After (.+?)\. ([^.*]+)\.\*\n",
                file.read_text(encoding="utf-8"),
                re.DOTALL,
            )
            if not opening:
                raise BadInput(f"{file.relative_to(self.root)}: does not open as exercises do")
            name, title, after, what = (" ".join(part.split()) for part in opening.groups())
            after = relinked(after, file, page)
            lines.append(f"| [{name}]({link(file, page)}): {title} | {after} | {what} |")
        return "\n".join(lines)


def main_type(rung: Rung) -> str:
    """f32 where a rung multiplies that, else f16."""
    return next((d for d in ("f32", "f16") if d in rung.dtypes), rung.dtypes[0])


def dedent(code: str) -> str:
    """Like textwrap.dedent, but #pragma lines, which stand in column 0, do not count."""
    lines = code.strip("\n").split("\n")
    margin = min((len(l) - len(l.lstrip()) for l in lines if l.strip() and l[0] != "#"), default=0)
    return "\n".join(l if l.startswith("#") else l[margin:] for l in lines)


def tflops(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_of(point: Point) -> str:
    ends = f" ({point.ratio_p10:.3f} - {point.ratio_p90:.3f})" if point.ratio_p10 else ""
    return f"{point.ratio:.3f}{ends}"


def spread_of(gain: float, point: Point, before: Point) -> str:
    """p10 to p90 of a gain, as if the two ratios were independent and their errors normal."""
    if not (point.ratio_p10 and before.ratio_p10):
        return NOT_MEASURED
    down = math.hypot(point.ratio_p10 / point.ratio - 1, before.ratio_p90 / before.ratio - 1)
    up = math.hypot(point.ratio_p90 / point.ratio - 1, before.ratio_p10 / before.ratio - 1)
    return f"{gain * (1 - down):.2f} to {gain * (1 + up):.2f}"


def times(gain: float) -> str:
    return f"x{gain:.2f}" if gain < 10 else f"x{gain:.0f}"


def gain_of(point: Point, before: Point) -> str:
    """The ratio of two paired ratios, with its p10 and p90 where they were recorded."""
    gain = point.ratio / before.ratio
    spread = spread_of(gain, point, before)
    return times(gain) + (f" ({spread}) of" if spread != NOT_MEASURED else " of")


def link(target: Path, page: Path) -> str:
    return Path(os.path.relpath(target, page.parent)).as_posix()


def relinked(text: str, file: Path, page: Path) -> str:
    """A text of one page with its links as another page needs them."""
    target = r"\]\(([^)]+)\)"
    return re.sub(target, lambda m: f"]({link((file.parent / m[1]).resolve(), page)})", text)


def with_values(line: str, page: Path, embedder: Embedder) -> str:
    """A line of prose with its numbers filled in."""

    def number(marker: re.Match[str]) -> str:
        try:
            value = embedder.value(marker[1].split())
        except (BadInput, ValueError) as error:
            raise BadInput(
                f"{page.relative_to(embedder.root)}: embed:value {marker[1]}: {error}"
            ) from None
        return f"<!-- embed:value {marker[1]} -->{value}<!-- /embed -->"

    return INLINE.sub(number, line)


def fill(page: Path, embedder: Embedder) -> tuple[str, list[str]]:
    """The page's text with all markers filled, and the markers whose content changed."""
    lines = page.read_text(encoding="utf-8").split("\n")
    filled, changed, i, code = [], [], 0, False
    while i < len(lines):
        code ^= lines[i].startswith("```")
        filled.append(lines[i] if code else with_values(lines[i], page, embedder))
        if filled[-1] != lines[i]:
            changed.append(f"embed:value in line {i + 1}")
        marker = MARKER.match(lines[i])
        i += 1
        if not marker:
            continue
        try:
            end = next(
                (j for j in range(i, len(lines)) if lines[j] == END or MARKER.match(lines[j])), i
            )
            if lines[end : end + 1] != [END]:
                raise BadInput(f"no {END} after it")
            new = embedder.content(marker[1], marker[2].split(), page).split("\n")
        except BadInput as error:
            raise BadInput(f"{page.relative_to(embedder.root)}: {marker[0]}: {error}") from None
        new = ["", *new, ""]  # Markdown wants blank lines around what is not a paragraph
        if lines[i:end] != new:
            changed.append(marker[0])
        filled += [*new, END]
        i = end + 1
    return "\n".join(filled), changed


def pages(root: Path) -> list[Path]:
    """All Markdown files but those of hidden and build folders."""
    return [
        p
        for p in sorted(root.rglob("*.md"))
        if not any(part.startswith((".", "build")) for part in p.relative_to(root).parts)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, help="default: every .md file")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    parser.add_argument("--gpu", help="whose results; default: the most complete ladder's")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    args = parser.parse_args()

    root = args.root.resolve()
    embedder, stale = Embedder(root, ladder.choose_gpu(args.gpu, root)), False
    for page in [f.resolve() for f in args.files] or pages(root):
        if not page.is_file():
            raise BadInput(f"no such file: {page}")
        text, changed = fill(page, embedder)
        for marker in changed:
            print(f"{page.relative_to(root)}: {'stale' if args.check else 'filled'}: {marker}")
        stale |= bool(changed)
        if changed and not args.check:
            page.write_text(text, encoding="utf-8")
    if stale and args.check:
        print("run scripts/embed.py", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except BadInput as error:
        fail(error)
