"""The gated parallel Legendre memory unit: what is memorised is partly the input itself.

Chilkuri & Eliasmith, "Parallelizing Legendre Memory Unit Training", arXiv:2102.11417, section 3.3,
where Eq. 18 becomes a highway layer:

    g_t = sigmoid(W_g x_t + b_g)                               b_g = -1 at first
    u_t = f1(W_u x_t + b_u) g_t + x_t (1 - g_t)

and all else is `lmu_parallel`: modes, memory, output, glossary and what the paper leaves open.

The sum needs u as wide as x, so there is a delay network for each of the D features and the state
holds D d numbers. Hence the small default d = 8; theta = 64 is as for `lmu_parallel`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.legendre.lmu_parallel import DelayMixer, initialise
from lrbench.mixers.legendre.nonlinearity import NONLINEARITIES, apply
from lrbench.registry import register_mixer

CLOSED = -1.0  # b_g at first: three quarters of the input pass unchanged


@dataclass
class LMUGatedConfig:
    """Settings of `lmu_gated`.

    order: d, numbers of a memory. theta: the window of a memory, in positions. outputs: numbers of
    the output; unset the width. f1: what is applied to what goes into the memory. f2: what is
    applied to the output.
    """

    order: int = 8
    theta: float = 64.0
    outputs: int | None = None
    f1: str = "identity"
    f2: str = "relu"

    def __post_init__(self) -> None:
        at_least("model.mixer.order", self.order, 1)
        at_least("model.mixer.theta", self.theta, 1)
        at_least("model.mixer.outputs", self.outputs, 1)
        one_of("model.mixer.f1", self.f1, list(NONLINEARITIES))
        one_of("model.mixer.f2", self.f2, list(NONLINEARITIES))


@register_mixer(
    "lmu_gated",
    LMUGatedConfig,
    "parallel LMU, gated input (Chilkuri & Eliasmith 2021, 3.3)",
    backbone="bare",
)
class LMUGated(DelayMixer):
    """Parallel Legendre memory unit with a gated input (Chilkuri & Eliasmith 2021, 3.3)."""

    def __init__(self, config: LMUGatedConfig, width: int) -> None:
        super().__init__(width, config.order, config.theta, width, config.outputs, config.f2)
        self.config = config
        self.encoder = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        initialise(self.encoder, self.gate)
        nn.init.constant_(self.gate.bias, CLOSED)

    def encode(self, x: Tensor) -> Tensor:
        return torch.lerp(x, apply(self.config.f1, self.encoder(x)), self.gate(x).sigmoid())
