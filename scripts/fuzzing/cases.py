"""Random commands: mostly right ones, wrong ones, and damaged ones."""

from __future__ import annotations

import json
import random
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

KINDS = ("rungs", "layouts", "inspect", "shapes", "cli", "tuning")
BENCH, COPY_TUNING = "./gemm_bench", "copy_tuning"

LARGEST_WORK = 2e7  # M * N * K, summed over what one command runs; half a second
LARGEST_TRACED_WORK = 2e6
LARGEST_NUMBER = 300  # a damaged command with a larger one is only planned, not run


@dataclass(frozen=True)
class Program:
    """What the program under test offers, as it says itself."""

    rungs: dict[str, tuple[str, tuple[str, ...]]]  # by id: name, types
    options: dict[str, bool]  # by name: whether it takes a value


@dataclass(frozen=True)
class Case:
    kind: str
    args: tuple[bytes, ...]
    # What must come of it: "run" (exit 0, or 2 if every rung skips the problem), "refused" (2),
    # "unwritable" (2 or 3), "any" (0 or 2).
    wanted: str
    files: dict[str, bytes] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    program: str = BENCH

    @property
    def json(self) -> str | None:
        """The file of --json, if it has a plain name."""
        found = None
        for flag, value in zip(self.args, self.args[1:], strict=False):
            if flag == b"--json" and re.fullmatch(rb"\w+\.json", value):
                found = value.decode()
        return found

    def shell(self, program: str = "") -> str:
        """As one would type it."""
        lines = [
            f"printf %b {quoted(escaped_for_printf(data))} > {name}"
            for name, data in self.files.items()
        ]
        words = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        words += [program or self.program, *(quoted(arg) for arg in self.args)]
        return "\n".join([*lines, " ".join(words)])


def quoted(data: bytes) -> str:
    """A word of bash. Of bytes that are not text, $'...'; of one that is repeated, its number."""
    if re.fullmatch(rb"[\x20-\x7e]*", data) and len(data) <= 2000:
        return shlex.quote(data.decode())
    if len(data) > 2000 and len(set(data)) == 1:
        return f"\"$(printf '{escaped(data[:1])}%.0s' {{1..{len(data)}}})\""
    return f"$'{escaped(data)}'"


def escaped(data: bytes) -> str:
    plain = b"\\'%"
    return "".join(chr(b) if 0x20 <= b < 0x7F and b not in plain else f"\\x{b:02x}" for b in data)


def escaped_for_printf(data: bytes) -> bytes:
    """What printf %b turns into these bytes; \\0NNN, since \\xN would take a third digit."""
    text = "".join(
        "\\n" if b == 10 else chr(b) if 0x20 <= b < 0x7F and b != 0x5C else f"\\0{b:03o}"
        for b in data
    )
    return text.encode()


# Right commands
# --------------------------------------------------------------------------------------------------

EDGES = (
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    129,
    255,
    256,
    257,
)
TILES = (8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256)
SCALARS = ("0", "1", "-1", "0.5", "2", "-0.25", "3", "1e-3", "-2.5", "0.1", "7", "-0", "-60")
PADS = (0, 0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 33, 64, 100, 1000)


def extent(r: random.Random, most: int) -> int:
    how = r.random()
    if how < 0.35:
        n = r.choice(EDGES)
    elif how < 0.7:
        n = r.choice(TILES) * r.randint(1, 5) + r.choice((-1, 0, 0, 1))
    else:
        n = round(2 ** r.uniform(0, 11))
    return min(n, most)


def shape(r: random.Random, most_work: float) -> tuple[int, int, int]:
    while True:
        m, n, k = extent(r, 1200), extent(r, 1200), extent(r, 2048)
        if m * n * k <= most_work:
            return m, n, k


