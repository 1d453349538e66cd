"""The original Legendre memory unit: a delay network and a non-linear layer that drive each other.

Voelker, Kajic & Eliasmith, "Legendre Memory Units", NeurIPS 2019, as in Chilkuri & Eliasmith,
arXiv:2102.11417, Eq. 15-17:

    u_t = e_x^T x_t + e_h^T h_{t-1} + e_m^T m_{t-1}
    m_t = A_bar m_{t-1} + B_bar u_t
    h_t = f(W_x x_t + W_h h_{t-1} + W_m m_t)

Glossary
    x, h              input, output      (B, T, D) and (B, T, d_h), d_h = `outputs` or D
    u                 what is memorised  (B, T), one number
    m                 memory             (B, T, d), d = `order`; see `delay_network.py`
    A_bar, B_bar      frozen             the delay network's, for a window of `theta` positions
    e_x               encoder            1 x D
    e_h, e_m          feedback           d_h + d numbers
    W_x, W_h, W_m     kernels            no bias, as printed

A non-linear recurrence: position by position is the only mode, in one of two ways of the same loop
(`lmu_loops.py`). Initial values as in the 2019 paper: e_x and e_h LeCun uniform, e_m zero, W_*
Glorot normal. One memory; the several of later implementations are not part of either paper's
equations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import Mixer
from lrbench.mixers.legendre.delay_network import DelayNetwork
from lrbench.mixers.legendre.lmu_loops import Weights, as_one_network, by_equations
from lrbench.mixers.legendre.nonlinearity import NONLINEARITIES
from lrbench.registry import register_mixer

SMALL = 2**16  # strings x d (d_h + d): up to here python costs more than arithmetic


@dataclass
class LMUConfig:
    """Settings of `lmu`; `outputs`, the units of the non-linear layer, defaults to the width."""

    order: int = 64
    theta: float = 64.0
    outputs: int | None = None
    f: str = "tanh"

    def __post_init__(self) -> None:
        at_least("model.mixer.order", self.order, 1)
        at_least("model.mixer.theta", self.theta, 1)
        at_least("model.mixer.outputs", self.outputs, 1)
        one_of("model.mixer.f", self.f, list(NONLINEARITIES))


@register_mixer(
    "lmu",
    LMUConfig,
    "Legendre memory unit (Voelker et al. 2019)",
    backbone="bare",
)
class LMU(Mixer):
    """Legendre memory unit (Voelker et al. 2019; Chilkuri & Eliasmith 2021, Eq. 15-17)."""

    def __init__(self, config: LMUConfig, width: int) -> None:
        super().__init__(config, width)
        self.network = DelayNetwork(config.order, config.theta)
        self.units = config.outputs or width
        self.encoder = nn.Linear(width, 1, bias=False)
        self.feedback = nn.Parameter(torch.zeros(self.units + config.order))
        self.skip = nn.Linear(width, self.units, bias=False)
        self.recurrent = nn.Linear(self.units, self.units, bias=False)
        self.memory = nn.Linear(config.order, self.units, bias=False)
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        for values, inputs in (
            (self.encoder.weight, self.width),
            (self.feedback[: self.units], self.units),
        ):
            limit = math.sqrt(3 / inputs)
            values.uniform_(-limit, limit)
        for kernel in (self.skip, self.recurrent, self.memory):
            nn.init.xavier_normal_(kernel.weight)

    @property
    def out_width(self) -> int:
        return self.units

    @property
    def state_size(self) -> int:
        return len(self.feedback)

    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        weight = self.memory.weight
        return weight.new_zeros(batch, self.units), weight.new_zeros(batch, self.network.order)

    def forward(
        self, u: Tensor, state: tuple[Tensor, Tensor] | None = None, mode: str | None = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        start = torch.cat(self.initial_state(len(u)) if state is None else state, 1)
        drive, inner = (t.transpose(0, 1) for t in (self.encoder(u)[..., 0], self.skip(u)))
        kernels = self.feedback, self.recurrent.weight, self.memory.weight
        weights = Weights(*kernels, self.network, self.config.f)
        small = start.numel() * self.network.order <= SMALL
        both = (as_one_network if small else by_equations)(drive, inner, start, weights)
        y = both[..., : self.units].transpose(0, 1)
        return y, (y[:, -1], both[-1, :, self.units :])
