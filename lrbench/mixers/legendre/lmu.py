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

A non-linear recurrence: position by position is the only mode, in one of two ways of the same loop,
below. Initial values as in the 2019 paper: e_x and e_h LeCun uniform, e_m zero, W_*
Glorot normal. One memory; the several of later implementations are not part of either paper's
equations.

The two ways return z_1 .. z_T (T, B, n) of z = (h, m), n = d_h + d numbers, from z_0 (B, n),
differentiable.

`by_equations` has the least arithmetic; `as_one_network` reads the three equations as one layer,

    z_t = F(K z_{t-1} + e_x^T x_t g + (W_x x_t; 0)),   F = f on the first d_h numbers, else nothing
    g = R B_bar,   K = [(W_h; 0), R A_bar] + g e^T,    e = (e_h; e_m), R = (W_m; I)

which is one product a position instead of four, with d (d_h + d) multiplications more for each
string, and gradients of weights by one product at the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from lrbench.checks import at_least, one_of
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.mixers.base import Mixer
from lrbench.mixers.legendre.delay_network import DelayNetwork
from lrbench.mixers.legendre.nonlinearity import NONLINEARITIES, pull_back
from lrbench.registry import register_mixer

SMALL = 2**16  # strings x d (d_h + d): up to here python costs more than arithmetic


@dataclass
class LMUConfig:
    """Settings of `lmu`.

    order: d, numbers of the memory. theta: the window of the memory, in positions. outputs: units
    of the non-linear layer; unset the width. f: the non-linearity.
    """

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

    rounds = False

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


@dataclass(frozen=True)
class Weights:
    """e (n), W_h (d_h, d_h) and W_m (d_h, d); and what is frozen or chosen: A_bar, B_bar and f."""

    feedback: Tensor
    recurrent: Tensor
    memory: Tensor
    network: DelayNetwork
    f: str


def by_equations(drive: Tensor, inner: Tensor, start: Tensor, weights: Weights) -> Tensor:
    """Run Eq. 15-17 one after the other for e_x^T x (T, B) and W_x x (T, B, d_h)."""
    loop = _ByEquations(weights.network, weights.f)
    kernels = weights.feedback, weights.recurrent, weights.memory
    return ClosedForm(loop.forward, loop.backward, one_by_one)(drive, inner, start, *kernels)


def as_one_network(drive: Tensor, inner: Tensor, start: Tensor, weights: Weights) -> Tensor:
    """Return what `by_equations` does, but for rounding."""
    a, b = weights.network.matrices(start)
    reach = torch.cat([weights.memory, torch.eye(len(b), dtype=b.dtype, device=b.device)])
    entry = reach @ b
    recurrent = pad(weights.recurrent, (0, 0, 0, len(b)))
    matrix = torch.addr(torch.cat([recurrent, reach @ a], 1), entry, weights.feedback)
    joint = torch.addcmul(pad(inner, (0, len(b))), drive[..., None], entry)
    loop = _AsOneNetwork(len(weights.recurrent), weights.f)
    return ClosedForm(loop.forward, loop.backward, one_by_one)(joint, start, matrix)


@dataclass(frozen=True)
class _ByEquations:
    network: DelayNetwork
    f: str

    def forward(self, *inputs: Tensor) -> tuple[Tensor]:
        drive, inner, start, feedback, recurrent, memory = inputs
        a, b = self.network.matrices(start)
        apply, units = NONLINEARITIES[self.f], len(recurrent)
        states = start.new_empty(len(drive), *start.shape)
        z = start
        for k, out in enumerate(states):
            m = torch.outer(torch.addmv(drive[k], z, feedback), b)
            m.addmm_(z[:, units:], a.T)
            h = torch.addmm(inner[k], z[:, :units], recurrent.T).addmm_(m, memory.T)
            out[:, :units], out[:, units:] = apply(h), m
            z = out
        return (states,)

    def backward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        drive, inner, start, feedback, recurrent, memory, result, gradient = tensors
        a, b = self.network.matrices(start)
        units = len(recurrent)
        ddrive, dinner = torch.empty_like(drive), torch.empty_like(inner)
        dfeedback, drecurrent, dmemory = map(torch.zeros_like, (feedback, recurrent, memory))
        later = torch.zeros_like(start)
        for k in reversed(range(len(drive))):
            z, before = result[k], result[k - 1] if k else start
            total = later.add_(gradient[k])
            dh = pull_back(self.f, total[:, :units], z[:, :units])
            dm = torch.addmm(total[:, units:], dh, memory)
            du = dm @ b
            ddrive[k], dinner[k] = du, dh
            drecurrent.addmm_(dh.T, before[:, :units])
            dmemory.addmm_(dh.T, z[:, units:])
            dfeedback.addmv_(before.T, du)
            later = torch.outer(du, feedback)
            later[:, :units].addmm_(dh, recurrent)
            later[:, units:].addmm_(dm, a)
        return ddrive, dinner, later, dfeedback, drecurrent, dmemory


@dataclass(frozen=True)
class _AsOneNetwork:
    units: int
    f: str

    def forward(self, drive: Tensor, start: Tensor, matrix: Tensor) -> tuple[Tensor]:
        apply, transposed, z = NONLINEARITIES[self.f], matrix.T.contiguous(), start
        states = torch.empty_like(drive)
        heads = states[..., : self.units].unbind(0)
        for at, out, head in zip(drive.unbind(0), states.unbind(0), heads, strict=True):
            z = torch.addmm(at, z, transposed, out=out)
            apply(head)
        return (states,)

    def backward(
        self, drive: Tensor, start: Tensor, matrix: Tensor, result: Tensor, gradient: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        adjoints, later = torch.empty_like(result), torch.zeros_like(start)
        steps = zip(*(t.unbind(0) for t in (gradient, result, adjoints)), strict=True)
        for given, z, out in reversed(list(steps)):
            torch.add(later, given, out=out)
            out[:, : self.units] = pull_back(self.f, out[:, : self.units], z[:, : self.units])
            later = out @ matrix
        before = torch.cat([start[None], result[:-1]])
        return adjoints, later, adjoints.flatten(0, 1).T @ before.flatten(0, 1)
