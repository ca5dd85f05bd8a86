"""What gemm_bench leaves behind when something breaks: its exit status, its line, its files.
FAULT_BENCH is the real program on a GPU that breaks on demand (tests/extra/fault_bench.cpp)."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

from bench_process import environment, run

GOOD = '{"good": 1}'
SMALL = ("--shape", "5x6x7")


class Case(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "run.json"
        self.partial = self.folder / "run.json.partial"

    def bench(self, *args: str, status: int, says: str = "", **options: Any) -> str:
        """One line on stderr that matches `says`, or nothing if that is empty. Returns the table."""
        done = run("FAULT_BENCH", *args, **options)
        self.assertEqual(done.returncode, status, f"{done.stdout}\n{done.stderr}")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1 if says else 0, done.stderr)
        if says:
            self.assertRegex(lines[0], says)
        return done.stdout or ""

    def entries(self, file: Path) -> dict[str, str]:
        """Verdicts by rung: "verified", or why not."""
        text = file.read_text(encoding="ascii")
        return {
            e["name"].split("_")[0]: e.get("error_message") or ("verified" if e["verified"] else "")
            for e in json.loads(text)["benchmarks"]
        }

    def left(self) -> set[str]:
        return {p.name for p in self.folder.iterdir()}


class Statuses(Case):
    def kernels(self, kernels: str, status: int, says: str = "", *more: str) -> dict[str, str]:
        self.bench(
            "--kernel", kernels, *SMALL, "--json", str(self.file), *more, status=status, says=says
        )
        return self.entries(self.file)

    def test_all_right(self) -> None:
        self.assertEqual(self.kernels("v1,v2", 0), {"v01": "verified", "v02": "verified"})
        self.assertEqual(self.left(), {"run.json"})

    def test_a_wrong_result(self) -> None:
        self.assertRegex(self.kernels("v1,v3", 1)["v03"], "^wrong: ")

    def test_a_refused_launch_is_no_wrong_result_and_the_run_goes_on(self) -> None:
        found = self.kernels("v1,v4,v2", 3, "v04_refused f32 at 5x6x7: .*too many resources")
        self.assertRegex(found["v04"], "^failed: v04_refused f32, launch: too many resources")
        self.assertEqual((found["v01"], found["v02"]), ("verified", "verified"))

    def test_out_of_memory(self) -> None:
        found = self.kernels("v6,v2", 3, "not enough memory for 5x6x7: choose a smaller")
        self.assertEqual(found, {"v06": "skipped: out of memory", "v02": "verified"})

    def test_a_wrong_result_is_the_worst(self) -> None:
        self.kernels("v3,v4,v6", 1)
        self.kernels("v3,v10", 1)

    def test_a_baseline_that_errs_leaves_the_rung_verified(self) -> None:
        shape = ("--shape", "5x6x13", "--shape", "4x4x4")
        self.bench(
            *("--kernel", "v1", *shape, "--json", str(self.file)),
            status=3,
            says="not timed: v01_right f32 at 5x6x13: cublasGemmEx_64: not supported",
        )
        untimed, timed = json.loads(self.file.read_text())["benchmarks"]
        self.assertEqual(untimed["verified"], 1)
        self.assertNotIn("TFLOPS", untimed)
        self.assertRegex(untimed["label"], "not timed: cublasGemmEx_64")
        self.assertEqual(timed["TFLOPS"], 30)

    def test_a_sample_is_an_iteration(self) -> None:
        args = ("--kernel", "v1", *SMALL, "--json", str(self.file))
        self.bench(*args, status=0)
        (entry,) = json.loads(self.file.read_text())["benchmarks"]
        self.assertEqual((entry["iterations"], entry["samples"]), (11, 11))
        self.assertAlmostEqual(entry["real_time"], 1e3 * 2 * 5 * 6 * 7 / 30e12, delta=1e-15)  # ms
        self.bench(*args, "--benchmark_repetitions=3", status=0)
        entries = json.loads(self.file.read_text())["benchmarks"]
        self.assertEqual([e["iterations"] for e in entries[:3]], [1, 1, 1])
        for again in entries[:3]:
            self.assertAlmostEqual(again["real_time"], entry["real_time"], delta=1e-15)
        aggregates = {e["aggregate_name"]: e for e in entries[3:]}
        self.assertEqual(aggregates["median"]["TFLOPS"], 30)
        self.assertEqual(aggregates["stddev"]["TFLOPS"], 0)

    def test_scripts_read_an_entry_without_timing(self) -> None:
        sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
        from common import ladder

        args = ("--kernel", "v1", "--shape", "5x6x13", "--json", str(self.file))
        self.bench(*args, status=3, says="not timed")
        point = ladder.load_results(self.file).points["v01_right", "f32"][5, 6, 13]
        self.assertRegex(point.reason, "not timed: cublas")

    def test_all_skipped_is_no_success(self) -> None:
        found = self.kernels("v10", 2, "nothing was verified, all were skipped: needs sm_100")
        self.assertRegex(found["v10"], "^skipped: needs sm_100")
        self.assertEqual(set(self.kernels("v10,v1", 0)), {"v10", "v01"})

    def test_what_a_library_says_is_made_text(self) -> None:
        found = self.kernels("v12", 3, r"v12: \\x1b\[31mred\\nand \\xff$")
        self.assertRegex(found["v12"], r"\\x1b\[31mred\\nand \\xff")


class Durable(Case):
    def test_a_fault_ends_the_run_and_keeps_what_was_measured(self) -> None:
        self.file.write_text(GOOD)
        out = self.bench(
            *(
                "--kernel",
                "v1-v5,v14",
                *SMALL,
                "--kernel",
                "v1,v2,v5,v14",
                "--json",
                str(self.file),
            ),
            status=3,
            says="v05_faults/f32/nn/5x6x7: .*illegal memory access; the run ends here, "
            f"the results until then are in {self.partial}$",
        )
        self.assertIn("2 verified, 0 wrong, 0 skipped, 1 failed", out)
        found = self.entries(self.partial)
        self.assertEqual(list(found), ["v01", "v02", "v05"])
        self.assertRegex(found["v05"], "^failed: v05_faults f32, while running")
        self.assertEqual(self.file.read_text(), GOOD)
        self.assertEqual(self.left(), {"run.json", "run.json.partial"})

    def test_a_fault_without_json(self) -> None:
        self.bench(
            "--kernel", "v1,v5", *SMALL, status=3, says="v05_faults.*no --json was asked for"
        )

    def test_signals_of_the_program(self) -> None:
        for kernel, name, what in (
            ("v7", "v07_segfault", "segmentation fault"),
            ("v8", "v08_aborts", "aborted"),
        ):
            with self.subTest(kernel=kernel):
                self.file.write_text(GOOD)
                self.bench(
                    *("--kernel", f"v1,v2,{kernel}", *SMALL, "--json", str(self.file)),
                    status=3,
                    says=f"{name}/f32/nn/5x6x7: {what}; the results until then are in {self.partial}$",
                )
                self.assertEqual(list(self.entries(self.partial)), ["v01", "v02"])
                self.assertEqual(self.file.read_text(), GOOD)

    def test_signals_from_outside(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number):
                self.partial.unlink(missing_ok=True)
                self.file.write_text(GOOD)
                process = subprocess.Popen(
                    [
                        os.environ["FAULT_BENCH"],
                        "--kernel",
                        "v1,v2,v9",
                        *SMALL,
                        "--json",
                        self.file,
                    ],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=environment({}),
                    # A shell in the background ignores it, and so would the program.
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                )
                until = time.monotonic() + 60
                while time.monotonic() < until:
                    if self.partial.exists() and len(self.entries(self.partial)) == 2:
                        break
                    time.sleep(0.01)
                process.send_signal(number)
                _, errors = process.communicate(timeout=60)
                self.assertEqual(process.returncode, -number)
                if number != signal.SIGKILL:
                    self.assertRegex(errors, f"the results until then are in {self.partial}\n$")
                self.assertEqual(self.entries(self.partial), {"v01": "verified", "v02": "verified"})
                self.assertEqual(self.file.read_text(), GOOD)

    def test_whole_json_at_every_moment(self) -> None:
        """Killed at any of them: read while it is written."""
        shapes = [part for n in range(200) for part in ("--shape", f"1x{n + 1}x1")]
        seen: list[int] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                for file in (self.partial, self.file):
                    try:
                        text = file.read_text()
                    except FileNotFoundError:
                        continue
                    seen.append(len(json.loads(text)["benchmarks"]))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            self.bench("--kernel", "v1,v2", *shapes, "--json", str(self.file), status=0)
        finally:
            done.set()
            reader.join()
        self.assertEqual(sorted(seen), seen)
        self.assertGreater(len(set(seen)), 3, "it was read while it grew")

    def test_a_full_disk(self) -> None:
        """A limit on files' sizes: write() fails as on a full disk, without one."""
        shapes = [part for n in range(20) for part in ("--shape", f"1x{n + 1}x1")]
        for limit, kept in ((8000, True), (100, False)):
            with self.subTest(limit=limit):
                self.partial.unlink(missing_ok=True)
                self.file.write_text(GOOD)
                self.bench(
                    *("--kernel", "v1", *shapes, "--json", str(self.file)),
                    status=3,
                    says="File too large; "
                    + (
                        f"the results until then are in '{self.partial}'$" if kept else "no results"
                    ),
                    preexec_fn=lambda limit=limit: resource.setrlimit(
                        resource.RLIMIT_FSIZE, (limit, limit)
                    ),
                )
                self.assertEqual(self.file.read_text(), GOOD)
                self.assertEqual(self.partial.exists(), kept)
                if kept:
                    self.assertIn("v01", self.entries(self.partial))
                self.assertFalse([name for name in self.left() if name.endswith("tmp")])

    def test_a_really_full_disk(self) -> None:
        mount = f"mount -t tmpfs -o size=8k tmpfs {self.folder} && echo '{GOOD}' > {self.file} && "
        shapes = " ".join(f"--shape 1x{n + 1}x1" for n in range(20))
        script = (
            f"{mount} $FAULT_BENCH --kernel v1 {shapes} --json {self.file}; "
            f"echo status $?; cat {self.file}; cat {self.partial} | python3 -m json.tool"
        )
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
        if subprocess.run([*command[:4], "true"], capture_output=True).returncode != 0:
            self.skipTest("no user namespaces here")
        done = subprocess.run(command, capture_output=True, text=True, env=environment({}))
        if "status" not in done.stdout:
            self.skipTest(f"cannot mount: {done.stderr.strip()}")
        self.assertIn(f"status 3\n{GOOD}\n", done.stdout)
        self.assertRegex(
            done.stderr, "No space left on device; (no results|the results until then)"
        )

    def test_a_full_stdout(self) -> None:
        with open("/dev/full", "w") as full:
            self.bench(
                *("--kernel", "v1,v2", *SMALL, "--json", str(self.file)),
                status=3,
                says=f"standard output: No space left on device; .* are in {self.partial}$",
                stdout=full,
            )
        self.assertIn("v01", self.entries(self.partial))


