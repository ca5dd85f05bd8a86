"""Runs as data: entries of Google Benchmark's JSON, gemm_bench's or any other's, and the rule that
tells a difference between two runs from noise.

The rule. Each entry has a speed, and the spread of its samples as the standard deviation of their
logarithm: (ln p90 - ln p10) / 2.563, or that of Google Benchmark's repetitions. The change between
two runs is ln(B / A):

- of the ratio to the baseline and of TFLOPS, whichever moved less; 0 where they moved apart. A
  slower kernel moves both. Another clock moves only TFLOPS, another baseline only the ratio.
- of what both have, where they have only one of the two, or only the time.

A change is a difference when it is larger than z * sqrt(a^2 + b^2 + 2 r^2), with a and b the two
spreads and r that from run to run. z is the normal quantile for ONE false alarm in twenty TABLES
(Sidak: the more entries, the larger). A rung as a whole is one more entry: the mean of its changes,
with its own r. The spread of the median alone would be useless here: with hundreds of samples it is
tiny beside what changes from run to run (the card, its heat, where buffers lie).

r was chosen on pairs of committed runs whose kernels were the same, on several days and cards.
scripts/compare.py --false-alarms measures the rule's rate again, there or on runs that it is given.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any, Iterable, Optional

from common.ladder import RENAMED, BadInput, read_json

TABLES_WITH_A_FALSE_ALARM = 0.05
# Run to run, as a standard deviation of ln(speed): of one entry, and of a rung's mean over shapes.
BOTH = (0.005, 0.003)  # where ratio and TFLOPS must both have moved
ONE = (0.015, 0.006)  # where one of them, or the time, is all that can be compared
P10_TO_P90 = 2 * NormalDist().inv_cdf(0.9)  # of a normal distribution, in standard deviations
FITS = 0.05  # ratio against TFLOPS / baseline_TFLOPS: at most 2.6 % apart in all committed runs
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
NAME = re.compile(
    r"(\w+)/(f32|f16|tf32|bf16)/([nt]{2})/(\d+)x(\d+)x(\d+)"
    r"((?:/batch:\d+)?(?:/shared:\w+)?)(?:/variant:(.*))?$"
)
MEASURES = ("ratio", "TFLOPS", "time")

Key = tuple[str, str, str]  # rung, dtype, op; of other programs: the benchmark's name, "", ""


@dataclass(frozen=True)
class Value:
    """A median, and p10 and p90 of its samples; None: one sample, spread unknown."""

    median: float
    spread: Optional[tuple[float, float]] = None

    @property
    def deviation(self) -> Optional[float]:
        """Standard deviation of ln(sample)."""
        return self.spread and math.log(self.spread[1] / self.spread[0]) / P10_TO_P90

    @property
    def ends(self) -> tuple[float, float]:
        return self.spread or (self.median, self.median)

    def times(self, factor: float) -> Value:
        low, high = self.ends
        return Value(factor * self.median, self.spread and (factor * low, factor * high))


@dataclass(frozen=True)
class Entry:
    name: str  # v08_double_buffer/f32/nn/4096x4096x4096
    values: dict[str, Value] = field(default_factory=dict)  # by MEASURES
    fits: bool = True  # its ratio is that of its TFLOPS
    reason: str = ""  # why it has no values

    @property
    def key(self) -> Key:
        found = NAME.match(self.name)
        if not found:
            return re.sub(r"(/\d+)+$", "", self.name), "", ""
        batch = found[7].replace("/", " ")  # of one product: empty
        return found[1] + batch + (f" {found[8]}" if found[8] else ""), found[2], found[3]

    @property
    def shape(self) -> tuple[int, ...]:
        """M, N, K; of other programs the numbers that end the name."""
        found = NAME.match(self.name)
        if found:
            return int(found[4]), int(found[5]), int(found[6])
        end = re.search(r"((?:/\d+)+)$", self.name)
        return tuple(map(int, end[1].split("/")[1:])) if end else ()


@dataclass
class Run:
    path: Path
    context: dict[str, Any]
    entries: dict[str, Entry]
    label: str = ""

    @property
    def gpu(self) -> str:
        return str(self.context.get("gpu", ""))

    def timed(self) -> dict[str, Entry]:
        return {name: entry for name, entry in self.entries.items() if entry.values}


def rung_id(name: str) -> str:
    """v08_double_buffer -> v8; another benchmark's name stays."""
    found = re.match(r"v0*(\d+[a-z]?)_\w+(.*)", name)
    return f"v{found[1]}{found[2]}" if found else name


