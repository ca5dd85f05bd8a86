"""A small made-up ladder in a temporary folder, for tests of scripts. Its figures are synthetic."""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import traceback
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
sys.path.insert(0, str(SCRIPTS))

KERNEL = """\
// {id} {word}: made up.
//
// before: nothing
// idea:   none
// watch:  "// not a comment" below
// needs:  any GPU
{includes}#include "rung.h"

namespace {{
{helper}
template <class T>
__global__ void gemm_{tag}(GemmArgs<T> p) {{
  const char* url = "http://x";  // a comment
  // [region idea]
#pragma unroll
  for (int i = 0; i < {steps}; ++i) work(i);
  // [/region idea]
  finish({steps});
}}

const Registration rung({{.prev = "{prev}",
                         .idea = "made-up "
                                 "{word}",
                         .needs = {{.sm = 80}}}},
                        {{{entries}}});

}}  // namespace
"""
HELPER = """
template <class T>
GEMM_DEVICE void work(int i) {
  step(i);
}
"""
PAGE = """\
# A page

<!-- embed:region kernels/v02_second.cu idea -->
<!-- /embed -->
<!-- embed:header kernels/v02_second.cu -->
<!-- /embed -->
<!-- embed:diff v02 -->
<!-- /embed -->
<!-- embed:row v2 -->
stale
<!-- /embed -->
<!-- embed:core -->
<!-- /embed -->
<!-- embed:index -->
<!-- /embed -->
<!-- embed:conditions -->
<!-- /embed -->

the end
"""
CONTEXT = {
    "gpu": "NVIDIA H200",
    "driver": "1.2",
    "cuda_runtime": "13.0",
    "cublas": "13.1",
    "power_limit_w": "700",
    "l2": "cold",
    "git_revision": "abcdef0",
    "peak_ffma_tflops": "64",
    "peak_tensor_f16_tflops": "800",
    "peak_tensor_tf32_tflops": "400",
}


def entry(rung: str, dtype: str, size: int, tflops: float, baseline: float) -> dict:
    return {
        "name": f"{rung}/{dtype}/nn/{size}x{size}x{size}",
        "run_type": "iteration",
        "label": "cuBLASLt#3",
        "m": size,
        "n": size,
        "k": size,
        "ratio": tflops / baseline,
        "TFLOPS": tflops,
        "TFLOPS_p10": 0.9 * tflops,
        "TFLOPS_p90": 1.1 * tflops,
        "baseline_TFLOPS": baseline,
    }


def failed(rung: str, dtype: str, size: int, why: str) -> dict:
    name = f"{rung}/{dtype}/nn/{size}x{size}x{size}"
    return {"name": name, "run_type": "iteration", "error_occurred": True, "error_message": why}


ENTRIES = [
    entry("v01_first", "f32", 1024, 2, 40),
    entry("v01_first", "f32", 4096, 5, 50),
    entry("v01_first", "f16", 4096, 4, 640),
    entry("v02_second", "f32", 1024, 8, 40),
    failed("v02_second", "f32", 2048, "rows not aligned"),
    entry("v02_second", "f32", 4096, 15, 50),
    entry("v02_second", "f32", 8192, 16, 50),
    entry("v03_third", "tf32", 4096, 100, 350),
]


def forked(command: list[str]) -> tuple[int, str, str]:
    """A Python script's exit status and what it writes. It runs in a fork of this process: to start
    Python and to import matplotlib takes longer than most scripts do."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            status: int | str | None = 1
            try:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
                sys.argv = command
                runpy.run_path(command[0], run_name="__main__")
                status = 0
            except SystemExit as end:
                status = end.code  # a sentence is written, and is a 1
            except BaseException:
                traceback.print_exc()
            if isinstance(status, str):
                print(status, file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1 if isinstance(status, str) else status or 0)
        _, ended = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        return os.waitstatus_to_exitcode(ended), out.read(), err.read()


class Fixture(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        for part in ("kernels", "src/device", "plots/results/h200"):
            (self.root / part).mkdir(parents=True)
        self.kernel("v01_first", "", 1, "f32(launch<float>), f16(launch<half>)", helper=HELPER)
        both = "f32(launch<float>), f16(launch<half>)"
        self.kernel("v02_second", "v1", 2, both, includes='#include "device/work.cuh"\n')
        self.kernel(
            "v03_third", "v2", 2, "tf32(launch<float>)", includes='#include "device/work.cuh"\n'
        )
        (self.root / "src/device/work.cuh").write_text(HELPER)
        self.page = self.root / "page.md"
        self.page.write_text(PAGE)

    def kernel(
        self, name: str, prev: str, steps: int, entries: str, helper: str = "", includes: str = ""
    ) -> None:
        tag, word = name.split("_")
        text = KERNEL.format(
            id=f"v{int(tag[1:])}",
            tag=tag,
            word=word,
            prev=prev,
            steps=steps,
            entries=entries,
            helper=helper,
            includes=includes,
        )
        (self.root / "kernels" / f"{name}.cu").write_text(text)

    def measure(
        self,
        entries: list[dict] = ENTRIES,
        gpu: str = "h200",
        file: str = "ladder.json",
        context: dict[str, str] = CONTEXT,
    ) -> None:
        path = self.root / "plots/results" / gpu / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"context": context, "benchmarks": entries}))

    def script(self, name: str, *args: str, status: int = 0) -> str:
        """Runs scripts/<name> on the made-up ladder; its output, stdout then stderr."""
        returned, told, complaints = forked([str(SCRIPTS / name), *args, "--root", str(self.root)])
        self.assertEqual(returned, status, told + complaints)
        if status == 2:
            self.assertEqual(len(complaints.splitlines()), 1, complaints)
        return told + complaints