class TimeLimit(Case):
    """40 problems that take some milliseconds each."""

    MANY = ("--kernel", "v1", "--shape", f"{','.join(str(100 + n) for n in range(40))}x128x128")

    def test_what_got_no_time_is_listed(self) -> None:
        out = self.bench(
            *self.MANY, *("--time-limit", "0.2", "--json", str(self.file)),
            status=3,
            says=r"^gemm_bench: \d+ not measured, from v01_right f32 nn \d+x128x128 on: --time-limit 0.2",
        )  # fmt: skip
        entries = json.loads(self.file.read_text())["benchmarks"]
        left = [
            e.get("error_message", "").startswith("not measured: --time-limit") for e in entries
        ]
        self.assertEqual(len(left), 40)
        self.assertTrue(left[-1])
        self.assertEqual(left, sorted(left), "the first ones were measured")
        self.assertIn(
            f"{left.count(False)} verified, 0 wrong, 0 skipped, {left.count(True)} not", out
        )
        self.assertEqual(self.left(), {"run.json"}, "the run has reached its end")

    def test_a_wrong_result_counts_more(self) -> None:
        self.bench("--kernel", "v3", *self.MANY[2:], "--time-limit", "5", status=1)

    def test_enough_time(self) -> None:
        self.bench("--kernel", "v1,v2", *SMALL, "--time-limit", "600", "--quick", status=0)

    def test_alone_in_their_processes(self) -> None:
        args = ("--kernel", "v1", *SMALL, "--keep-going", "--time-limit")
        self.bench(*args, "600", status=0)
        self.bench(*args, "1e-9", status=3, says="1 not measured, from v01_right f32 nn 5x6x7 on")


