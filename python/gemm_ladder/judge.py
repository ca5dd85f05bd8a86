"""A judge for any function that multiplies matrices: Triton, CuTe, torch.compile, cuTile, NumPy, ctypes.

    import gemm_ladder
    result = gemm_ladder.judge(f, dtype="bf16", shapes="4096", layout="nt")

f(a, b) returns a @ b, or f(a, b, out=c) writes it. It gets torch tensors on a GPU, NumPy arrays in
the simulator, and is judged as a rung is: the same passes, the same pairs against cuBLAS and cuBLASLt,
the same table and JSON. docs/own_kernels.md has more. From the shell, in a process of its own:

    python -m gemm_ladder.judge file.py:function --dtype bf16 --layout nt --shapes 4096
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import inspect as signatures
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional

from ._library import BadArgument, Error, folder

VERIFIED, WRONG, BAD_INPUT, FAILED = range(4)  # gemm_bench's exit status
NAMES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
DTYPES = ("f32", "f16", "bf16", "f16_f32", "bf16_f32")  # those whose elements others have, too
BYTES = {"f32": 4, "f16": 2, "bf16": 2}


class _Call(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_int32) for name in ("m", "n", "k", "transposed_a", "transposed_b")],
        *[(name, ctypes.c_int64) for name in ("lda", "ldb", "ldc")],
        *[(name, ctypes.c_void_p) for name in ("a", "b", "c", "stream")],
        ("dtype", ctypes.c_char_p),
    ]


_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_Call))


@dataclass
class Judgement:
    """What the harness found: `ok` where every result was right, and gemm_bench's JSON."""

    status: int
    context: dict[str, Any] = field(default_factory=dict)
    benchmarks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.status == VERIFIED


def _elements(dtype: str) -> tuple[str, str]:
    """The types of A and B, and of C: bf16_f32 is "bf16", "f32"."""
    first, _, last = dtype.partition("_")
    return first, last or first


class _Numpy:
    """Matrices in host memory. bfloat16 is not one of NumPy's types."""

    def __init__(self) -> None:
        import numpy

        self.numpy = numpy

    def array(self, pointer: int, element: str, rows: int, cols: int, ld: int) -> Any:
        numpy = self.numpy
        if element == "bf16":
            raise TypeError("NumPy has no bfloat16: want f32 or f16, or torch and a GPU")
        if pointer is None or rows == 0 or cols == 0:
            return numpy.empty((rows, cols), {"f32": "float32", "f16": "float16"}[element])
        of = numpy.dtype({"f32": "float32", "f16": "float16"}[element])
        size = ((rows - 1) * ld + cols) * of.itemsize
        memory = (ctypes.c_char * size).from_address(pointer)
        return numpy.ndarray((rows, cols), of, memory, strides=(ld * of.itemsize, of.itemsize))

    def transposed(self, x: Any) -> Any:
        return x.T

    def copy(self, c: Any, result: Any) -> None:
        c[...] = result

    def within(self, stream: Optional[int]) -> Any:
        import contextlib

        return contextlib.nullcontext()


class _DeviceMemory:
    """A matrix in a GPU's memory, as torch takes it over."""

    def __init__(self, pointer: int, rows: int, cols: int, ld: int, element: str) -> None:
        size = BYTES[element]
        self.__cuda_array_interface__ = {
            "data": (pointer, False),
            "shape": (rows, cols),
            "strides": (ld * size, size),
            "typestr": {"f32": "<f4", "f16": "<f2", "bf16": "<i2"}[element],
            "version": 3,
        }


class _Torch:
    def __init__(self) -> None:
        import torch

        self.torch = torch

    def array(self, pointer: int, element: str, rows: int, cols: int, ld: int) -> Any:
        torch = self.torch
        if pointer is None or rows == 0 or cols == 0:
            of = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[element]
            return torch.empty((rows, cols), dtype=of, device="cuda")
        x = torch.as_tensor(_DeviceMemory(pointer, rows, cols, ld, element), device="cuda")
        return x.view(torch.bfloat16) if element == "bf16" else x

    def transposed(self, x: Any) -> Any:
        return x.t()

    def copy(self, c: Any, result: Any) -> None:
        c.copy_(result)

    def within(self, stream: Optional[int]) -> Any:
        return self.torch.cuda.stream(self.torch.cuda.ExternalStream(stream or 0))


