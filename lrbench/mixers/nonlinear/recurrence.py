"""A non-linear recurrence x_k = f(x_{k-1}, u_k), as loops, solvers and gradients need it.

The gradient of its states, whichever way they were found, is

    l_k = g_k + J_{k+1}^T l_{k+1},   J_k = df/dx at (x_{k-1}, u_k),

one reversed scan, and then the slopes of f in u_k and in its weights along l_k at each position.
That is back-propagation through time, and it is the implicit gradient of the equation
x_k = f(x_{k-1}, u_k), k = 1..T: no graph goes through a loop or through iterations.

A layer of such a network, a `RecurrentMixer`, is

    u_k = W i_k + b,   x_k = f(x_{k-1}, u_k),   y_k = x_k

for inputs i_k (B, T, D). The output, and the state, is x_k of N = `units` numbers, D unless set;
x_0 = 0. Weights are drawn as torch draws those of its own networks, uniform in +-1/sqrt(N). Where
the inputs depend on a symbol alone (a first layer) u is computed once per symbol.

Shapes: time first. States x (T, B, N), what drives them u (T, B, M), start x_0 (B, N).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.rows import rows
from lrbench.mixers.base import Mixer
from lrbench.mixers.nonlinear.noise import NoisyMixer
from lrbench.records import added
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


def run_loop(
    recurrence: type[Recurrence], drive: Tensor, start: Tensor, *weights: Tensor
) -> Tensor:
    """Return x_1..x_T (T, B, N) from u (T, B, M) and x_0 (B, N); differentiable."""
    return _loop_of(recurrence)(drive, start, *weights)


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
def _loop_of(recurrence: type[Recurrence]) -> ClosedForm:
    forward, backward = partial(_forward, recurrence), partial(_backward, recurrence)
    return ClosedForm(forward, backward, one_by_one)


def _forward(
    recurrence: type[Recurrence], drive: Tensor, start: Tensor, *weights: Tensor
) -> tuple[Tensor, ...]:
    states, gates = recurrence(*weights).run(drive, start)
    return states, *gates


def _backward(recurrence: type[Recurrence], drive: Tensor, start: Tensor, *rest: Tensor) -> Tensors:
    weights, (states, *gates, gradient) = rest[: recurrence.count], rest[recurrence.count :]
    before = one_before(states, start)
    return gradients(recurrence(*weights), before, states, tuple(gates), gradient)


@dataclass
class RecurrentConfig:
    """Settings of a recurrent layer.

    units: N, numbers of the state; unset the width.
    """

    units: int | None = None

    def __post_init__(self) -> None:
        at_least("model.mixer.units", self.units, 1)


class RecurrentMixer(Mixer):
    """One layer of a recurrent network of N units with a state x (B, N), run by a loop."""

    recurrence: ClassVar[type[Recurrence]]
    drives: ClassVar[int] = 1  # numbers of u for each unit
    takes_symbols: ClassVar[bool] = True

    def __init__(self, config: Any, width: int) -> None:
        super().__init__(config, width)
        self.units = config.units or width
        self.input = nn.Linear(width, self.drives * self.units)
        self.size = self.units  # numbers of a state
        self.make_weights()
        bound = self.units**-0.5
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    @abstractmethod
    def make_weights(self) -> None:
        """Make the parameters that f has, uninitialised."""

    @abstractmethod
    def weights(self) -> tuple[Tensor, ...]:
        """Return what `kind` is made from."""

    @property
    def out_width(self) -> int:
        return self.size

    @property
    def state_size(self) -> int:
        return self.size

    def initial_state(self, batch: int) -> Tensor:
        return self.input.weight.new_zeros(batch, self.size)

    def drive(self, u: Tensor, index: Tensor | None) -> Tensor:
        """Return W i + b, (T, B, M), at inputs (B, T, D) or at a table (S, D) by `index`."""
        if index is not None:
            return rows(self.input(u), index.T)
        driven: Tensor = self.input(u)
        return driven.transpose(0, 1).contiguous()

    def forward(
        self,
        u: Tensor,
        state: Tensor | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Map u (B, T, D), or a table u (S, D) looked up by `index` (B, T), to (y, state)."""
        drive = self.drive(u, index)
        start = self.initial_state(drive.shape[1]) if state is None else state
        return self.outputs_of(drive, start, mode or self.default_mode)

    def outputs_of(self, drive: Tensor, start: Tensor, mode: str) -> tuple[Tensor, Tensor]:
        """Return y (B, T, N) and the state after it, from u (T, B, M) and the state before."""
        states = self.states(drive, start, mode)
        return states.transpose(0, 1), states[-1]

    def states(self, drive: Tensor, start: Tensor, mode: str) -> Tensor:
        """Return x_1..x_T, (T, B, N), from u (T, B, M) and x_0 (B, N)."""
        return run_loop(self.recurrence, drive, start, *self.weights())

    def step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        x, _ = self.recurrence(*self.weights()).evaluate(state, self.input(u))
        return x, x


@dataclass
class LoopConfig(RecurrentConfig):
    """Settings of one run by a loop.

    noise: s.d. of Gaussian noise on the state before each symbol, in training alone.
    """

    noise: float = added(0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.mixer.noise", self.noise, 0)


class LoopMixer(RecurrentMixer, NoisyMixer):
    """A recurrent layer with states in [-1, 1], found by the loop and by nothing else."""

    @property
    def saturates(self) -> bool:
        return True

    def forward(
        self,
        u: Tensor,
        state: Tensor | None = None,
        mode: str | None = None,
        index: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Map u (B, T, D), or a table u (S, D) looked up by `index` (B, T), to (y, state)."""
        if self.noise is None:
            return super().forward(u, state, mode, index)
        u = u if index is None else rows(u, index)
        start = self.initial_state(len(u)) if state is None else state
        return self.noisy_steps(u, start, self.noise)


def empty(*shape: int) -> nn.Parameter:
    """Return a parameter whose values are still to be drawn."""
    return nn.Parameter(torch.empty(*shape))