def named(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


def encoded(words: list[str]) -> tuple[bytes, ...]:
    return tuple(word.encode() for word in words)


def rungs_of(r: random.Random, program: Program, most: int) -> tuple[list[str], int]:
    """Ids, and how many runs of one problem they come to."""
    ids = r.sample(list(program.rungs), r.randint(1, most))
    return ids, sum(len(program.rungs[i][1]) for i in ids)


def maybe_json(r: random.Random) -> list[str]:
    return ["--json", "out.json"] if r.random() < 0.5 else []


def layout(r: random.Random) -> list[str]:
    ops = r.sample(("nn", "nt", "tn", "tt"), r.choice((1, 1, 1, 2)))  # which many rungs do not take
    words = ["--op", "nn" if r.random() < 0.4 else ",".join(ops)]
    words += ["--ld-pad", str(r.choice(PADS)), "--alpha", scalar(r), "--beta", scalar(r)]
    return words


def scalar(r: random.Random) -> str:
    return r.choice(SCALARS) if r.random() < 0.8 else f"{r.uniform(-4, 4):.3g}"


def of_rungs(r: random.Random, program: Program) -> Case:
    ids, runs = rungs_of(r, program, 4)
    words = ["--backend", "sim", "--kernel", ",".join(ids)]
    if r.random() < 0.2:
        words += ["--variant", "all"]
        runs *= 6
    for _ in range(r.choice((1, 1, 2))):
        words += ["--shape", named(shape(r, LARGEST_WORK / runs / 2))]
    words += r.choice(([], ["--accuracy"], ["--verify-only"]))
    return Case("rungs", encoded(words + maybe_json(r)), "run")


def of_layouts(r: random.Random, program: Program) -> Case:
    ids, runs = rungs_of(r, program, 3)
    words = ["--backend", "sim", "--kernel", ",".join(ids)]
    words += ["--shape", named(shape(r, LARGEST_WORK / runs / 2)), *layout(r), *maybe_json(r)]
    if r.random() < 0.3:
        words += ["--batch", str(r.randint(2, 4)), "--batch-pad", str(r.choice(PADS))]
        words += r.choice(([], ["--batch-shared", r.choice(("A", "B", "AB"))]))
    return Case("layouts", encoded(words), "run")


def of_inspect(r: random.Random, program: Program) -> Case:
    ids, runs = rungs_of(r, program, 2)
    words = ["--inspect", "--kernel", ",".join(ids)]
    words += ["--shape", named(shape(r, LARGEST_TRACED_WORK / runs))]
    if r.random() < 0.5:
        words += layout(r)
    if r.random() < 0.6:
        words += ["--blocks", r.choice(("all", "1", "2", "3", str(r.randint(1, 40))))]
    if r.random() < 0.4:
        words += ["--warp", r.choice(("0", "0", f"{r.randint(0, 3)}:{r.randint(0, 4)}"))]
    return Case("inspect", encoded(words + maybe_json(r)), "run")


def shapes_file(r: random.Random, program: Program) -> str:
    lines = []
    for _ in range(r.randint(1, 5)):
        m, n, k = shape(r, LARGEST_WORK / 40)
        size = r.randint(0, 60)
        line = r.choice((named((m, n, k)), named((m, n, k)), str(size), f"{size}:{size + 8}:5"))
        if r.random() < 0.5:
            line += r.choice((" ", "\t", "   ")) + r.choice(
                (*program.rungs, "all", "sgemm", "v1-v28")
            )
        lines.append(line + r.choice(("", "", "  # a comment", "#", " ")))
        lines += r.choice(([], [], [""], ["# between"], ["   "]))
    return r.choice(("\n", "\n", "\n", "\r\n")).join(lines) + r.choice(("\n", ""))


def of_shapes(r: random.Random, program: Program) -> Case:
    ids, _ = rungs_of(r, program, 2)
    text = shapes_file(r, program).encode()
    wanted = "any"  # a rung that a line names need not be among those of --kernel
    if r.random() < 0.6:
        text = damaged(r, text)
    words = [
        "--backend",
        "sim",
        "--kernel",
        ",".join(ids),
        "--shapes",
        "shapes.txt",
        *maybe_json(r),
    ]
    case = Case("shapes", encoded(words), wanted, {"shapes.txt": text})
    return planned_only(case) if is_large(case) else case


# Wrong commands
# --------------------------------------------------------------------------------------------------

# Each is refused whatever stands around it, as long as its own options do not.
WRONG: tuple[tuple[str, ...], ...] = (
    ("--kernel", "v99"),
    ("--kernel", ""),
    ("--kernel", "v8-v1"),
    ("--kernel", "v1,,v2"),
    ("--kernel", "v1\nv2"),
    ("--dtype", "f64"),
    ("--dtype", "f32,"),
    ("--size", "-1"),
    ("--size", "1:0:1"),
    ("--size", "1:9:0"),
    ("--size", "2147483648"),
    ("--size", "0:2147482623:1"),
    ("--shape", "1x2"),
    ("--shape", "1x2x3x4"),
    ("--shape", "1x-2x3"),
    ("--shape", "1 x2x3"),
    ("--shape", "0x10x1e3"),
    ("--shapes", "missing.txt"),
    ("--shapes", "."),
    ("--shapes", "/dev/zero"),
    ("--shapes", ""),
    ("--op", "xx"),
    ("--op", "nn,"),
    ("--op", ""),
    ("--alpha", "nan"),
    ("--alpha", "inf"),
    ("--alpha", "1e39"),
    ("--alpha", ""),
    ("--alpha", "1.0.0"),
    ("--beta", "-inf"),
    ("--beta", "x"),
    ("--ld-pad", "-1"),
    ("--ld-pad", ""),
    ("--ld-pad", "1.5"),
    ("--ld-pad", "99999999999999999999"),
    ("--backend", "cpu"),
    ("--backend", "gpu"),  # hidden from the program by its environment
    ("--l2", "hot"),
    ("--variant", "fastest"),
    ("--blocks", "3"),  # wants --inspect
    ("--warp", "0"),
    ("--inspect", "--blocks", "0"),
    ("--inspect", "--warp", "a:b"),
    ("--inspect", "--warp", "0:99"),
    ("--inspect", "--backend", "gpu"),
    ("--inspect", "--benchmark_repetitions=2"),
    ("--tune",),  # a GPU's
    ("--tune", "first"),
    ("--alone",),
    ("--frobnicate",),
    ("stray",),
    ("--list=yes please",),
    ("--benchmark_bogus=1",),
    ("--benchmark_min_time=x",),
    ("--benchmark_repetitions=-1",),
    ("--benchmark_repetitions=abc",),
    ("--benchmark_repetitions=0",),
    ("--benchmark_format=bogus",),
    ("--benchmark_filter=nothing_of_that_name",),
    ("--benchmark_filter=[",),
)
UNWRITABLE = (("--json", "missing/out.json"), ("--json", "."), ("--json", ""))
FLAGS = (
    ("--accuracy",),
    ("--verify-only",),
    ("--l2", "warm"),
    ("--no-tune-cache",),
    ("--benchmark_repetitions=2",),
    ("--benchmark_filter=.",),
    ("--benchmark_format=json",),
    ("--benchmark_counters_tabular=true",),
    ("--benchmark_enable_random_interleaving=false",),
    ("--json", "out.json"),
    ("--dtype", "f32,f16"),
    ("--keep-going",),
    ("--variant", "all"),
)
ENVIRONMENT = (
    *(("BENCHMARK_FILTER", value) for value in ("zzz", "[", "", ".", "f32", "\x1b")),
    *(("BENCHMARK_REPETITIONS", value) for value in ("2", "0", "-1", "100000")),
    *(("BENCHMARK_FORMAT", value) for value in ("json", "zzz", "")),
)
VALUES = (
    *("", " ", "0", "-0", "+1", "1e5", "0x10", "1e400", "nan", "inf", "2147483647", "4294967296"),
    *(
        "18446744073709551616",
        "all",
        "v1",
        "v28",
        "v1-",
        "-v1",
        "nn",
        "sim",
        "cold",
        "1:2:3",
        "1x1x1",
    ),
    *(
        "%s%n%d",
        "{}",
        "{0}",
        "\x1b[31mred\x1b[0m",
        "a\nb",
        "\t",
        "\x7f",
        "é",
        "٣",
        "\ud800",
        "--",
        "-",
    ),
    *(
        "1e3",
        "1e38",
        "-3e38",
        "1e-45",
        "1e-46",
        "1",
        "8",
        "[",
        "^v1.*f32",
        "(",
        "a|b",
        "x=y",
        "0:1",
    ),
    *("'", '"', "\\", "$HOME", "*", "true", "false", "out.json", "shapes.txt", "~", "."),
)


def small_run(r: random.Random, program: Program) -> list[list[str]]:
    """Options in any order, of a run that takes no time."""
    ids, _ = rungs_of(r, program, 2)
    options = [["--kernel", ",".join(ids)], ["--shape", named(shape(r, LARGEST_WORK / 40))]]
    options += [list(flag) for flag in r.sample(FLAGS, r.randint(0, 2)) if known(flag[0], program)]
    r.shuffle(options)
    return options


def known(option: str, program: Program) -> bool:
    return option in program.options or option.startswith("--benchmark_")


def of_cli(r: random.Random, program: Program) -> Case:
    how = r.random()
    if how < 0.2:
        command = r.choice(("--list", "--help", "--explain", "-h", "--benchmark_list_tests", ""))
        options = [*small_run(r, program), [command]] if command else small_run(r, program)
        r.shuffle(options)
        words = [word for option in options for word in option]
        if r.random() < 0.3:  # --kernel=v1
            words = re.sub(r"(--(?:kernel|shape|op))\n", r"\1=", "\n".join(words)).split("\n")
        # A rung has not all types, nor has a filter to leave anything.
        return Case("cli", encoded(words), "any")
    if how < 0.55:
        wrong = r.choice(WRONG + UNWRITABLE)
        own = {word.split("=")[0] for word in wrong if word.startswith("--")}
        clash = own | ({"--shape"} if own & {"--size", "--shape", "--shapes"} else set())
        if "--inspect" in own or "--blocks" in own or "--warp" in own:
            clash |= {"--verify-only", "--keep-going", "--json", "--accuracy"}
        options = [o for o in small_run(r, program) if o[0].split("=")[0] not in clash]
        options.insert(r.randint(0, len(options)), list(wrong))
        words = [word for option in options for word in option]
        return Case("cli", encoded(words), "unwritable" if wrong in UNWRITABLE else "refused")
    options = small_run(r, program)
    if r.random() < 0.3:
        options.append(["--inspect"])
    if r.random() < 0.5:
        name = r.choice(list(program.options))
        options.append([name, r.choice(VALUES)] if program.options[name] else [name])
    args = [word.encode("utf-8", "surrogatepass") for option in options for word in option]
    for _ in range(r.randint(1, 3)):
        args = damaged_args(r, args)
    environment = {}
    if r.random() < 0.1:
        # A number that is none Google Benchmark itself remarks on, before main begins.
        name, value = r.choice(ENVIRONMENT)
        environment[name] = value
    case = Case("cli", tuple(args), "any", {}, environment)
    return planned_only(case) if is_large(case) else case


# Damage
# --------------------------------------------------------------------------------------------------


def damaged(r: random.Random, data: bytes) -> bytes:
    """Some bytes changed, lost, doubled, put in; or a very long line, or no end."""
    for _ in range(r.choice((1, 1, 2, 5))):
        at = r.randint(0, len(data))
        length = r.choice((1, 1, 2, 7, 40))
        how = r.randrange(8)
        if how == 0:
            data = data[:at] + bytes(r.randrange(256) for _ in range(length)) + data[at:]
        elif how == 1:
            data = data[:at] + data[at + length :]
        elif how == 2:
            data = data[:at] + data[at : at + length] * 2 + data[at + length :]
        elif how == 3 and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << r.randrange(8)]) + data[at + 1 :]
        elif how == 4:
            data = data[:at] + r.choice(VALUES).encode("utf-8", "surrogatepass") + data[at:]
        elif how == 5:
            data = (
                data[:at] + r.choice((b"\0", b"\n", b"\r", b"#", b"x", b":", b"\xff")) + data[at:]
            )
        elif how == 6:
            data = data[:at]
        elif r.random() < 0.2:
            data = data[:at] + r.choice((b"9", b"x", b"1x", b"a ", b"\0")) * 100_000 + data[at:]
    return data