def _library() -> Any:
    told = os.environ.get("GEMM_LADDER_JUDGE")
    path = Path(told) if told else folder() / "libgemm_judge.so"
    if not path.exists():
        raise Error(
            f"there is no {path.name} in {path.parent}: `ninja -C build gemm_judge` builds it, and "
            "GEMM_LADDER_JUDGE may name it"
        )
    library = ctypes.CDLL(str(path))
    library.gemm_judge.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, _FUNCTION, ctypes.c_int,
        ctypes.POINTER(ctypes.c_char_p),
    ]  # fmt: skip
    library.gemm_judge_backend.restype = ctypes.c_char_p
    return library


class _Caller:
    """The function as the harness calls it. What it raises becomes a sentence."""

    def __init__(self, function: Callable[..., Any], arrays: Any) -> None:
        self.function, self.arrays = function, arrays
        self.said = b""
        try:
            self.takes_out = "out" in signatures.signature(function).parameters
        except (TypeError, ValueError):  # of C: torch.mm
            self.takes_out = False

    def __call__(self, call: Any) -> Optional[int]:
        try:
            self.run(call.contents)
            return None
        except BaseException as error:  # noqa: B036  also sys.exit: a judge's process goes on
            text = f"the function raised {type(error).__name__}: {error}"
            self.said = text.encode("ascii", "backslashreplace")
            return ctypes.cast(ctypes.c_char_p(self.said), ctypes.c_void_p).value

    def run(self, c: Any) -> None:
        inputs, output = _elements(c.dtype.decode())
        array, transposed = self.arrays.array, self.arrays.transposed
        with self.arrays.within(c.stream):
            if c.transposed_a:
                a = transposed(array(c.a, inputs, c.k, c.m, c.lda))
            else:
                a = array(c.a, inputs, c.m, c.k, c.lda)
            if c.transposed_b:
                b = transposed(array(c.b, inputs, c.n, c.k, c.ldb))
            else:
                b = array(c.b, inputs, c.k, c.n, c.ldb)
            out = array(c.c, output, c.m, c.n, c.ldc)
            if self.takes_out:
                self.function(a, b, out=out)
                return
            result = self.function(a, b)
            if tuple(result.shape) != (c.m, c.n):
                raise ValueError(f"the result is {tuple(result.shape)}, not {(c.m, c.n)}")
            self.arrays.copy(out, result)


def _shapes(shapes: str | Sequence[Any]) -> list[str]:
    """gemm_bench's options for "layers", "4096", "512x64x128,1024", a number, a file, or a list."""
    if isinstance(shapes, str):
        named = Path(__file__).parents[2] / "bench" / "shapes" / f"{shapes}.txt"
        for file in (Path(shapes), named):
            if file.is_file():
                return ["--shapes", str(file)]
        shapes = shapes.split(",")
    elif isinstance(shapes, int):
        shapes = [shapes]
    options: list[str] = []
    for shape in shapes:
        text = "x".join(map(str, shape)) if isinstance(shape, (tuple, list)) else str(shape)
        if not re.fullmatch(r"\d+(x\d+x\d+)?", text):
            raise BadArgument(
                f"shapes has {text!r}: want 4096, 512x64x128, a file, or a set such as layers"
            )
        options += ["--size" if text.isdigit() else "--shape", text]
    return options


