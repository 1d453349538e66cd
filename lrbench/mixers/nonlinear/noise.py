"""Normal noise on the carried state of a recurrent network, before each symbol of training.

A network trained so must answer from states near those it visits, and learns to pull them back.
The noise is the update's: `mixer.noise` is None but while an update reads its strings
(lrbench/training/hardening.py), so that looks, tests and a user's own calls see the plain network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lrbench.mixers.base import Mixer


@dataclass(frozen=True)
class StateNoise:
    """N(0, scale^2) on every number of a state, drawn from `generator`."""

    scale: float
    generator: torch.Generator

    def added(self, state: Any) -> Any:
        """Return a state (B, N), or a tuple of such, with noise on it; differentiable."""
        if isinstance(state, tuple):
            return tuple(self.added(part) for part in state)
        drawn = torch.empty_like(state).normal_(0, self.scale, generator=self.generator)
        return state + drawn


class NoisyMixer(Mixer):
    """A mixer whose settings have a `noise`: the scale that training works up to."""

    noise: StateNoise | None = None

    def noisy_steps(self, u: Tensor, state: Any, noise: StateNoise) -> tuple[Tensor, Any]:
        """Map u (B, T, D) to y (B, T, D) and the last state, step by step, through autograd."""
        outputs = []
        for symbol in u.unbind(1):
            y, state = self.step(symbol, noise.added(state))
            outputs.append(y)
        return torch.stack(outputs, 1), state