class Sampled(Case):
    def drawn(self, *args: str) -> list[str]:
        shapes = ("--shape", "1,2,3,4,5x1,2,3,4x1,2")
        self.bench("--kernel", "v1,v2", *shapes, *args, "--json", str(self.file), status=0)
        return [e["name"] for e in json.loads(self.file.read_text())["benchmarks"]]

    def test_some_problems_with_all_their_rungs(self) -> None:
        every, five = self.drawn(), self.drawn("--sample", "5")
        self.assertEqual((len(every), len(five)), (80, 10))
        self.assertEqual(five, [name for name in every if name in five], "in the same order")
        self.assertEqual(len({name.split("/")[-1] for name in five}), 5)

    def test_a_seed_draws_the_same_and_another_one_others(self) -> None:
        self.assertEqual(self.drawn("--sample", "5"), self.drawn("--sample", "5", "--seed", "1"))
        self.assertNotEqual(self.drawn("--sample", "5"), self.drawn("--sample", "5", "--seed", "2"))
        few, more = self.drawn("--sample", "5"), self.drawn("--sample", "9")
        self.assertLess(set(few), set(more))
        self.assertEqual(len(self.drawn("--sample", "999")), 80)


class KeptGoing(Case):
    def test_each_job_has_a_process_of_its_own(self) -> None:
        self.bench(
            *("--kernel", "v1,v5,v7,v8,v11,v2,v14", *SMALL, "--keep-going"),
            *("--json", str(self.file)),
            status=3,
            says="v05_faults f32 at 5x6x7: v05_faults f32, while running: an illegal memory access",
        )
        found = self.entries(self.file)
        for right in ("v01", "v02", "v14"):
            self.assertEqual(found[right], "verified")
        self.assertRegex(found["v05"], "^failed: v05_faults f32, while running: an illegal memory")
        self.assertRegex(found["v07"], r"^failed: its process was ended by signal 11 \(Segm")
        self.assertRegex(found["v08"], r"^failed: its process was ended by signal 6 \(Abort")
        self.assertRegex(found["v11"], "^failed: its process ended with status 0 and no result$")
        self.assertEqual(self.left(), {"run.json"})

    def test_the_worst_status(self) -> None:
        for kernels, status, says in (
            ("v1,v2", 0, ""),
            ("v1,v10", 0, ""),
            ("v10", 2, "all were skipped"),
            ("v10,v6,v1", 3, "not enough memory"),
            ("v5,v3,v10", 1, ""),
        ):
            with self.subTest(kernels=kernels):
                args = ("--kernel", kernels, *SMALL, "--keep-going")
                self.bench(*args, status=status, says=says)

    def test_the_same_as_in_one_process(self) -> None:
        """Table and JSON, to the last figure."""
        args = ("--kernel", "v1,v2,v3,v10,v14", *SMALL, "--shape", "3x4x5", "--alone", "--accuracy")
        other = self.folder / "apart.json"
        one = self.bench(*args, "--json", str(self.file), status=1)
        apart = self.bench(*args, "--json", str(other), "--keep-going", status=1)
        self.assertEqual(one, apart)
        entries = [json.loads(f.read_text())["benchmarks"] for f in (self.file, other)]
        for entry in (*entries[0], *entries[1]):
            entry.pop("cpu_time")
        self.assertEqual(*entries)

    def test_it_dies_with_the_one_that_waits(self) -> None:
        process = subprocess.Popen(
            [os.environ["FAULT_BENCH"], "--kernel", "v9", *SMALL, "--keep-going"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment({}),
        )
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until = time.monotonic() + 60
        while not (child := children.read_text().strip()) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.3)  # it has asked for the signal by then
        process.kill()
        process.communicate(timeout=60)
        while Path(f"/proc/{child}").exists() and time.monotonic() < until:
            time.sleep(0.01)
        self.assertFalse(Path(f"/proc/{child}").exists())


