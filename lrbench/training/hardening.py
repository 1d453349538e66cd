"""The second training stage, towards a proof: units pushed to the ends of their range.

    loss = usual loss + r lambda mean(1 - h^2),   states with noise N(0, (r sigma)^2),
    r = min(1, 2 i / steps) at update i

lambda is `optim.saturate`, sigma `model.mixer.noise`. h is what the saturating mixers of the model
put out, every layer, position and unit alike. A unit at the end of its range has no slope, so an
error of a state is forgotten. With noise the weights learn to reach such states.

With either from the first update units saturate before anything is learnt: this is for weights that
know the rule already (`protocol.start_from`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.errors import UserError
from lrbench.mixers.base import Mixer
from lrbench.mixers.nonlinear.noise import NoisyMixer, StateNoise

ONE_BY_ONE = "noise and saturation grow from update to update, which no stack of trials has"


class Hardening:
    """What both settings add to an update; false where they are zero, as they are by default.

    Raises UserError for `saturate` of a model whose state does not saturate.
    """

    def __init__(self, saturate: float, model: nn.Module) -> None:
        self.saturate = saturate
        mixers = [one for one in model.modules() if isinstance(one, Mixer)]
        self.saturating = [one for one in mixers if one.saturates] if saturate else []
        self.noisy = [one for one in mixers if isinstance(one, NoisyMixer) and one.config.noise]
        self._outputs: list[Tensor] = []
        if saturate and not self.saturating:
            raise UserError(
                f"optim.saturate={saturate:g} pushes the units of a state to -1 and 1, and this"
                " model has no state of such units\n"
                "models that have: elman, gru, gru_seed, lstm, rnn with tanh"
            )

    def __bool__(self) -> bool:
        return bool(self.saturating or self.noisy)

    @contextmanager
    def reading(self, ramp: float, generator: torch.Generator) -> Iterator[None]:
        """While strings of training are read: noise on states, and outputs taken note of."""
        hooks = [one.register_forward_hook(self._hear) for one in self.saturating]
        for one in self.noisy:
            one.noise = StateNoise(ramp * one.config.noise, generator)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for one in self.noisy:
                one.noise = None

    def penalty(self, ramp: float) -> Tensor | float:
        """Return r lambda mean(1 - h^2) of what was read since the last call."""
        heard, self._outputs = self._outputs, []
        if not heard:
            return 0.0
        means = [(1 - h.square()).mean() for h in heard]
        return ramp * self.saturate * torch.stack(means).mean()

    def _hear(self, mixer: nn.Module, given: Any, made: tuple[Tensor, Any]) -> None:
        self._outputs.append(made[0])


def ramp(step: int, steps: int) -> float:
    """Return r of update `step` (1, 2, ..): from 0 to 1 over the first half of the run."""
    return min(1.0, 2 * step / steps)
