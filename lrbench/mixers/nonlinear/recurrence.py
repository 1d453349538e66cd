"""A non-linear recurrence x_k = f(x_{k-1}, u_k), as loops, solvers and gradients need it.

The gradient of its states, whichever way they were found, is

    l_k = g_k + J_{k+1}^T l_{k+1},   J_k = df/dx at (x_{k-1}, u_k),

one reversed scan, and then the slopes of f in u_k and in its weights along l_k at each position.
That is back-propagation through time, and it is the implicit gradient of the equation
x_k = f(x_{k-1}, u_k), k = 1..T: no graph goes through a loop or through iterations.

Shapes: time first. States x (T, B, N), what drives them u (T, B, M), start x_0 (B, N).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache, partial
from typing import ClassVar

import torch
from torch import Tensor

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.linearised import Linearised, linearised_adjoint

Tensors = tuple[Tensor, ...]


class StateMap(ABC):
    """f alone."""

    @abstractmethod
    def evaluate(self, before: Tensor | None, drive: Tensor) -> tuple[Tensor, Tensors]:
        """Return f(x, u) (.., N) and the gates it was made with, at any number of positions.

        `before` is x (.., N), None where it is zero; `drive` u (.., M). Differentiable.
        """


class Recurrence(StateMap):
    """f and its derivatives, made of `count` weights: Recurrence(*weights)."""

    count: ClassVar[int] = 1

    @abstractmethod
    def __init__(self, *weights: Tensor) -> None: ...

    @abstractmethod
    def jacobians(self, before: Tensor | None, after: Tensor, gates: Tensors) -> Linearised:
        """Return df/dx where `evaluate` has returned (after, gates), (T, B, ..)."""

    @abstractmethod
    def slopes(self, before: Tensor, after: Tensor, gates: Tensors, adjoints: Tensor) -> Tensors:
        """Return the gradients (du (T, B, M), dx_0 (B, N), weights..) for df = `adjoints`."""

    @abstractmethod
    def run(self, drive: Tensor, start: Tensor) -> tuple[Tensor, Tensors]:
        """Return x_1..x_T and the gates, by a loop over time; without gradients."""


def run_loop(kind: type[Recurrence], drive: Tensor, start: Tensor, *weights: Tensor) -> Tensor:
    """Return x_1..x_T (T, B, N) from u (T, B, M) and x_0 (B, N); differentiable."""
    return _loop_of(kind)(drive, start, *weights)


def gradients(
    recurrence: Recurrence,
    before: Tensor,
    after: Tensor,
    gates: Tensors,
    gradient: Tensor,
    algorithm: str = "sequential",
) -> Tensors:
    """Return the gradients of (u, x_0, weights..) for `gradient` (T, B, N) of the states."""
    jacobians = recurrence.jacobians(before, after, gates)
    adjoints = linearised_adjoint(jacobians, gradient, algorithm)
    return recurrence.slopes(before, after, gates, adjoints)


def one_before(states: Tensor, start: Tensor) -> Tensor:
    """Return x_0..x_{T-1}, (T, B, N)."""
    return torch.cat([start[None], states[:-1]])


@cache
def _loop_of(kind: type[Recurrence]) -> ClosedForm:
    forward, backward = partial(_forward, kind), partial(_backward, kind)
    return ClosedForm(forward, backward, one_by_one)


def _forward(
    kind: type[Recurrence], drive: Tensor, start: Tensor, *weights: Tensor
) -> tuple[Tensor, ...]:
    states, gates = kind(*weights).run(drive, start)
    return states, *gates


def _backward(kind: type[Recurrence], drive: Tensor, start: Tensor, *rest: Tensor) -> Tensors:
    weights, (states, *gates, gradient) = rest[: kind.count], rest[kind.count :]
    before = one_before(states, start)
    return gradients(kind(*weights), before, states, tuple(gates), gradient)
