"""Every header of src/, include/ and a rung compiles by itself, and all of src/device and src/tile can be
included in one file: for the simulator, traced, and by nvcc for the GPU. Arguments: the C++ compiler, the build folder, and where
the GPU half is built nvcc and CUDA's include folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SRC = ROOT / "src"
GPU = (SRC / "harness/gpu", SRC / "sharded/gpu")  # these include CUDA's own headers
# In place of headers that NVRTC does not have, and of CUDA's in the simulator: some only say what is
# missing.
STAND_INS = (SRC / "jit" / "stand_ins", SRC / "own" / "include")
HEADERS = sorted(
    p
    for p in SRC.rglob("*")
    if p.suffix in (".h", ".cuh") and not any(map(p.is_relative_to, STAND_INS))
)
PUBLIC = sorted((ROOT / "include").rglob("*.h*"))
DEVICE = [p for p in HEADERS if p.is_relative_to(SRC / "device") or p.is_relative_to(SRC / "tile")]
OF_RUNGS = sorted((ROOT / "kernels").glob("v*/*.cuh"))
ON_DEMAND = [ROOT / "bench/tile_configs/v29c_configs.cu"]  # no test builds it

cxx, build, nvcc = "g++", "build", ""
cuda_includes: list[str] = []


def include(headers: list[Path]) -> str:
    return "".join(f'#include "{h}"\n' for h in headers)


def folders() -> list[str]:
    return [f"-I{SRC}", f"-I{ROOT / 'include'}", f"-I{build}"]


def included(headers: list[Path]) -> list[set[Path]]:
    """The project's headers that each includes, itself too. What the system has is not looked for."""
    command = [cxx, "-std=c++20", "-MM", "-MG", "-nostdinc", "-nostdinc++", *folders()]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{i}.cpp") for i in range(len(headers))]
        for file, header in zip(files, headers):
            file.write_text(include([header]))
        run = subprocess.run([*command, *files], check=True, capture_output=True, text=True)
    rules = run.stdout.replace("\\\n", " ").splitlines()
    return [{Path(name) for name in rule.partition(":")[2].split()} for rule in rules]


def chains(headers: list[Path]) -> list[list[Path]]:
    """Headers that one file can include by turns, each as if it were alone: the next one would include
    all those before it anyway, and there is nothing else."""
    found: list[list[Path]] = []
    names = dict(zip(headers, included(headers), strict=True))
    for header in sorted(headers, key=lambda h: len(names[h])):
        chain = next((c for c in found if c[-1] in names[header]), None)
        if chain is None:
            found.append([header])
        else:
            chain.append(header)
    return found


def errors(source: str, command: list[str]) -> str:
    """What the compiler says of a file with this text; empty: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "headers.cu" if command[0] == nvcc else "headers.cpp")
        file.write_text(source)
        run = subprocess.run([*command, str(file)], capture_output=True, text=True)
        return (run.stderr or "failed") if run.returncode != 0 else ""


def by_host(source: str, *flags: str) -> str:
    strict = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"]
    command = [cxx, *strict, "-fno-strict-aliasing", "-fsyntax-only", *folders(), *flags]
    return errors(source, command)


class Headers(unittest.TestCase):
    def test_each_compiles_by_itself(self) -> None:
        def compiled(chain: list[Path]) -> str:
            cuda = any(h.parent in GPU for h in chain)
            return by_host(include(chain), *(f"-isystem{d}" for d in cuda_includes if cuda))

        headers = [
            h
            for h in HEADERS + OF_RUNGS + PUBLIC + ON_DEMAND
            if cuda_includes or h.parent not in GPU
        ]
        self.assertGreater(len(headers), 50)
        files = chains(headers)
        self.assertEqual(sorted(h for chain in files for h in chain), sorted(headers))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for chain, found in zip(files, pool.map(compiled, files)):
                with self.subTest(headers=[str(h.relative_to(ROOT)) for h in chain]):
                    self.assertEqual(found, "")

    def test_finds_a_missing_include_in_a_chain(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            text, bad, both = (Path(folder, f"{name}.h") for name in ("text", "bad", "both"))
            text.write_text("#pragma once\n#include <string>\n")
            bad.write_text("#pragma once\ninline std::string f() { return {}; }\n")
            both.write_text(f"#pragma once\n{include([text, bad])}")
            found = chains([text, bad, both])
            self.assertEqual(sorted(map(len, found)), [1, 2])
            self.assertEqual(by_host(include([both])), "")
            self.assertEqual(sum(by_host(include(c)) != "" for c in chains([bad, both])), 1)
            self.assertIn([bad, both], chains([bad, both]))

    def test_device_headers_go_together(self) -> None:
        self.assertEqual(by_host(include(DEVICE)), "")
        self.assertEqual(by_host(include(DEVICE[::-1]), "-DGEMM_SIM_TRACED"), "")

    def test_device_headers_go_together_on_the_gpu(self) -> None:
        if not nvcc:
            self.skipTest("built without a CUDA toolkit")
        command = [nvcc, "-std=c++20", "-arch=sm_90a", "-ptx", "-o", os.devnull, f"-I{SRC}"]
        self.assertEqual(errors(include(DEVICE), command), "")


if __name__ == "__main__":
    cxx, build, *cuda = sys.argv[1:]
    nvcc, *cuda_includes = cuda or [""]
    unittest.main(argv=sys.argv[:1])
