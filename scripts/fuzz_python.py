#!/usr/bin/env python3
"""Calls gemm_ladder with random arguments, for as long as asked, in the simulator.

scripts/fuzz_python.py --minutes 60              random seed; it is printed
scripts/fuzz_python.py --only torch              a class alone: numpy, torch, gradients, compile
scripts/fuzz_python.py --only numpy --seed 7 --case 123    one call again

What must hold: a result is within its bound of NumPy's in double precision, a gradient of torch's;
what torch.compile makes has eager's results; a call of valid arguments is taken; an error is one
line of text, of a documented type; no byte changes but of out's elements, and none after an error;
the same call again has the same bits. Memory beside the elements holds NaN. Exit status 0: no
failure, 1: some, 2: bad options. Without torch its three classes are left out.

GEMM_LADDER_LIBRARIES names another folder of libraries than build/src/library.
"""

from __future__ import annotations

import argparse
import functools
import math
import os
import secrets
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from fuzzing.arguments import COARSE, Arguments, quantised
from fuzzing.arrays import (
    F16,
    F32,
    FP8,
    LEAST,
    ROUNDOFF,
    SMOOTH,
    TYPES,
    WIDE,
    Failure,
    close,
    formula,
    given_of,
    numbers_of,
    spread,
    torch,
)

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("GEMM_LADDER_LIBRARIES", str(ROOT / "build/src/library"))

import gemm_ladder as gemm  # noqa: E402

if torch:
    import gemm_ladder.torch as ours

KINDS = ("numpy", "torch", "gradients", "compile") if torch else ("numpy",)
COMPILED = 100  # every hundredth number is compiled, which takes long
APPROXIMATE = 2.0**-8  # of the sum of |a b|, as COARSE
CHOSEN = (*["matmul"] * 6, "batched_matmul", "grouped_matmul", "scaled_mm", "quantise")
WRONG = {"alpha": (1e39,), "beta": ("x",), "activation": ("tanh",), "slope": (None,), "out_dtype": ("int8",),
         "rung": ("v99", "V6 "), "compute": ("fast",), "backend": ("tpu",)}  # fmt: skip
rungs = functools.cache(lambda: gemm.rungs("simulator"))


