"""The whole text that a person sees, command by command, against tests/golden/*.txt; and that every
byte of it is text. GEMM_BENCH, VARIANT_BENCH and FAULT_BENCH are paths of the programs.

tests/text_test.py --write regenerates the files: read their diff before you commit it."""

from __future__ import annotations

import difflib
import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

from bench_process import ROOT, run

GOLDEN = ROOT / "tests" / "golden"
TEXT = re.compile(r"[\n\t -~]*")
SIM = ("--backend", "sim")
# What prints each file of tests/golden: program, arguments, exit status.
CASES: dict[str, tuple[str, tuple[str, ...], int]] = {
    "help": ("GEMM_BENCH", ("--help",), 0),
    # A program with other rungs prints it: a new one of the ladder changes no file here.
    "list": ("FAULT_BENCH", ("--list",), 0),
    "simulator": ("GEMM_BENCH", (*SIM, "--kernel", "v1-v3,v10", "--shape", "33x17x5"), 0),
    "variants": ("GEMM_BENCH", (*SIM, "--kernel", "v17u", "--shape", "64x64x64"), 0),
    "verify_only": (
        "GEMM_BENCH",
        (*SIM, "--kernel", "v8", "--dtype", "f16", "--verify-only", "--size", "16,33"),
        0,
    ),
    "skipped": ("GEMM_BENCH", (*SIM, "--kernel", "v2,v9", "--op", "tt", "--shape", "8x8x8"), 0),
    "all_skipped": ("GEMM_BENCH", (*SIM, "--kernel", "v2", "--op", "tt", "--shape", "8x8x8"), 2),
    "inspect": ("GEMM_BENCH", ("--inspect", "--kernel", "v6", "--dtype", "f32", "--size", "64"), 0),
    # Shown in chapters and in the README.
    **{
        f"inspect_{rung}": (
            "GEMM_BENCH",
            ("--inspect", "--kernel", rung, "--dtype", "f32", "--size", "128"),
            0,
        )
        for rung in ("v1", "v5", "v8")
    },
    "inspect_several": ("GEMM_BENCH", ("--inspect", "--kernel", "v1-v3", "--size", "48"), 0),
    "inspect_warp": (
        "GEMM_BENCH",
        ("--inspect", "--kernel", "v2", "--dtype", "f32", "--shape", "33x17x5", "--warp", "1:3"),
        0,
    ),
    "inspect_nothing": ("GEMM_BENCH", ("--inspect", "--kernel", "v9", "--size", "8"), 2),
    "explain": (
        "GEMM_BENCH",
        (*SIM, "--explain", "--kernel", "v8,v27", "--size", "4096"),
        0,
    ),
    "explain_variants": ("VARIANT_BENCH", (*SIM, "--explain", "--shape", "33x17x5"), 0),
    "usage_kernel": ("FAULT_BENCH", ("--kernel", "v99"), 2),
    "usage_flag": ("FAULT_BENCH", ("--no-such-flag",), 2),
    "usage_value": ("FAULT_BENCH", ("--kernel",), 2),
    "usage_benchmark": ("FAULT_BENCH", ("--benchmark_bogus",), 2),
    "usage_size": ("FAULT_BENCH", ("--size", "8:4:1"), 2),
    "gpu": ("FAULT_BENCH", ("--kernel", "v1,v2,v10,v14", "--shape", "5x6x7", "--size", "4"), 0),
    "gpu_alone": (
        "FAULT_BENCH",
        ("--kernel", "v1", "--shape", "5x6x7", "--alone", "--accuracy"),
        0,
    ),
    "gpu_tune": ("FAULT_BENCH", ("--tune", "--tune-cache", "TMP/t.json", "--shape", "7x4x4"), 1),
    "gpu_tune_first": (
        "FAULT_BENCH",
        ("--tune", "first", "--tune-cache", "TMP/t.json", "--kernel", "v1,v14", "--size", "4"),
        0,
    ),
    "wrong": ("FAULT_BENCH", ("--kernel", "v1,v3", "--shape", "5x6x7"), 1),
    "failed": ("FAULT_BENCH", ("--kernel", "v1,v4,v6,v12,v2", "--shape", "5x6x7"), 3),
    "not_timed": ("FAULT_BENCH", ("--kernel", "v1", "--shape", "5x6x13"), 3),
    "fault": (
        "FAULT_BENCH",
        ("--kernel", "v1,v5,v14", "--shape", "5x6x7", "--json", "TMP/run.json"),
        3,
    ),
    "keep_going": (
        "FAULT_BENCH",
        ("--kernel", "v1,v5,v7,v14", "--shape", "5x6x7", "--keep-going"),
        3,
    ),
}


