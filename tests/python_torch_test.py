"""The Python package on torch tensors: on the CPU in the simulator, and on GPUs where there are some.
Skipped without torch. Where it is:

  pip install . && python tests/python_torch_test.py        (or PYTHONPATH=python with
  GEMM_LADDER_LIBRARIES=build/src/library)
"""

from __future__ import annotations

import sys
import unittest
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
            size = (512, 768, 896) if device == "cuda" else (65, 33, 40)
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


class SeveralDevices(Base):
    """Sharded products, on torch's current stream of each device; and of CPU tensors, simulated."""

    def products(self, ranks: int, size: tuple[int, int, int], **where: Any) -> None:
        on_gpus = where["backend"] == "gpu"
        for kind in (gemm_ladder.AllGatherGemm, gemm_ladder.GemmReduceScatter):
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
                    wanted = [total[product.shard(rank)] for rank in range(ranks)]
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
