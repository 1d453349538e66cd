"""The recurrence of the original Legendre memory unit and its adjoint, in two ways.

Chilkuri & Eliasmith, arXiv:2102.11417, Eq. 15-17; glossary in `lmu.py`. Both return
z_1 .. z_T (T, B, n) of z = (h, m), n = d_h + d numbers, from z_0 (B, n), differentiable.

`by_equations` has the least arithmetic; `as_one_network` reads the three equations as one layer,

    z_t = F(K z_{t-1} + e_x^T x_t g + (W_x x_t; 0)),   F = f on the first d_h numbers, else nothing
    g = R B_bar,   K = [(W_h; 0), R A_bar] + g e^T,    e = (e_h; e_m), R = (W_m; I)

which is one product a position instead of four, with d (d_h + d) multiplications more for each
string, and gradients of weights by one product at the end.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.mixers.legendre.delay_network import DelayNetwork
from lrbench.mixers.legendre.nonlinearity import NONLINEARITIES, pull_back
from lrbench.scan.closed_form import ClosedForm, one_by_one


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
        states = start.new_empty(len(drive), *start.shape)
        z = start
        for k, out in enumerate(states):
            m = torch.outer(torch.addmv(drive[k], z, feedback), b)
            m.addmm_(z[:, units:], a.T)
            h = torch.addmm(inner[k], z[:, :units], recurrent.T).addmm_(m, memory.T)
            out[:, :units], out[:, units:] = apply(h), m
            z = out
        return (states,)

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
