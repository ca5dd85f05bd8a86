"""The operator gemm_ladder::matmul of torch: traced by torch.compile, differentiable by our kernels.

Needs torch 2.4 or newer. Tensors on the CPU are computed in the simulator.
"""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from ._arrays import layout
from ._library import ACTIVATIONS, ALLOWED_TYPES, TYPES, choice, flag, real
from ._matmul import matmul as _matmul

_TYPES = [getattr(torch, name, None) for name in TYPES]  # old ones lack FP8


def _usable(x: Tensor) -> Tensor:
    """x, or a contiguous copy where the kernels cannot read its strides: an expanded gradient."""
    return x if layout(*x.shape, *x.stride()) is not None else x.contiguous()


def _by_rows(x: Optional[Tensor]) -> Optional[Tensor]:
    """x, or a contiguous copy where its rows are not contiguous."""
    if x is None:
        return None
    found = layout(*x.shape, *x.stride())
    return x if found is not None and found[0] == 0 else x.contiguous()


def _check(
    a: Tensor,
    b: Tensor,
    c: Optional[Tensor],
    bias: Optional[Tensor],
    beta: float,
    activation: str,
    gated: bool,
) -> None:
    """What can be known without the elements, also of tensors that have none."""
    if a.dim() != 2 or b.dim() != 2:
        raise ValueError(f"a has {a.dim()} dimensions and b {b.dim()}: allowed are 2")
    if a.shape[1] != b.shape[0]:
        shapes = [" x ".join(map(str, x.shape)) for x in (a, b)]
        raise ValueError(f"a is {shapes[0]} and b {shapes[1]}: a's columns must be b's rows")
    if a.dtype != b.dtype or a.device != b.device:
        raise TypeError(f"a is {a.dtype} on {a.device}, b {b.dtype} on {b.device}: convert one")
    if a.dtype not in _TYPES:
        raise TypeError(f"a is {a.dtype}: allowed are {ALLOWED_TYPES}")
    if beta != 0 and c is None:
        raise ValueError(f"beta is {beta:g}, and there is no c to add")
    if c is not None and (c.dim() != 2 or c.shape[0] != a.shape[0] or c.shape[1] != b.shape[1]):
        raise ValueError(f"c is {tuple(c.shape)}, the product {a.shape[0], b.shape[1]}")
    if bias is not None and (bias.dim() != 1 or bias.shape[0] != b.shape[1]):
        raise ValueError(f"bias is {tuple(bias.shape)}: wanted is {(b.shape[1],)}")
    for name, x in (("c", c), ("bias", bias)):
        if x is not None and (x.dtype != _result_type(a) or x.device != a.device):
            raise TypeError(
                f"a is {a.dtype} on {a.device}, {name} {x.dtype} on {x.device}: convert one"
            )
    if gated and (c is not None or b.shape[1] % 2):
        raise ValueError(
            f"b has {b.shape[1]} columns: a gated product has an even number, and takes no c"
        )
    choice("activation", activation or None, ACTIVATIONS)


def _result_type(a: Tensor) -> torch.dtype:
    """The type of the result: bfloat16 for operands of FP8, else theirs."""
    return torch.bfloat16 if a.element_size() == 1 else a.dtype


SCHEMA = (
    "(Tensor a, Tensor b, Tensor? c, float alpha, float beta, str activation, float slope, "
    "Tensor? bias, bool gated) -> Tensor"
)


@torch.library.custom_op("gemm_ladder::matmul", mutates_args=(), schema=SCHEMA)
def _op(
    a: Tensor,
    b: Tensor,
    c: Optional[Tensor],
    alpha: float,
    beta: float,
    activation: str,
    slope: float,
    bias: Optional[Tensor] = None,
    gated: bool = False,
) -> Tensor:
    _check(a, b, c, bias, beta, activation, gated)
    reads_c = c is not None and beta != 0
    with torch.no_grad():
        return _matmul(
            _usable(a),
            _usable(b),
            residual=_by_rows(c) if reads_c else None,  # read where it is
            bias=None if bias is None else bias.contiguous(),
            alpha=alpha,
            beta=beta,
            activation=activation or None,
            slope=slope,
            gated=gated,
        )


@_op.register_fake
def _(
    a: Tensor,
    b: Tensor,
    c: Optional[Tensor],
    alpha: float,
    beta: float,
    activation: str,
    slope: float,
    bias: Optional[Tensor] = None,
    gated: bool = False,
) -> Tensor:
    _check(a, b, c, bias, beta, activation, gated)
    columns = b.shape[1] // 2 if gated else b.shape[1]
    return a.new_empty((a.shape[0], columns), dtype=_result_type(a))


def _autocast(device: str) -> Any:
    """As torch.mm there: operands in autocast's type."""

    def cast(x: Optional[Tensor]) -> Optional[Tensor]:
        if x is None or x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            return x
        return x.to(torch.get_autocast_dtype(device))

    def call(
        a: Tensor,
        b: Tensor,
        c: Optional[Tensor],
        alpha: float,
        beta: float,
        activation: str,
        slope: float,
        bias: Optional[Tensor] = None,
        gated: bool = False,
    ) -> Any:
        numbers = alpha, beta, activation, slope
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, f"Autocast{device.upper()}"))
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return _default(cast(a), cast(b), cast(c), *numbers, cast(bias), gated)

    return call