# Reading
# --------------------------------------------------------------------------------------------------


def number(entry: dict[str, Any], key: str) -> Optional[float]:
    value = entry.get(key)
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None


def measured(entry: dict[str, Any], measure: str) -> Optional[Value]:
    """One line of the JSON; None where it lacks the measure."""
    if measure == "time":
        value, scale = number(entry, "real_time"), UNITS.get(entry.get("time_unit", "ns"), 0)
        return Value(value * scale) if value and value > 0 and scale else None
    value = number(entry, measure)
    low, high = number(entry, measure + "_p10"), number(entry, measure + "_p90")
    if value is None or value <= 0:
        return None
    known = low is not None and high is not None and 0 < low <= high
    return Value(value, (low, high) if known and low and high else None)


def normal(median: float, deviation: float) -> Value:
    """A value of samples whose logarithm has that standard deviation."""
    reach = math.exp(deviation * P10_TO_P90 / 2)
    return Value(median, (median / reach, median * reach))


def together(values: list[Value]) -> Value:
    """Repetitions of one benchmark: their median, and the spread within and between them."""
    if len(values) == 1:
        return values[0]
    within = [v.deviation**2 for v in values if v.deviation is not None]
    between = statistics.variance([math.log(v.median) for v in values])
    deviation = math.sqrt(between + (statistics.fmean(within) if within else 0))
    return normal(statistics.median([v.median for v in values]), deviation)


def aggregated(entries: list[dict[str, Any]]) -> Optional[Value]:
    """The time where --benchmark_report_aggregates_only kept nothing else."""
    by = {e.get("aggregate_name"): measured(e, "time") for e in entries}
    middle, deviation = by.get("median") or by.get("mean"), by.get("stddev")
    if not (middle and deviation):
        return middle
    return normal(middle.median, deviation.median / middle.median)


def entry_of(name: str, lines: list[dict[str, Any]]) -> Entry:
    for line in lines:
        if line.get("error_occurred") or line.get("skipped"):
            reason = line.get("error_message") or line.get("skip_message") or "no reason given"
            return Entry(name, reason=str(reason))
    single = [line for line in lines if line.get("run_type", "iteration") == "iteration"]
    values = {}
    for measure in MEASURES:
        found = [v for v in (measured(line, measure) for line in single) if v]
        whole = together(found) if found else None
        if not single and measure == "time":
            whole = aggregated(lines)
        if whole:
            values[measure] = whole
    if "TFLOPS" in values:  # the time is derived from it, and has no spread of its own
        values.pop("time", None)
    baseline = [b for b in (number(line, "baseline_TFLOPS") for line in single) if b and b > 0]
    fits = True
    if baseline and {"ratio", "TFLOPS"} <= values.keys():
        expected = values["TFLOPS"].median / statistics.median(baseline)
        fits = abs(math.log(values["ratio"].median / expected)) < FITS
    return Entry(name, values, fits, "" if values else "not timed")