class Case(Arguments):
    # Calls: each makes the arguments, and returns what computes the numbers wanted and their bounds

    def matmul(self) -> Any:
        dims, named = self.begin("matmul", (*WIDE, self.choice(*TYPES))), self.named
        batch = self.choice(0, 1, 2, 3) if self.chance(0.2) else None
        one = None if batch is None else 1
        lead = self.choice((batch, batch), (batch, None), (batch, one), (None, batch))
        self.arguments(A=lead[0], B=lead[1], **dims)
        of_c = [x for x in (batch, dims["m"], dims["j"]) if x is not None]
        addends = (None, None, "c", "residual" if batch is None else "out", "out")
        addend = None if "gated" in named else self.choice(*addends)
        if addend:
            named["beta"] = self.number()
        if addend in ("c", "residual"):
            named[addend] = self.array(addend, of_c, self.of_c)
        if addend == "residual" and self.chance(0.1) and not self.must_refuse:
            named["out"] = named["residual"]  # one of a wrong type would be right for both
        elif addend == "out" or self.chance(0.4):
            named["out"] = self.array("out", of_c, self.of_c)
        if self.dtype == F32 and self.chance(0.1):
            named["compute"], self.may_refuse = "tf32", True
        elif self.dtype in FP8 and self.chance(0.3):
            named["compute"] = "fast_sums"
        self.coarse = COARSE.get(named.get("compute", ""), self.coarse)
        # A rung that is named may round to half before it scales.
        if self.chance(0.15) and not (
            self.of_c == F16 and {"scale_rows", "scale_columns"} & {*named}
        ):
            rung = self.choice(*([r for r in rungs() if r.dtype == self.dtype] * 9 + rungs()))
            named["rung"], self.may_refuse = rung.id, True
            self.coarse = APPROXIMATE if rung.approximate else self.coarse
        elif self.chance(self.odd):
            name, self.must_refuse = self.choice(*WRONG), True
            named[name] = self.choice(*WRONG[name])
        exact = self.coarse in (0.0, COARSE["fp8"], COARSE["fast_sums"])
        if exact and named.get("activation") not in SMOOTH and self.chance(0.1):
            for x in (x.view for x in self.given if x.view.size):
                x[np.unravel_index(self.random.randrange(x.size), x.shape)] = self.choice(
                    math.nan, math.inf, -math.inf, 0.0
                )
        return lambda: self.wanted(*map(numbers_of, self.given))

    def batched_matmul(self) -> Any:
        dims, count = self.begin("batched_matmul", TYPES), self.choice(0, 1, 2, 3, 4)
        self.arguments(count, **dims)
        if (
            count
            and "out" in self.named
            and not self.must_refuse  # what is wrong may be this result
            and self.chance(4 * self.odd)
        ):
            self.named["out"][0], self.may_refuse = self.choice(*self.arrays), True
        m, n, k = (dims[x] for x in "mnk")
        stacks = (count, m, k), (count, k, n)
        return lambda: self.wanted(*(np.reshape([x.view.astype(float) for x in of], shape)
                                     for of, shape in zip(self.given, stacks)))  # fmt: skip

    def grouped_matmul(self) -> Any:
        dims, count = self.begin("grouped_matmul", TYPES, gates=0), self.choice(0, 1, 2, 3, 5)
        self.may_refuse |= self.named.get("activation") == "gelu_erf"  # the library's limit
        self.arguments(g=count, **dims)
        ends = np.sort(self.numpy.integers(0, dims["m"] + 1, count))
        ends = ends.astype(self.choice("int32", "int64"))
        self.given.append(ends if self.kind == "numpy" else torch.from_numpy(ends))

        def want() -> Any:
            (a, b), out = map(numbers_of, self.given[:2]), self.named.get("out")
            y, bound = np.zeros((2, dims["m"], dims["n"]))
            y[...] = 0 if out is None else numbers_of(out)
            for x, i, j in zip(b, (0, *ends), ends):
                y[i:j], bound[i:j] = self.wanted(a[i:j], x)
            return y, bound

        return want

    def scaled_mm(self) -> Any:
        scales = self.choice("tensor", "row", "block")
        dims = self.begin("scaled_mm", FP8[:1] if scales == "block" else FP8, gates=0)
        dims["k"] += self.choice(0, 100 + self.size())
        m, n, k = (dims[x] for x in "mnk")
        shapes = {"tensor": (1, 1, 1, 1), "row": (m, 1, 1, n),
                  "block": (m, -(-k // 128), -(-k // 128), -(-n // 128))}  # fmt: skip
        self.arguments(**dims, **dict(zip("pqrs", shapes[scales])))
        if scales != "block" and self.chance(0.3):
            self.named["use_fast_accum"], self.coarse = True, COARSE["fast_sums"]

        def want() -> Any:
            a, b, sa, sb = map(numbers_of, self.given)
            if scales == "block":
                sa, sb = spread(sa, 1, 128, a.shape), spread(sb, 128, 128, b.shape)
            return self.wanted(sa * a, sb * b)

        return want

    def quantise(self) -> Any:
        dims, of = self.begin("quantise", WIDE, faces=False), self.choice(*FP8)
        dims["k"] += self.choice(0, 200)
        rows, cols, kind = dims["m"], dims["k"], self.choice("tensor", "row", "1x128", "128x128")
        self.arguments(**dims)
        (x,) = self.given
        x.view[...] = x.view * x.view.dtype.type(2.0 ** self.random.randint(-10, 10))
        for odd in (math.nan, math.inf, -math.inf):
            if x.view.size and self.chance(0.1):
                x.view[self.random.randrange(rows), self.random.randrange(cols)] = odd
        self.given, self.named = [x, kind], {"dtype": of}
        high, wide = {"tensor": (rows, cols), "row": (1, cols)}.get(kind, (1, 128))
        high, wide = max(128 if kind == "128x128" else high, 1), max(wide, 1)
        blocks = [-(-rows // high), -(-cols // wide)]
        if "x" not in kind:  # a scale of nothing is 1
            blocks = [1 if kind == "tensor" else rows, 1]
        return lambda: quantised(x.view.astype(np.float32), of, (high, wide), blocks)

    # The judgement

    def run(self) -> None:
        with np.errstate(all="ignore"):
            {"gradients": self.gradients, "compile": self.compiled}.get(self.kind, self.called)()

    def called(self) -> None:
        want = getattr(self, self.choice(*CHOSEN))()
        memories = list({id(x.memory): x.memory for x in self.arrays}.values())
        before = [memory.copy() for memory in memories]
        wanted = None if self.must_refuse else want()
        got, out = self.once(), self.named.get("out", [])
        for memory, was in zip(memories, before):
            written = np.zeros_like(memory)
            for x in (out if isinstance(out, list) else [out]) if got is not None else ():
                if x.memory is memory:
                    x.mark(written)
            for changed in np.flatnonzero((memory != was) & (written == 0))[:1]:
                told = ", ".join(x.told for x in self.arrays if x.memory is memory)
                raise Failure(f"byte {changed} changed in the memory of {told}")
            memory[...] = was
        if got is not None and wanted is not None:
            close(got, wanted, self.of_c)
            again = self.once() or []
            if not all(map(lambda x, y: np.array_equal(x, y, True), got, again)):
                raise Failure("the same call again has other bits")

    def once(self) -> list[Any] | None:
        """The result's numbers; None where it is refused as documented."""
        try:
            named = {name: given_of(x) for name, x in self.named.items()}
            got = getattr(gemm, self.function)(*map(given_of, self.given), **named)
        except (ValueError, TypeError, gemm.BadArgument, gemm.Unsupported) as error:
            told = str(error)
            if not told.isprintable() or not 0 < len(told) < 400:
                raise Failure(f"the error is no line of text: {told!r}") from None
            if not self.may_refuse and not self.must_refuse:
                raise Failure(f"refused: {type(error).__name__}: {told}") from None
            return None
        out = named.get("out")
        if self.must_refuse:
            raise Failure("was not refused")
        if self.function == "grouped_matmul" and out is None:
            got[max(self.given[2], default=0) :] = 0  # rows of no group hold anything
        results = got if isinstance(got, (list, tuple)) else [got]
        for i, x in enumerate(results if self.function != "quantise" else ()):
            if out is not None and x is not (out[i] if isinstance(out, list) else out):
                raise Failure("the result is not out")
            if out is None and str(x.dtype).rpartition(".")[2] != self.of_c:
                raise Failure(f"the result is {x.dtype}, not {self.of_c}")
        return [numbers_of(x) for x in results]

    # torch's own: gradients, and compiled calls

    def gradients(self, compiled: Any = None) -> None:
        how = self.named = {}
        dims = self.begin("torch.matmul", WIDE, faces=False, gates=0.25)
        if how.get("activation") in ("relu", "leaky_relu"):
            self.integers = True  # their sums have no sign that a rounding turns
        how["beta"] = self.number()
        self.arguments(**dims)
        if "gated" in how or "c" not in how:
            how.pop("c", None)
            how.pop("beta")
        leaves = {
            n: x.given.detach().requires_grad_() for n, x in how.items() if hasattr(x, "given")
        }
        seed = leaves.pop("gradient").detach()
        numbers = {name: x for name, x in how.items() if not hasattr(x, "given")}
        slope = numbers.get("slope", 0.0)
        y = (compiled or self.choice(ours, gemm).matmul)(**leaves, **numbers)
        if y.dtype != leaves["a"].dtype:
            raise Failure(f"the result is {y.dtype}")
        close([numbers_of(y)], self.wanted(*(numbers_of(how[x]) for x in "ab")), self.of_c)

        def gradient(name: str, size: Any, seed: Any) -> Any:
            """In double; or of absolute values, how large its terms are."""
            v = {name: size(x.detach().double()).requires_grad_() for name, x in leaves.items()}
            sizes: dict[str, Any] = {x: size(numbers[x]) for x in ("alpha", "beta") if x in how}
            sizes |= {**v, "row_bias": float(size is abs)}
            y = formula({**numbers, **sizes}, lambda x: ours._activated(x, name, slope))
            seed = (seed + 2.0**-12) * (1 + y.detach()) if size is abs else seed
            return torch.autograd.grad(y, list(v.values()), seed)

        got = torch.autograd.grad(y, list(leaves.values()), seed)
        wanted = gradient(numbers.get("activation", ""), lambda x: x, seed.double())
        share = 16 * ROUNDOFF[self.dtype] * max(1.0, abs(slope))
        sizes = gradient("", abs, seed.double().abs())
        for name, mine, theirs, size in zip(leaves, got, wanted, sizes):
            self.function = f"gradient of {name}: torch.matmul"
            bound = share * numbers_of(size) + LEAST[self.dtype] + 1e-9
            close([numbers_of(mine)], (theirs.numpy(), bound), self.of_c)

    def compiled(self) -> None:
        """In a longer graph, of several shapes and other arguments."""
        torch._dynamo.reset()
        way = {"backend": self.choice("aot_eager", "aot_eager", "inductor")}
        way |= {"dynamic": self.choice(None, True)}
        block = torch.compile(
            lambda **given: -1 * (-1 * ours.matmul(**given)), fullgraph=True, **way
        )
        for _ in range(3):
            self.gradients(block)


def main() -> int:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--minutes", type=float, default=1, help="how long (1)")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(10**9), help="for the same calls"
    )
    parser.add_argument("--only", default=",".join(KINDS), help="classes, by commas")
    parser.add_argument("--case", type=int, help="only the call of this number")
    args = parser.parse_args()
    kinds = args.only.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--only is '{args.only}': allowed are {', '.join(KINDS)}")
    if not 0 < args.minutes < math.inf:
        parser.error(f"--minutes is {args.minutes}: allowed is more than 0")
    try:
        rungs()
    except gemm.Error as error:
        parser.error(str(error))
    calls, failures, number = Counter[str](), 0, args.case or 0
    begin = shown = time.monotonic()
    print(f"seed {args.seed}", flush=True)
    while True:
        for kind in kinds:
            if kind == "compile" and number % COMPILED and args.case is None:
                continue
            case = Case(kind, args.seed, number)
            calls[kind] += 1
            try:
                case.run()
            except Exception as error:
                failures += 1
                told = error if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
                again = f"--only {kind} --seed {args.seed} --case {number}"
                print(f"FAILURE {again}: {' '.join(f'{told}; {case}'.split())}", flush=True)
        number, now = number + 1, time.monotonic()
        ended = args.case is not None or now >= begin + 60 * args.minutes
        if ended or now > shown + 60:
            shown, told = now, ", ".join(f"{kind} {calls[kind]}" for kind in kinds)
            told = f"{told} calls, {failures} failures"
            print(f"{(now - begin) / 60:.1f} minutes, seed {args.seed}: {told}", flush=True)
        if ended:
            return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
