"""The ladder as data: the rungs (parsed from kernels/*.cu) and their measured results (JSON).

Also three questions that the shell scripts ask:
  ladder.py find v8            v08_double_buffer
  ladder.py needs v17,v18      v17_raster 80 up
                               v18_pipeline 90 only: the name, the least sm, whether that one alone
  ladder.py gpu results.json   h200
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Optional

ROOT = Path(__file__).resolve().parents[2]
# The committed runs: the ladder, from which tables are made, with what bf16.json has beside it; and
# the fine sweeps, which have figures of their own.
LADDER, BF16 = "ladder.json", "bf16.json"
QUICK = "ladder_quick.json"  # all rungs and types with --quick: its ratios hold, not its TFLOPS
SWEEPS = {"f32": "sgemm_sweep.json", "f16": "hgemm_sweep.json"}
REFERENCE_SHAPE = (4096, 4096, 4096)
# Names that committed runs have for rungs whose files were renamed since: an id is permanent.
RENAMED = {"v18_wgmma": "v18_pipeline"}
DTYPES = ("f32", "f16", "tf32", "bf16")

Shape = tuple[int, int, int]


class BadInput(Exception):
    """Something the user can put right; shown as one line."""


def fail(message: object) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(2)


def exit_by(main: Callable[[], Optional[int]]) -> NoReturn:
    """Ends the program with main's status: 2 bad input, 3 the machine or the program failed.

    1 has a meaning of its own, such as "a regression": no failure ends so.
    """
    try:
        status = main()
        sys.stdout.flush()
    except BadInput as error:
        fail(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # | head
        status = 0
    except OSError as error:
        with contextlib.suppress(OSError):
            print(f"{Path(sys.argv[0]).name}: {error}", file=sys.stderr)
        os._exit(3)  # what stdout did not take would be tried again
    except Exception as error:
        told = " ".join(repr(error).split())
        print(f"{Path(sys.argv[0]).name}: a mistake of this program: {told}", file=sys.stderr)
        status = 3
    sys.exit(status)


# Rungs
# --------------------------------------------------------------------------------------------------

NAME = re.compile(r"v\d+[a-z]?_[a-z0-9_]+")
TOKEN = re.compile(  # a comment, or something inside which "//" starts none
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'""", re.DOTALL
)
REGISTRATION = re.compile(r"^const Registration \w+\(.*?\)\s*;[^\n]*\n?", re.DOTALL | re.MULTILINE)
STRING = r'("(?:\\.|[^"\\])*"(?:\s*"(?:\\.|[^"\\])*")*)'  # adjacent literals are one string


@dataclass(frozen=True)
class Rung:
    path: Path
    source: str
    prev: str  # id of the rung that this one changes; "" for the first
    idea: str
    dtypes: tuple[str, ...]
    tensor_cores: bool = False  # an f32 rung whose products are theirs: not held against FFMA
    sm: int = 0  # the least compute capability that it needs, 80 = 8.0; 0: any
    exact_arch: bool = False  # only that very architecture
    plans: bool = False  # has variants, and leaves to the rung before it what none of them takes
    dispatches: bool = False  # chooses among the rungs that plan

    @property
    def name(self) -> str:  # v05_float4
        return self.path.stem

    @property
    def tag(self) -> str:  # v05
        return self.name.split("_")[0]

    @property
    def order(self) -> tuple[int, str]:  # (5, ""); v1u: (1, "u")
        return int(re.sub(r"\D", "", self.tag)), re.sub(r"v\d+", "", self.tag)

    @property
    def id(self) -> str:  # v5
        return "v{}{}".format(*self.order)

    @property
    def is_baseline(self) -> bool:
        """v9: what all others are compared with, and no kernel of ours."""
        return self.name.endswith("_cublas")

    @property
    def chapter(self) -> Path:
        return self.path.with_suffix(".md")


def label(rung: Rung, dtype: str) -> str:
    """What must stand beside a figure in a column or plot of FP32; empty elsewhere."""
    if dtype == "tf32":
        return " (TF32)"
    return " (tensor cores)" if dtype == "f32" and rung.tensor_cores else ""


def strip_comments(source: str) -> str:
    return TOKEN.sub(lambda t: "" if t[0].startswith("/") else t[0], source)


def comments(source: str) -> list[str]:
    return [t[0] for t in TOKEN.finditer(source) if t[0].startswith("/")]