_default = torch.ops.gemm_ladder.matmul.default
_autocasts = torch.library.Library("gemm_ladder", "IMPL")  # lives as long as its functions
_autocasts.impl("matmul", _autocast("cpu"), "AutocastCPU")
_autocasts.impl("matmul", _autocast("cuda"), "AutocastCUDA")


# torch passes the arguments by these names.
def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, c, ctx.alpha, ctx.beta, ctx.activation, ctx.slope, bias, ctx.gated = inputs
    # ReLU's gradient needs the result's sign alone. The others need the sum before the activation.
    # It is computed again: to keep it would cost a second result of the forward kernel.
    of_sign = ctx.activation == "relu" or (ctx.activation == "leaky_relu" and ctx.slope > 0)
    from_result = of_sign and not ctx.gated
    ctx.again = ctx.gated or (bool(ctx.activation) and not from_result)
    ctx.save_for_backward(
        a,
        b,
        c if ctx.again else None,
        bias if ctx.again else None,
        output if from_result else None,
    )


def _before_activation(gradient: Tensor, x: Tensor, activation: str, slope: float) -> Tensor:
    """The gradient of the activation's argument x. For ReLU and leaky ReLU x may be the result.

    By torch's own operators: so it is torch's also of infinities and NaN.
    """
    if activation == "gelu":
        return torch.ops.aten.gelu_backward(gradient, x, approximate="tanh")
    if activation == "gelu_erf":
        return torch.ops.aten.gelu_backward(gradient, x, approximate="none")
    if activation == "silu":
        if torch.is_grad_enabled() and (gradient.requires_grad or x.requires_grad):
            opened = torch.sigmoid(x)  # silu_backward has no derivative
            return gradient * opened * (1 + x * (1 - opened))
        return torch.ops.aten.silu_backward(gradient, x)
    if activation == "relu":
        return torch.ops.aten.threshold_backward(gradient, x, 0)
    return torch.ops.aten.leaky_relu_backward(gradient, x, slope, False)


def _activated(x: Tensor, activation: str, slope: float) -> Tensor:
    functional = torch.nn.functional
    if activation in ("gelu", "gelu_erf"):
        return functional.gelu(x, approximate="tanh" if activation == "gelu" else "none")
    if activation == "silu":
        return functional.silu(x)
    if activation == "relu":
        return functional.relu(x)
    return functional.leaky_relu(x, slope) if activation else x


def _before_gate(gradient: Tensor, x: Tensor, activation: str, slope: float) -> Tensor:
    """The gradient of what was gated: x, with a gate and a value side by side."""
    gate, value = x[:, ::2], x[:, 1::2]
    of_value = gradient * _activated(gate, activation, slope)
    of_gate = gradient * value
    if activation:
        of_gate = _before_activation(of_gate, gate.contiguous(), activation, slope)
    return torch.stack((of_gate, of_value), 2).reshape(x.shape)


def _backward(context: Any, gradient: Tensor) -> tuple[Any, ...]:
    a, b, c, bias, output = context.saved_tensors
    if context.activation or context.gated:
        x = output
        if context.again:
            x = matmul(a, b, c, bias=bias, alpha=context.alpha, beta=context.beta)
        before = _before_gate if context.gated else _before_activation
        gradient = before(gradient, x, context.activation, context.slope)
    wanted = context.needs_input_grad
    of_a = matmul(gradient, b.t(), alpha=context.alpha) if wanted[0] else None  # NT
    of_b = matmul(a.t(), gradient, alpha=context.alpha) if wanted[1] else None  # TN
    of_c = gradient * context.beta if wanted[2] else None
    of_bias = gradient.sum(0) if wanted[7] else None
    return of_a, of_b, of_c, None, None, None, None, of_bias, None


_op.register_autograd(_backward, setup_context=_keep_for_backward)


def matmul(
    a: Tensor,
    b: Tensor,
    c: Optional[Tensor] = None,
    *,
    bias: Optional[Tensor] = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    activation: Optional[str] = None,
    slope: float = 0.01,
    gated: bool = False,
) -> Tensor:
    """activation(alpha * a @ b + beta * c + bias) as the operator gemm_ladder::matmul.

    gated: activation of the even columns of that sum, times the odd ones.
    """
    for name, x in (("a", a), ("b", b), ("c", c), ("bias", bias)):
        if x is None and name not in "ab":
            continue
        if not isinstance(x, Tensor):
            raise TypeError(f"{name} is a {type(x).__name__}: allowed are torch tensors")
        if x.layout is not torch.strided or x.is_nested:
            raise TypeError(f"{name} is sparse or nested: allowed are strided tensors")
    alpha, beta, slope = _real("alpha", alpha), _real("beta", beta), _real("slope", slope)
    activation = choice("activation", activation, ACTIVATIONS)
    gated = flag("gated", gated)
    operator = torch.ops.gemm_ladder.matmul.default
    return operator(a, b, c, alpha, beta, activation or "", slope, bias, gated)


def _real(name: str, value: Any) -> Any:
    """A number as the operator takes it: a traced one as it is."""
    if isinstance(value, (float, torch.SymFloat)):
        return value
    if isinstance(value, int) and torch.compiler.is_compiling():
        return value
    return real(name, value)
