"""Recurrent layers whose states are found by iterating linear scans until they have converged.

The states are those of the loop, within the tolerances, and so is the gradient: the implicit one,
by one reversed scan with the true Jacobians, whichever surrogates the iteration used. Jacobians and
slopes are taken at the states that are returned; where a cap ended the iterations before they had
converged, that is still what the gradient is: that of a loop which happens to pass through them.

Every string of a batch is iterated until all have converged. How often is not known beforehand, so
that neither `vmap` nor a CUDA graph can run this; on a GPU each iteration waits for the device
twice, for the criterion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from lrbench.checks import at_least, one_of
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.mixers.nonlinear.fixed_point import Limits, solve
from lrbench.mixers.nonlinear.fixed_point_surrogates import Surrogate
from lrbench.mixers.nonlinear.recurrence import (
    Recurrence,
    RecurrentConfig,
    RecurrentMixer,
    Tensors,
    gradients,
    one_before,
)
from lrbench.scan import ALGORITHMS


@dataclass
class SolveConfig(RecurrentConfig):
    """Settings of a solved layer.

    atol, rtol: of the criterion |d| <= atol + rtol |x|; unset 1e-4 and 1e-3 in float32, 1e-6 and
    1e-4 in float64 (DEER's). max_iterations: unset as many as there are positions, which always
    suffices. algorithm: of the linear scans.
    """

    atol: float | None = None
    rtol: float | None = None
    max_iterations: int | None = None
    algorithm: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.mixer.atol", self.atol, 0)
        at_least("model.mixer.rtol", self.rtol, 0)
        at_least("model.mixer.max_iterations", self.max_iterations, 1)
        one_of("model.mixer.algorithm", self.algorithm, list(ALGORITHMS))


class SolvedMixer(RecurrentMixer):
    """A recurrent layer found by iteration (mode `solve`) or by a loop (`sequential`).

    `auto` solves, except on a CPU where no gradient is asked for: examinations read strings of
    thousands of positions there, and the loop's states are the solution's.
    """

    modes: ClassVar[tuple[str, ...]] = ("auto", "solve", "sequential")
    default_mode: ClassVar[str] = "auto"
    vmap: ClassVar[bool] = False
    # Nothing looser shows that all modes are one function: iterate until no number changes.
    checked_with: ClassVar[dict[str, Any]] = {"atol": 0.0, "rtol": 0.0}
    surrogate: ClassVar[Surrogate]

    def __init__(self, config: SolveConfig, width: int) -> None:
        super().__init__(config, width)
        self.limits = Limits(config.atol, config.rtol, config.max_iterations)
        self._sums = {"iterations": (0.0, 0), "converged": (0.0, 0)}

    def states(self, drive: Tensor, start: Tensor, mode: str) -> Tensor:
        reading = drive.device.type == "cpu" and not torch.is_grad_enabled()
        if mode == "sequential" or (mode == "auto" and reading):
            return super().states(drive, start, mode)
        solving = _Solving(self.recurrence, self.surrogate, self.limits, self.config.algorithm)
        form = ClosedForm(solving.forward, solving.backward, one_by_one)
        states = form(drive, start, *self.weights())
        if torch.is_grad_enabled():  # in training
            self._note("iterations", solving.iterations)
            self._note("converged", solving.converged)
        return states

    def telemetry(self) -> dict[str, tuple[float, int]]:
        sums, self._sums = self._sums, dict.fromkeys(self._sums, (0.0, 0))
        return sums

    def _note(self, name: str, value: float) -> None:
        total, count = self._sums[name]
        self._sums[name] = total + value, count + 1


class _Solving:
    """One solution and its gradient; afterwards `iterations` and `converged` tell how it went."""

    def __init__(
        self, recurrence: type[Recurrence], surrogate: Surrogate, limits: Limits, algorithm: str
    ) -> None:
        self.recurrence, self.surrogate = recurrence, surrogate
        self.limits, self.algorithm = limits, algorithm
        self.iterations, self.converged = 0, True

    def forward(self, drive: Tensor, start: Tensor, *weights: Tensor) -> tuple[Tensor]:
        recurrence = self.recurrence(*weights)
        found = solve(recurrence, self.surrogate, drive, start, self.limits, self.algorithm)
        self.iterations, self.converged = found.iterations, found.converged
        return (found.states,)

    def backward(self, drive: Tensor, start: Tensor, *rest: Tensor) -> Tensors:
        *weights, states, gradient = rest
        recurrence, before = self.recurrence(*weights), one_before(states, start)
        after, gates = recurrence.evaluate(before, drive)
        return gradients(recurrence, before, after, gates, gradient, self.algorithm)