class CompiledAtRunTime(Case):
    ENV = {**os.environ, "FAULT_BENCH_JIT": "1"}

    def jit(self, *args: str, status: int = 0, says: str = "", **env: str) -> str:
        json_file = ("--json", str(self.file))
        return self.bench(
            "--jit", *args, *json_file, status=status, says=says, env={**self.ENV, **env}
        )

    def results(self) -> dict[str, Any]:
        return {e["name"]: e for e in json.loads(self.file.read_text())["benchmarks"]}

    def test_what_compiling_took_stands_beside_the_result(self) -> None:
        printed = self.jit("--kernel", "v29", *SMALL)
        [(name, entry)] = self.results().items()
        self.assertEqual(name, "v29_tiles/f32/nn/5x6x7/jit")
        self.assertGreater(entry["jit_kernels"], 0)
        self.assertEqual(entry["jit_ms"], 250 * entry["jit_kernels"])
        self.assertIn(f"{entry['jit_kernels']:.0f} kernels compiled in", printed)
        context = json.loads(self.file.read_text())["context"]
        self.assertEqual(context["jit"], "NVRTC 0.0")

    def test_beside_the_kernel_of_the_build(self) -> None:
        self.jit("both", "--kernel", "v29", *SMALL)
        plain, compiled = self.results().items()
        self.assertEqual((plain[0] + "/jit", "jit_ms" in plain[1]), (compiled[0], False))
        self.assertIn("jit_ms", compiled[1])

    def test_in_a_process_of_its_own(self) -> None:
        self.jit("--kernel", "v29", *SMALL, "--keep-going")
        self.assertGreater(self.results()["v29_tiles/f32/nn/5x6x7/jit"]["jit_ms"], 0)

    def test_of_all_rungs_those_that_can(self) -> None:
        self.jit("--kernel", "all", *SMALL)
        self.assertEqual(list(self.results()), ["v29_tiles/f32/nn/5x6x7/jit"])
        self.jit("--kernel", "v1", *SMALL, status=2, says="--kernel 'v1' is compiled .*choose v29$")

    def test_what_cannot_be_compiled(self) -> None:
        self.jit("--kernel", "v29", "--shape", "7x6x7", status=3, says="refuses gemm_v29: no")
        self.jit("--kernel", "v29", *SMALL, status=2, says="no NVRTC", FAULT_BENCH_NO_NVRTC="1")