def parse_rung(path: Path) -> Rung:
    if not NAME.fullmatch(path.stem):
        raise BadInput(f"{path.name}: a rung's file is named like v05_float4.cu")
    source = path.read_text(encoding="utf-8")
    registrations = REGISTRATION.findall(strip_comments(source))
    if len(registrations) != 1:
        raise BadInput(f"{path.name}: {len(registrations)} registrations; a rung has exactly one")

    def text(field: str) -> str:
        found = re.search(rf"\.{field}\s*=\s*{STRING}", registrations[0])
        return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', found[1])) if found else ""

    # f16(...), and what a dispatcher says: dispatcher(DType::f16, ...).
    dtypes = re.findall(
        r"\b(t?f32|f16|bfloat16)\s*\(|\b(?:dispatcher|entry|twin)\(DType::(\w+)", registrations[0]
    )
    dtypes = ["bf16" if a == "bfloat16" else a or b for a, b in dtypes]
    tensor_cores = ".product_error" in registrations[0]
    sm = re.search(r"\.sm\s*=\s*(\d+)", registrations[0])
    exact_arch = re.search(r"\.exact_arch\s*=\s*true\b", registrations[0]) is not None
    return Rung(
        path,
        source,
        text("prev"),
        text("idea"),
        tuple(dtypes),
        tensor_cores,
        int(sm[1]) if sm else 0,
        exact_arch,
        "VARIANTS" in registrations[0],
        "dispatcher(" in registrations[0],
    )


def device_includes(path: str, source: str) -> list[str]:
    """The device code that a file includes, as paths from the root: headers of src/device,
    src/engine and src/tile, and those that stand beside a rung, in its folder."""
    shared = ("device/", "engine/", "tile/")
    found = re.findall(r'^[ \t]*#[ \t]*include "([^"]+)"', source, re.MULTILINE)
    folder = path.rpartition("/")[0]
    return [
        f"src/{file}" if file.startswith(shared) else f"{folder}/{file}"
        for file in found
        if file.startswith(shared) or file.endswith(".cuh")
    ]


def load_rungs(root: Path = ROOT) -> list[Rung]:
    """All rungs in ladder order: by number, then by variant letter."""
    return sorted(map(parse_rung, (root / "kernels").glob("v*.cu")), key=lambda r: r.order)


def find_rung(rungs: list[Rung], wanted: str) -> Rung:
    """By id (v5), tag (v05) or name (v05_float4)."""
    for rung in rungs:
        if wanted in (rung.id, rung.tag, rung.name):
            return rung
    raise BadInput(f"unknown rung '{wanted}'; known: {' '.join(r.id for r in rungs)}")


def measured_rung(rungs: list[Rung], wanted: str) -> Rung:
    """As find_rung; or, by its full name, one that is gone and that committed runs still have."""
    if NAME.fullmatch(wanted) and not any(wanted in (r.tag, r.name) for r in rungs):
        return Rung(Path(f"{wanted}.cu"), "", "", "", ())
    return find_rung(rungs, wanted)


def select_rungs(rungs: list[Rung], wanted: str) -> list[Rung]:
    """By --kernel's words: ids, ranges such as v1-v8, all, with commas between."""
    chosen: set[Rung] = set()
    for part in wanted.split(","):
        first, dash, last = part.partition("-")
        if part == "all":
            chosen.update(rungs)
        elif dash:
            low, high = find_rung(rungs, first).order, find_rung(rungs, last).order
            if high < low:
                raise BadInput(f"empty range '{part}': a range is FIRST-LAST, as in v1-v8")
            chosen.update(r for r in rungs if low <= r.order <= high)
        else:
            chosen.add(find_rung(rungs, part))
    return [r for r in rungs if r in chosen]


def region(source: str, name: str) -> Optional[str]:
    """What stands between // [region name] and // [/region name], or None. In Python: #."""
    begin, end = (rf"^[ \t]*(?://|#) \[{slash}region {re.escape(name)}\]" for slash in ("", "/"))
    found = re.search(rf"{begin}[^\n]*\n(.*?){end}", source, re.DOTALL | re.MULTILINE)
    return found[1] if found else None


# Files of results
# --------------------------------------------------------------------------------------------------


def stored(path: Path) -> Path:
    """Where a result lies. A large one is committed packed: NAME.json as NAME.json.gz."""
    packed = path.with_name(path.name + ".gz")
    return packed if not path.exists() and packed.exists() else path


def result_exists(path: Path) -> bool:
    return stored(path).is_file()


def results_in(folder: Path) -> list[Path]:
    """Every NAME.json of the folder, those that are packed too."""
    packed = {path.with_suffix("") for path in folder.glob("*.json.gz")}
    return sorted(packed.union(folder.glob("*.json")))


def unpacked(path: Path) -> bytes:
    """The bytes of a file, or of what it has packed."""
    data = path.read_bytes()
    if path.suffix != ".gz":
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{path}: not packed by gzip ({error})") from None


def read_json(path: Path) -> Any:
    """NAME.json or, where there is none, NAME.json.gz; a name that ends in .gz is read as well."""
    return json.loads(unpacked(stored(path)))


