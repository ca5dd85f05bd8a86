"""The C interface of include/gemm/gemm.h by ctypes: structures, functions, and errors as exceptions."""

from __future__ import annotations

import ctypes
import functools
import operator
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

CURRENT_DEVICE, SIMULATOR = -1, -2
TYPES = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")  # by gemm_type
BYTES = (4, 2, 2, 1, 1)
ALLOWED_TYPES = f"{', '.join(TYPES[:-1])} and {TYPES[-1]}"
COMPUTE = ("exact", "tf32", "fast_sums", "block_scales")  # gemm_compute
SCALE_OF = ("tensor", "row", "1x128", "128x128")  # gemm_scale_of
COLLECTIVES = ("all_gather", "reduce_scatter", "all_reduce")  # gemm_collective
ACTIVATIONS = (None, "relu", "leaky_relu", "gelu", "silu", "gelu_erf")  # gemm_activation
BACKENDS = ("simulator", "gpu", None)
PLAN_WORDS = 64  # of 8 bytes, in a gemm_plan
LARGEST_FLOAT = 3.4028235677973366e38  # what float32 rounds to infinity
LONG = 2**28  # multiplications that take the simulator half a second or more


class Error(RuntimeError):
    """The library refused a call or failed. Its text is one line."""


class BadArgument(Error, ValueError):
    """GEMM_BAD_ARGUMENT: a mistake of the caller."""


class Unsupported(Error, NotImplementedError):
    """GEMM_UNSUPPORTED: no kernel computes this, or not on this GPU."""


class NoDevice(Error):
    """GEMM_NO_DEVICE: no such GPU, no driver, too old a one, or a package without kernels for GPUs."""


class OutOfMemory(Error, MemoryError):
    """GEMM_OUT_OF_MEMORY: no memory for a workspace or for a kernel's code."""


class LaunchRefused(Error):
    """GEMM_LAUNCH_REFUSED: CUDA refused a call; the device goes on."""


class DeviceFault(Error):
    """GEMM_DEVICE_FAULT: the device's context is broken, and lost to this process."""


class InternalError(Error):
    """GEMM_INTERNAL_ERROR: a mistake of the library."""


class RankFailed(Error):
    """GEMM_RANK_FAILED: another process of a sharded product failed, ended or did not come."""


# The index is the gemm_status.
_ERRORS = (
    *(Error, BadArgument, Unsupported, NoDevice),
    *(OutOfMemory, LaunchRefused, DeviceFault, InternalError, RankFailed),
)


def shown(value: Any) -> str:
    """A value in an error: one short line of text."""
    try:
        told = " ".join(ascii(value).split())
    except Exception:  # its own __repr__
        told = f"a {type(value).__name__}"
    told = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in told)
    return told if len(told) <= 60 else told[:57] + "..."


def choice(name: str, value: Any, allowed: tuple[Optional[str], ...]) -> Any:
    """The value, which is one of these words, and where None is among them may be that."""
    if not (value is None or isinstance(value, str)) or value not in allowed:
        words = ", ".join(f'"{word}"' for word in allowed if word is not None)
        words += " and None" if None in allowed else ""
        raise ValueError(f"{name} is {shown(value)}: allowed are {words}")
    return value


def integer(name: str, value: Any) -> int:
    """As C's int64 takes it: ctypes would cut what is larger."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {shown(value)}: wanted is an integer") from None
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{name} is {shown(number)}: allowed are integers of 64 bits")
    return number


def small_integer(name: str, value: Any) -> int:
    """As C's int takes it."""
    number = integer(name, value)
    if not -(2**31) <= number < 2**31:
        raise ValueError(f"{name} is {number}: allowed are integers of 32 bits")
    return number


def flag(name: str, value: Any) -> bool:
    """True, False, 1 and 0, NumPy's too: any other object also has a truth."""
    if type(value).__name__ not in ("bool", "bool_", "int") or value not in (0, 1):
        raise TypeError(f"{name} is {shown(value)}: allowed are True and False")
    return bool(value)


def real(name: str, value: Any) -> float:
    """As C's float takes it: ctypes would make infinity of what is larger."""
    if getattr(value, "requires_grad", False):
        raise ValueError(f"{name} keeps no gradient: give a number, such as {name}.item()")
    try:
        # float() reads text, and drops an imaginary part and a mask.
        if not hasattr(value, "__float__") or hasattr(value, "mask") or _is_complex(value):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise TypeError(f"{name} is {shown(value)}: wanted is a number of float32") from None
    if abs(number) > LARGEST_FLOAT and (abs(number) < float("inf") or value != number):
        raise ValueError(f"{name} is {shown(value)}: allowed are numbers of float32")
    return number


