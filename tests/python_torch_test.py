"""The Python package on torch tensors: on the CPU in the simulator, and on GPUs where there are some.
Skipped without torch. Where it is:

  pip install . && python tests/python_torch_test.py        (or PYTHONPATH=python with
  GEMM_LADDER_LIBRARIES=build/src/library)
"""

from __future__ import annotations

import functools
import sys
import unittest
import warnings
from typing import Any

try:
    import torch
except ImportError:
    print("no torch")
    sys.exit(77)

import gemm_ladder
import gemm_ladder.torch as ours

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
BOUND = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
ACTIVATIONS: dict[Any, Any] = {
    None: lambda x: x,
    "relu": torch.relu,
    "leaky_relu": lambda x: torch.nn.functional.leaky_relu(x, 0.2),
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "gelu_erf": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
}


def matrix(rows: int, cols: int, device: str, dtype: Any = torch.float32) -> Any:
    return (torch.rand(rows, cols, device=device) * 2 - 1).to(dtype)


class Base(unittest.TestCase):
    def setUp(self) -> None:
        torch.manual_seed(1)

    def close(self, got: Any, wanted: Any, bound: float) -> None:
        self.assertEqual(got.shape, wanted.shape)
        error = (got.double() - wanted.double()).abs().max().item() if got.numel() else 0.0
        scale = max(wanted.abs().max().item(), 1.0) if wanted.numel() else 1.0
        self.assertTrue(error <= bound * scale, f"{error} of {scale}")


