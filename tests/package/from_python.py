"""A call of the library from Python: C = relu(A B + C) on host memory, in the simulator.

python from_python.py libgemm_ladder.so
"""

from __future__ import annotations

import ctypes
import sys

CURRENT_DEVICE, SIMULATOR = -1, -2
F32, RELU = 0, 1


class Problem(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("compute", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in ("m", "n", "k", "lda", "ldb", "ldc")),
        *((name, ctypes.c_int32) for name in ("type_a", "type_b", "type_c", "op_a", "op_b")),
        *((name, ctypes.c_int32) for name in ("align_a", "align_b", "align_c")),
    ]


class Epilogue(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        ("alpha", ctypes.c_float),
        ("beta", ctypes.c_float),
        ("activation", ctypes.c_int32),
        ("slope", ctypes.c_float),
    ]


class Rung(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("compute", "type_a", "type_b", "type_c")),
        *((name, ctypes.c_int32) for name in ("transposed", "approximate", "runs")),
        *((name, ctypes.c_char_p) for name in ("id", "name", "idea")),
    ]


def main() -> int:
    gemm = ctypes.CDLL(sys.argv[1])
    gemm.gemm_last_error.restype = ctypes.c_char_p

    def check(status: int) -> None:
        if status != 0:
            raise RuntimeError(gemm.gemm_last_error().decode())

    a = (ctypes.c_float * 6)(1, 2, 3, 4, 5, 6)  # 2 x 3
    b = (ctypes.c_float * 3)(1, 0, 2)  # 3 x 1
    c = (ctypes.c_float * 2)(10, -20)
    problem = Problem(size=ctypes.sizeof(Problem), m=2, n=1, k=3, type_a=F32)
    epilogue = Epilogue(size=ctypes.sizeof(Epilogue), alpha=1, beta=1, activation=RELU)
    pointers = [ctypes.byref(x) for x in (problem, epilogue, a, b, c)]
    check(gemm.gemm_matmul(*pointers, ctypes.c_void_p(None), SIMULATOR))
    print(*c)

    # A kernel with shared memory, which is thread-local, on several threads.
    side = 200
    x = (ctypes.c_float * (side * side))(*([1] * (side * side)))
    y = (ctypes.c_float * (side * side))()
    square = Problem(size=ctypes.sizeof(Problem), m=side, n=side, k=side)
    square.align_a = square.align_b = square.align_c = 4  # Python's memory is aligned to 16 bytes
    plan = ctypes.create_string_buffer(512)
    by = ctypes.c_char_p(b"v6")
    check(gemm.gemm_plan_create_with(ctypes.byref(square), SIMULATOR, by, plan))
    check(gemm.gemm_run(plan, None, x, x, y, None))
    text = ctypes.create_string_buffer(200)
    check(gemm.gemm_plan_explain(plan, text, ctypes.c_size_t(200)))
    print(text.value.decode(), set(y))

    count = ctypes.c_int()
    check(gemm.gemm_rung_count(SIMULATOR, ctypes.byref(count)))
    rung = Rung(size=ctypes.sizeof(Rung))
    check(gemm.gemm_rung_get(SIMULATOR, 0, ctypes.byref(rung)))
    print(count.value, rung.id.decode(), rung.idea.decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
