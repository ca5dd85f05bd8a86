#!/usr/bin/env python3
"""Puts into a wheel the licences of what it holds of others: libraries that auditwheel copied, and what is linked in.

  scripts/wheel_licences.py WHEEL     scripts/release.sh runs it

Debian's packages have them in /usr/share/doc. Exit status: 0, 2 a licence was not found.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from auditwheel.wheeltools import InWheelCtx

# Of each package that is linked in, or is headers: a file by which it is found.
LINKED = (
    "libboost_context.a",
    "libbacktrace.a",
    "fmt/format.h",
    "nlohmann/json.hpp",
    "CLI/CLI.hpp",
)
COMMON = Path("/usr/share/common-licenses")
# What is theirs in a text of all Boost's, 2 MB, and of all GCC's.
PARTS = {
    "libboost_context.a": re.compile(r"^License: BSL-1\.0\n(?: .+\n){9,}", re.M),
    "libbacktrace.a": re.compile(r"^The libbacktrace library is .*?\n(?=\n\n)", re.M | re.S),
}


def refuse(told: str) -> None:
    print(f"wheel_licences.py: {told}", file=sys.stderr)
    sys.exit(2)


def package_of(file: str) -> str:
    """The installed package that has it, or ""."""
    command = ["dpkg-query", "--search", f"*/{file}"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return re.split("[:,]", found)[0]


def licence_of(file: str) -> tuple[str, str]:
    """A package's name and its licence."""
    package = package_of(file)
    text = Path("/usr/share/doc", package or "?", "copyright")
    if not text.is_file():
        refuse(f"no package of Debian or Ubuntu that has {file} and its licence is installed")
    told = text.read_text()
    part = PARTS[file].search(told) if file in PARTS else None
    return package, part[0] if part else told


def licence_of_cuda() -> tuple[str, str]:
    """NVIDIA's, whose runtime is linked in: from a package, or from the toolkit."""
    if package_of("libcudart_static.a"):
        return licence_of("libcudart_static.a")
    nvcc = Path(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc").resolve()
    toolkit = nvcc.parent.parent
    for pattern in ("EULA.txt", "doc/EULA.txt", "dist-info/nvidia_cuda_runtime*/**/License.txt"):
        for text in toolkit.glob(pattern):
            return "cuda-runtime", text.read_text()
    refuse(f"there is no EULA.txt in {toolkit}")
    raise AssertionError


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    with InWheelCtx(wheel, wheel) as unpacked:
        copied = [re.sub(r"-[0-9a-f]{8}(?=\.)", "", f.name) for f in unpacked.path.glob("*.libs/*")]
        licences = dict(licence_of(file) for file in [*copied, *LINKED])
        if (unpacked.path / "gemm_ladder/lib/libgemm_ladder.so").exists():
            licences.update([licence_of_cuda()])
        for told in list(licences.values()):
            for name in re.findall(rf"{COMMON}/([\w.-]*\w)", told):
                licences.setdefault(name, (COMMON / name).read_text())
        folder = next(unpacked.path.glob("*.dist-info")) / "licenses"
        for name, told in licences.items():
            (folder / f"{name}.txt").write_text(told)


if __name__ == "__main__":
    main()