class Matmul(Base):
    def test_types_and_layouts(self) -> None:
        for device in DEVICES:
            size = (512, 896, 768) if device == "cuda" else (65, 33, 40)
            for dtype, bound in BOUND.items():
                for layout in ("nn", "nt", "tn", "tt"):
                    with self.subTest(device=device, dtype=dtype, layout=layout):
                        m, n, k = size
                        a, b = matrix(m, k, device, dtype), matrix(k, n, device, dtype)
                        a = a.t().contiguous().t() if layout[0] == "t" else a
                        b = b.t().contiguous().t() if layout[1] == "t" else b
                        c = gemm_ladder.matmul(a, b)
                        self.assertEqual((c.dtype, c.device), (dtype, a.device))
                        self.close(c, a.double() @ b.double(), bound)

    def test_out_and_c(self) -> None:
        for device in DEVICES:
            with self.subTest(device=device):
                a, b, c = (matrix(*s, device) for s in ((20, 30), (30, 10), (20, 10)))
                wanted = a.double() @ b.double() + 2 * c.double()
                out = torch.full((20, 16), torch.nan, device=device)
                gemm_ladder.matmul(a, b, beta=2, c=c, out=out[:, :10])
                self.close(out[:, :10], wanted, 1e-5)
                self.assertTrue(bool(out[:, 10:].isnan().all()))
                none = torch.empty(0, 20, 10, device=device)  # its pointer is null, as that of a
                self.assertIs(gemm_ladder.matmul(a.expand(0, 20, 30), b, out=none), none)

    def test_errors(self) -> None:
        a, b = matrix(6, 4, "cpu"), matrix(4, 5, "cpu")
        for error, text, x, y, how in (
            (TypeError, "a is torch.float64", a.double(), b, {}),
            (TypeError, "a is float32 and b float16", a, b.half(), {}),
            (ValueError, "strides", a[:, ::2], b[:2], {}),
            (ValueError, 'backend="gpu"', a, b, {"backend": "gpu"}),
            (TypeError, "one kind", a, b.numpy(), {}),
            (ValueError, "keeps no gradient", a.clone().requires_grad_(), b, {"out": a @ b}),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(error, text) as caught:
                gemm_ladder.matmul(x, y, **how)
            self.assertEqual(len(str(caught.exception).splitlines()), 1)


class Operator(Base):
    def operands(self, device: str) -> tuple[Any, Any, Any]:
        sizes = ((33, 20), (20, 17), (33, 17))
        a, b, c = (matrix(*size, device).requires_grad_() for size in sizes)
        return a, b, c

    def test_gradients(self) -> None:
        """Against torch in double precision."""
        for device in DEVICES:
            for name, activation in ACTIVATIONS.items():
                with self.subTest(device=device, activation=name):
                    a, b, c = self.operands(device)
                    seed = matrix(33, 17, device)
                    y = ours.matmul(a, b, c, alpha=0.5, beta=2.0, activation=name, slope=0.2)
                    got = torch.autograd.grad(y, (a, b, c), seed)
                    x, z, w = (t.detach().double().requires_grad_() for t in (a, b, c))
                    wanted_y = activation(0.5 * (x @ z) + 2.0 * w)
                    wanted = torch.autograd.grad(wanted_y, (x, z, w), seed.double())
                    self.close(y.detach(), wanted_y.detach(), 1e-5)
                    for mine, theirs in zip(got, wanted):
                        self.close(mine, theirs, 1e-5)

    def test_gradients_with_a_bias(self) -> None:
        """The bias's too; and a residual, which the operator knows as c."""
        for device in DEVICES:
            for name, activation in ACTIVATIONS.items():
                with self.subTest(device=device, activation=name):
                    a, b, c = self.operands(device)
                    bias = matrix(1, 17, device)[0].detach().requires_grad_()
                    seed = matrix(33, 17, device)
                    y = gemm_ladder.matmul(a, b, bias=bias, residual=c, activation=name, slope=0.2)
                    got = torch.autograd.grad(y, (a, b, c, bias), seed)
                    x, z, w, v = (t.detach().double().requires_grad_() for t in (a, b, c, bias))
                    wanted_y = activation(x @ z + w + v)
                    wanted = torch.autograd.grad(wanted_y, (x, z, w, v), seed.double())
                    self.close(y.detach(), wanted_y.detach(), 1e-5)
                    for mine, theirs in zip(got, wanted):
                        self.close(mine, theirs, 1e-5)

    def test_gradients_of_gates(self) -> None:
        for device in DEVICES:
            for name, activation in ACTIVATIONS.items():
                with self.subTest(device=device, activation=name):
                    a = matrix(33, 20, device).requires_grad_()
                    gate, value = (matrix(20, 17, device).requires_grad_() for _ in range(2))
                    bias = matrix(1, 34, device)[0].detach().requires_grad_()
                    b = gemm_ladder.interleave_gate(gate, value)
                    seed = matrix(33, 17, device)
                    y = gemm_ladder.matmul(
                        a, b, bias=bias, alpha=0.5, activation=name, slope=0.2, gated=True
                    )
                    got = torch.autograd.grad(y, (a, gate, value, bias), seed)
                    inputs = (a, gate, value, bias)
                    x, u, v, w = (t.detach().double().requires_grad_() for t in inputs)
                    wanted_y = activation(0.5 * x @ u + w[::2]) * (0.5 * x @ v + w[1::2])
                    wanted = torch.autograd.grad(wanted_y, (x, u, v, w), seed.double())
                    self.close(y.detach(), wanted_y.detach(), 1e-5)
                    for mine, theirs in zip(got, wanted):
                        self.close(mine, theirs, 1e-5)

    def test_gates_in_one_kernel(self) -> None:
        for device in DEVICES:
            m, n, k = (512, 1536, 896) if device == "cuda" else (65, 66, 40)
            for dtype in (torch.float16, torch.bfloat16):
                with self.subTest(device=device, dtype=dtype):
                    a, b = matrix(m, k, device, dtype), matrix(n, k, device, dtype).t()
                    got = gemm_ladder.matmul(a, b, activation="silu", gated=True)
                    x = a.double() @ b.double()
                    wanted = torch.nn.functional.silu(x[:, ::2]) * x[:, 1::2]
                    self.close(got, wanted, 2 * BOUND[dtype])

    def test_lists_of_matrices(self) -> None:
        for device in DEVICES:
            a = [matrix(33, 40, device, torch.float16) for _ in range(4)]
            b = [matrix(40, 24, device, torch.float16) for _ in range(4)]
            got = gemm_ladder.batched_matmul(a, b, activation="relu")
            for x, y, z in zip(got, a, b):
                self.close(x, torch.relu(y.double() @ z.double()), 2e-3)

    def test_gradients_of_halves(self) -> None:
        for device in DEVICES:
            with self.subTest(device=device):
                a, b, _ = (t.detach().half().requires_grad_() for t in self.operands(device))
                got = torch.autograd.grad(ours.matmul(a, b).float().sum(), (a, b))  # expanded
                x, z = a.detach().double().requires_grad_(), b.detach().double().requires_grad_()
                for mine, theirs in zip(got, torch.autograd.grad((x @ z).sum(), (x, z))):
                    self.close(mine, theirs, 2e-3)

    def test_matmul_of_what_wants_a_gradient(self) -> None:
        a, b, _ = self.operands("cpu")
        self.assertTrue(gemm_ladder.matmul(a, b).requires_grad)
        with torch.no_grad():
            self.assertFalse(gemm_ladder.matmul(a, b).requires_grad)

    def test_opcheck(self) -> None:
        for device in DEVICES:
            a, b, c = self.operands(device)
            for arguments in (
                (a, b, None, 1.0, 0.0, "", 0.01, None, False),
                (a, b, c, 0.5, 2.0, "gelu", 0.01, None, False),
                (a, matrix(20, 18, device), None, 1.0, 0.0, "silu", 0.01, None, True),
                (a, b, None, 1.0, 0.0, "relu", 0.01, None, False),
                (a.detach(), b.detach(), None, 1.0, 0.0, "silu", 0.01, None, False),
                (a, matrix(17, 20, device).t(), None, 1.0, 0.0, "", 0.01, None, False),
            ):
                with self.subTest(device=device, activation=arguments[5]):
                    torch.library.opcheck(torch.ops.gemm_ladder.matmul.default, arguments)

    def test_compile(self) -> None:
        for device in DEVICES:
            with self.subTest(device=device):

                def block(x: Any, y: Any) -> Any:
                    return ours.matmul(x * 2, y, activation="gelu").sum(1)

                a, b, _ = self.operands(device)
                backend = "inductor" if device == "cuda" else "aot_eager"  # no C++ compiler needed
                compiled = torch.compile(block, fullgraph=True, backend=backend)
                self.close(compiled(a, b).detach(), block(a, b).detach(), 1e-5)
                got = torch.autograd.grad(compiled(a, b).sum(), (a, b))
                for mine, theirs in zip(got, torch.autograd.grad(block(a, b).sum(), (a, b))):
                    self.close(mine, theirs, 1e-5)


class WhatUsersTripOver(Base):
    """Kinds of faults that other libraries' users have reported, each over all places where it may be."""

    def refuses(self, text: str, call: Any) -> None:
        with self.assertRaisesRegex((ValueError, TypeError, RuntimeError), text) as caught:
            call()
        self.assertNotIn("\n", str(caught.exception))

    def arguments(self, x: Any) -> dict[str, Any]:
        """By name: a call with this argument, which is a view of x's shape, or a row of it."""
        y = torch.ones_like(x)
        q, one = gemm_ladder.quantise(y)
        half = torch.ones(8, 8, dtype=torch.float16)
        sharded = gemm_ladder.GemmReduceScatter(8, 8, 8, "float16", ranks=2, backend="simulator")
        return {
            "a": lambda v: gemm_ladder.matmul(v, y),
            "b": lambda v: gemm_ladder.matmul(y, v),
            "c": lambda v: gemm_ladder.matmul(y, y, c=v, beta=1),
            "residual": lambda v: gemm_ladder.matmul(y, y, residual=v),
            "bias": lambda v: gemm_ladder.matmul(y, y, bias=v[0]),
            "row_bias": lambda v: gemm_ladder.matmul(y, y, row_bias=v[0]),
            "scale_rows": lambda v: gemm_ladder.matmul(y, y, scale_rows=v[0]),
            "scale_columns": lambda v: gemm_ladder.matmul(y, y, scale_columns=v[0]),
            "a in a batch": lambda v: gemm_ladder.matmul(v[None], y),
            "b in a list": lambda v: gemm_ladder.batched_matmul([y, y], [y, v]),
            "a of groups": lambda v: gemm_ladder.grouped_matmul(v, y[None], torch.tensor([8])),
            "x": lambda v: gemm_ladder.quantise(v),
            "scale_a": lambda v: gemm_ladder.scaled_mm(q, q.t(), v[:1, :1], one),
            "gate": lambda v: gemm_ladder.interleave_gate(v, y),
            "shard": lambda v: sharded([half, v.half()], [half, half]),
            "operator": lambda v: ours.matmul(v, y),
            "operator's c": lambda v: ours.matmul(y, y, v, beta=1),
            "operator's bias": lambda v: ours.matmul(y, y, bias=v[0]),
        }

    def test_views_whose_memory_has_other_numbers(self) -> None:
        def tensor(result: Any) -> Any:
            while isinstance(result, (tuple, list)):
                result = result[-1]
            return result.float()

        for view in (
            torch.randn(8, 8, dtype=torch.cfloat).conj().imag,
            torch.randn(8, 16, dtype=torch.cfloat).conj().imag[:, ::2],
            torch._efficientzerotensor(8, 8),
        ):
            plain = view.clone() + 0.0
            for name, call in self.arguments(plain).items():
                with self.subTest(argument=name):
                    try:
                        got = tensor(call(view))
                    except (ValueError, TypeError) as error:
                        self.assertNotIn("\n", str(error))
                        continue
                    self.close(got, tensor(call(plain)), 1e-5)
            out = view.t().contiguous().t()
            if out.is_neg():
                call = functools.partial(gemm_ladder.matmul, plain, plain, out=out)
                self.refuses("out is a view", call)
        for name, call in self.arguments(plain).items():
            if name.startswith(
                ("shard", "gate", "operator", "scale_a")
            ):  # torch refuses, in its own words
                continue
            for other in (plain.to_sparse(), torch.empty(8, 8, device="meta")):
                with self.subTest(argument=name, other=other.device):
                    self.refuses("allowed are|move ", functools.partial(call, other))
        from torch._subclasses import FakeTensorMode
        from torch.masked import masked_tensor

        freed = plain.clone()
        freed.untyped_storage().resize_(0)
        with FakeTensorMode():
            fake = torch.empty(8, 8)
        for name, call in self.arguments(plain).items():
            if name in ("gate", "shard", "scale_a") or name.startswith("operator"):
                continue  # torch's own operators copy what they are given
            for other in (freed, fake):
                with self.subTest(argument=name, other=type(other)), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # torch warns of a fake tensor's pointer
                    self.refuses(
                        "without memory|FakeTensor|setStorage", functools.partial(call, other)
                    )
        nested = torch.nested.nested_tensor([plain, plain])
        self.refuses("a is nested", lambda: gemm_ladder.matmul(nested, plain))
        self.refuses("bias is nested", lambda: gemm_ladder.matmul(plain, plain, bias=nested))
        masked = masked_tensor(plain, plain > 0)
        self.refuses("is a MaskedTensor", lambda: gemm_ladder.matmul(masked, plain))
        self.refuses("is a MaskedTensor", lambda: gemm_ladder.quantise(masked))
        batch = plain.expand(2, 8, 8)
        self.refuses("without memory", lambda: torch.func.vmap(
            lambda x: gemm_ladder.matmul(x, plain))(batch))  # fmt: skip
        self.close(torch.func.vmap(lambda x: ours.matmul(x, plain))(batch), batch @ plain, 1e-5)

    def test_arguments_of_any_kind(self) -> None:
        x = torch.ones(8, 8)
        tensors = (None, 1.5, x.numpy(), x.to_sparse(), x.to_sparse_csr(),
                   torch.nested.nested_tensor([x, x]))  # fmt: skip
        grown = torch.ones((), requires_grad=True)
        for names, values in {
            ("a", "b"): tensors,
            ("c", "bias"): tensors[1:],
            ("alpha", "beta", "slope"): ("3", [1], None, 1 + 2j, 2**2000, 1e39, grown, x),
            ("activation",): (["relu"], "tanh\n\x1b[31m", "x" * 10000, 3),
            ("gated",): (2, "yes", None, x),
        }.items():
            for name in names:
                for value in values:
                    with self.subTest(argument=name, value=type(value)):
                        given: dict[str, Any] = {"a": x, "b": x, "c": x, name: value}
                        with self.assertRaises((ValueError, TypeError)) as caught:
                            ours.matmul(**given)
                        told = str(caught.exception)
                        self.assertTrue(told.isprintable() and len(told) < 400, ascii(told))
                        self.assertIn(name + " ", told)

    def test_numbers_of_a_compiled_call(self) -> None:
        x = matrix(8, 8, "cpu")
        call = functools.partial(ours.matmul, x, x, activation="leaky_relu")
        for dynamic in (None, True):
            torch._dynamo.reset()
            compiled = torch.compile(call, backend="eager", fullgraph=True, dynamic=dynamic)
            for alpha, slope in ((1, 2), (3, 4), (5, 0.5), (2.5, 1), (True, -0.0)):
                with self.subTest(dynamic=dynamic, alpha=alpha, slope=slope):
                    named: dict[str, Any] = {"alpha": alpha, "slope": slope}
                    self.close(compiled(**named), call(**named), 0)

    def test_forward_mode(self) -> None:
        x = matrix(8, 8, "cpu")
        forward = torch.autograd.forward_ad
        for name, call in self.arguments(x).items():
            if name in ("shard", "gate"):  # a type's conversion and stack keep the derivative
                continue
            with self.subTest(argument=name), forward.dual_level():
                self.refuses("forward-mode", functools.partial(call, forward.make_dual(x, x)))
        self.refuses(
            "forward-mode", lambda: torch.func.jvp(lambda v: ours.matmul(v, x), (x,), (x,))
        )
        self.refuses(
            "keeps no gradient",
            lambda: gemm_ladder.matmul(x, x, alpha=torch.ones((), requires_grad=True)),
        )

    def test_out_voids_what_autograd_has_kept(self) -> None:
        i = torch.eye(8)
        calls = {
            "matmul": lambda w: gemm_ladder.matmul(i, 5 * i, out=w),
            "rung": lambda w: gemm_ladder.matmul(i, i, out=w, rung="v6"),
            "c": lambda w: gemm_ladder.matmul(i, i, out=w, c=i, beta=1),
            "batch": lambda w: gemm_ladder.matmul(i[None], i, out=w[None]),
            "list": lambda w: gemm_ladder.batched_matmul([i], [i], out=[w]),
            "groups": lambda w: gemm_ladder.grouped_matmul(i, i[None], torch.tensor([8]), out=w),
            "view": lambda w: gemm_ladder.matmul(i[:4], i, out=w[:4]),
        }
        for name, call in calls.items():
            with self.subTest(call=name):
                x, w = torch.ones(8, 8, requires_grad=True), torch.ones(8, 8)
                y = x * w
                call(w)
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    y.sum().backward()
        half = i.half()
        with gemm_ladder.GemmReduceScatter(
            8, 8, 8, "float16", ranks=2, backend="simulator"
        ) as product:
            out = [torch.ones(8, 8, dtype=torch.float16), torch.ones(0, 8, dtype=torch.float16)]
            product([half, half], [half, half], out=out)
            self.assertEqual(out[0]._version, 1)
        with torch.inference_mode():
            self.close(gemm_ladder.matmul(i, 5 * i, out=torch.ones(8, 8)), 5 * i, 0)

    def test_gradients_of_special_values(self) -> None:
        special = torch.tensor(
            [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 1e-40]
        )
        x = special[:, None].clone()
        one = torch.ones(1, len(special))
        for name, activation in ACTIVATIONS.items():
            slope = 0.2
            for gated in (False, True):
                with self.subTest(activation=name, gated=gated):
                    grads = []
                    for theirs in (False, True):
                        a, b = x.clone().requires_grad_(), one.clone()
                        if theirs:
                            y = a @ b
                            y = activation(y[:, ::2]) * y[:, 1::2] if gated else activation(y)
                        else:
                            y = ours.matmul(a, b, activation=name, slope=slope, gated=gated)
                        upstream = special[: y.shape[1]].expand_as(y).roll(1, 0)
                        (grad,) = torch.autograd.grad(y, a, upstream)
                        grads.append(grad)
                    torch.testing.assert_close(*grads, equal_nan=True)
        for name, activation in ACTIVATIONS.items():
            a = torch.tensor([[-1.0, 1.0]], requires_grad=True)
            ours.matmul(a, torch.eye(2), activation=name, slope=0.2).backward(
                torch.tensor([[float("inf"), 1.0]])
            )
            b = torch.tensor([[-1.0, 1.0]], requires_grad=True)
            activation(b).backward(torch.tensor([[float("inf"), 1.0]]))
            if name == "relu":
                self.assertEqual(a.grad[0, 0].item(), b.grad[0, 0].item())

    def test_double_backward(self) -> None:
        for name, activation in ACTIVATIONS.items():
            for gated in (False, True):
                with self.subTest(activation=name, gated=gated):
                    x, w = (
                        matrix(5, 4, "cpu").requires_grad_(),
                        matrix(4, 6, "cpu").requires_grad_(),
                    )
                    found = []
                    for theirs in (False, True):
                        if theirs:
                            y = x @ w
                            y = activation(y[:, ::2]) * y[:, 1::2] if gated else activation(y)
                        else:
                            y = ours.matmul(x, w, activation=name, slope=0.2, gated=gated)
                        first = torch.autograd.grad(y.pow(2).sum(), (x, w), create_graph=True)
                        total = sum(g.pow(2).sum() for g in first)
                        found.append(torch.autograd.grad(total, (x, w)))
                    for got, wanted in zip(*found):
                        self.close(got, wanted, 1e-4)

    def test_fake_and_real_agree(self) -> None:
        from torch._subclasses import FakeTensorMode

        types = [*BOUND, torch.float8_e4m3fn, torch.float8_e5m2]
        for dtype in types:
            for gated in (False, True):
                for with_bias in (False, True):
                    with self.subTest(dtype=dtype, gated=gated, bias=with_bias):
                        a, b = matrix(16, 32, "cpu", dtype), matrix(48, 32, "cpu", dtype).t()
                        bias = torch.ones(48, dtype=torch.bfloat16 if a.itemsize == 1 else dtype)
                        named: dict[str, Any] = {
                            "gated": gated,
                            "bias": bias if with_bias else None,
                        }
                        real = ours.matmul(a, b, **named)
                        with FakeTensorMode() as mode:
                            if with_bias:
                                named["bias"] = mode.from_tensor(bias)
                            fake = ours.matmul(mode.from_tensor(a), mode.from_tensor(b), **named)
                        for what in ("dtype", "shape", "device"):
                            self.assertEqual(getattr(real, what), getattr(fake, what))
                        self.assertEqual(real.stride(), fake.stride())
                        arguments = (
                            a,
                            b,
                            None,
                            1.0,
                            0.0,
                            "relu",
                            0.1,
                            bias if with_bias else None,
                            gated,
                        )
                        checks = ["test_autograd_registration", "test_faketensor"]
                        if (
                            a.itemsize > 1
                        ):  # of FP8 torch cannot make the numbers that the others take
                            checks += ["test_schema", "test_aot_dispatch_dynamic"]
                        torch.library.opcheck(ours._op, arguments, test_utils=checks)

    def test_fake_and_real_refuse_alike(self) -> None:
        for dtype in (torch.int32, torch.float64, torch.float8_e4m3fnuz):
            for device in ("cpu", "meta"):
                x = torch.ones(8, 8, device=device).to(dtype)
                with self.subTest(dtype=dtype, device=device):
                    self.refuses(
                        "^a is torch[.].*: allowed are", functools.partial(ours.matmul, x, x)
                    )

    def test_autocast(self) -> None:
        a, b, bias = matrix(8, 8, "cpu"), matrix(8, 8, "cpu", torch.bfloat16), torch.ones(8)
        for dtype in (torch.bfloat16, torch.float16):
            with torch.autocast("cpu", dtype=dtype):
                wanted = torch.mm(a, b)
                got = ours.matmul(a, b)
                self.assertEqual(got.dtype, wanted.dtype)
                self.close(got, wanted, 2e-2)
                self.assertEqual(ours.matmul(a, b, a, beta=1, bias=bias).dtype, dtype)
                leaf = a.clone().requires_grad_()
                ours.matmul(leaf, b, activation="silu").sum().backward()
                self.assertEqual(leaf.grad.dtype, torch.float32)
                with torch.autocast("cpu", enabled=False):
                    self.assertEqual(ours.matmul(a, a).dtype, torch.float32)

    def test_offsets_of_64_bits(self) -> None:
        x = matrix(8, 8, "cpu")
        for value in (2**32 + 8, -(2**32), 2**63 - 1):
            call = functools.partial(gemm_ladder.grouped_matmul, x, x[None])
            self.refuses(f"offsets has {value}", functools.partial(call, torch.tensor([value])))
        if "cuda" in DEVICES:  # where nobody looks at them: as of any that are too large
            y = x.cuda()
            got = gemm_ladder.grouped_matmul(y, y[None], torch.tensor([2**32 + 4]).cuda())
            self.close(got.cpu(), x @ x, 1e-5)


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class Streams(Base):
    def test_two_streams(self) -> None:
        """Each chain of products is ordered by its own stream, behind a long wait."""
        streams = [torch.cuda.Stream() for _ in range(2)]
        a, b = matrix(1024, 1024, "cuda"), matrix(1024, 1024, "cuda") / 32
        torch.cuda.synchronize()
        results = []
        for i, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(20_000_000)
                x = a + i  # runs after the sleep: a product on another stream would miss it
                for _ in range(3):
                    x = gemm_ladder.matmul(x, b)
                results.append(x)
        torch.cuda.synchronize()
        for i, got in enumerate(results):
            wanted = (a + i).double()
            for _ in range(3):
                wanted = wanted @ b.double()
            self.close(got, wanted, 1e-4)

    def test_graph(self) -> None:
        a, b = matrix(256, 128, "cuda", torch.float16), matrix(128, 64, "cuda", torch.float16)
        out = torch.empty(256, 64, device="cuda", dtype=torch.float16)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            gemm_ladder.matmul(a, b, out=out)
        a.copy_(matrix(256, 128, "cuda", torch.float16))
        graph.replay()
        torch.cuda.synchronize()
        self.close(out, a.double() @ b.double(), 2e-3)

    def test_groups(self) -> None:
        """As torch._grouped_mm, where offsets may be a kernel's result: nothing waits for them."""
        rows, n, k = (0, 300, 5, 0, 128, 67), 264, 200
        m = sum(rows) + 20  # rows of no group stay
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            a = matrix(m, k, "cuda", dtype)
            weights = torch.stack([matrix(n, k, "cuda", dtype) for _ in rows])
            out = torch.full((m, n), 7.0, device="cuda", dtype=dtype)
            counts = torch.tensor(rows, device="cuda")
            for offsets in (counts.cumsum(0), counts.cumsum(0).to(torch.int32)):
                b = weights.transpose(1, 2)
                got = gemm_ladder.grouped_matmul(a, b, offsets, out=out)
                first = 0
                for group, height in enumerate(rows):
                    end = first + height
                    wanted = a[first:end].double() @ b[group].double()
                    if height:
                        self.close(got[first:end], wanted, 2e-2)
                    first = end
                self.assertTrue(bool((got[first:] == 7).all()))

    def test_groups_in_a_graph(self) -> None:
        a = matrix(512, 128, "cuda", torch.bfloat16)
        b = torch.stack([matrix(128, 64, "cuda", torch.bfloat16) for _ in range(2)])
        ends = torch.tensor([512, 512], device="cuda", dtype=torch.int32)
        out = torch.empty(512, 64, device="cuda", dtype=torch.bfloat16)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            gemm_ladder.grouped_matmul(a, b, ends, out=out)
        for first in (512, 100, 0):  # read when the graph runs
            ends[0] = first
            graph.replay()
            torch.cuda.synchronize()
            wanted = torch.cat(
                [a[:first].double() @ b[0].double(), a[first:].double() @ b[1].double()]
            )
            self.close(out, wanted, 2e-2)

    def test_numpy_by_copies(self) -> None:
        import numpy

        a, b = (matrix(*size, "cpu").numpy() for size in ((300, 200), (200, 100)))
        wanted = a.astype(numpy.float64) @ b
        out = numpy.full((300, 110), 7, numpy.float32)
        gemm_ladder.matmul(a, b, out=out[:, :100], backend="gpu")
        self.assertLess(abs(out[:, :100] - wanted).max(), 1e-3)
        self.assertTrue((out[:, 100:] == 7).all())
        got = gemm_ladder.matmul(a, b, c=out[:, :100], beta=2.0, rung="v6", backend="gpu")
        self.assertLess(abs(got - 3 * wanted).max(), 1e-3)

    @unittest.skipUnless(torch.cuda.device_count() > 1, "one GPU")
    def test_two_devices(self) -> None:
        for device in ("cuda:1", "cuda:0"):
            a, b = matrix(200, 100, device), matrix(100, 300, device)
            c = gemm_ladder.matmul(a, b)  # the current device stays 0
            self.assertEqual((c.device, torch.cuda.current_device()), (a.device, 0))
            self.close(c, a.double() @ b.double(), 1e-5)
        with self.assertRaisesRegex(ValueError, "a is on cuda:0, b on cuda:1"):
            gemm_ladder.matmul(a, matrix(100, 300, "cuda:1"))


KINDS = gemm_ladder.AllGatherGemm, gemm_ladder.GemmReduceScatter, gemm_ladder.GemmAllReduce


class SeveralDevices(Base):
    """Sharded products, on torch's current stream of each device; and of CPU tensors, simulated."""

    def products(self, ranks: int, size: tuple[int, int, int], **where: Any) -> None:
        on_gpus = where["backend"] == "gpu"
        for kind in KINDS:
            gathers = kind is gemm_ladder.AllGatherGemm
            product = kind(*size, torch.bfloat16, ranks=ranks, layout="nt", **where)
            for _ in range(3):
                a, b = [], []
                for rank in range(ranks):
                    own, device = product.shard(rank), f"cuda:{rank}" if on_gpus else "cpu"
                    rows = own.stop - own.start if gathers else product.m
                    a.append(matrix(rows, product.k, device, torch.bfloat16))
                    b.append(matrix(product.n, product.k, device, torch.bfloat16).t())
                c = product(a, b)
                wide = [[x.double().cpu() for x in arrays] for arrays in (a, b)]
                if gathers:
                    wanted = [torch.cat(wide[0]) @ x for x in wide[1]]
                else:
                    total = sum(x @ y for x, y in zip(*wide))
                    reduces = kind is gemm_ladder.GemmAllReduce
                    rows = [slice(None) if reduces else product.shard(i) for i in range(ranks)]
                    wanted = [total[own] for own in rows]
                for x, y in zip(c, wanted):
                    self.close(x.cpu(), y, 1.6e-2)
                for x in a:  # later work in the streams may overwrite what was read
                    x.fill_(float("nan"))
            product.close()

    def test_on_the_cpu(self) -> None:
        self.products(2, (100, 40, 48), backend="simulator")

    @unittest.skipUnless(torch.cuda.device_count() > 1, "a second GPU is needed")
    def test_on_gpus(self) -> None:
        self.products(2, (1000, 520, 264), backend="gpu")
        self.assertEqual(torch.cuda.current_device(), 0)

    @unittest.skipUnless(torch.cuda.device_count() > 1, "a second GPU is needed")
    def test_on_streams(self) -> None:
        streams = [torch.cuda.Stream(device) for device in range(2)]
        with torch.cuda.stream(streams[0]), torch.cuda.stream(streams[1]):
            self.products(2, (2048, 1024, 1024), backend="gpu")

    @unittest.skipUnless(torch.cuda.device_count() > 1, "a second GPU is needed")
    def test_wrong_places(self) -> None:
        product = gemm_ladder.AllGatherGemm(32, 16, 16, torch.float16, backend="gpu")
        a = [matrix(16, 16, f"cuda:{rank}", torch.float16) for rank in range(2)]
        with self.assertRaisesRegex(ValueError, r"a\[0\] is on GPU 1, and rank 0 on GPU 0"):
            product(a[::-1], a[::-1])
        with self.assertRaisesRegex(ValueError, r"a\[0\] is in host memory, and rank 0 on GPU 0"):
            product([x.cpu() for x in a], [x.cpu() for x in a])


if __name__ == "__main__":
    unittest.main()
