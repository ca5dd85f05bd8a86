"""Plain and traced kernels, and host code, are linked into one program. A function that two of them
share (a COMDAT) is kept once, traced or not, by chance. So: no kernel may reach one, and nothing
but traced kernels may call what the tracing compiler calls. Arguments: the traced object files,
`--`, all others."""

from __future__ import annotations

import subprocess
import sys
import unittest

# What registration, on the host, shares with the host.
HOST = {
    "gemm::Rung::~Rung()",
    "std::_Function_base::~_Function_base()",
    "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::_M_dispose()",
}

split = sys.argv.index("--")
TRACED, OTHERS = sys.argv[1:split], sys.argv[split + 1 :]


def symbols(file: str, kinds: str) -> set[str]:
    text = subprocess.run(["nm", "-C", file], capture_output=True, text=True, check=True).stdout
    lines = (line[17:].split(" ", 1) for line in text.splitlines())
    return {name for kind, name in lines if kind in kinds}


class Symbols(unittest.TestCase):
    def test_traced_kernels_share_no_function(self) -> None:
        self.assertTrue(TRACED)
        for file in TRACED:
            shared = {
                name
                for name in symbols(file, "WVu")
                if "sim_traced" not in name and not name.startswith("DW.ref.")
            }
            with self.subTest(file=file):
                self.assertLessEqual(shared, HOST)
                self.assertIn("__tsan_read4", symbols(file, "U"))

    def test_nothing_else_is_traced(self) -> None:
        self.assertTrue(OTHERS)
        for file in OTHERS:
            with self.subTest(file=file):
                self.assertFalse({s for s in symbols(file, "U") if s.startswith("__tsan")})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
