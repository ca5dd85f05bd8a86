"""interleave_gate: the weights of a gated product, as the kernels want them."""

from __future__ import annotations

from typing import Any

from ._arrays import kind_of
from ._library import integer


def interleave_gate(gate: Any, value: Any, axis: int = 1) -> Any:
    """One matrix of two: its columns are a gate's, the same of its value, the next gate's, ...

    matmul(x, interleave_gate(gate, value), activation="silu", gated=True) is silu(x @ gate) *
    (x @ value). To be done once, when the weights are loaded. axis=0 does the same with rows: of
    weights stored n x k, as torch's Linear has them, and of biases.
    """
    kind = kind_of(gate, "gate")
    if kind_of(value, "value") is not kind:
        raise TypeError(f"gate and value must be of one kind: gate is one of {kind.name}")
    if tuple(gate.shape) != tuple(value.shape):
        shapes = [" x ".join(map(str, x.shape)) for x in (gate, value)]
        raise ValueError(f"gate is {shapes[0]} and value {shapes[1]}: wanted is one shape")
    dimensions = len(gate.shape)
    axis = integer("axis", axis)
    if not -dimensions <= axis < dimensions:
        raise ValueError(f"axis is {axis}: allowed are 0 to {dimensions - 1}")
    shape = list(gate.shape)
    shape[axis] *= 2
    return kind.stack((gate, value), axis % dimensions + 1).reshape(shape)