def judge(
    function: Callable[..., Any],
    dtype: str = "float32",
    shapes: str | Sequence[Any] = "256,129x65x250",
    layout: str = "nn",
    *,
    beside: str = "",
    contiguous: bool = False,
    verify_only: bool = False,
    quick: bool = False,
    backend: Optional[str] = None,
    json_file: str | os.PathLike[str] | None = None,
) -> Judgement:
    """Judges a function that multiplies matrices, prints the table, and returns what was found.

    dtype is "float32", "float16", "bfloat16", or a name of gemm_bench; layout "nn", "nt", "tn" or
    "tt". beside names rungs for the same table ("v28"). contiguous: the function takes matrices whose
    rows follow each other without gaps alone. A process judges once.
    """
    name = re.sub(r"\W", "_", getattr(function, "__name__", type(function).__name__)) or "function"
    dtype = NAMES.get(dtype, dtype)
    if dtype not in DTYPES:
        raise BadArgument(f"dtype is {dtype!r}: allowed are {', '.join([*NAMES, *DTYPES])}")
    library = _library()
    on_gpu = backend != "simulator" and library.gemm_judge_backend() == b"gpu"
    caller = _Caller(function, _Torch() if on_gpu else _Numpy())
    with tempfile.TemporaryDirectory() as there:
        report = Path(json_file) if json_file is not None else Path(there, "report.json")
        options = ["judge", "--kernel", ",".join(filter(None, (name, beside))), "--dtype", dtype]
        options += ["--op", layout, "--json", str(report), *_shapes(shapes)]
        options += ["--backend", "gpu" if on_gpu else "sim"]
        options += ["--verify-only"] * verify_only + ["--quick"] * (quick and on_gpu)
        arguments = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        status = library.gemm_judge(
            name.encode(),
            dtype.encode(),
            int(contiguous),
            _FUNCTION(caller),
            len(options),
            arguments,
        )
        if status == BAD_INPUT:
            raise BadArgument("the command line was refused, or nothing was verified: see above")
        if not report.exists():
            return Judgement(status)
        found = json.loads(report.read_text())
    return Judgement(status, found.get("context", {}), found.get("benchmarks", []))


def _load(spec: str) -> Callable[..., Any]:
    path, _, name = spec.rpartition(":")
    if not path or not Path(path).is_file():
        raise BadArgument(f"{spec!r}: want file.py:function, and a file that is there")
    sys.path.insert(0, str(Path(path).resolve().parent))
    found = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    except Exception as error:
        raise BadArgument(
            f"{path}: {type(error).__name__}: {' '.join(str(error).split())}"
        ) from None
    function = getattr(module, name, None)
    if not callable(function):
        raise BadArgument(f"{path} has no function {name!r}")
    return function


def _main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m gemm_ladder.judge", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("function", help="file.py:function")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--shapes", default="256,129x65x250", help="4096, 512x64x128, ..., layers")
    parser.add_argument("--layout", default="nn", choices=("nn", "nt", "tn", "tt"))
    parser.add_argument("--beside", default="", help="rungs for the same table, such as v28")
    parser.add_argument("--backend", choices=("gpu", "simulator"))
    parser.add_argument("--json", dest="json_file")
    for flag in ("--contiguous", "--verify-only", "--quick"):
        parser.add_argument(flag, action="store_true")
    options = vars(parser.parse_args(arguments))
    spec = options.pop("function")
    marked = os.environ.get("GEMM_LADDER_JUDGE_END")
    if marked is None:
        return _in_own_process(arguments)
    try:
        status = judge(_load(spec), **options).status
    except (BadArgument, Error) as error:
        print(f"judge: {error}", file=sys.stderr)
        status = BAD_INPUT
    sys.stdout.flush()
    os.write(int(marked), bytes([status]))
    return status


def _in_own_process(arguments: list[str]) -> int:
    """Whatever the function does to its process, this one says how it ended."""
    end, marked = os.pipe()
    environment = {**os.environ, "GEMM_LADDER_JUDGE_END": str(marked)}
    done = subprocess.run(
        [sys.executable, "-m", "gemm_ladder.judge", *arguments],
        env=environment, pass_fds=(marked,), check=False,
    )  # fmt: skip
    os.close(marked)
    said = os.read(end, 1)
    os.close(end)
    if said and said[0] == done.returncode:
        return done.returncode
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit {done.returncode}"
    print(f"judge: the function ended its process ({how}) before it was judged", file=sys.stderr)
    return WRONG


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