def damaged_args(r: random.Random, args: list[bytes]) -> list[bytes]:
    args = list(args)
    at = r.randrange(len(args)) if args else 0
    how = r.randrange(7)
    if how == 0:
        del args[at : at + 1]
    elif how == 1:
        args[at:at] = args[at : at + 1]
    elif how == 2:
        args.insert(at, r.choice(VALUES).encode("utf-8", "surrogatepass"))
    elif how == 3:
        r.shuffle(args)
    elif how == 4 and args:
        args[at] = r.choice(VALUES).encode("utf-8", "surrogatepass")
    elif args:
        args[at] = damaged(r, args[at])[:120_000]  # Linux takes 128 KiB a word
    # No NUL can be in a word; no path may leave the folder, lest --json write there.
    return [arg.replace(b"\0", b"").replace(b"/", b"_") for arg in args]


def is_large(case: Case) -> bool:
    """Whether what it may run is; a plan of it is not."""
    text = b" ".join([*case.args, *case.files.values()])
    return any(int(number) > LARGEST_NUMBER for number in re.findall(rb"\d{1,4000}", text))


def planned_only(case: Case) -> Case:
    return Case(case.kind, (*case.args, b"--explain"), case.wanted, case.files, case.environment)


# Tuning caches
# --------------------------------------------------------------------------------------------------