def load(path: Path, label: str = "") -> Run:
    """Reads Google Benchmark's JSON; what has no counters of gemm_bench is compared by its time."""
    try:
        data = read_json(path)
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: no JSON that can be read ({error})".replace("\n", " ")) from None
    lines: dict[str, list[dict[str, Any]]] = {}
    try:
        context = dict(data["context"])
        for line in data["benchmarks"]:
            rung, slash, rest = str(line.get("run_name") or line["name"]).partition("/")
            lines.setdefault(RENAMED.get(rung, rung) + slash + rest, []).append(line)
        entries = {name: entry_of(name, of_name) for name, of_name in lines.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{path}: not Google Benchmark's JSON ({error!r})") from None
    return Run(path, context, entries, label)


def named(argument: str) -> Run:
    """LABEL=FILE, or FILE."""
    label, equals, file = argument.partition("=")
    if equals and not Path(argument).exists():
        return load(Path(file), label)
    return load(Path(argument))


def name_runs(runs: list[Run]) -> None:
    """Labels where none was given: GPU and revision, with the rung or the date to tell them apart."""

    def revision(run: Run) -> str:
        short = re.sub(r"^([0-9a-f]{7})[0-9a-f]+", r"\1", str(run.context.get("git_revision", "")))
        gpu = re.sub(r"^NVIDIA (GeForce )?", "", run.gpu)
        return " ".join(part for part in (gpu, short) if part) or run.path.stem

    def rung(run: Run) -> str:
        rungs = {rung_id(entry.key[0]) for entry in run.entries.values()}
        return f"{revision(run)} {rungs.pop()}" if len(rungs) == 1 else revision(run)

    def date(run: Run) -> str:
        return f"{revision(run)}, {str(run.context.get('date', ''))[:16].replace('T', ' ')}"

    def file(run: Run) -> str:
        return f"{revision(run)}, {run.path}"

    open_ones = [run for run in runs if not run.label]
    for form in (revision, rung, date, file):
        for run in open_ones:
            run.label = form(run)
        if len({run.label for run in runs}) == len(runs):
            return


# Comparing
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """One entry, or a rung over all its shapes, in run B against run A."""

    key: Key
    shape: tuple[int, ...]  # () for a rung as a whole
    a: Optional[Entry]
    b: Optional[Entry]
    change: float  # ln of how much faster B is
    variance: Optional[float]  # of ln(sample), both runs together; None: unknown
    run_to_run: float
    shapes: int = 1  # how many the change is a mean of
    limit: Optional[float] = None  # what noise reaches; None: unknown

    @property
    def verdict(self) -> str:
        if self.limit is None:
            return "one sample"
        if abs(self.change) <= self.limit:
            return "same"
        return "slower" if self.change < 0 else "faster"

    @property
    def factor(self) -> float:
        return math.exp(self.change)

    def spread(self) -> Optional[tuple[float, float]]:
        """p10 and p90 of a sample of B over a sample of A."""
        if self.variance is None:
            return None
        reach = P10_TO_P90 / 2 * math.sqrt(self.variance)
        return math.exp(self.change - reach), math.exp(self.change + reach)


@dataclass(frozen=True)
class Comparison:
    a: Run
    b: Run
    changes: list[Change]  # entries, each rung's followed by the rung as a whole
    only_a: list[str]
    only_b: list[str]

    def entries(self) -> list[Change]:
        return [c for c in self.changes if c.a]

    def different(self) -> list[Change]:
        return [c for c in self.changes if c.verdict in ("slower", "faster")]


def change_of(a: Entry, b: Entry, same_gpu: bool, by: Optional[str]) -> Optional[Change]:
    known = [m for m in MEASURES if m in a.values and m in b.values and by in (None, m)]
    if not known:
        return None
    if not same_gpu and "ratio" in known:
        known = ["ratio"]  # another card has another speed: its share of cuBLAS can be compared
    sign = {"ratio": 1, "TFLOPS": 1, "time": -1}
    moved = [sign[m] * math.log(b.values[m].median / a.values[m].median) for m in known]
    change = min(moved, key=abs) if all(m * moved[0] > 0 for m in moved) else 0.0
    if not (a.fits and b.fits):
        change = min(moved)  # edited by hand: the worse of the two counts
    spreads = [run.values[known[0]].deviation for run in (a, b)]
    one_sample = None in spreads
    variance = None if one_sample else sum(s**2 for s in spreads if s is not None)
    r = (BOTH if len(known) > 1 else ONE)[0]
    return Change(b.key, b.shape, a, b, change, variance, r)


def whole_rung(changes: list[Change]) -> Change:
    """The mean over a rung's shapes; its spread shrinks with them, what moves all of them does not."""
    n = len(changes)
    variances = [c.variance + 2 * c.run_to_run**2 for c in changes if c.variance is not None]
    variance = sum(variances) / n**2 if len(variances) == n else None
    r = BOTH[1] if changes[0].run_to_run == BOTH[0] else ONE[1]
    mean = statistics.fmean(c.change for c in changes)
    return Change(changes[0].key, (), None, None, mean, variance, r, n)


def quantile_for(tests: int) -> float:
    """Standard deviations that one of so many normal values exceeds in one table of twenty."""
    each = 1 - (1 - TABLES_WITH_A_FALSE_ALARM) ** (1 / max(1, tests))
    return NormalDist().inv_cdf(1 - each / 2)


def with_limit(c: Change, z: float) -> Change:
    limit = None if c.variance is None else z * math.sqrt(c.variance + 2 * c.run_to_run**2)
    return Change(c.key, c.shape, c.a, c.b, c.change, c.variance, c.run_to_run, c.shapes, limit)


def compare(a: Run, b: Run, by: Optional[str] = None) -> Comparison:
    same_gpu = a.gpu == b.gpu
    groups: dict[Key, list[Change]] = {}
    for name, entry in a.timed().items():
        other = b.timed().get(name)
        change = change_of(entry, other, same_gpu, by) if other else None
        if change:
            groups.setdefault(change.key, []).append(change)
    changes: list[Change] = []
    for group in groups.values():
        changes += group
        if len(group) > 1:
            changes.append(whole_rung(group))
    z = quantile_for(len(changes))
    changes = [with_limit(c, z) for c in changes]
    common = {c.a.name for c in changes if c.a}
    return Comparison(
        a,
        b,
        changes,
        [name for name in a.timed() if name not in common],
        [name for name in b.timed() if name not in common],
    )


# False alarms
# --------------------------------------------------------------------------------------------------


@dataclass
class Rate:
    """What the rule says of pairs of runs that measured the same kernels."""

    tables: int = 0
    tables_with_one: int = 0
    entries: int = 0
    alarms: list[str] = field(default_factory=list)

    def add(self, comparison: Comparison) -> None:
        if not comparison.changes:
            return
        different = comparison.different()
        self.tables += 1
        self.tables_with_one += bool(different)
        self.entries += len(comparison.changes)
        self.alarms += [
            f"{comparison.b.label} against {comparison.a.label}: {describe(c)}" for c in different
        ]


def at_most(found: int, of: int) -> float:
    """Upper end of the 95 % confidence interval of a rate, one-sided (Clopper and Pearson)."""
    if found >= of:
        return 1.0
    low, high = found / of, 1.0
    for _ in range(60):
        p = (low + high) / 2
        terms = (
            math.lgamma(of + 1) - math.lgamma(i + 1) - math.lgamma(of - i + 1)
            + i * math.log(p) + (of - i) * math.log1p(-p)
            for i in range(found + 1)
        )  # fmt: skip
        low, high = (p, high) if sum(map(math.exp, terms)) > 0.05 else (low, p)
    return high


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def title(key: Key) -> str:
    return " ".join(part for part in (rung_id(key[0]), *key[1:]) if part)


def shape_name(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


def describe(c: Change) -> str:
    where = shape_name(c.shape) if c.a else f"all {c.shapes} shapes"
    return f"{title(c.key)} {where} {c.verdict} {c.factor:.3f}".replace("  ", " ")
