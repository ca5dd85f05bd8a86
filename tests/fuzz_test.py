"""scripts/fuzz.py finds what it is for: a gemm_bench that breaks one invariant, by a wrapper around
the real one, is found, and the command that shows it is small. Needs GEMM_BENCH and COPY_TUNING."""

from __future__ import annotations

import itertools
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from fuzzing import cases, check, shrink  # noqa: E402

BENCH = Path(os.environ["GEMM_BENCH"]).resolve()
PROGRAM = check.ask(BENCH)

# Runs the real one, then does one thing wrong where K >= 50.
WRAPPER = """#!{python}
import os, re, signal, subprocess, sys, time
from pathlib import Path
FAULT = {fault!r}
args = sys.argv[1:]
run = subprocess.run([{bench!r}, *args], capture_output=True)
out, err, status = run.stdout, run.stderr, run.returncode
last = [a for a in args if re.fullmatch(r"\\d+x\\d+x\\d+", a)][-1:]
if last and int(last[0].split("x")[2]) >= 50 and status == 0:
    if FAULT == "crash": os.kill(os.getpid(), signal.SIGSEGV)
    if FAULT == "time": time.sleep(100)
    if FAULT == "status": status = 77
    if FAULT == "wrong": out, status = out.replace(b"verified", b"WRONG: 1 element"), 1
    if FAULT == "text": out += b"\\x1b[0m\\n"
    if FAULT == "bytes": err += b"\\xff\\xfe\\n"
    if FAULT == "sanitizer": err += b"==1==ERROR: AddressSanitizer: heap-use-after-free on x\\n"
    if FAULT == "refused": err, status = b"gemm_bench: no\\n", 2
    if FAULT == "lines": err, status = b"gemm_bench: no\\nreally\\n", 2
    if FAULT == "chatty": err = b"hello\\n"
    if FAULT == "silent": out = b""
    if FAULT == "none": out = re.sub(rb"\\n\\d+ verified", b"\\n0 verified", out)
    if FAULT == "count": out = re.sub(rb"\\n(v.*)  verified", b"", out, count=1)
    if FAULT == "twice": out = str(time.monotonic()).encode() + b"\\n" + out
    if FAULT == "finding": out = out.replace(b"| ok", b"| 1 race")
    if FAULT == "left": Path("core").write_text("")
    if FAULT == "json" and Path("out.json").exists():
        Path("out.json").write_text(Path("out.json").read_text().replace(": 1.0", ": NaN", 1))
    if FAULT == "entry" and Path("out.json").exists():
        text = Path("out.json").read_text()
        Path("out.json").write_text(re.sub(r'"blocks": \\d', '"blocks": 9', text, count=1))
sys.stdout.buffer.write(out), sys.stderr.buffer.write(err)
sys.stdout.flush(), sys.stderr.flush()
sys.exit(status)
"""


def fuzz(bench: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "fuzz.py", *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "GEMM_BENCH": str(bench)},
    )


