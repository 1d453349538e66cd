"""The original Legendre memory unit: a delay network and a non-linear layer that drive each other.

Voelker, Kajic & Eliasmith, "Legendre Memory Units", NeurIPS 2019, as in Chilkuri & Eliasmith,
arXiv:2102.11417, Eq. 15-17:

    u_t = e_x^T x_t + e_h^T h_{t-1} + e_m^T m_{t-1}
    m_t = A_bar m_{t-1} + B_bar u_t
    h_t = f(W_x x_t + W_h h_{t-1} + W_m m_t)

Glossary
    x, h              input, output      (B, T, D) and (B, T, d_h), d_h = `outputs` or D
    u                 what is memorised  (B, T), one number
    m                 memory             (B, T, d), d = `order`; see lrbench/mixers/delay_network.py
    A_bar, B_bar      frozen             the delay network's, for a window of `theta` positions
    e_x               encoder            1 x D
    e_h, e_m          feedback           d_h + d numbers
    W_x, W_h, W_m     kernels            no bias, as printed

A non-linear recurrence: position by position is the only mode. Initial values as in the 2019 paper:
e_x and e_h LeCun uniform, e_m zero, W_* Glorot normal. One memory; the several of later
implementations are not part of either paper's equations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import Mixer
from lrbench.mixers.delay_network import DelayNetwork
from lrbench.mixers.nonlinearity import NONLINEARITIES, pull_back
from lrbench.registry import register_mixer
from lrbench.scan.closed_form import ClosedForm, one_by_one


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
        loop = _Loop(self.network, self.config.f)
        weights = self.feedback, self.recurrent.weight, self.memory.weight
        both = ClosedForm(loop.forward, loop.backward, one_by_one)(
            self.encoder(u)[..., 0], self.skip(u), start, *weights
        )
        y = both[..., : self.units]
        return y, (y[:, -1], both[:, -1, self.units :])


@dataclass(frozen=True)
class _Loop:
    """The recurrence of z_t = (h_t, m_t) and its adjoint.

    Shapes: drive = e_x^T x (B, T), inner = W_x x (B, T, d_h), start z_0 (B, d_h + d), feedback
    (e_h, e_m), result z_1 .. z_T (B, T, d_h + d), in memory position by position.
    """

    network: DelayNetwork
    f: str

    def forward(
        self,
        drive: Tensor,
        inner: Tensor,
        start: Tensor,
        feedback: Tensor,
        recurrent: Tensor,
        memory: Tensor,
    ) -> tuple[Tensor]:
        a, b = self.network.matrices(start)
        apply, units = NONLINEARITIES[self.f], len(recurrent)
        states = start.new_empty(drive.shape[1], *start.shape)
        z = start
        for k, out in enumerate(states):
            m = torch.outer(torch.addmv(drive[:, k], z, feedback), b)
            m.addmm_(z[:, units:], a.T)
            h = torch.addmm(inner[:, k], z[:, :units], recurrent.T).addmm_(m, memory.T)
            out[:, :units], out[:, units:] = apply(h), m
            z = out
        return (states.transpose(0, 1),)

    def backward(
        self,
        drive: Tensor,
        inner: Tensor,
        start: Tensor,
        feedback: Tensor,
        recurrent: Tensor,
        memory: Tensor,
        result: Tensor,
        gradient: Tensor,
    ) -> tuple[Tensor, ...]:
        a, b = self.network.matrices(start)
        units = len(recurrent)
        ddrive, dinner = torch.empty_like(drive), torch.empty_like(inner)
        dfeedback, drecurrent, dmemory = map(torch.zeros_like, (feedback, recurrent, memory))
        later = torch.zeros_like(start)
        for k in reversed(range(drive.shape[1])):
            z, before = result[:, k], result[:, k - 1] if k else start
            total = later.add_(gradient[:, k])
            dh = pull_back(self.f, total[:, :units], z[:, :units])
            dm = torch.addmm(total[:, units:], dh, memory)
            du = dm @ b
            ddrive[:, k], dinner[:, k] = du, dh
            drecurrent.addmm_(dh.T, before[:, :units])
            dmemory.addmm_(dh.T, z[:, units:])
            dfeedback.addmv_(before.T, du)
            later = torch.outer(du, feedback)
            later[:, :units].addmm_(dh, recurrent)
            later[:, units:].addmm_(dm, a)
        return ddrive, dinner, later, dfeedback, drecurrent, dmemory