OTHER: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -5,
        1.5,
        1e30,
        -1e-30,
        2**31,
        2**63,
        2**64,
        10**30,
        "",
        "x",
        "nn",
        "tt",
    ),
    *("f99", [], {}, [1, 2], {"a": 1}, "\x1b[31m", "é\n", "\0", [[[[]]]]),
)


def tuning_cache(r: random.Random, program: Program) -> dict[str, Any]:
    measured = []
    for _ in range(r.randint(0, 4)):
        name, dtypes = r.choice(list(program.rungs.values()))
        m, n, k = (extent(r, 20000) for _ in range(3))
        variants = [
            {"name": r.choice(("v24", "v27", "128x128", "")), "tflops": round(r.uniform(0, 900), 3)}
            for _ in range(r.randint(0, 3))
        ]
        measured.append(
            {
                "gpu": r.choice(("NVIDIA H200", "another")),
                "rung": name,
                "dtype": r.choice(dtypes),
                "ops": r.choice(("nn", "nt", "tn", "tt")),
                "shape": [m, n, k],
                "ld_pad": r.choice(PADS),
                "variants": variants,
                "revision": "d0514a78146a",
            }
        )
    return {"format": 1, "measured": measured}


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = (
        data.keys()
        if isinstance(data, dict)
        else range(len(data))
        if isinstance(data, list)
        else ()
    )
    return [path, *(place for key in keys for place in places(data[key], (*path, key)))]