class Tuning(Case):
    def tune(self, *args: str, status: int, says: str = "", **options: Any) -> str:
        cache = str(self.folder / "tuning.json")
        return self.bench(
            "--tune", "--tune-cache", cache, *args, status=status, says=says, **options
        )

    def shapes(self) -> list[list[int]]:
        tuned = json.loads((self.folder / "tuning.json").read_text(encoding="ascii"))
        return [t["shape"] for t in tuned["measured"]]

    def test_a_fault_keeps_what_was_measured(self) -> None:
        shapes = ("--shape", "4x4x4", "--shape", "13x4x4", "--shape", "5x4x4")
        says = "v14, while tuned.*what was measured until then is in .*tuning.json$"
        out = self.tune(*shapes, status=3, says=says)
        self.assertIn("20.00 TFLOPS  100.0%  large", out)
        self.assertEqual(self.shapes(), [[4, 4, 4]])

    def test_a_wrong_variant(self) -> None:
        self.assertIn("odd: WRONG", self.tune("--shape", "7x4x4", status=1))
        self.assertEqual(self.shapes(), [[7, 4, 4]])

    def test_a_result_that_timing_made_wrong(self) -> None:
        out = self.tune("--shape", "4x13x4", "--shape", "5x4x4", status=1)
        self.assertRegex(out, r"4x13x4: WRONG: v14, after timing")
        self.assertEqual(self.shapes(), [[5, 4, 4]])

    def test_a_full_disk(self) -> None:
        self.tune("--shape", "4x4x4", status=0)
        before = (self.folder / "tuning.json").read_text()

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, len(before) + 20))

        says = "cannot write the tuning cache '.*': File too large; it was left as it is$"
        self.tune("--shape", "99x4x4", status=3, says=says, preexec_fn=limit)
        self.assertEqual((self.folder / "tuning.json").read_text(), before)
        self.assertEqual(self.left(), {"tuning.json", "tuning.json.lock"})

    def test_no_file_but_a_regular_one(self) -> None:
        self.bench(
            "--tune",
            "--tune-cache",
            "/dev/null",
            status=2,
            says="tuning cache '/dev/null': it is no regular file",
        )
        self.bench(
            "--tune",
            "--tune-cache",
            "/dev/zero",
            status=2,
            says="tuning cache '/dev/zero': it is no regular file",
        )
        self.assertTrue(Path("/dev/null").is_char_device())

    def test_nothing_tuned_is_no_success(self) -> None:
        self.tune("--shape", "0x4x4", status=2, says="nothing was tuned")

    def first(self, *args: str, status: int, says: str = "", **options: Any) -> str:
        cache = str(self.folder / "tuning.json")
        arguments = ("--tune", "first", "--tune-cache", cache, "--kernel", "v14", *args)
        return self.bench(*arguments, status=status, says=says, **options)

    def test_first_tunes_a_shape_once(self) -> None:
        out = self.first("--shape", "4x4x4", status=0)
        self.assertRegex(out, "v14 .* verified  large")  # its own choice would be small
        self.assertEqual(self.shapes(), [[4, 4, 4]])
        file = self.folder / "tuning.json"
        file.write_text(file.read_text().replace("20.0", "21.0"))
        before = file.read_text()
        self.assertRegex(self.first("--shape", "4x4x4", status=0), "verified  large")
        self.assertEqual(file.read_text(), before, "measured again")
        self.first("--shape", "5x4x4", "--keep-going", status=0)  # of the same bucket
        self.assertEqual(self.shapes(), [[4, 4, 4], [5, 4, 4]])
        args = ("--kernel", "v14", "--tune-cache", str(file), "--shape", "4x4x4")
        out = self.bench(*args, status=0)
        self.assertRegex(out, "verified  large")

    def test_first_keeps_nothing_of_what_is_wrong(self) -> None:
        out = self.first("--shape", "7x4x4", "--shape", "4x13x4", "--shape", "4x4x4", status=1)
        self.assertRegex(out, "WRONG: variant odd")
        self.assertRegex(out, "WRONG: v14, after timing")
        self.assertIn("1 verified, 2 wrong", out)
        self.assertEqual(self.shapes(), [[4, 4, 4]])

    def test_first_after_a_fault_and_on_a_full_disk(self) -> None:
        self.first("--shape", "4x4x4", "--shape", "13x4x4", status=3, says="v14, while tuned")
        self.assertEqual(self.shapes(), [[4, 4, 4]])
        before = (self.folder / "tuning.json").read_text()

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, len(before) + 20))

        says = "cannot write the tuning cache '.*': File too large"
        self.first("--shape", "99x4x4", status=3, says=says, preexec_fn=limit)
        self.assertEqual((self.folder / "tuning.json").read_text(), before)
        self.first("--shape", "4x4x4", "--tune-cache", "/dev/null", status=2, says="/dev/null")

    def test_a_cache_of_other_things(self) -> None:
        self.tune("--shape", "4x4x4", status=0)
        file = self.folder / "tuning.json"
        text = file.read_text()
        for old, new in (
            ('"shape": [\n    4,', '"shape": [\n    1e30,'),
            ('"shape": [\n    4,', '"shape": [\n    -5,'),
            ('"shape": [\n    4,', '"shape": [\n    true,'),
            ('"shape": [\n    4,', '"shape": [\n    4.5,'),
            ('"shape": [\n    4,', '"shape": [\n    4,\n    4,'),
            ('"ops": "nn"', '"ops": "nx"'),
            ('"tflops": 20.0', '"tflops": true'),
            ('"tflops": 20.0', '"tflops": -1'),
            ('"f32"', '"\\u001b[31m"'),
            ("{", "\x1b\x00\xff"),
        ):
            with self.subTest(new=new):
                changed = text.replace(old, new, 1)
                self.assertNotEqual(changed, text)
                file.write_text(changed, encoding="latin-1")
                self.tune("--shape", "4x4x4", status=2, says="'.*' is not a tuning cache")
                args = ("--kernel", "v14", "--tune-cache", str(file), *SMALL)
                self.bench(*args, status=2, says="is not a tuning cache")
                self.bench(*args, "--no-tune-cache", status=0)
        for measured in ("null", "{}", "[[]]"):
            with self.subTest(measured=measured):
                file.write_text(f'{{"format": 1, "measured": {measured}}}')
                self.tune("--shape", "4x4x4", status=2, says="'.*' is not a tuning cache")


if __name__ == "__main__":
    if not os.environ.get("FAULT_BENCH"):
        sys.exit("set FAULT_BENCH to the path of fault_bench")
    unittest.main()
