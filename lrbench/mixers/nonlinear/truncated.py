"""Recurrent layers that are n iterations of linear scans, whether these have converged or not.

Su, kexue.fm 9783, "Why Bother with Convergence?": the n-th iterate is the model, and what gradient
descent learns is learnt for it. From X^0 = 0,

    x^i_k = f(x^{i-1}_{k-1}, u_k) + J_k (x^i_{k-1} - x^{i-1}_{k-1}),   i = 1..n,   y_k = x^n_k

with x^i_0 = 0: n linear layers with tied weights. Gradients go through all n scans. Position by
position the n states x^1..x^n of a position give those of the next, which is the state here,
(B, n, N): exact, in memory that does not grow.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lrbench.checks import at_least, one_of
from lrbench.mixers.nonlinear.fixed_point import online, unrolled
from lrbench.mixers.nonlinear.fixed_point_surrogates import Linear, Surrogate, fixed_linear
from lrbench.mixers.nonlinear.recurrence import RecurrentConfig, RecurrentMixer, StateMap
from lrbench.scan import ALGORITHMS


@dataclass
class IterConfig(RecurrentConfig):
    """Settings of a truncated layer.

    iterations: n, linear scans in a row. algorithm: of the linear scans.
    """

    iterations: int = 2
    algorithm: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.mixer.iterations", self.iterations, 1)
        one_of("model.mixer.algorithm", self.algorithm, list(ALGORITHMS))


class TruncatedMixer(RecurrentMixer):
    """n iterations: by scans over all positions (mode `parallel`), or position by position."""

    modes: ClassVar[tuple[str, ...]] = ("parallel", "sequential")
    default_mode: ClassVar[str] = "parallel"
    config: IterConfig

    @property
    def state_size(self) -> int:
        return self.config.iterations * self.size

    def initial_state(self, batch: int) -> Tensor:
        return self.input.weight.new_zeros(batch, self.config.iterations, self.size)

    @abstractmethod
    def state_map(self) -> StateMap:
        """Return f."""

    @abstractmethod
    def linear(self, drive: Tensor) -> Linear:
        """Return J_1..J_T from u (T, B, M)."""

    def outputs_of(self, drive: Tensor, start: Tensor, mode: str) -> tuple[Tensor, Tensor]:
        if mode == "parallel":
            linear = self.linear(drive)
            states, ends = unrolled(self.state_map(), linear, drive, start, self.config.algorithm)
            return states.transpose(0, 1), ends
        outputs = []
        for position in drive.unbind(0):
            start = self._next(position, start)
            outputs.append(start[:, -1])
        return torch.stack(outputs, 1), start

    def step(self, u: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        after = self._next(self.input(u), state)
        return after[:, -1], after

    def _next(self, drive: Tensor, states: Tensor) -> Tensor:
        return online(self.state_map(), self.linear(drive[None]), drive, states)


class IteratedMixer(TruncatedMixer):
    """n iterations of a recurrence with a surrogate of its Jacobian that no iterate changes."""

    surrogate: ClassVar[Surrogate]

    def state_map(self) -> StateMap:
        return self.recurrence(*self.weights())

    def linear(self, drive: Tensor) -> Linear:
        return fixed_linear(self.surrogate, self.recurrence(*self.weights()), drive)
