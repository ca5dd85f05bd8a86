"""build/accuracy from outside: exit statuses, messages and JSON (needs ACCURACY, its path)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

SMALL = ("--backend", "sim", "--size", "16", "--k", "1,20")


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [os.environ["ACCURACY"], *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


class Accuracy(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.json = Path(folder.name) / "accuracy.json"

    def test_grades_tell_precisions_apart(self) -> None:
        result = run(
            *SMALL, "--kernel", "v10,v13,v14-v14x", "--dtype", "f32,tf32", "--json", str(self.json)
        )
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        worst: dict[str, str] = {}
        for entry in json.loads(self.json.read_text())["entries"]:
            rung, dtype, inputs, shape = entry["name"].split("/")
            self.assertEqual(shape, f"16x16x{entry['k']}")
            worst[rung] = max(worst.get(rung, "A"), entry["grade"].replace("-", "D"))
        self.assertEqual(
            worst,
            {
                "v10_mma": "D",
                "v13_ffma": "A",
                "v14_3xtf32": "D",
                "v14w_split_wgmma": "C",
                "v14x_bf16x6": "A",
            },
        )

    def test_bad_input_is_one_line_and_2(self) -> None:
        for args in (
            ("--inputs", "x"),
            ("--k", "0"),
            ("--kernel", "v99"),
            ("--json", "/nowhere/x"),
        ):
            with self.subTest(args=args):
                result = run("--backend", "sim", *args)
                self.assertEqual(
                    (result.returncode, result.stderr.count("\n")), (2, 1), result.stderr
                )

    def test_a_full_disk_keeps_the_old_file_and_is_3(self) -> None:
        result = run(*SMALL, "--kernel", "v1", "--inputs", "uniform", "--json", "/dev/full")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertTrue(Path("/dev/full").is_char_device())


if __name__ == "__main__":
    unittest.main()