# Results
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One rung on one problem: measured, or skipped with a reason."""

    shape: Shape
    tflops: float = 0
    p10: float = 0
    p90: float = 0
    baseline: float = 0  # TFLOPS of what it was compared with, in the same run
    baseline_name: str = ""
    ratio: float = 0  # of pairs: not exactly tflops / baseline
    ratio_p10: float = 0  # 0: not recorded
    ratio_p90: float = 0
    alone: float = 0  # ratio where each ran by itself (--alone), 0: not measured
    alone_clock: float = 0  # MHz, of the rung's SMs then
    variant: str = ""  # of the rung, where it has several
    reason: str = ""  # why there is no measurement; empty when there is one


@dataclass(frozen=True)
class Results:
    path: Path
    context: dict[str, str]
    points: dict[tuple[str, str], dict[Shape, Point]]  # (rung's name, dtype) -> shape -> point

    def at(self, rung: Rung, dtype: str, shape: Shape = REFERENCE_SHAPE) -> Optional[Point]:
        """The measured point, or None."""
        point = self.points.get((rung.name, dtype), {}).get(shape)
        return point if point and not point.reason else None

    def peak(self, dtype: str) -> Optional[tuple[float, str]]:
        """The card's measured limit for this dtype's products and what it is called; f16_f32: of
        f16, whatever the type of C."""
        key, title = {
            "f32": ("peak_ffma_tflops", "FFMA"),
            "f16": ("peak_tensor_f16_tflops", "f16 tensor"),
            "bf16": ("bf16_peak_tensor_f16_tflops", "f16 tensor"),
            "tf32": ("peak_tensor_tf32_tflops", "TF32 tensor"),
            "e4m3": ("peak_tensor_f8_tflops", "FP8 tensor"),
            "e5m2": ("peak_tensor_f8_tflops", "FP8 tensor"),
        }[dtype.partition("_")[0]]
        value = float(self.context.get(key) or self.context.get(key.removeprefix("bf16_")) or 0)
        return (value, title) if value > 0 else None

    def conditions(self) -> str:
        """Where and how it was measured, in one sentence of those facts that are known."""
        facts = (
            ("gpu", "{}"),
            ("driver", "driver {}"),
            ("cuda_runtime", "CUDA {}"),
            ("cublas", "cuBLAS {}"),
            ("max_sm_clock_mhz", "SM clock up to {} MHz"),
            ("power_limit_w", "power limit {} W"),
            ("l2", "L2 {}"),
            ("git_revision", "revision {}"),
            ("bf16_revision", "bf16 of revision {}"),
        )
        return ", ".join(
            form.format(self.context[key])
            for key, form in facts
            if self.context.get(key) and self.context[key] not in ("unknown", "-1")
        )


def load_results(path: Path, op: str = "nn", variants: bool = False) -> Results:
    """Reads Google Benchmark's JSON, as written by gemm_bench --json: entries of that op. With
    `variants` those, too, that --variant asked for, as rungs named "v24_pingpong: the variant"."""
    try:
        data = read_json(path)
        context = {key: str(value) for key, value in data["context"].items()}
        entries = data["benchmarks"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: not gemm_bench's JSON ({error!r})") from None

    points: dict[tuple[str, str], dict[Shape, Point]] = {}
    for entry in entries:
        if entry.get("run_type", "iteration") != "iteration":
            continue  # Google Benchmark's aggregates of repetitions
        parts = re.match(rf"(\w+)/(\w+)/{op}/(\d+)x(\d+)x(\d+)(?:/|$)", entry["name"])
        variant = entry["name"].partition("/variant:")[2]
        if not parts or (variant and not variants):
            continue  # variants that were asked for have no place in most tables and plots
        shape, label = (int(parts[3]), int(parts[4]), int(parts[5])), entry.get("label", "")
        if entry.get("error_occurred") or entry.get("skipped"):
            reason = entry.get("error_message") or entry.get("skip_message") or "no reason given"
            point = Point(shape, reason=reason)
        elif label.startswith("not timed: "):  # verified, but its baseline failed
            point = Point(shape, reason=label)
        else:
            try:
                point = Point(
                    shape,
                    tflops=float(entry["TFLOPS"]),
                    p10=float(entry["TFLOPS_p10"]),
                    p90=float(entry["TFLOPS_p90"]),
                    baseline=float(entry["baseline_TFLOPS"]),
                    baseline_name=label.split(";")[0] or "cuBLAS",
                    variant=label.partition("; variant ")[2],
                    ratio=float(entry["ratio"]),
                    ratio_p10=float(entry.get("ratio_p10", 0)),
                    ratio_p90=float(entry.get("ratio_p90", 0)),
                    alone=float(entry.get("alone_ratio", 0)),
                    alone_clock=float(entry.get("alone_sm_clock_mhz", 0)),
                )
            except KeyError as missing:
                raise BadInput(f"{path}: {entry['name']} has no {missing}") from None
        name = RENAMED.get(parts[1], parts[1]) + (f": {variant}" if variant else "")
        points.setdefault((name, parts[2]), {})[shape] = point
    return Results(path, context, points)


def measured_gpus(root: Path = ROOT) -> list[str]:
    """Folders of plots/results that hold a GPU's JSON: a new one is found by itself."""
    folders = (root / "plots" / "results").glob("*/")
    return sorted(f.name for f in folders if f.name != "simulator" and results_in(f))


