"""The library as it is installed: found by CMake from projects outside of the tree, as archives and
as shared libraries; from C; and what can be seen from outside of it. Arguments: cmake, the build
folder, the version, and a shared library as built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
cmake, build, version, shared_library = "cmake", "build", "", ""


def run(*command: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done


class Package(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]
    prefix: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = Path(cls.folder.name, "prefix")
        install = (cmake, "--install", build, "--component", "library", "--prefix", cls.prefix)
        run(*install)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def project(self, source: Path, *options: str, check: bool = True) -> Path:
        """The folder in which the project has been built."""
        there = Path(tempfile.mkdtemp(dir=self.folder.name))
        prefix = f"-DCMAKE_PREFIX_PATH={self.prefix}"
        copy = there / "source"
        copy.mkdir()
        for file in source.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        run(cmake, "-S", copy, "-B", there / "build", prefix, *options, check=check)
        run(cmake, "--build", there / "build", check=check)
        return there / "build"

    def test_hello_static_and_shared(self) -> None:
        for shared in ("OFF", "ON"):
            with self.subTest(shared=shared):
                built = self.project(ROOT / "examples/hello", f"-DBUILD_SHARED_LIBS={shared}")
                lines = run(built / "hello").stdout.splitlines()
                self.assertEqual(lines[:3], ["8 8"] * 3)
                self.assertRegex(lines[3], r"^on an H200: v\d+\w*_\w+ .+$")
                needs = run("readelf", "-d", built / "hello").stdout
                self.assertEqual("libgemm_ladder" in needs, shared == "ON", needs)
                if (built / "hello_gpu").exists():
                    on_gpu = run(built / "hello_gpu", check=False)
                    self.assertIn(on_gpu.returncode, (0, 77), on_gpu.stdout + on_gpu.stderr)
                    if on_gpu.returncode == 0:
                        self.assertEqual(on_gpu.stdout.splitlines(), ["8 8"] * 3)

    def test_from_c(self) -> None:
        built = self.project(ROOT / "tests/package", f"-DVERSION={version}")
        self.assertEqual(run(built / "from_c").stdout, "3c00 4000\n17 36\n")
        run(built / "status_of_gemm")

    def test_opened_by_python(self) -> None:
        """By dlopen, which has little room for thread-local variables that want a fixed place."""
        folder = Path(shared_library).parent
        for library in sorted(folder.glob("libgemm_ladder*.so")):
            with self.subTest(library=library.name):
                done = run(sys.executable, ROOT / "tests/package/from_python.py", library)
                lines = done.stdout.splitlines()
                self.assertEqual(lines[:2], ["17.0 0.0", "v06_bank_conflicts {200.0}"])
                self.assertRegex(lines[2], r"^\d\d v1 one thread, one element of C$")

    def test_another_version_is_not_found(self) -> None:
        major, minor, _ = map(int, version.split("."))
        with self.assertRaisesRegex(AssertionError, "matches requested version"):
            self.project(ROOT / "tests/package", f"-DVERSION={major}.{minor + 1}.0")

    def test_only_the_interface_can_be_seen(self) -> None:
        header = (ROOT / "include/gemm/gemm.h").read_text(encoding="utf-8")
        declared = sorted(re.findall(r"^GEMM_API .*?\b(gemm_\w+)\(", header, re.MULTILINE))
        self.assertGreater(len(declared), 8)
        listed = run("nm", "-D", "--defined-only", shared_library).stdout
        self.assertEqual(sorted(line.split()[-1] for line in listed.splitlines()), declared)
        archives = list(self.prefix.rglob("*.a"))
        self.assertTrue(archives)
        for archive in archives:
            with self.subTest(archive=archive.name):
                seen = re.findall(
                    r" [A-TV-Z] (\w+)$", run("nm", "-g", archive).stdout, re.MULTILINE
                )
                self.assertEqual(sorted(seen), declared)

    def test_nothing_else_is_installed(self) -> None:
        names = {
            p.relative_to(self.prefix).as_posix() for p in self.prefix.rglob("*") if p.is_file()
        }
        headers = {"include/gemm/gemm.h", "include/gemm/gemm.hpp"}
        self.assertEqual({n for n in names if n.startswith("include/")}, headers)
        rest = re.compile(
            r"\w+/(\w+-linux-gnu/)?(libgemm_ladder\w*\.(a|so[\d.]*)|cmake/gemm_ladder/.+)"
        )
        self.assertEqual([n for n in names - headers if not rest.fullmatch(n)], [])


if __name__ == "__main__":
    cmake, build, version, shared_library = sys.argv[1:]
    os.environ.pop("LD_LIBRARY_PATH", None)
    unittest.main(argv=sys.argv[:1])