def shown(program: str, args: tuple[str, ...], status: int) -> tuple[str, list[str]]:
    """What a terminal would show, with the command and its status; and all files written."""
    with tempfile.TemporaryDirectory() as folder:
        given = [a.replace("TMP", folder) for a in args]
        done = run(program, *given)
        files = [f.read_text(encoding="latin-1") for f in Path(folder).iterdir()]
    if done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    name = {"GEMM_BENCH": "./gemm_bench", "VARIANT_BENCH": "variant_bench"}.get(
        program, "fault_bench"
    )
    errors = "".join(f"stderr: {line}\n" for line in done.stderr.splitlines())
    text = f"$ {name} {' '.join(args)}\n{done.stdout}{errors}exit status {done.returncode}\n"
    text = re.sub(r"(\.cuh?:)\d+ *", r"\1LINE ", text.replace(folder, "TMP"))  # comments move lines
    return text, [*files, done.stdout, done.stderr]


class Golden(unittest.TestCase):
    maxDiff = None

    def test_every_command(self) -> None:
        for name, case in CASES.items():
            with self.subTest(name=name):
                text, everything = shown(*case)
                for part in everything:
                    self.assertRegex(part, rf"\A{TEXT.pattern}\Z", "printable ASCII alone")
                wanted = (GOLDEN / f"{name}.txt").read_text(encoding="ascii")
                if text != wanted:
                    lines = difflib.unified_diff(
                        wanted.splitlines(), text.splitlines(), lineterm=""
                    )
                    self.fail("\n".join(lines) + "\n" + str(__doc__).splitlines()[-1])

    def test_no_file_without_a_case(self) -> None:
        self.assertEqual({f.stem for f in GOLDEN.iterdir()}, set(CASES))


class Bytes(unittest.TestCase):
    """Whatever comes in, text goes out."""

    def text_of(self, *args: str, file: bytes | None = None) -> str:
        with tempfile.TemporaryDirectory() as folder:
            listed, json = Path(folder, "list.txt"), Path(folder, "run.json")
            if file is not None:
                listed.write_bytes(file)
                args = (*args, "--shapes", str(listed))
            done = run("FAULT_BENCH", *args, "--json", str(json))
            written = json.read_text(encoding="latin-1") if json.exists() else ""
        for part in (done.stdout, done.stderr, written):
            self.assertRegex(part, rf"\A{TEXT.pattern}\Z")
            self.assertLess(max((len(line) for line in part.splitlines()), default=0), 3000)
        self.assertLessEqual(len(done.stderr.splitlines()), 1)
        return done.stderr

    def test_arguments(self) -> None:
        for odd in ("\x1b[31mred", "a\nb", "tab\there", "\u00fc\u4e2d", "x" * 100_000):
            for option in ("--kernel", "--dtype", "--size", "--shape", "--op", "--alpha", "--l2"):
                with self.subTest(option=option, odd=odd[:10]):
                    self.assertIn("gemm_bench: ", self.text_of(option, odd))
            for given in ((odd,), ("--no" + odd,), ("--benchmark_filter=" + odd,)):
                with self.subTest(given=given[0][:30]):
                    self.assertIn("gemm_bench: ", self.text_of(*given))

    def test_the_command_line_in_the_json(self) -> None:
        shape = ("--kernel", "v1", "--dtype", "f32", "--shape", "2x2x2")
        cache = ("--tune-cache", "\u00fc\x1b\n" + "x" * 2000)
        self.assertEqual(self.text_of(*shape, *cache), "")

    def test_files(self) -> None:
        for odd in (
            b"4x4x4\x1b[31m",
            b"4\0x4x4",
            b"x" * 500_000,
            b"4x4x4 v1\x1b",
            b"\xff\xfe4x4x4",
        ):
            with self.subTest(odd=odd[:10]):
                self.assertRegex(self.text_of(file=odd), r"list.txt:1: .*(MxNxK|choose from)")


def write() -> None:
    GOLDEN.mkdir(exist_ok=True)
    for old in GOLDEN.iterdir():
        old.unlink()
    for name, case in CASES.items():
        (GOLDEN / f"{name}.txt").write_text(shown(*case)[0], encoding="ascii")


if __name__ == "__main__":
    for variable in ("GEMM_BENCH", "VARIANT_BENCH", "FAULT_BENCH"):
        if not os.environ.get(variable):
            sys.exit(f"set {variable} to the path of {variable.lower()}")
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        unittest.main()
