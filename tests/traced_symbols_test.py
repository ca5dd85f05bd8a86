"""Plain and traced kernels, and host code, are linked into one program. Of an inline function that
several files share the linker keeps one, traced or not. So traced files share none, and nothing but
them calls what the tracing compiler calls. Arguments: the traced object files, `--`, all others."""

from __future__ import annotations

import subprocess
import sys
import unittest

split = sys.argv.index("--")
TRACED, OTHERS = sys.argv[1:split], sys.argv[split + 1 :]


def symbols(file: str, kinds: str) -> set[str]:
    text = subprocess.run(["nm", "-C", file], capture_output=True, text=True, check=True).stdout
    lines = (line[17:].split(" ", 1) for line in text.splitlines())
    return {name for kind, name in lines if kind in kinds}


class Symbols(unittest.TestCase):
    def test_traced_files_share_no_function(self) -> None:
        self.assertTrue(TRACED)
        for file in TRACED:
            shared = {s for s in symbols(file, "WVu") if not s.startswith("DW.ref.")}
            with self.subTest(file=file):
                self.assertEqual(shared, set())
                self.assertTrue({s for s in symbols(file, "U") if s.startswith("__tsan_read")})

    def test_nothing_else_is_traced(self) -> None:
        self.assertTrue(OTHERS)
        for file in OTHERS:
            with self.subTest(file=file):
                self.assertFalse({s for s in symbols(file, "U") if s.startswith("__tsan")})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
