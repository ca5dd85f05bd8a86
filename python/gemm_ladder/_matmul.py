"""matmul, plan and rungs: what a call costs but the first time is two look-ups and the library's call."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import Any, Optional

from ._arrays import Extent, Stored, check_addend, kind_of, run_by_copies
from ._library import (
    ACTIVATIONS,
    ALLOWED_TYPES,
    BACKENDS,
    BYTES,
    COMPUTE,
    CURRENT_DEVICE,
    PLAN_WORDS,
    TYPES,
    Epilogue,
    Library,
    Problem,
    RungRecord,
    choice,
    flag,
    integer,
    library_and_device,
    real,
    rung_name,
    shown,
    tell_of_simulator,
)

MOST_KEPT = 4096  # structures in a cache, before it starts anew


class Prepared:
    """A problem that has been checked once. Any number of threads read it."""

    __slots__ = ("problem", "address", "m", "n", "columns", "type_c", "new_type", "a", "b", "bytes",
                 "work")  # fmt: skip

    def __init__(
        self,
        kind: Any,
        a: Any,
        b: Any,
        out: Any,
        out_dtype: Any,
        compute: str,
        gated: bool = False,
        invariant: bool = False,
    ) -> None:
        self.a, self.b = left, right = Stored(kind, a, "a"), Stored(kind, b, "b")
        if left.cols != right.rows:
            raise ValueError(
                f"a is {left.rows} x {left.cols} and b {right.rows} x {right.cols}: "
                "a's columns must be b's rows"
            )
        if left.type != right.type:
            raise TypeError(
                f"a is {TYPES[left.type]} and b {TYPES[right.type]}: convert one of them"
            )
        self.m, self.n = left.rows, right.cols
        if gated and self.n % 2:
            raise ValueError(
                f"b has {self.n} columns: a gated product has an even number, a gate and a value "
                "for each of the result's"
            )
        self.columns = self.n // 2 if gated else self.n  # of the result
        narrow = BYTES[left.type] == 1  # C has another type than A and B
        ldc = self.columns
        self.type_c = TYPES.index("bfloat16") if narrow else left.type
        self.type_c = self.type_c if out_dtype is None else out_dtype
        if out is not None:
            result = Stored(kind, out, "out")
            if (result.rows, result.cols) != (self.m, self.columns):
                raise ValueError(
                    f"out is {result.rows} x {result.cols}, "
                    f"and the product {self.m} x {self.columns}"
                )
            if result.op and self.m and self.n:
                raise ValueError("out is transposed: its rows must be contiguous")
            if out_dtype is not None and result.type != self.type_c:
                raise TypeError(
                    f"out is {TYPES[result.type]} and out_dtype {TYPES[self.type_c]}: give one"
                )
            ldc, self.type_c = result.ld, result.type
        self.problem = Problem(
            size=ctypes.sizeof(Problem),
            compute=compute_code(compute),
            **{"m": self.m, "n": self.n, "k": left.cols},
            **{"lda": left.ld, "ldb": right.ld, "ldc": ldc},
            **{"type_a": left.type, "type_b": right.type, "type_c": self.type_c},
            **{"op_a": left.op, "op_b": right.op},
            **{"gated": int(gated), "invariant": int(invariant)},
        )
        self.address = ctypes.addressof(self.problem)
        self.new_type = None if self.type_c == left.type else self.type_c
        self.bytes = [Extent(x, 0).bytes for x in (left, right, self.stored_c())]
        self.work = self.m * self.n * left.cols  # multiplications

    count = 1  # products

    def empty(self, kind: Any, like: Any) -> Any:
        return kind.empty(self.m, self.columns, like, self.new_type)

    def extents(self, *pointers: int) -> list[Extent]:
        stored = (self.a, self.b, self.stored_c())
        return [Extent(x, p) for x, p in zip(stored, pointers)]

    def check_overlap(self, a: int, b: int, c: int) -> None:
        _check_overlap(self, a, b, c)

    def stored_c(self) -> Stored:
        c = Stored.__new__(Stored)
        c.rows, c.cols, c.type, c.op, c.ld = self.m, self.columns, self.type_c, 0, self.problem.ldc
        return c


class PreparedBatch(Prepared):
    """A Prepared call whose a or b has three dimensions: a product for each index of the first.

    An operand of two dimensions, or whose first one is 1, is shared by all products.
    """

    __slots__ = ("count", "strides")

    def __init__(
        self,
        kind: Any,
        a: Any,
        b: Any,
        out: Any,
        out_dtype: Any,
        compute: str,
        gated: bool = False,
        invariant: bool = False,
    ) -> None:
        first_a, count_a, stride_a = first_matrix(kind, a, "a")
        first_b, count_b, stride_b = first_matrix(kind, b, "b")
        if count_a != count_b and 1 not in (count_a, count_b):
            raise ValueError(
                f"a has {count_a} matrices and b {count_b}: as many as the other, or 1 for all"
            )
        self.count = count_b if count_a == 1 else count_a
        first_out = None
        if out is not None:
            if len(out.shape) != 3:
                raise ValueError(f"out has {len(out.shape)} dimensions: of a batch it has 3")
            first_out, count_out, stride_c = first_matrix(kind, out, "out")
            if count_out != self.count:
                raise ValueError(f"out has {count_out} matrices, and the product {self.count}")
        super().__init__(kind, first_a, first_b, first_out, out_dtype, compute, gated, invariant)
        if out is None:
            stride_c = self.m * self.columns
        self.strides = stride_a, stride_b, stride_c if self.count > 1 else 0
        self.problem.batch = self.count
        self.problem.stride_a, self.problem.stride_b, self.problem.stride_c = self.strides
        self.bytes = [x.bytes for x in self.extents(0, 0, 0)]
        self.work *= self.count

    def empty(self, kind: Any, like: Any) -> Any:
        rows = kind.empty(self.count * self.m, self.columns, like, self.new_type)
        return rows.reshape((self.count, self.m, self.columns))

    def extents(self, *pointers: int) -> list[Extent]:
        found = super().extents(*pointers)
        counts = (self.count if stride else 1 for stride in self.strides)
        codes = self.a.type, self.b.type, self.type_c
        for x, stride, count, code in zip(found, self.strides, counts, codes):
            if self.count == 0:
                x.bytes = 0
            elif count > 1 and x.bytes:
                x.bytes += (count - 1) * stride * BYTES[code]
                x.pitch = 0  # there may be gaps between the matrices
        return found

    def check_overlap(self, a: int, b: int, c: int) -> None:
        of_a, of_b, of_c = self.bytes
        for name, x, of_x in (("a", a, of_a), ("b", b, of_b)):
            if c < x + of_x and x < c + of_c:
                raise ValueError(f"out lies in the memory of {name}, which is read meanwhile")


def first_matrix(kind: Any, x: Any, name: str) -> tuple[Any, int, int]:
    """A batch's first matrix, how many there are, and the elements from one to the next."""
    dimensions = len(x.shape)
    if dimensions == 2:
        return x, 1, 0
    if dimensions != 3:
        raise ValueError(f"{name} has {dimensions} dimensions: allowed are 2, and 3 of a batch")
    count = x.shape[0]
    if count == 0:
        return kind.empty(x.shape[1], x.shape[2], x, None), 0, 0
    stride = kind.strides(x)[0] if count > 1 else 0
    if not isinstance(stride, int) or stride < 0:
        raise ValueError(
            f"{name} has the strides {kind.strides(x)} in elements: matrices must follow each "
            "other; a contiguous copy will do"
        )
    return x[0], count, stride