def reference_gpu(root: Path = ROOT) -> str:
    """The GPU of the README's and the chapters' figures: the one with the most complete ladder.
    Most rungs at 4096 count first, then most measurements, then most other runs; "" when there is
    none."""

    def complete(gpu: str) -> tuple[int, int, int]:
        folder = folder_of(gpu, root)
        path = folder / LADDER
        found = load_results(path).points.values() if result_exists(path) else ()
        measured = [[s for s, p in points.items() if not p.reason] for points in found]
        at_reference = sum(REFERENCE_SHAPE in shapes for shapes in measured)
        return at_reference, sum(map(len, measured)), len(results_in(folder))

    return max(measured_gpus(root), key=complete, default="")


def choose_gpu(wanted: Optional[str], root: Path = ROOT) -> str:
    """What --gpu asked for, or the reference GPU."""
    known = measured_gpus(root)
    if wanted and wanted not in known:
        raise BadInput(f"--gpu {wanted}: plots/results has {', '.join(known) or 'no GPU'}")
    return wanted or reference_gpu(root)


def folder_of(gpu: str, root: Path = ROOT) -> Path:
    return root / "plots" / "results" / (gpu or "none")


def limits(of: str, gpu: str, root: Path = ROOT) -> dict[str, Any]:
    """What memory_limits or energy_limits measured on that GPU; empty when it was not run."""
    path = folder_of(gpu, root) / f"{of}_limits.json"
    if not result_exists(path):
        return {}
    text = unpacked(stored(path)).replace(b'_a_slice"', b'_a_k_tile"')  # an older label
    found: dict[str, Any] = json.loads(text)
    return found


def results_of(gpu: str, root: Path = ROOT) -> Optional[Results]:
    """The committed run of the whole ladder on that GPU; None when there is none yet."""
    folder = folder_of(gpu, root)
    if not result_exists(folder / LADDER):
        return None
    results = load_results(folder / LADDER)
    if result_exists(folder / BF16):
        beside = load_results(folder / BF16)
        # A run of its own: its limit, and its revision where that is another.
        limit, revision = "peak_tensor_f16_tflops", "git_revision"
        results.context["bf16_" + limit] = beside.context.get(limit, "0")
        if beside.context.get(revision) != results.context.get(revision):
            results.context["bf16_revision"] = beside.context.get(revision, "unknown")
        for key, points in beside.points.items():
            for shape, point in points.items():
                results.points.setdefault(key, {}).setdefault(shape, point)
    return results


def quick_results_of(gpu: str, root: Path = ROOT) -> Optional[Results]:
    """The committed quick run of the whole ladder; None when there is none yet."""
    path = folder_of(gpu, root) / QUICK
    return load_results(path) if result_exists(path) else None


def sweep_of(dtype: str, gpu: str, root: Path = ROOT, op: str = "nn") -> Optional[Results]:
    """The committed sweep over sizes in small steps; None when there is none yet."""
    path = folder_of(gpu, root) / SWEEPS[dtype]
    return load_results(path, op) if result_exists(path) else None


def gpu_slug(gpu: str) -> str:
    """ "NVIDIA GeForce RTX 4090" -> "rtx-4090": the folder of its results."""
    words = re.findall(r"[a-z0-9]+", gpu.lower())
    return "-".join(w for w in words if w not in ("nvidia", "geforce")) or "unknown"


def main(args: list[str]) -> None:
    if len(args) == 2 and args[0] == "find":
        print(find_rung(load_rungs(), args[1]).name)
    elif len(args) == 2 and args[0] == "needs":
        for rung in select_rungs(load_rungs(), args[1]):
            print(rung.name, rung.sm, "only" if rung.exact_arch else "up")
    elif len(args) == 2 and args[0] == "gpu":
        print(gpu_slug(load_results(Path(args[1])).context.get("gpu", "")))
    else:
        fail("usage: ladder.py find RUNG | ladder.py needs RUNGS | ladder.py gpu FILE.json")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BadInput as error:
        fail(error)
