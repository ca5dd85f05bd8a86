"""What a release holds: scripts/release.sh with the libraries of this build, its wheel installed where
no other library is found, its checksums, and what it refuses. Arguments: the simulator's shared library,
and gemm_bench as the wheel has it."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parent.parent
library, program = Path(), Path()  # the arguments
GIT = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")
# Libraries of C and C++, which manylinux lets a wheel take from the system.
EVERYWHERE = re.compile(r"ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so|linux-vdso")
USES_IT = """
import gemm_ladder, numpy
a = numpy.arange(64 * 48, dtype=numpy.float32).reshape(64, 48) % 7
numpy.testing.assert_array_equal(gemm_ladder.matmul(a, a.T), a @ a.T)
print(gemm_ladder.__file__, gemm_ladder.inspect("v6", 64)["shared_loads"]["requests"] > 0)
"""


def run(*command: object, cwd: Path = ROOT, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=env or None
    )


def output(*command: object, cwd: Path = ROOT, **env: str) -> str:
    done = run(*command, cwd=cwd, **env)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


class Release(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]
    there: Path
    tree: Path  # a clone, since a release refuses a tree with changes

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.there = Path(cls.folder.name)
        cls.tree = cls.there / "tree"
        changed = output(*GIT, "stash", "create")  # a commit of them, which changes nothing here
        output(*GIT, "clone", "--quiet", "--shared", "--no-checkout", ROOT, cls.tree)
        output(*GIT, "checkout", "--quiet", "--detach", changed or "HEAD", cwd=cls.tree)
        (cls.tree / ".venv").symlink_to(ROOT / ".venv")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def refuses(self, text: str, *arguments: str) -> None:
        done = run("scripts/release.sh", *arguments, cwd=self.tree)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, rf"\Arelease\.sh: .*{text}.*\n\Z")

    def test_refuses(self) -> None:
        self.refuses("no tag 'v77.0.0'", "v77.0.0")
        version = self.tree / "VERSION"
        version.write_text("77.0.0\n")
        self.refuses("not committed")
        output(*GIT, "commit", "--quiet", "--all", "--message=77", cwd=self.tree)
        self.refuses("CHANGELOG.md has no section of version 77.0.0")
        output(*GIT, "tag", "v78.0.0", cwd=self.tree)
        self.refuses("its tag is v77.0.0", "v78.0.0")
        output(*GIT, "reset", "--quiet", "--hard", "HEAD~", cwd=self.tree)

    def has_licences(self, wheel: Path) -> None:
        """Of itself, of every package whose library was copied, and of what is linked in."""
        with zipfile.ZipFile(wheel) as held:
            (folder,) = {name.split("/")[0] for name in held.namelist() if "dist-info/" in name}
            listed = json.loads(held.read(f"{folder}/sboms/auditwheel.cdx.json"))["components"]
            names = {Path(name).stem for name in held.namelist() if "/licenses/" in name[:-1]}
            told = {
                name: held.read(f"{folder}/licenses/{name}.txt") for name in names - {"LICENSE"}
            }
            recorded = held.read(f"{folder}/RECORD").decode()
        self.assertLessEqual({c["name"] for c in listed} - {"gemm_ladder"} | {"LICENSE"}, names)
        for text in (b"Boost Software License", b"CLI11", b"nlohmann", b"libbacktrace", b"fmt"):
            self.assertTrue(any(text in licence for licence in told.values()), text)
        for name in told:
            self.assertIn(f"{folder}/licenses/{name}.txt,sha256=", recorded)

    def test_wheel_in_an_empty_environment(self) -> None:
        built = self.there / "built"
        built.mkdir()
        (built / "libgemm_ladder_sim.so").symlink_to(library)
        (built / "gemm_bench").symlink_to(program)
        options = ("GEMM_CUDA=OFF", f"GEMM_PYTHON_PREBUILT={built}")
        made = [word for option in options for word in ("-C", f"cmake.define.{option}")]
        output("scripts/release.sh", *made, cwd=self.tree)
        dist = self.tree / "dist"
        (wheel,) = dist.glob("*.whl")
        version = (self.tree / "VERSION").read_text().strip()

        self.assertEqual(
            output("sha256sum", "--check", "SHA256SUMS", cwd=dist).splitlines(),
            [f"{wheel.name}: OK", f"gemm_ladder-{version}.tar.gz: OK"],
        )
        listed = output("tar", "-tf", dist / f"gemm_ladder-{version}.tar.gz").splitlines()
        self.assertIn(f"gemm_ladder-{version}/pyproject.toml", listed)

        self.assertRegex(wheel.name, rf"^gemm_ladder-{version}-py3-none-manylinux_2_\d+_")
        told = " ".join(output(sys.executable, "-m", "auditwheel", "show", wheel).split())
        tag = wheel.stem.split("-")[-1]
        self.assertIn(f'consistent with the following platform tag: "{tag}"', told)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB\n{told}")
        self.assertLess(wheel.stat().st_size, 40e6)
        self.has_licences(wheel)

        venv.create(self.there / "empty")
        python = self.there / "empty/bin/python"
        site = next((self.there / "empty/lib").glob("python*/site-packages"))
        packages = Path(numpy.__file__).parents[1]
        for name in ("numpy", "numpy.libs"):  # which pip would download
            if (packages / name).exists():
                (site / name).symlink_to(packages / name)
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
        output(*pip, "install", "--quiet", "--no-deps", wheel)

        # Of what build libraries need, an empty file is found first: opening it is an error.
        hidden = self.there / "hidden"
        hidden.mkdir()
        needed = output("ldd", library) + output("ldd", program)
        for name in re.findall(r"(\S+) =>", needed):
            if not EVERYWHERE.match(name):
                (hidden / name).touch()
        self.assertTrue(any(hidden.iterdir()))
        print("hidden:", *sorted(file.name for file in hidden.iterdir()))
        told = output(python, "-c", USES_IT, cwd=self.there, LD_LIBRARY_PATH=str(hidden))
        self.assertEqual(told, f"{site / 'gemm_ladder/__init__.py'} True")


if __name__ == "__main__":
    missing = [tool for tool in ("git", "ldd", "sha256sum") if shutil.which(tool) is None]
    missing += [] if importlib.util.find_spec("auditwheel") else ["auditwheel"]
    missing += [] if (ROOT / ".git").exists() else ["a clone of the repository"]
    if missing:
        print("Skipped: this needs", ", ".join(missing))
        sys.exit(77)
    library, program = (Path(argument).resolve() for argument in sys.argv[1:])
    unittest.main(argv=sys.argv[:1])
