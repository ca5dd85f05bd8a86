"""scripts/build.py: which rungs a command line asks for, and that a build keeps what it has.
scripts/build_time.py: its groups and budgets."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import build  # noqa: E402
import build_time  # noqa: E402
from common import course_path, ladder  # noqa: E402

RUNGS = ladder.load_rungs()


def ids(names: set[str]) -> set[str]:
    return {rung.id for rung in RUNGS if rung.name in names}


@mock.patch.object(build, "has_gpu", return_value=False)
class Wanted(unittest.TestCase):
    def test_one_rung(self, _: mock.Mock) -> None:
        self.assertEqual(build.wanted(["--kernel", "v8"]), {"SIM": {"v08_double_buffer"}})
        self.assertEqual(build.wanted(["--kernel=v8"]), {"SIM": {"v08_double_buffer"}})

    def test_ranges_and_lists(self, _: mock.Mock) -> None:
        self.assertEqual(ids(build.wanted(["--kernel", "v1-v3,v9"])["SIM"]), {"v1", "v1u", "v2", "v3", "v9"})  # fmt: skip
        self.assertIn(RUNGS[-1].name, build.wanted(["--kernel", "v8-"])["SIM"])
        self.assertEqual(build.wanted(["--kernel", "nonsense"]), {"SIM": set()})

    def test_nothing_named_is_the_core(self, _: mock.Mock) -> None:
        core = {r.name for r in RUNGS if course_path.is_core(r.name)}
        self.assertLessEqual(core, build.wanted(["--size", "512"])["SIM"])
        self.assertLess(len(build.wanted([])["SIM"]), 0.6 * len(RUNGS))

    def test_inspected(self, _: mock.Mock) -> None:
        for options in (["--inspect"], ["--html", "page.html"], ["--html=page.html"]):
            self.assertEqual(set(build.wanted(options)), {"TRACED"})

    def test_a_dispatcher_wants_what_it_chooses_among(self, _: mock.Mock) -> None:
        self.assertLessEqual(
            {r.name for r in RUNGS if r.plans}, build.wanted(["--kernel", "v28"])["SIM"]
        )
        self.assertIn("m03_peer_copies", build.wanted(["--gpus", "2"])["SIM"])

    def test_by_nvcc_where_a_gpu_is(self, has_gpu: mock.Mock) -> None:
        has_gpu.return_value = True
        self.assertEqual(set(build.wanted(["--kernel", "v8"])), {"GPU"})
        self.assertEqual(set(build.wanted(["--kernel", "v8", "--backend", "sim"])), {"SIM"})


class Configure(unittest.TestCase):
    def configured(
        self, before: dict[str, str], rungs: dict[str, set[str]], cuda: bool = False
    ) -> list[str]:
        """The options that CMake is given; empty: it is not asked."""
        done = subprocess.CompletedProcess([], 0, "", "")
        with (
            mock.patch.object(build, "configured", return_value=before),
            mock.patch.object(build.subprocess, "run", return_value=done) as run,
            mock.patch("builtins.print"),
        ):
            build.configure(rungs, cuda=cuda, sample=cuda)
        return list(run.call_args.args[0]) if run.called else []

    def test_adds_to_what_is_there(self) -> None:
        before = {"GEMM_RUNGS_GPU": "none", "GEMM_RUNGS_SIM": "a;b", "GEMM_RUNGS_TRACED": "none",
                  "GEMM_CUDA": "OFF", "GEMM_GPU_SAMPLE": "OFF"}  # fmt: skip
        self.assertIn("-DGEMM_RUNGS_SIM=a;b;c", self.configured(before, {"SIM": {"c"}}))
        self.assertIn("-DGEMM_RUNGS_SIM=all", self.configured(before, {"SIM": {"all"}}))
        self.assertEqual(self.configured(before, {"SIM": {"a"}}), [])
        self.assertIn("-DGEMM_RUNGS_TRACED=none", self.configured({}, {"SIM": {"a"}}))

    def test_a_sample_takes_the_place_of_none_and_not_of_all(self) -> None:
        for before, sample in ({"GEMM_CUDA": "OFF", "GEMM_GPU_SAMPLE": "OFF"}, "ON"), \
                              ({"GEMM_CUDA": "ON", "GEMM_GPU_SAMPLE": "ON"}, "ON"), \
                              ({"GEMM_CUDA": "ON", "GEMM_GPU_SAMPLE": "OFF"}, "OFF"):  # fmt: skip
            options = self.configured(before, {"GPU": {"a"}}, cuda=True)
            self.assertIn(f"-DGEMM_GPU_SAMPLE={sample}", options)
        before = {"GEMM_CUDA": "ON", "GEMM_GPU_SAMPLE": "ON"}  # tests, once more
        self.assertIn("-DGEMM_GPU_SAMPLE=ON", self.configured(before, {"SIM": {"a"}}))


class Times(unittest.TestCase):
    def check(self, seconds: float, unit: float = 50) -> subprocess.CompletedProcess[str]:
        """--check of a build whose instrumented rungs took so long."""
        with tempfile.TemporaryDirectory() as folder:
            rows = [("src/sim/CMakeFiles/gemm_sim.dir/tracer.cpp.o", unit),
                    ("src/sim/CMakeFiles/rungs_traced.dir/__/__/kernels/v8.cu.o", seconds)]  # fmt: skip
            text = "# ninja log v5\n" + "".join(
                f"0\t{int(1000 * s)}\t0\t{name}\t{i}\n" for i, (name, s) in enumerate(rows)
            )
            Path(folder, ".ninja_log").write_text(text)
            command = [sys.executable, "scripts/build_time.py", "--check", "--build", folder]
            return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    def test_names_the_group_that_grew(self) -> None:
        budget = next(budget for name, _, budget in build_time.GROUPS if name.endswith("umented"))
        self.assertEqual(self.check(budget * 45).returncode, 0)
        found = self.check(budget * 55)
        self.assertEqual(found.returncode, 1)
        self.assertRegex(found.stderr, "^over its budget: rungs, instrumented: ")

    def test_a_cached_build_tells_nothing(self) -> None:
        self.assertEqual(self.check(5000, unit=0.1).returncode, 0)


if __name__ == "__main__":
    unittest.main()
