"""The second training stage, towards a proof: units pushed to the ends of their range.

    loss = usual loss + r lambda mean(1 - h^2) + r mu mean(max(0, g - 0.2)),
    states with noise N(0, (r sigma)^2),   r = min(1, 2 i / steps) at update i

lambda is `optim.saturate`, mu `optim.forget`, sigma `model.mixer.noise`. h is what the saturating
mixers of the model put out, every layer, position and unit alike. A unit at the end of its range
has no slope, so an error of a state is forgotten. With noise the weights learn to reach such
states. g is the gate that multiplies what a cell carries, z of `gru` and f of `lstm`: at g = 1 an
error is kept for ever.

All three are for weights that know the rule already (`protocol.start_from`): from the first update
on, units saturate before anything is learnt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.config import OptimConfig
from lrbench.errors import UserError
from lrbench.mixers.base import Mixer
from lrbench.mixers.nonlinear.cells import GatedCell
from lrbench.mixers.nonlinear.noise import NoisyMixer, StateNoise

KEPT = 0.2  # of what is carried costs nothing
ONE_BY_ONE = "noise and saturation grow from update to update, which no stack of trials has"


class Hardening:
    """What the settings add to an update; false where they are zero, as they are by default.

    setting: the first that is not, as somebody types it. Raises UserError for `saturate` of a model
    whose state does not saturate, and for `forget` of one without a gate that keeps.
    """

    def __init__(self, optim: OptimConfig, model: nn.Module) -> None:
        saturate, forget = optim.saturate, optim.forget
        self.saturate, self.forget = saturate, forget
        mixers = [one for one in model.modules() if isinstance(one, Mixer)]
        self.saturating = [one for one in mixers if one.saturates] if saturate else []
        self.keeping = [one for one in mixers if isinstance(one, GatedCell)] if forget else []
        self.noisy = [one for one in mixers if isinstance(one, NoisyMixer) and one.config.noise]
        self._outputs: list[Tensor] = []
        self._gates: list[Tensor] = []
        if saturate and not self.saturating:
            raise UserError(
                f"optim.saturate={saturate:g} pushes the units of a state to -1 and 1, and this"
                " model has no state of such units\n"
                "models that have: elman, gru, gru_seed, lstm, rnn with tanh"
            )
        if forget and not self.keeping:
            raise UserError(
                f"optim.forget={forget:g} closes the gate that keeps a cell's state, and this model"
                " has no such gate\nmodels that have: gru, lstm"
            )

    def __bool__(self) -> bool:
        return bool(self.saturating or self.keeping or self.noisy)

    @property
    def setting(self) -> str:
        if self.saturating or self.keeping:
            return "optim.saturate" if self.saturating else "optim.forget"
        return "the noise of its mixers"

    @contextmanager
    def reading(self, ramp: float, generator: torch.Generator) -> Iterator[None]:
        """While strings of training are read: noise on states, outputs and gates taken note of."""
        hooks = [one.register_forward_hook(self._hear) for one in self.saturating]
        hooks += [one.register_forward_hook(self._watch) for one in self.keeping]
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
        """Return r lambda mean(1 - h^2) + r mu mean(max(0, g - 0.2)) of what was read."""
        outputs, gates, self._outputs, self._gates = self._outputs, self._gates, [], []
        total: Tensor | float = 0.0
        if outputs:
            total = self.saturate * torch.stack([(1 - h.square()).mean() for h in outputs]).mean()
        if gates:
            total += self.forget * torch.stack([(g - KEPT).relu().mean() for g in gates]).mean()
        return ramp * total

    def _hear(self, mixer: nn.Module, given: Any, made: tuple[Tensor, Any]) -> None:
        self._outputs.append(made[0])

    def _watch(self, mixer: GatedCell, given: Any, made: tuple[Tensor, Any]) -> None:
        u, state = (*given, None)[:2]
        self._gates.append(mixer.keep_gate(u, state, made[0]))


def ramp(step: int, steps: int) -> float:
    """Return r of update `step` (1, 2, ..): from 0 to 1 over the first half of the run."""
    return min(1.0, 2 * step / steps)