def type_code(dtype: Any, otherwise: int) -> int:
    """The gemm_type of "float16", numpy.float16 or torch.float16."""
    if dtype is None:
        return otherwise
    try:
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    except Exception:  # its own __str__
        name = ""
    name = name.rpartition(".")[2]
    name = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}.get(name, name)
    if name not in TYPES:
        told = name if name.isidentifier() and len(name) < 60 else shown(dtype)
        raise TypeError(f"the type {told}: allowed are {ALLOWED_TYPES}")
    return TYPES.index(name)


def compute_code(compute: str) -> int:
    return COMPUTE.index(choice("compute", compute, COMPUTE))


_prepared: dict[Any, Prepared] = {}
_epilogues: dict[Any, Epilogue] = {}
_plans: dict[Any, Any] = {}


def keep(cache: dict[Any, Any], key: Any, value: Any) -> Any:
    if len(cache) >= MOST_KEPT:
        cache.clear()  # who still uses one of them holds it
    cache[key] = value
    return value


def epilogue_of(alpha: float, beta: float, activation: Optional[str], slope: float) -> Epilogue:
    """Checked once. Any number of threads read it."""
    # -0.0 is equal to 0.0, and finds it in a dictionary.
    parameters = (alpha, beta, activation, slope if slope else str(slope))
    try:
        found = _epilogues.get(parameters)
    except TypeError:  # an activation that cannot be a key
        found = None
    if found is None:
        code = ACTIVATIONS.index(choice("activation", activation, ACTIVATIONS))
        numbers = {
            name: real(name, x) for name, x in (("alpha", alpha), ("beta", beta), ("slope", slope))
        }
        made = Epilogue(size=ctypes.sizeof(Epilogue), activation=code, **numbers)
        found = keep(_epilogues, parameters, made)
    return found