def _is_complex(value: Any) -> bool:
    return getattr(getattr(value, "dtype", None), "kind", "") == "c"


def listed(name: str, arrays: Any) -> list[Any]:
    try:
        return list(arrays)
    except TypeError:
        told = f"{name} is a {type(arrays).__name__}: wanted is a list of matrices"
        raise TypeError(told) from None


def rung_name(rung: Any) -> Optional[bytes]:
    """As C takes it; None: the best one."""
    if rung is None:
        return None
    if not isinstance(rung, str):
        raise TypeError(f'rung is a {type(rung).__name__}: wanted is a name, such as "v6"')
    if not rung.isascii() or not rung.isprintable() or len(rung) > 100:
        raise ValueError(f"there is no rung {shown(rung)}: gemm_ladder.rungs() lists them")
    return rung.encode()


class Problem(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("compute", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "lda", "ldb", "ldc")),
        *((name, ctypes.c_int32) for name in ("type_a", "type_b", "type_c", "op_a", "op_b")),
        *((name, ctypes.c_int32) for name in ("align_a", "align_b", "align_c")),
        *((name, ctypes.c_int64) for name in ("batch", "stride_a", "stride_b", "stride_c")),
        *((name, ctypes.c_int32) for name in ("gated", "invariant")),
    ]


class Epilogue(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("alpha", ctypes.c_float),
        ("beta", ctypes.c_float),
        ("activation", ctypes.c_int32),
        ("slope", ctypes.c_float),
        ("reserved", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("bias", "row_bias")),
        *((name, ctypes.c_void_p) for name in ("scale_columns", "scale_rows", "residual")),
        ("ld_residual", ctypes.c_int64),
        *(("scales_a", ctypes.c_void_p), ("ld_scales_a", ctypes.c_int64)),
        *(("scales_b", ctypes.c_void_p), ("ld_scales_b", ctypes.c_int64)),
    ]


class Quantisation(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("scale_of", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("rows", "cols", "ldx", "ldq")),
        *((name, ctypes.c_int32) for name in ("type_x", "type_q")),
        ("ld_scales", ctypes.c_int64),
    ]


class ShardedProblem(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("collective", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("m", "n", "k")),
        *((name, ctypes.c_int32) for name in ("type", "op_b", "ranks", "reserved")),
    ]


class ShardedOperands(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("reserved", ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ("a", "b", "c")),
        *((name, ctypes.c_int64) for name in ("lda", "ldb", "ldc")),
        ("stream", ctypes.c_void_p),
    ]


# all-gather of (context, mine, all, bytes): 0 when done.
Exchange = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
)


class Rank(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("rank", "device", "time_limit")),
        ("exchange", Exchange),
        ("context", ctypes.c_void_p),
    ]


class RungRecord(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("compute", "type_a", "type_b", "type_c")),
        *((name, ctypes.c_int32) for name in ("transposed", "approximate", "runs")),
        *((name, ctypes.c_char_p) for name in ("id", "name", "idea")),
    ]


_Asked = ctypes.CFUNCTYPE(ctypes.c_int)
_raised: list[BaseException] = []


def _signals() -> Iterator[int]:
    """Asks Python for signals when it goes on: what their handlers raise comes up at the yield."""
    try:
        while True:
            yield 0
    except BaseException as error:
        _raised.append(error)


