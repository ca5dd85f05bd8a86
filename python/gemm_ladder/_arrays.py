"""What a call needs to know of NumPy arrays, torch tensors and CuPy arrays: one class for each."""

from __future__ import annotations

import sys
from typing import Any, Optional

from . import _cuda_memory
from ._library import (
    ALLOWED_TYPES,
    BYTES,
    CURRENT_DEVICE,
    SIMULATOR,
    TYPES,
    Library,
    cuda,
    simulator,
)

# Where a call computes: the library, its device, the stream.
Place = tuple[Library, int, Optional[int]]


class NumpyArrays:
    """Host memory: the simulator, or the GPU by way of copies."""

    name = "NumPy arrays"

    def __init__(self) -> None:
        import numpy

        self.numpy = numpy

    def check(self, x: Any, name: str) -> None:
        """Raises where the array's memory is not what its elements are."""

    def key(self, x: Any) -> Any:
        return x.shape, x.strides, x.dtype

    def strides(self, x: Any) -> tuple[Any, ...]:
        """In elements; a part of one where they are no multiple."""
        return tuple(s / x.itemsize if s % x.itemsize else s // x.itemsize for s in x.strides)

    def type_name(self, x: Any) -> str:
        return x.dtype.name if x.dtype.isnative else f"{x.dtype.name} of the other byte order"

    def pointer(self, x: Any) -> int:
        return x.ctypes.data

    def int32(self, x: Any, rows: int) -> Any:
        """Contiguous; the same where it is so already."""
        if x.dtype.kind not in "iu":
            raise TypeError(f"offsets is {x.dtype.name}: wanted are int32 and int64")
        check_offsets(x.tolist(), rows)
        return self.numpy.ascontiguousarray(x, dtype=self.numpy.int32)

    def written(self, x: Any) -> None:
        """Tells the array's owner that a kernel writes it."""

    def writable(self, x: Any) -> bool:
        return x.flags.writeable

    def empty(self, m: int, n: int, like: Any, type_c: Optional[int]) -> Any:
        """A result of this type; None: of the type of `like`."""
        return self.numpy.empty((m, n), like.dtype if type_c is None else self.dtype(type_c))

    def stack(self, arrays: Any, axis: int) -> Any:
        return self.numpy.stack([self.numpy.asarray(x) for x in arrays], axis)

    def dtype(self, code: int) -> Any:
        own = getattr(self.numpy, TYPES[code], None)
        if own is not None:
            return own
        import ml_dtypes  # whoever has arrays of narrow types has it

        return getattr(ml_dtypes, TYPES[code])

    def assign(self, out: Any, c: Any) -> None:
        check_addend(self, c, out)
        out[...] = c

    def place(self, a: Any, b: Any, out: Any, backend: str | None) -> Place | None:
        """None: on the GPU, by way of copies."""
        return None if backend == "gpu" else (simulator(), SIMULATOR, None)

    def needs_gradient(self, *arrays: Any) -> bool:
        return False


class CupyArrays(NumpyArrays):
    """Device memory, on CuPy's current stream."""

    name = "CuPy arrays"

    def __init__(self) -> None:
        import cupy

        self.numpy = cupy

    def pointer(self, x: Any) -> int:
        return x.__cuda_array_interface__["data"][0]

    def writable(self, x: Any) -> bool:
        return True

    def place(self, a: Any, b: Any, out: Any, backend: str | None) -> Place:
        if backend == "simulator":
            raise ValueError('CuPy arrays are on a GPU: backend="simulator" wants host memory')
        device = a.device.id
        if b.device.id != device or out.device.id != device:
            raise ValueError("a, b and the result are on several GPUs: copy them to one")
        return cuda(), device, self.numpy.cuda.get_current_stream().ptr


class TorchTensors:
    """On a GPU: its memory, on torch's current stream. On the CPU: the simulator."""

    name = "torch tensors"

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.forward = torch.autograd.forward_ad
        self.types = [getattr(torch, name, None) for name in TYPES]  # old ones lack FP8
        self.names = dict(zip(self.types, TYPES))
        # torch.cuda.current_stream() builds an object for it. What Inductor's code calls does not.
        fast = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self.stream = fast or (lambda device: torch.cuda.current_stream(device).cuda_stream)

    def check(self, x: Any, name: str) -> None:
        if x.layout is not self.torch.strided or x.is_nested:
            told = "nested" if x.is_nested else x.layout
            raise TypeError(f"{name} is {told}: allowed are strided tensors, {name}.to_dense()")
        if x.is_neg() or x.is_conj() or x._is_zerotensor():
            raise ValueError(
                f"{name} is a view whose memory has other numbers (conj, imag): give {name}.clone()"
            )
        if self.forward._current_level >= 0 and (
            # torch.func.jvp's tensors come here as their numbers alone.
            self.forward.unpack_dual(x).tangent is not None or _in_jvp(self.torch)
        ):
            raise NotImplementedError(
                f"{name} may have a forward-mode derivative: the kernels have reverse-mode ones alone"
            )

    def key(self, x: Any) -> Any:
        return x.shape, x.stride(), x.dtype

    def strides(self, x: Any) -> tuple[Any, ...]:
        return tuple(x.stride())

    def type_name(self, x: Any) -> str:
        return self.names.get(x.dtype, str(x.dtype))

    def pointer(self, x: Any) -> int:
        try:
            pointer = x.data_ptr()
        except RuntimeError:
            pointer = 0
        if not pointer and x.numel():  # gemm.h takes null for "none"
            raise TypeError(
                f"a {type(x).__name__} without memory, of vmap or of a trace: allowed are tensors "
                "that have their numbers"
            )
        return pointer

    def int32(self, x: Any, rows: int) -> Any:
        if x.dtype not in (self.torch.int32, self.torch.int64):
            raise TypeError(f"offsets is {x.dtype}: wanted are int32 and int64")
        if x.device.type == "cpu":
            check_offsets(x.tolist(), rows)
        elif x.dtype == self.torch.int64:
            x = x.clamp(FIRST, LAST)  # nobody looks: too large stays too large
        return x.to(self.torch.int32).contiguous()

    def written(self, x: Any) -> None:
        if not x.is_inference():
            self.torch.autograd.graph.increment_version(x)  # what autograd has kept of it is void

    def writable(self, x: Any) -> bool:
        return True

    def empty(self, m: int, n: int, like: Any, type_c: Optional[int]) -> Any:
        if type_c is None:
            return like.new_empty((m, n))
        return like.new_empty((m, n), dtype=self.types[type_c])

    def stack(self, arrays: Any, axis: int) -> Any:
        return self.torch.stack(arrays, axis)

    def assign(self, out: Any, c: Any) -> None:
        check_addend(self, c, out)
        if c.device != out.device:
            raise ValueError(f"c is on {c.device} and the result on {out.device}: move c there")
        out.copy_(c)

    def place(self, a: Any, b: Any, out: Any, backend: str | None) -> Place:
        if a.is_cuda:
            device = a.get_device()
            if b.get_device() == device == out.get_device():
                if backend == "simulator":
                    raise ValueError('CUDA tensors: backend="simulator" wants them on the CPU')
                return cuda(), device, self.stream(device)
        if not a.device == b.device == out.device:
            raise ValueError(
                f"a is on {a.device}, b on {b.device}, the result on {out.device}: move them to one"
            )
        if a.device.type != "cpu":
            raise ValueError(f"a is on {a.device}: allowed are cuda and cpu")
        if backend == "gpu":
            raise ValueError('tensors on the CPU: backend="gpu" wants them there, a.cuda()')
        return simulator(), SIMULATOR, None

    def needs_gradient(self, *arrays: Any) -> bool:
        wants = any(x is not None and x.requires_grad for x in arrays)
        return wants and self.torch.is_grad_enabled()


FIRST, LAST = -(2**31), 2**31 - 1  # int32


def check_offsets(offsets: list[int], rows: int) -> None:
    """Where the host can read them."""
    for before, end in zip([0, *offsets], offsets):
        if not 0 <= end <= rows:
            raise ValueError(f"offsets has {end}: allowed are 0 to the rows of a, {rows}")
        if end < before:
            raise ValueError(f"offsets has {end} after {before}: they must not fall")


_KINDS: dict[type, Any] = {}  # by the type of an array


def kind_of(x: Any, name: str) -> Any:
    """The class that knows arrays of this type. Raises TypeError."""
    found = _KINDS.get(type(x))
    if found is None:
        found = _find_kind(x, name)
    found.check(x, name)
    return found


def _find_kind(x: Any, name: str) -> Any:
    for module, array, kind in (
        ("numpy", "ndarray", NumpyArrays),
        ("torch", "Tensor", TorchTensors),
        ("cupy", "ndarray", CupyArrays),
    ):
        imported = sys.modules.get(module)  # whoever has such an array has imported it
        if imported is not None and isinstance(x, getattr(imported, array, ())):
            if _adds_to_elements(x, module):
                raise TypeError(
                    f"{name} is a {type(x).__name__}, whose elements are more than its memory: "
                    f"allowed are plain {kind.name}"
                )
            same = next((k for k in _KINDS.values() if type(k) is kind), None)
            _KINDS[type(x)] = same or kind()
            return _KINDS[type(x)]
    raise TypeError(
        f"{name} is a {type(x).__name__}: allowed are NumPy arrays, torch tensors and CuPy arrays"
    )


def _in_jvp(torch: Any) -> bool:
    return getattr(torch._functorch.eager_transforms, "JVP_NESTING", 1) > 0


def _adds_to_elements(x: Any, module: str) -> bool:
    """Whether its class is one with a mask, a unit, or parts elsewhere: the kernels see memory alone."""
    if module == "torch":
        torch = sys.modules["torch"]
        wraps = type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
        return wraps and not type(x).__module__.startswith("torch._subclasses")  # of a trace
    numpy = sys.modules[module]
    plain = [
        getattr(numpy, known) for known in ("ndarray", "memmap", "matrix") if hasattr(numpy, known)
    ]
    return type(x) not in plain


def check_addend(kind: Any, c: Any, out: Any) -> None:
    if tuple(c.shape) != tuple(out.shape):
        raise ValueError(f"c is {_shape(c.shape)}, and the product is {_shape(out.shape)}")
    if c.dtype != out.dtype:
        raise TypeError(f"c is {kind.type_name(c)} and the result {kind.type_name(out)}: convert c")
    kind.pointer(c)  # a copy would read where there is no memory


def _shape(shape: Any) -> str:
    return " x ".join(map(str, shape))


class Stored:
    """A matrix as gemm.h sees it: its rows and columns, whether it is transposed, its rows' distance."""

    __slots__ = ("rows", "cols", "type", "op", "ld")

    def __init__(self, kind: Any, x: Any, name: str) -> None:
        if len(x.shape) != 2:
            raise ValueError(f"{name} has {len(x.shape)} dimensions: allowed are 2")
        self.rows, self.cols = x.shape
        told = kind.type_name(x)
        if told not in TYPES:
            raise TypeError(f"{name} is {told}: allowed are {ALLOWED_TYPES}")
        self.type = TYPES.index(told)
        found = layout(self.rows, self.cols, *kind.strides(x))
        if found is None:
            raise ValueError(
                f"{name} has the strides {kind.strides(x)} in elements: rows or columns must be "
                "contiguous and not overlap; a contiguous copy will do"
            )
        self.op, self.ld = found


def layout(rows: int, cols: int, s0: Any, s1: Any) -> tuple[int, int] | None:
    """(op, leading dimension) of a matrix with these strides in elements; None: it has neither."""
    if rows == 0 or cols == 0:
        return 0, max(cols, 1)
    if cols == 1 or s1 == 1:
        ld = s0 if rows > 1 else cols
        if isinstance(ld, int) and ld >= cols:
            return 0, ld
    if rows == 1 or s0 == 1:
        ld = s1 if cols > 1 else rows
        if isinstance(ld, int) and ld >= rows:
            return 1, ld
    return None


class Extent:
    """The memory of a matrix: rows of `width` bytes, `pitch` apart."""

    def __init__(self, stored: Stored, pointer: int) -> None:
        rows, cols = stored.rows, stored.cols
        if stored.op:
            rows, cols = cols, rows
        self.first, self.width = pointer, cols * BYTES[stored.type]
        self.pitch = stored.ld * BYTES[stored.type]
        self.bytes = (rows - 1) * self.pitch + self.width if rows and cols else 0

    def overlaps(self, other: Extent) -> bool:
        if not self.bytes or not other.bytes:
            return False
        if self.first >= other.first + other.bytes or other.first >= self.first + self.bytes:
            return False
        if self.pitch == other.pitch:  # columns of one matrix, side by side
            apart = (other.first - self.first) % self.pitch
            return apart < self.width or apart + other.width > self.pitch
        return True


def run_by_copies(
    extents: list[Extent], reads_c: bool, run: Any, results: tuple[int, ...] = (2,)
) -> None:
    """Copies A, B, C and more inputs to the GPU, runs there, and copies C, or all results, back.

    run(library, device, a, b, c, ...).
    """
    library = cuda()
    library.check(0 if library.count(library.gpu_count) else _no_gpu(library))
    c = extents[2]
    with _cuda_memory.Buffers([x.bytes for x in extents]) as copies:
        for copy, extent in zip(copies, extents):
            # What lies between C's rows stays.
            if extent is not c or reads_c or c.pitch != c.width:
                _cuda_memory.to_device(copy, extent.first, extent.bytes)
        run(library, CURRENT_DEVICE, *copies)
        for i in results:
            _cuda_memory.to_host(extents[i].first, copies[i], extents[i].bytes)


def _no_gpu(library: Library) -> int:
    """The status of a call that needs a GPU, where there is none."""
    import ctypes

    from ._library import Problem

    plan = (ctypes.c_uint64 * 64)()
    problem = Problem(size=ctypes.sizeof(Problem), m=1, n=1, k=1)
    return library.plan_create(ctypes.addressof(problem), 0, ctypes.addressof(plan))
