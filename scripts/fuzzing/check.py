"""Runs a command, and judges what it did."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import select
import signal
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzzing.cases import BENCH, COPY_TUNING, Case, Program

LARGEST_EXTENT = 2**31 - 1 - 1024
MEMORY = 12 << 30  # bytes of address space: what asks for more is refused, not the machine's end
LONGEST_LINE = 4000  # characters of an error message
SANITIZER = re.compile(
    rb"ERROR: \w+Sanitizer.*|[^\n]*: runtime error: .*|WARNING: ThreadSanitizer.*"
)


@dataclass(frozen=True)
class Violation:
    """An invariant that does not hold. Two of the same name and form are taken for the same."""

    name: str
    detail: str

    @property
    def form(self) -> tuple[str, str]:
        without = re.sub(r"'.*'|\d+", "_", self.detail.split("\n")[0])
        return self.name, without[:80]


@dataclass(frozen=True)
class Result:
    status: int  # negative: the signal that ended it
    out: bytes
    err: bytes
    files: dict[str, bytes]  # of its folder, after it
    seconds: float
    timed_out: bool


class Runner:
    def __init__(self, bench: Path, copy_tuning: Path | None, timeout: float) -> None:
        self.programs = {BENCH: bench, COPY_TUNING: copy_tuning}
        self.timeout = timeout
        # A sanitizer's shadow takes all the address space that there is.
        self.limited = b"__asan_init" not in bench.read_bytes()

    def run(self, case: Case) -> Result:
        program = self.programs[case.program]
        assert program is not None
        with tempfile.TemporaryDirectory(prefix="fuzz.") as folder:
            for name, data in case.files.items():
                Path(folder, name).write_bytes(data)
            keep = {k: v for k, v in os.environ.items() if not k.upper().startswith("BENCHMARK_")}
            environment = {
                **keep,
                "HOME": folder,
                "XDG_CACHE_HOME": folder,
                "CUDA_VISIBLE_DEVICES": "-1",  # the same on every machine
                "OPENBLAS_NUM_THREADS": "1",
                **case.environment,
            }
            begin = time.monotonic()
            with (
                tempfile.TemporaryFile() as out,
                tempfile.TemporaryFile() as err,
                subprocess.Popen(
                    [program, *case.args],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    cwd=folder,
                    env=environment,
                    start_new_session=True,
                ) as process,
            ):
                if self.limited:
                    with contextlib.suppress(ProcessLookupError):
                        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
                try:
                    # It is not waited for before its group is killed: the number stays its own.
                    timed_out = not has_ended(process.pid, self.timeout)
                finally:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                seconds = time.monotonic() - begin
                out.seek(0)
                err.seek(0)
                files = {
                    p.name: p.read_bytes()
                    for p in Path(folder).iterdir()
                    if p.is_file() and p.suffix != ".lock"
                }
                return Result(process.returncode, out.read(), err.read(), files, seconds, timed_out)


def has_ended(pid: int, seconds: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def ask(bench: Path) -> Program:
    """The rungs and options that the program says it has."""

    def text(option: str) -> str:
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
        return subprocess.run(
            [bench, option], check=True, capture_output=True, text=True, env=environment
        ).stdout

    listed = re.findall(r"^(v\S+) +(\S+) +(?!not built)(\S+) ", text("--list"), re.MULTILINE)
    rungs = {name: (rung, tuple(dtypes.split(","))) for name, rung, dtypes in listed}
    options = {
        found[1]: found[2] is not None
        for found in re.finditer(
            r"^ +(?:-h,)?(--[a-z0-9-]+)( [A-Z]+)?", text("--help"), re.MULTILINE
        )
    }
    return Program(rungs, options)


# The invariants
# --------------------------------------------------------------------------------------------------


def violation(case: Case, result: Result, program: Program) -> Violation | None:
    """The first invariant that does not hold."""
    if found := SANITIZER.search(result.err + result.out):
        return Violation("sanitizer", found[0].decode(errors="replace"))
    if result.timed_out:
        return Violation("time", f"had not ended after {result.seconds:.0f} seconds")
    if result.status < 0:
        number = -result.status
        return Violation("crash", f"ended by signal {number} ({signal.strsignal(number)})")
    if result.status not in (0, 1, 2, 3):
        return Violation("status", f"exit {result.status}, which means nothing")
    for name, data in (("stdout", result.out), ("stderr", result.err)):
        if bad := not_text(data):
            return Violation("text", f"{name} holds {bad}")
    return (
        of_status(case, result)
        or of_files(case, result)
        or (of_copy(case, result) if case.program == COPY_TUNING else None)
        or of_table(case, result, program)
    )


def not_text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as e:
        return f"bytes that are no text: {data[max(0, e.start - 20) : e.start + 20]!r}"
    if bad := re.search(r".{0,20}[\x00-\x08\x0b-\x1f\x7f\x80-\x9f].{0,20}", text):
        return f"a character for no eye: {bad[0]!r}"
    return ""


def of_status(case: Case, result: Result) -> Violation | None:
    status, err = result.status, result.err.decode()
    lines = err.splitlines()
    said = f"; stderr: {' | '.join(lines)[:300]}" if err else ""
    if status == 1:
        found = re.search(r".*WRONG.*", result.out.decode())
        return Violation("wrong", found[0] if found else f"exit 1{said}")
    if status in (2, 3):
        if len(lines) != 1 or not err.endswith("\n"):
            return Violation("message", f"exit {status} with {len(lines)} lines on stderr{said}")
        if len(lines[0]) > LONGEST_LINE:
            return Violation("message", f"a line of {len(lines[0])} characters on stderr")
        if re.search(r"std::|vector|basic_string|terminate|bad_alloc|\bstoi\b", lines[0]):
            return Violation("message", f"a line for programmers: {lines[0][:300]}")
    elif err:
        return Violation("message", f"exit 0{said}")
    allowed = {"run": (0, 2), "any": (0, 2), "refused": (2,), "unwritable": (2, 3)}[case.wanted]
    if status not in allowed:
        return Violation("status", f"exit {status}, not {' or '.join(map(str, allowed))}{said}")
    if status == 2 and case.wanted == "run" and not only_skipped(case, result):
        return Violation("refused", f"a right command{said}")
    return None


def only_skipped(case: Case, result: Result) -> bool:
    """Whether a right command had nothing to verify, and says so."""
    if b"no warp" in result.err:  # --warp names one that the kernel has not
        return "--warp" in {arg.decode(errors="replace") for arg in case.args}
    out = result.out.decode()
    return "verified" not in re.sub(r"\d+ verified,", "", out) and bool(
        re.search(r"skipped: |nothing to trace", out)
    )


def of_files(case: Case, result: Result) -> Violation | None:
    for name, data in case.files.items():
        if result.files.get(name) != data:
            return Violation("files", f"{name} was changed")
    allowed = {*case.files, "copy.json" if case.program == COPY_TUNING else case.json}
    # Damage may have made another word the name of --json's file.
    allowed |= {arg.decode(errors="surrogateescape") for arg in case.args}
    # What a run had until its end stays beside the file asked for, if stderr says where.
    allowed |= {
        name
        for name in result.files
        if name.endswith(".partial") and os.fsencode(name) in result.err
    }
    if left := [
        name for name in result.files if name not in allowed and not is_json_of(name, case)
    ]:
        return Violation("files", f"left behind: {', '.join(sorted(map(repr, left)))}")
    for name, data in result.files.items():
        if name in case.files or (name == case.json and case.json in case.files):
            continue
        try:
            json.loads(data, parse_constant=lambda word: int(word))  # NaN is no JSON
        except ValueError as e:
            return Violation("json", f"{name!r} is no JSON: {e}")
        if bad := not_text(data):
            return Violation("json", f"{name!r} holds {bad}")
    return None


def is_json_of(name: str, case: Case) -> bool:
    return any(arg.decode(errors="surrogateescape").endswith(f"={name}") for arg in case.args)


def of_copy(case: Case, result: Result) -> Violation | None:
    """A tuning cache, read and written: nothing but what was in it."""
    if result.status != 0:
        return None
    if "copy.json" not in result.files:
        return Violation("tuning", "exit 0, and nothing was written")
    copy = json.loads(result.files["copy.json"])
    for entry in copy["measured"]:
        for size in (*entry["shape"], entry["ld_pad"]):
            if not isinstance(size, int) or not 0 <= size <= LARGEST_EXTENT:
                return Violation("tuning", f"a size of {size} was taken")
    kept = ("gpu", "rung", "dtype", "ops", "shape", "ld_pad", "revision")

    def plain(entries: list[dict[str, Any]]) -> list[str]:
        return [
            json.dumps(
                {
                    **{key: entry[key] for key in kept},
                    "variants": [(v["name"], float(v["tflops"])) for v in entry["variants"]],
                }
            )
            for entry in entries
        ]

    try:
        read = plain(json.loads(case.files["tuning.json"])["measured"])
    except (ValueError, KeyError, TypeError) as e:
        return Violation("tuning", f"a damaged file was taken ({type(e).__name__}: {e})")
    if extra := set(plain(copy["measured"])) - set(read):
        return Violation("tuning", f"not what was read: {min(extra)}")
    if read and not copy["measured"]:
        return Violation("tuning", "nothing of it was read")
    return None


# A run's table, and its JSON
# --------------------------------------------------------------------------------------------------

PROBLEM = re.compile(r"(\w+) (nn|nt|tn|tt) (\d+x\d+x\d+) ")
ROW = re.compile(
    r"(v\w+) +.*?(?: +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)  )?(verified|skipped: |WRONG|FAILED)(.*)"
)
SUMMARY = re.compile(r"^(\d+) verified, (\d+) wrong, (\d+) skipped", re.MULTILINE)
COUNTERS = ("blocks", "threads_per_block", "barriers", "collectives", "async_copies")
NO_RUN = ("--list", "--help", "-h", "--version", "--explain", "--benchmark_list_tests", "--tune")

Row = tuple[Any, ...]


def rows_of(out: str) -> list[Row]:
    rows: list[Row] = []
    problem = ""
    for line in out.splitlines():
        if found := PROBLEM.match(line):
            problem = "/".join(found.groups())
        elif problem and (found := ROW.fullmatch(line)):
            counters = tuple(int(n) for n in found.groups()[1:6]) if found[2] else None
            rest = found[8] if found[7] == "skipped: " else ""
            rows.append((found[1], problem, found[7].strip(": "), counters, rest))
    return rows


def rows_of_json(data: Any, program: Program) -> list[Row]:
    ids = {name: rung for rung, (name, _) in program.rungs.items()}
    rows: list[Row] = []
    for entry in data["benchmarks"]:
        if entry["run_type"] != "iteration":
            continue
        rung, dtype, ops, shape = re.sub(r"/repeats:\d+$", "", entry["name"]).split("/")[:4]
        problem = f"{dtype}/{ops}/{shape}"
        said = "x".join(f"{entry[size]:.0f}" for size in "mnk" if size in entry)
        if said not in ("", shape):  # Google Benchmark keeps no counters of what was skipped
            problem = f"{entry['name']}, but m, n and k say {said}"
        if entry.get("error_occurred"):
            word, _, rest = entry["error_message"].partition(": ")
            rows.append((ids[rung], problem, word, None, rest))
        else:
            word = "verified" if entry.get("verified") == 1 else "?"
            counters = tuple(int(entry[name]) for name in COUNTERS) if "blocks" in entry else None
            rows.append((ids[rung], problem, word, counters, ""))
    return rows


def of_table(case: Case, result: Result, program: Program) -> Violation | None:
    words = {arg.decode(errors="replace").split("=")[0] for arg in case.args}
    if case.program != BENCH or result.status == 2:
        return None
    out = result.out.decode()
    if not out.strip():
        return Violation("silent", "exit 0 and nothing on stdout")
    if words & set(NO_RUN):
        return None
    if "--inspect" in words:
        return of_inspection(case, result)
    summary = SUMMARY.search(out)
    if summary is None:
        return Violation("nothing verified", "exit 0 without a summary")
    verified, wrong, skipped = (int(n) for n in summary.groups())
    if verified == 0:
        return Violation("nothing verified", f"exit 0: {summary[0]}")
    rows = rows_of(out)
    counted = Counter(row[2] for row in rows)
    if (counted["verified"], counted["WRONG"], counted["skipped"]) != (verified, wrong, skipped):
        return Violation("table", f"{summary[0]}, but the table has {dict(counted)}")
    if case.json is None or case.json not in result.files:
        return Violation("json", f"{case.json} was not written") if case.json else None
    if f"{wrong}{skipped}" != "00" or verified:
        entries = rows_of_json(json.loads(result.files[case.json]), program)
        difference = Counter(rows) - Counter(entries) or Counter(entries) - Counter(rows)
        if difference:
            return Violation("table", f"table and JSON differ in {min(difference, key=str)}")
    return None


def of_inspection(case: Case, result: Result) -> Violation | None:
    out = result.out.decode()
    rows = [line for line in out.splitlines() if re.match(r"v\w+ .*(\| |nothing to trace)", line)]
    right = re.compile(r"\| ok(  |$)")  # a variant's name may follow
    bad = [line for line in rows if not (right.search(line) or "nothing to trace" in line)]
    if bad:
        return Violation("findings", bad[0])
    if not any(right.search(line) for line in rows):
        return Violation("nothing verified", "--inspect: exit 0 and nothing was traced")
    if case.json is None:
        return None
    if case.json not in result.files:
        return Violation("json", f"{case.json} was not written")
    entries = json.loads(result.files[case.json])["benchmarks"]
    if found := [e["name"] for e in entries if e.get("findings")]:
        return Violation("findings", f"of {found[0]}, in the JSON alone")
    if len(entries) != len(rows):
        return Violation("table", f"{len(rows)} rungs in the table, {len(entries)} in the JSON")
    return None


# One command, run twice
# --------------------------------------------------------------------------------------------------

CHANGES = ("date", "load_avg", "mhz_per_cpu", "cpu_time", "real_time", "num_cpus")  # in the JSON


def unchanging(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: unchanging(value) for key, value in data.items() if key not in CHANGES}
    return [unchanging(value) for value in data] if isinstance(data, list) else data


def difference(case: Case, first: Result, second: Result) -> Violation | None:
    if first.status != second.status:
        return Violation("twice", f"exit {first.status}, then {second.status}")
    times = rb'"(?:real|cpu)_time": [^\n]*|"date": [^\n]*|"load_avg": [^\n]*|"mhz_per_cpu": [^\n]*'
    for name, one, two in (("stdout", first.out, second.out), ("stderr", first.err, second.err)):
        one, two = (re.sub(times + rb"|/tmp/fuzz\.\w+", b"", text) for text in (one, two))
        if one != two:
            pairs = zip(one.splitlines(), two.splitlines(), strict=False)
            changed = next((f"{a!r}, then {b!r}" for a, b in pairs if a != b), "its length")
            return Violation("twice", f"{name}: {changed}")
    if first.files.keys() != second.files.keys():
        return Violation("twice", "other files")
    for name, data in first.files.items():
        if name in case.files:
            continue
        if unchanging(json.loads(data)) != unchanging(json.loads(second.files[name])):
            return Violation("twice", f"{name} differs")
    return None