class Library:
    """One opened library. Its functions take addresses as plain integers: nothing is wrapped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            opened = ctypes.CDLL(str(path))  # releases the interpreter's lock during a call
        except OSError as error:
            raise Error(f"{path.name} cannot be opened: {error}") from None
        pointer, integer = ctypes.c_void_p, ctypes.c_int

        def function(name: str, *arguments: Any, returns: Any = ctypes.c_int) -> Any:
            found = getattr(opened, name)
            found.argtypes, found.restype = arguments, returns
            return found

        self.matmul = function("gemm_matmul", *[pointer] * 6, integer)
        self.grouped_matmul = function("gemm_grouped_matmul", *[pointer] * 7, integer)
        self.batched_matmul = function("gemm_batched_matmul", *[pointer] * 6, integer)
        self.run = function("gemm_run", *[pointer] * 6)
        self.quantise = function("gemm_quantise", *[pointer] * 5, integer)
        self.plan_create = function("gemm_plan_create", pointer, integer, pointer)
        self.plan_create_with = function(
            "gemm_plan_create_with", pointer, integer, ctypes.c_char_p, pointer
        )
        self.use_tuning = function("gemm_use_tuning", ctypes.c_char_p)
        self.plan_explain = function("gemm_plan_explain", pointer, pointer, ctypes.c_size_t)
        self.plan_workspace_size = function("gemm_plan_workspace_size", pointer, pointer)
        self.shard_rows = function("gemm_shard_rows", pointer, integer, pointer, pointer)
        self.sharded_create = function(
            "gemm_sharded_create", pointer, pointer, ctypes.c_char_p, pointer
        )
        self.sharded_create_rank = function(
            "gemm_sharded_create_rank", pointer, pointer, ctypes.c_char_p, pointer
        )
        self.sharded_explain = function("gemm_sharded_explain", pointer, pointer, ctypes.c_size_t)
        self.sharded_run = function("gemm_sharded_run", pointer, pointer)
        self.sharded_destroy = function("gemm_sharded_destroy", pointer)
        self.rung_count = function("gemm_rung_count", integer, pointer)
        self.rung_get = function("gemm_rung_get", integer, integer, pointer)
        self.gpu_count = function("gemm_gpu_count", pointer)
        self.last_error = function("gemm_last_error", returns=ctypes.c_char_p)
        self.version = function("gemm_version", returns=ctypes.c_char_p)
        self.backend = function("gemm_backend", returns=ctypes.c_char_p)
        self.set_interrupt = function("gemm_set_interrupt", _Asked)

    def listen(self) -> None:
        """Lets signals end a product, such as Ctrl-C's."""
        signals = _signals()
        next(signals)
        # No frame of Python around the generator's: there a handler's exception would get lost.
        self.asked = _Asked(functools.partial(next, signals, 1))
        self.set_interrupt(self.asked)

    def check(self, status: int) -> None:
        if status != 0:
            if _raised:
                self.listen()
                raise _raised.pop()
            kind = _ERRORS[status] if status < len(_ERRORS) else Error
            raise kind(self.last_error().decode(errors="replace"))

    def count(self, function: Any, *arguments: Any) -> int:
        """What a function writes to its last argument, an int."""
        found = ctypes.c_int()
        self.check(function(*arguments, ctypes.addressof(found)))
        return found.value


def folder() -> Path:
    """Where the libraries lie: in the package, or where GEMM_LADDER_LIBRARIES points."""
    told = os.environ.get("GEMM_LADDER_LIBRARIES")
    return Path(told) if told else Path(__file__).parent / "lib"


_opened: dict[str, Library] = {}
_opening = threading.Lock()


def _open(kind: str) -> Library:
    with _opening:
        if kind in _opened:
            return _opened[kind]
        gpu, sim = folder() / "libgemm_ladder.so", folder() / "libgemm_ladder_sim.so"
        if kind == "simulator":
            path = sim if sim.exists() else gpu  # without CUDA the one library is the simulator
            if not path.exists():
                raise Error(f"there is no {sim.name} in {folder()}")
            library = Library(path)
        else:
            library = Library(gpu) if gpu.exists() else None  # type: ignore[assignment]
            if library is None or library.backend() != b"cuda":
                raise NoDevice(
                    "this package has no kernels for GPUs: it was built without a CUDA toolkit; "
                    'backend="simulator" computes without one'
                )
        library.listen()  # none that was refused: it would be called after it is gone
        _opened[kind] = library
        return library


_told = False


def tell_of_simulator(device: int, multiplications: int) -> None:
    """Warns once per process, before the first product that takes long."""
    global _told
    if multiplications < LONG or device != SIMULATOR or _told:
        return
    _told = True
    warnings.warn(
        "gemm_ladder computes host memory in its simulator of a GPU, which is for learning and testing "
        "and takes long for products of this size: give CUDA tensors, or NumPy arrays with "
        'backend="gpu"',
        stacklevel=3,
    )


_forked_from_gpu = False


def _after_fork() -> None:
    global _opening, _forked_from_gpu
    _opening = threading.Lock()  # whoever held it is not there
    _forked_from_gpu = "gpu" in _opened


os.register_at_fork(after_in_child=_after_fork)


def simulator() -> Library:
    return _opened.get("simulator") or _open("simulator")


def cuda() -> Library:
    """The library with kernels for GPUs, opened when first needed. Raises NoDevice."""
    if _forked_from_gpu:
        raise NoDevice(
            "CUDA cannot be used in a child of fork() whose parent may have used it: start the "
            'process with multiprocessing\'s "spawn"'
        )
    return _opened.get("gpu") or _open("gpu")


def gpu_count() -> int:
    """How many GPUs the library can use: 0 without a driver or without kernels for GPUs."""
    try:
        library = cuda()
    except NoDevice:
        return 0
    return library.count(library.gpu_count)


def library_and_device(backend: str | None) -> tuple[Library, int]:
    """For what needs no matrices. None: the current GPU where there is one, else the simulator."""
    choice("backend", backend, BACKENDS)
    if backend == "gpu" or (backend is None and gpu_count() > 0):
        return cuda(), CURRENT_DEVICE
    return simulator(), SIMULATOR
