"""Mixers that are one layer of a non-linear recurrent network (`recurrence.py`).

    u_k = W i_k + b,   x_k = f(x_{k-1}, u_k),   y_k = x_k

for inputs i_k (B, T, D). The output, and the state, is x_k of N = `units` numbers, D unless set;
x_0 = 0. Weights are drawn as torch draws those of its own networks, uniform in +-1/sqrt(N).

Where the inputs depend on a symbol alone (a first layer) u is computed once per symbol.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.mixers.base import Mixer
from lrbench.mixers.nonlinear.recurrence import Recurrence, run_loop
from lrbench.scan.rows import rows


@dataclass
class RecurrentConfig:
    """Settings of a recurrent layer."""

    units: int | None = None

    def __post_init__(self) -> None:
        at_least("model.mixer.units", self.units, 1)


class RecurrentMixer(Mixer):
    """One layer of a recurrent network of N units with a state x (B, N), run by a loop."""

    kind: ClassVar[type[Recurrence]]
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
        states = self.states(drive, start, mode or self.default_mode)
        return states.transpose(0, 1), states[-1]

    def states(self, drive: Tensor, start: Tensor, mode: str) -> Tensor:
        """Return x_1..x_T, (T, B, N), from u (T, B, M) and x_0 (B, N)."""
        return run_loop(self.kind, drive, start, *self.weights())

    def step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        x, _ = self.kind(*self.weights()).evaluate(state, self.input(u))
        return x, x


def empty(*shape: int) -> nn.Parameter:
    """Return a parameter whose values are still to be drawn."""
    return nn.Parameter(torch.empty(*shape))
