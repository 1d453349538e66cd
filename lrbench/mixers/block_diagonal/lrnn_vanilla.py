"""The linear RNN with one dense transition.

Fan, Chi & Rudnicky, "Advancing Regular Language Reasoning in Linear Recurrent Neural Networks",
arXiv:2309.07412v2, Eq. 2:

    x_k = A x_{k-1} + B u_k,    A in R^{N x N}

Glossary: matrix = A, [row, column]; value = B (N, D), no bias; states x (B, T, 1, N), N =
`state_size`, model.width by default; x_0 = 0. The output is the state itself, or a linear map of it
where N differs from D.

The paper gives no initialisation. Here A is orthogonal, or the identity, times `gain` = 0.99: no
direction grows, and 40 positions keep two thirds of the state. Nothing bounds A as it is learnt, so
states may grow without limit on long strings; `spectral_clip` divides A by its largest singular
value where that exceeds one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.time_invariant import TimeInvariantMixer
from lrbench.registry import register_mixer
from lrbench.scan import ConstantBlocks

INITS = ("orthogonal", "identity")


@dataclass
class LrnnVanillaConfig:
    """Settings of `lrnn_vanilla`.

    state_size: N, numbers of the state; unset the width. init: what A begins as, times `gain`.
    gain: the size of A's eigenvalues at first. spectral_clip: whether A is divided by its largest
    singular value where that exceeds one.
    """

    state_size: int | None = None
    init: str = "orthogonal"
    gain: float = 0.99
    spectral_clip: bool = False

    def __post_init__(self) -> None:
        at_least("model.mixer.state_size", self.state_size, 1)
        at_least("model.mixer.gain", self.gain, 0)
        one_of("model.mixer.init", self.init, INITS)


@register_mixer("lrnn_vanilla", LrnnVanillaConfig, "one dense transition (Fan et al. 2024, Eq. 2)")
class VanillaMixer(TimeInvariantMixer):
    """One dense matrix for all positions (Fan et al. 2024, Eq. 2)."""

    def __init__(self, config: LrnnVanillaConfig, width: int) -> None:
        super().__init__(config, width)
        size = config.state_size or width
        matrix = torch.empty(size, size)
        if config.init == "orthogonal":
            nn.init.orthogonal_(matrix)
        else:
            nn.init.eye_(matrix)
        self.matrix = nn.Parameter(config.gain * matrix)
        self.value = nn.Linear(width, size, bias=False)
        self.out = nn.Identity() if size == width else nn.Linear(size, width, bias=False)

    @property
    def state_size(self) -> int:
        return len(self.matrix)

    def initial_state(self, batch: int) -> Tensor:
        return self.matrix.new_zeros(batch, 1, self.state_size)

    def transition(self) -> Tensor:
        """Return A (N, N)."""
        if not self.config.spectral_clip:
            return self.matrix
        largest: Tensor = torch.linalg.matrix_norm(self.matrix, 2)
        return self.matrix / largest.clamp(min=1)

    def coefficients(self, u: Tensor) -> tuple[ConstantBlocks, Tensor]:
        return ConstantBlocks(self.transition()[None]), self.value(u)[:, :, None]

    def readout(self, states: Tensor, u: Tensor | None) -> Tensor:
        y: Tensor = self.out(states.squeeze(2))
        return y
