"""Memory of the current GPU by CUDA's driver, which every machine with a GPU has. For NumPy arrays."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from ._library import Error, NoDevice, OutOfMemory

OUT_OF_MEMORY = 2


@cache
def _driver() -> Any:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise NoDevice("there is no GPU: no NVIDIA driver") from None
    address, size = ctypes.c_uint64, ctypes.c_size_t
    driver.cuMemAlloc_v2.argtypes = [ctypes.c_void_p, size]
    driver.cuMemFree_v2.argtypes = [address]
    driver.cuMemcpyHtoD_v2.argtypes = [address, ctypes.c_void_p, size]
    driver.cuMemcpyDtoH_v2.argtypes = [ctypes.c_void_p, address, size]
    return driver


def _check(name: str, status: int) -> None:
    if status == OUT_OF_MEMORY:
        raise OutOfMemory(f"{name}: no memory on the GPU")
    if status != 0:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(status, ctypes.byref(text))
        raise Error(f"{name}: {(text.value or b'error').decode()} ({status})")


class Context:
    """The context that CUDA's runtime uses on the GPU of this thread; GPU 0 when it has chosen none."""

    def __enter__(self) -> None:
        driver = _driver()
        _check("cuInit", driver.cuInit(0))
        current = ctypes.c_void_p()
        _check("cuCtxGetCurrent", driver.cuCtxGetCurrent(ctypes.byref(current)))
        self.pushed = current.value is None
        if self.pushed:
            device = ctypes.c_int()
            _check("cuDeviceGet", driver.cuDeviceGet(ctypes.byref(device), 0))
            retain = driver.cuDevicePrimaryCtxRetain  # never given back: the runtime keeps it, too
            _check("cuDevicePrimaryCtxRetain", retain(ctypes.byref(current), device))
            _check("cuCtxPushCurrent", driver.cuCtxPushCurrent_v2(current))

    def __exit__(self, *_: object) -> None:
        if self.pushed:
            _driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


class Buffers:
    """Device memory for the time of a block: a pointer for each size, 0 for none."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.pointers, self.context = sizes, list[int](), Context()

    def __enter__(self) -> list[int]:
        self.context.__enter__()
        try:
            for size in self.sizes:
                pointer = ctypes.c_uint64()
                if size:
                    status = _driver().cuMemAlloc_v2(ctypes.byref(pointer), size)
                    _check(f"cuMemAlloc of {size} bytes", status)
                self.pointers.append(pointer.value)
        except BaseException:
            self.__exit__()
            raise
        return self.pointers

    def __exit__(self, *_: object) -> None:
        for pointer in self.pointers:
            if pointer:
                _driver().cuMemFree_v2(pointer)
        self.context.__exit__()


def to_device(device: int, host: int, size: int) -> None:
    if size:
        _check("cuMemcpyHtoD", _driver().cuMemcpyHtoD_v2(device, host, size))


def to_host(host: int, device: int, size: int) -> None:
    """Waits for the default stream first."""
    if size:
        _check("cuMemcpyDtoH", _driver().cuMemcpyDtoH_v2(host, device, size))
