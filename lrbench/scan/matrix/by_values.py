"""Compiled loops over matrix states, some values at a time: choice, padding and gradients.

A state S (V x K) has a row for each of V values, and rows do not meet. So a loop follows as many of
them as registers hold side by side over all positions, with their part of the state in the
first-level cache. This file says which values a loop takes, and makes functions of tensors of the
loops of `householder_loops.py` and `duality_loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, Tensors, fold
from lrbench.kernels.compiler import Loop, array

WIDTHS = (16, 8)  # values that a loop follows at a time: as many as are left, then fewer
KEPT = 1 << 18  # bytes of states that a backward keeps at a time: they stay in the cache


def blocks(values: int) -> list[tuple[int, int, int]]:
    """Return how `values` are followed, (first, end, width), rounded up to the least width."""
    found, first, whole = [], 0, values + _missing(values)
    for width in WIDTHS:
        end = whole - (whole - first) % width
        if end > first:
            found.append((first, end, width))
        first = end
    return found


def _missing(values: int) -> int:
    return -values % WIDTHS[-1]


@dataclass(frozen=True)
class ByValues:
    """Loops of one recurrence: `(v, .., S_0)` to y and the last state.

    name: of the self-check.
    forward, backward: the loops for a number type, a width and constants (`constants`). Both take
        arrays of the inputs, values v (B, T, H, .., V) first and states S_0 (B, H, V, K) last. The
        forward then takes the first and the end of the values to follow, and an array for y
        (B, T H V) beside S (B, H V K); the backward takes the gradient of that, the values to
        follow, of how many positions it may keep states, and arrays of zeros to which it adds the
        gradients of the inputs.
    constants: what else the loops are made for, by the inputs.
    kept: of how many states the backward keeps numbers, for each position, by the inputs.
    """

    name: str
    forward: Callable[..., Loop]
    backward: Callable[..., Loop]
    constants: Callable[[Tensors], tuple[int, ...]]
    kept: Callable[[Tensors], int]

    def usable(self, *inputs: Tensor) -> bool:
        """Tell whether the loops can be used for these inputs, of one type."""
        values, constants = inputs[0], self.constants(inputs)
        if any(x.dtype != values.dtype for x in inputs):
            return False
        wide = {width for *_, width in blocks(values.shape[-1])}
        return bool(values.numel()) and all(
            usable(values, self.name, width, *constants) for width in wide
        )

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return y (B, T, H, V) and the last state (B, H, V, K)."""
        values, *others, initial = inputs
        (length, heads), size = values.shape[1:3], values.shape[-1]
        if more := _missing(size):
            values, initial = pad(values, (0, more)), pad(initial, (0, 0, 0, more))
        result = self._form(values, *others, initial)
        outputs = length * heads * (size + more)
        y = result[:, :outputs].unflatten(1, (length, heads, -1))
        state = result[:, outputs:].unflatten(1, initial.shape[1:])
        if not state.requires_grad:  # a view of the result would keep y in memory
            state = state.clone()
        return (y[..., :size], state[:, :, :size]) if more else (y, state)

    @cached_property
    def _form(self) -> ClosedForm:
        return ClosedForm(self._forward, self._backward, fold, needs_result=False)

    def _forward(self, *inputs: Tensor) -> tuple[Tensor]:
        values, initial = inputs[0], inputs[-1]
        strings, length, heads, size = (*values.shape[:3], values.shape[-1])
        result = values.new_empty(strings, length * heads * size + initial[0].numel())
        given, constants = [array(x) for x in inputs], self.constants(inputs)
        for first, end, wide in blocks(size):
            loop = self.forward(DTYPES[values.dtype], wide, *constants)
            loop(*given, first, end, result.numpy())
        return (result,)

    def _backward(self, *inputs_and_gradient: Tensor) -> Tensors:
        *inputs, gradient = inputs_and_gradient
        values, initial = inputs[0], inputs[-1]
        sums = [torch.zeros_like(x, memory_format=torch.contiguous_format) for x in inputs]
        given, made = [array(x) for x in (*inputs, gradient)], [x.numpy() for x in sums]
        constants = self.constants(tuple(inputs))
        of_value = self.kept(tuple(inputs)) * initial.shape[-1] * values.element_size()  # bytes
        for first, end, wide in blocks(values.shape[-1]):
            span = max(1, min(values.shape[1], KEPT // (of_value * wide)))
            loop = self.backward(DTYPES[values.dtype], wide, *constants)
            loop(*given, first, end, span, *made)
        return tuple(sums)