def with_other(r: random.Random, data: Any) -> Any:
    """One value in place of which something else stands, or which is left out."""
    path = r.choice(places(data))
    if not path:
        return r.choice(OTHER)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if r.random() < 0.2:
        del inner[path[-1]]
    else:
        inner[path[-1]] = r.choice(OTHER)
    return data


def of_tuning(r: random.Random, program: Program) -> Case:
    data: Any = tuning_cache(r, program)
    wanted = "run"
    how = r.random()
    if how < 0.4:
        data = with_other(r, data)
        wanted = "any"
    text = json.dumps(data, ensure_ascii=r.random() < 0.5).encode()
    if 0.4 <= how < 0.7:
        text = damaged(r, text)
        wanted = "any"
    elif how >= 0.95:
        text = r.choice((b"[", b'{"a":', b"\xff\xfe", b"")) * 50_000
        wanted = "refused"
    if r.random() < 0.2:
        # The simulator needs none: that it is damaged is no error, and it stays as it is.
        words = [
            "--backend",
            "sim",
            "--kernel",
            "v28",
            "--shape",
            "8x8x8",
            "--tune-cache",
            "tuning.json",
        ]
        return Case("tuning", encoded(words), "run", {"tuning.json": text})
    return Case(
        "tuning", (b"tuning.json", b"copy.json"), wanted, {"tuning.json": text}, {}, COPY_TUNING
    )


MAKERS: dict[str, Callable[[random.Random, Program], Case]] = {
    "rungs": of_rungs,
    "layouts": of_layouts,
    "inspect": of_inspect,
    "shapes": of_shapes,
    "cli": of_cli,
    "tuning": of_tuning,
}


def make(seed: int, number: int, kinds: tuple[str, ...], program: Program) -> Case:
    """The case of this seed and number, whatever ran before."""
    kind = kinds[number % len(kinds)]
    return MAKERS[kind](random.Random(f"{seed} {number}"), program)