class Faults(unittest.TestCase):
    def wrapper(self, fault: str) -> Path:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name, "gemm_bench")
        path.write_text(WRAPPER.format(python=sys.executable, fault=fault, bench=str(BENCH)))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def found(self, fault: str, case: cases.Case, timeout: float = 60) -> str:
        runner = check.Runner(self.wrapper(fault), None, timeout)
        result = runner.run(case)
        found = check.violation(case, result, PROGRAM)
        if found is None:
            found = check.difference(case, result, runner.run(case))
        return "" if found is None else found.name

    def test_each_is_found(self) -> None:
        words = ("--kernel", "v3", "--shape", "7x9x55", "--json", "out.json")
        plain = cases.Case("rungs", cases.encoded(list(words[:4])), "run")
        with_json = cases.Case("rungs", cases.encoded(list(words)), "run")
        inspect = cases.Case("inspect", (b"--inspect", *plain.args), "run")
        for fault, case, name in (
            ("", with_json, ""),
            ("crash", plain, "crash"),
            ("status", plain, "status"),
            ("wrong", plain, "wrong"),
            ("text", plain, "text"),
            ("bytes", plain, "text"),
            ("sanitizer", plain, "sanitizer"),
            ("refused", plain, "refused"),
            ("lines", plain, "message"),
            ("chatty", plain, "message"),
            ("silent", plain, "silent"),
            ("none", plain, "nothing verified"),
            ("count", plain, "table"),
            ("left", plain, "files"),
            ("twice", plain, "twice"),
            ("json", with_json, "json"),
            ("entry", with_json, "table"),
            ("finding", inspect, "findings"),
        ):
            with self.subTest(fault=fault):
                self.assertEqual(self.found(fault, case), name)
        self.assertEqual(self.found("time", plain, timeout=2), "time")

    def test_the_script_shows_it(self) -> None:
        made = (cases.make(1, number, ("layouts",), PROGRAM) for number in itertools.count())
        small = re.compile(r".*--shape \d{1,2}x\d{1,2}x[5-9]\d ")
        number, case = next((n, c) for n, c in enumerate(made) if small.match(c.shell()))
        options = f"--only layouts --seed 1 --case {number} --shrink 0".split()
        run = fuzz(self.wrapper("crash"), *options)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn(
            "\nFAILURE (crash): ended by signal 11 (Segmentation fault)\n"
            f"# --seed 1 --only layouts --case {number}\n{case.shell()}\n",
            run.stdout,
        )


class Nothing(unittest.TestCase):
    def test_options(self) -> None:
        for args in (["--minutes", "0"], ["--minutes", "nan"], ["--only", "x"], ["--case", "x"]):
            run = fuzz(BENCH, *args)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertEqual(fuzz(Path("/nonexistent"), "--minutes", "1").returncode, 2)

    def test_same_seed_same_commands(self) -> None:
        for number in range(60):
            one, two = (cases.make(5, number, cases.KINDS, PROGRAM) for _ in range(2))
            self.assertEqual(one, two)
        self.assertNotEqual(
            cases.make(5, 0, cases.KINDS, PROGRAM), cases.make(6, 0, cases.KINDS, PROGRAM)
        )

    def test_shell_gives_the_same_bytes(self) -> None:
        """What is shown is what was run, whatever bytes are in it."""
        odd = bytes(range(1, 256))
        words = (odd, b"'\"\\$x `y` %s \\x41", b"", b"-n", b"z" * 3000, odd * 9, b"\\\n" * 1500)
        case = cases.Case("cli", words, "any", {"a.txt": b"\0" + odd + b"\\0111'7%", "b.txt": b""})
        with tempfile.TemporaryDirectory() as folder:
            echo = Path(folder, "echo")
            echo.write_text(
                f"#!{sys.executable}\n"
                "import os, sys\n"
                "sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))\n"
            )
            echo.chmod(0o755)
            shell = subprocess.run(
                ["bash", "-c", case.shell(str(echo))], check=True, capture_output=True, cwd=folder
            )
            self.assertEqual(shell.stdout.split(b"\0"), list(words))
            for name, data in case.files.items():
                self.assertEqual(Path(folder, name).read_bytes(), data)

    def test_the_command_is_small(self) -> None:
        """What is left is what it takes: a rung, and a K of 50."""
        last = re.compile(r".*--kernel v.*--shape \d+x\d+x([5-9]\d|\d{3,})(?!\S)")
        for number in range(20):
            case = cases.make(1, number, ("layouts",), PROGRAM)
            large = cases.Case("layouts", (*case.args, b"--shape", b"77x88x99"), "run")
            smallest = shrink.shrink(large, lambda c: last.match(c.shell()) is not None, 100)
            self.assertRegex(
                smallest.shell(), r"^\./gemm_bench --kernel v\w+ --shape 0x0x50$", large.shell()
            )

    def test_shrink_ends(self) -> None:
        case = cases.make(1, 4, ("shapes",), PROGRAM)
        smallest = shrink.shrink(case, lambda _: True, 100)
        self.assertEqual((smallest.args, set(smallest.files.values())), ((b"--kernel",), {b""}))


if __name__ == "__main__":
    unittest.main()