class Operands:
    """What an epilogue has besides numbers: checked, with where it lies."""

    VECTORS = ("bias", "row_bias", "scale_columns", "scale_rows")

    def __init__(self, kind: Any, prepared: Prepared, a: Any, given: dict[str, Any]) -> None:
        self.extents: dict[str, Extent] = {}
        self.lds: dict[str, int] = {}  # of those that are matrices
        for name, x in given.items():
            if x is None:
                continue
            if kind_of(x, name) is not kind:
                raise TypeError(f"a and {name} must be of one kind: a is one of {kind.name}")
            if getattr(x, "device", None) != getattr(a, "device", None):
                raise ValueError(f"{name} is on {x.device} and a on {a.device}: move it there")
            stored = self._vector(kind, prepared, name, x)
            if name == "residual":
                stored = Stored(kind, x, name)
                if (stored.rows, stored.cols) != (prepared.m, prepared.n):
                    raise ValueError(
                        f"residual is {stored.rows} x {stored.cols}, "
                        f"and the product {prepared.m} x {prepared.n}"
                    )
                if stored.op and prepared.m and prepared.n:
                    raise ValueError("residual is transposed: its rows must be contiguous")
                self.lds["ld_residual"] = stored.ld
            if name in ("scales_a", "scales_b"):
                stored = self._block_scales(kind, prepared, name, x)
                self.lds["ld_" + name] = stored.ld
            wanted = prepared.type_c if name[:5] != "scale" else TYPES.index("float32")
            told = kind.type_name(x)
            if told != TYPES[wanted]:
                raise TypeError(f"{name} is {told}: wanted is {TYPES[wanted]}")
            stored.type = wanted
            self.extents[name] = Extent(stored, kind.pointer(x))

    @staticmethod
    def _vector(kind: Any, prepared: Prepared, name: str, x: Any) -> Stored:
        length = prepared.n if name in ("bias", "scale_columns") else prepared.m
        stored = Stored.__new__(Stored)
        stored.rows, stored.cols, stored.op, stored.ld = 1, length, 0, length
        if name in Operands.VECTORS:
            if tuple(x.shape) != (length,):
                shape = " x ".join(map(str, x.shape))
                raise ValueError(
                    f"{name} has the shape {shape or 'of a number'}: wanted is {length}"
                )
            if length > 1 and tuple(kind.strides(x)) != (1,):
                raise ValueError(f"{name} has gaps between its elements: copy it")
        return stored

    @staticmethod
    def _block_scales(kind: Any, prepared: Prepared, name: str, x: Any) -> Stored:
        stored, blocks = Stored(kind, x, name), -(-prepared.a.cols // 128)
        wanted = (blocks, prepared.m) if name == "scales_a" else (-(-prepared.n // 128), blocks)
        if (stored.rows, stored.cols) != wanted:
            raise ValueError(
                f"{name} is {stored.rows} x {stored.cols}: wanted is {wanted[0]} x {wanted[1]}"
            )
        if stored.op and stored.rows and stored.cols:
            raise ValueError(f"{name} is transposed: its rows must be contiguous")
        return stored

    def check_overlap(self, prepared: Prepared, result: int) -> None:
        out = prepared.extents(0, 0, result)[2]
        for name, extent in self.extents.items():
            in_place = name == "residual" and (extent.first, extent.pitch) == (result, out.pitch)
            if not in_place and out.overlaps(extent):
                raise ValueError(f"out overlaps {name}: the kernels write out while they read it")

    def add_to(self, epilogue: Epilogue, pointers: tuple[int, ...]) -> Epilogue:
        """A copy of the epilogue that has them, at these addresses."""
        made = Epilogue.from_buffer_copy(epilogue)
        for name, pointer in zip(self.extents, pointers):
            setattr(made, name, pointer)
        for name, ld in self.lds.items():
            setattr(made, name, ld)
        return made


def matmul(
    a: Any,
    b: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Any = None,
    bias: Any = None,
    residual: Any = None,
    row_bias: Any = None,
    scale_rows: Any = None,
    scale_columns: Any = None,
    out: Any = None,
    activation: Optional[str] = None,
    slope: float = 0.01,
    gated: bool = False,
    rung: Optional[str] = None,
    backend: Optional[str] = None,
    out_dtype: Any = None,
    compute: str = "exact",
    scales_a: Any = None,
    scales_b: Any = None,
    invariant: bool = False,
) -> Any:
    """activation(alpha * a @ b + beta * c + bias), by the kernels of the ladder, in one of them.

    a and b are two-dimensional NumPy arrays, torch tensors or CuPy arrays, of float32, float16,
    bfloat16 or FP8 (float8_e4m3fn, float8_e5m2; the result is bfloat16 then); transposed views are taken as they are. Of three dimensions, they are batches of as many
    matrices each: all products are computed in one call. A batch of 1, or a single matrix, goes with
    every matrix of the other. Arrays in host memory are computed in the
    simulator, those of a GPU there, on the current stream of torch or CuPy. backend="gpu" copies
    NumPy arrays to the GPU and back.

    c is not changed; without it, beta * out is added. out receives the result, else a new array does.
    bias is added to every row, row_bias to every column, residual like c, but read where it is: all
    of the result's type. scale_rows and scale_columns, of float32, multiply rows and columns of a @ b.
    activation is "relu", "leaky_relu" (with slope), "gelu" (with tanh), "gelu_erf" or "silu". gated:
    columns 2 j and 2 j + 1 of the sum are a gate and a value, and column j of the result is
    activation(gate) * value; interleave_gate makes such a b of two. There is no c then. rung
    names a kernel ("v6"), else the best one is planned. out_dtype may be float32 for narrower types.
    compute="tf32" rounds floats to 10 bits of mantissa first; "fast_sums" keeps 14 bits of sums of
    FP8; "block_scales" multiplies e4m3 numbers by scales_a, (k / 128) x m floats, and scales_b,
    (n / 128) x (k / 128). scaled_mm has torch's conventions for these. invariant: a row of the result
    has the same bits whatever the other rows of a are, and however many; of float32, float16 and
    bfloat16.
    """
    kind = kind_of(a, "a")
    if kind_of(b, "b") is not kind:
        raise TypeError(f"a and b must be of one kind: a is one of {kind.name}")
    if c is not None and kind_of(c, "c") is not kind:
        raise TypeError(f"a and c must be of one kind: a is one of {kind.name}")
    if out is not None and kind_of(out, "out") is not kind:
        raise TypeError(f"a and out must be of one kind: a is one of {kind.name}")
    if type(alpha) is not float:
        alpha = real("alpha", alpha)
    if type(beta) is not float:
        beta = real("beta", beta)
    if type(slope) is not float:
        slope = real("slope", slope)
    if backend is not None:
        choice("backend", backend, BACKENDS)
    epilogue = epilogue_of(alpha, beta, activation, slope)
    name = rung_name(rung)
    if type(gated) is not bool:
        gated = flag("gated", gated)
    if type(invariant) is not bool:
        invariant = flag("invariant", invariant)
    if residual is not None:
        if c is not None:
            raise ValueError("c and residual are the same addend: give one")
        if len(a.shape) > 2 or len(b.shape) > 2:
            raise ValueError("a batch takes no residual: give c, which is added to each product")
        if beta == 0:
            beta = 1.0
            epilogue = epilogue_of(alpha, beta, activation, slope)
    if gated and (beta != 0 or c is not None):
        raise ValueError(
            "a gated product is twice as wide as the result: it takes no beta, c and residual"
        )
    others = (row_bias, scale_rows, scale_columns, scales_a, scales_b)
    if kind.needs_gradient(a, b, c, out, bias, residual, *others):
        if len(a.shape) > 2 or len(b.shape) > 2:
            raise ValueError("batches keep no gradient: call under torch.no_grad()")
        if any(x is not None for x in others):
            raise ValueError("row_bias and scales keep no gradient: call under torch.no_grad()")
        addend = c if residual is None else residual
        fixed = (rung, backend, out_dtype, compute)
        given = {"alpha": alpha, "beta": beta, "activation": activation, "slope": slope}
        if invariant:
            raise ValueError("invariant keeps no gradient: call under torch.no_grad()")
        return _with_gradient(a, b, addend, bias, out, {**given, "gated": gated}, fixed)

    if out_dtype is not None:
        out_dtype = type_code(out_dtype, 0)
    if type(compute) is not str or compute != "exact":
        compute_code(compute)
    of_out = None if out is None else kind.key(out)
    key = (kind.key(a), kind.key(b), of_out, out_dtype, compute, gated, invariant)
    prepared = _prepared.get(key)
    if prepared is None:
        make = PreparedBatch if len(a.shape) > 2 or len(b.shape) > 2 else Prepared
        prepared = make(kind, a, b, out, out_dtype, compute, gated, invariant)
        keep(_prepared, key, prepared)
    pa, pb = kind.pointer(a), kind.pointer(b)
    if out is None:
        result = prepared.empty(kind, a)
        pc = kind.pointer(result)
    else:
        if not kind.writable(out):
            raise ValueError("out cannot be written to")
        if c is not None:
            check_addend(kind, c, out)
        result, pc = out, kind.pointer(out)
        prepared.check_overlap(pa, pb, pc)
    place = kind.place(a, b, result, backend)
    if place is not None:
        tell_of_simulator(place[1], prepared.work)
    operands = None
    if bias is not None or residual is not None or any(x is not None for x in others):
        given = {"bias": bias, "row_bias": row_bias, "residual": residual}
        given |= {"scale_rows": scale_rows, "scale_columns": scale_columns}
        given |= {"scales_a": scales_a, "scales_b": scales_b}
        operands = Operands(kind, prepared, a, given)
        operands.check_overlap(prepared, pc)
    if beta != 0 and residual is None:
        if c is not None and out is not None and c is not out:
            # out is as it was until the product is there: what is refused later leaves it so.
            again: dict[str, Any] = {"alpha": alpha, "beta": beta}
            again |= {"activation": activation, "slope": slope}
            again |= {"c": c, "bias": bias, "row_bias": row_bias, "scale_rows": scale_rows}
            again |= {"scale_columns": scale_columns, "scales_a": scales_a, "scales_b": scales_b}
            again |= {"rung": rung, "backend": backend, "out_dtype": TYPES[prepared.type_c]}
            again |= {"invariant": invariant}
            kind.assign(out, matmul(a, b, compute=compute, **again))
            return out
        if c is not None:
            kind.assign(result, c)
        elif out is None:
            raise ValueError(f"beta is {beta:g}, and there is neither c nor out to add")
    if prepared.count == 0:
        # What would be refused of one product is refused of none.
        library, device = library_and_device("gpu") if place is None else place[:2]
        _create_plan(library, device, prepared.problem, name)
        return result

    if place is None:
        extents = prepared.extents(pa, pb, pc)
        if operands is not None:
            extents += list(operands.extents.values())

        numbers: Epilogue = epilogue

        def run(library: Library, device: int, *on_gpu: int) -> None:
            with_them = numbers if operands is None else operands.add_to(numbers, on_gpu[3:])
            _call(library, device, None, prepared, with_them, name, *on_gpu[:3])

        run_by_copies(extents, beta != 0, run)
    else:
        library, device, stream = place
        if operands is not None:
            pointers = tuple(extent.first for extent in operands.extents.values())
            epilogue = operands.add_to(epilogue, pointers)
        if name is not None:
            _call(library, device, stream, prepared, epilogue, name, pa, pb, pc)
        else:
            status = library.matmul(
                prepared.address, ctypes.addressof(epilogue), pa, pb, pc, stream, device
            )
            if status:
                library.check(status)
    if out is not None:
        kind.written(out)
    return result


def _check_overlap(prepared: Prepared, a: int, b: int, c: int) -> None:
    of_a, of_b, of_c = prepared.bytes
    if c < a + of_a and a < c + of_c:
        _check_columns("a", prepared, prepared.a, a, c)
    if c < b + of_b and b < c + of_c:
        _check_columns("b", prepared, prepared.b, b, c)


def _check_columns(name: str, prepared: Prepared, stored: Stored, x: int, c: int) -> None:
    if Extent(prepared.stored_c(), c).overlaps(Extent(stored, x)):
        raise ValueError(f"out overlaps {name}: the kernels write out while they read {name}")


def _call(
    library: Library,
    device: int,
    stream: Optional[int],
    prepared: Prepared,
    epilogue: Epilogue,
    rung: Optional[bytes],
    *pointers: int,
) -> None:
    epilogue_address = ctypes.addressof(epilogue)
    if rung is None:
        library.check(library.matmul(prepared.address, epilogue_address, *pointers, stream, device))
        return
    problem = Problem.from_buffer_copy(prepared.problem)
    aligns = [(p & -p or 128) & 127 or 128 for p in pointers]
    problem.align_a, problem.align_b, problem.align_c = (
        max(min(align, 128), BYTES[code])
        for align, code in zip(aligns, (prepared.a.type, prepared.b.type, prepared.type_c))
    )
    if device == CURRENT_DEVICE:  # which may be another one at the next call
        plan = _create_plan(library, device, problem, rung)
    else:
        key = (bytes(problem), rung, device, id(library))
        plan = _plans.get(key)
        if plan is None:
            plan = keep(_plans, key, _create_plan(library, device, problem, rung))
    library.check(library.run(ctypes.addressof(plan), epilogue_address, *pointers, stream))


def _create_plan(library: Library, device: int, problem: Problem, rung: Optional[bytes]) -> Any:
    made = (ctypes.c_uint64 * PLAN_WORDS)()
    addresses = ctypes.addressof(problem), device
    if rung is None:
        library.check(library.plan_create(*addresses, ctypes.addressof(made)))
    else:
        library.check(library.plan_create_with(*addresses, rung, ctypes.addressof(made)))
    return made


def _with_gradient(
    a: Any,
    b: Any,
    c: Any,
    bias: Any,
    out: Any,
    numbers: dict[str, Any],
    others: tuple[Any, ...],
) -> Any:
    if out is not None:
        raise ValueError("out= keeps no gradient: leave it out, or call under torch.no_grad()")
    if others != (None, None, None, "exact"):
        raise ValueError(
            "rung, backend, out_dtype and compute keep no gradient: call under torch.no_grad()"
        )
    from .torch import matmul as differentiable

    return differentiable(a, b, c, bias=bias, **numbers)


@dataclass(frozen=True)
class Plan:
    """How a problem would be computed."""

    kernel: str  # "v27_engine"
    variant: str  # "64x128 s8 tiles"; empty where the kernel has one form
    workspace: int  # bytes of device memory that a run takes and gives back
    explanation: str  # one line

    def __str__(self) -> str:
        return self.explanation


def plan(
    m: int,
    n: int,
    k: int,
    dtype: Any = "float32",
    *,
    layout: str = "nn",
    out_dtype: Any = None,
    compute: str = "exact",
    batch: int = 1,
    gated: bool = False,
    invariant: bool = False,
    rung: Optional[str] = None,
    backend: Optional[str] = None,
) -> Plan:
    """Plans an m x k by k x n product for the current GPU, or without one for the simulated H200.

    layout "nt" means that b is stored transposed, n x k. batch: so many products, of matrices that
    follow each other. gated and invariant: as of matmul, n being b's columns.
    """
    choice("layout", layout, ("nn", "nt", "tn", "tt"))
    m, n, k = integer("m", m), integer("n", n), integer("k", k)
    batch = integer("batch", batch)
    if batch < 1:
        raise ValueError(f"batch is {batch}: allowed are 1 and more")
    gated = flag("gated", gated)
    invariant = flag("invariant", invariant)
    library, device = library_and_device(backend)
    code = type_code(dtype, 0)
    problem = Problem(
        size=ctypes.sizeof(Problem),
        compute=compute_code(compute),
        **{"m": m, "n": n, "k": k, "type_a": code, "type_b": code},
        **{"type_c": type_code(out_dtype, code)},
        **{"op_a": int(layout[0] == "t"), "op_b": int(layout[1] == "t")},
        **{"batch": batch, "stride_a": m * k, "stride_b": k * n, "gated": int(gated)},
        stride_c=m * (n // 2 if gated else n),
        invariant=int(invariant),
    )
    made = _create_plan(library, device, problem, rung_name(rung))
    text = ctypes.create_string_buffer(1000)
    library.check(library.plan_explain(ctypes.addressof(made), ctypes.addressof(text), len(text)))
    size = ctypes.c_size_t()
    library.check(library.plan_workspace_size(ctypes.addressof(made), ctypes.addressof(size)))
    explanation = text.value.decode()
    # As gemm_plan_explain says: "KERNEL VARIANT: how".
    kernel, _, variant = explanation.partition(": ")[0].partition(" ")
    return Plan(kernel, variant, size.value, explanation)


def use_tuning(
    file: Optional[str | os.PathLike[str]] = None, *, backend: Optional[str] = None
) -> None:
    """Lets plans from now on take what `gemm_bench --tune` has measured, in place of the estimate.

    It counts for a plain product of exactly the sizes, types and layout that were measured, on a GPU of
    that name, where no rung is named. file: None for the one that --tune writes unless told otherwise, ""
    for none from now on. backend: "gpu" or "simulator"; None is the GPU where there is one. Products of the
    other backend are planned as before. A file that is not there, or that --tune has not written, raises
    BadArgument and changes nothing.
    """
    library, _ = library_and_device(backend)
    library.check(library.use_tuning(None if file is None else os.fsencode(file)))


@dataclass(frozen=True)
class Rung:
    """A kernel of the ladder, for one choice of types."""

    id: str  # "v24"
    name: str  # "v24_pingpong"
    idea: str  # one line
    dtype: str  # of a and b
    out_dtype: str
    compute: str  # "exact", "tf32", "fast_sums" or "block_scales"
    transposed: bool  # takes all four layouts
    approximate: bool  # its products are less exact than their type's: never chosen unasked
    runs: bool  # on this device


def rungs(backend: Optional[str] = None) -> list[Rung]:
    """The kernels for the current GPU, or without one for the simulated H200, in the ladder's order."""
    library, device = library_and_device(backend)
    found = []
    for index in range(library.count(library.rung_count, device)):
        r = RungRecord(size=ctypes.sizeof(RungRecord))
        library.check(library.rung_get(device, index, ctypes.addressof(r)))
        found.append(
            Rung(
                *(r.id.decode(), r.name.decode(), r.idea.decode()),
                *(TYPES[r.type_a], TYPES[r.type_c], COMPUTE[r.compute]),
                *(bool(r.transposed), bool(r.approximate), bool(r.runs)),
            )
        )
    return found
