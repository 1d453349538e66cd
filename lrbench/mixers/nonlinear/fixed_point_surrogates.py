"""Surrogate Jacobians for the fixed-point iteration of a non-linear recurrence.

Su (kexue.fm 9783) derives four iterations of x_k = tanh(A x_{k-1} + u_k) one by one. All of them
take the Jacobian of f; what differs is where, and how much of it:

    jacobi   0                                                    (not in the post)
    plain    at x = 0, u = 0        A;  gated unit (I + U_h / 2) / 2
    taylor   at x = 0, u_k          diag(sech^2 u_k) A
    newton   at x_{k-1}, u_k        diag(sech^2(A x_{k-1} + u_k)) A; DEER (Lim et al. 2024)
    quasi    newton's diagonal      quasi-DEER (Gonzalez et al. 2024)
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.errors import unknown
from lrbench.mixers.nonlinear.recurrence import Recurrence, Tensors
from lrbench.scan import ConstantBlocks, ConstantDiagonal, Diagonal, Transition, scan
from lrbench.scan.linearised import Linearised, by_loop, linearised_scan

NOWHERE, ORIGIN, INPUT, ITERATE = "nowhere", "origin", "input", "iterate"
Linear = Linearised | Transition | None


@dataclass(frozen=True)
class Surrogate:
    """The choice of a Jacobian: taken `at` a place, of which the `diagonal` alone or all.

    At the origin it is the same for all positions, at the input for all iterations.
    """

    name: str
    at: str
    diagonal: bool = False


SURROGATES = {
    surrogate.name: surrogate
    for surrogate in (
        Surrogate("jacobi", NOWHERE),
        Surrogate("plain", ORIGIN),
        Surrogate("taylor", INPUT),
        Surrogate("newton", ITERATE),
        Surrogate("quasi", ITERATE, diagonal=True),
    )
}


def surrogate_of(name: str) -> Surrogate:
    """Return the surrogate of a name; UserError for an unknown one."""
    if name not in SURROGATES:
        raise unknown("surrogate", name, list(SURROGATES))
    return SURROGATES[name]


def fixed_linear(surrogate: Surrogate, recurrence: Recurrence, drive: Tensor) -> Linear:
    """Return the Jacobians that no iterate changes, None for those that one does; differentiable.

    `drive` is u (T, B, M).
    """
    if surrogate.at == ORIGIN:
        one = drive.new_zeros(1, 1, drive.shape[-1])
        jacobians = recurrence.jacobians(None, *recurrence.evaluate(None, one))
        if surrogate.diagonal:
            return ConstantDiagonal(jacobians.diagonal()[0, 0])
        return ConstantBlocks(jacobians.matrices()[0])
    if surrogate.at == INPUT:
        return _of(surrogate, recurrence.jacobians(None, *recurrence.evaluate(None, drive)))
    return None


def linear_at(
    surrogate: Surrogate, recurrence: Recurrence, before: Tensor, after: Tensor, gates: Tensors
) -> Linear:
    """Return the Jacobians at an iterate, where `evaluate` has returned (after, gates)."""
    if surrogate.at != ITERATE:
        return None
    return _of(surrogate, recurrence.jacobians(before, after, gates))


def corrections(linear: Linear, residuals: Tensor, initial: Tensor, algorithm: str) -> Tensor:
    """Return d_1..d_T, (T, B, N), of d_k = J_k d_{k-1} + r_k; without Jacobians they are r.

    `residuals` is r (T, B, N), `initial` d_0 (B, N). Diagonals that are complex act on pairs of
    neighbouring numbers, real and imaginary parts.
    """
    if linear is None:
        return residuals
    if isinstance(linear, ConstantDiagonal) and linear.values.is_complex():
        found = scan(linear, paired(residuals).transpose(0, 1), paired(initial), algorithm)
        return torch.view_as_real(found.transpose(0, 1)).flatten(-2)
    if isinstance(linear, Linearised):
        return linearised_scan(linear, residuals, initial, algorithm)
    by_string = residuals.transpose(0, 1)
    if isinstance(linear, Diagonal | ConstantDiagonal):
        return scan(linear, by_string, initial, algorithm).transpose(0, 1)
    found = scan(linear, by_string[:, :, None], initial[:, None], algorithm)
    return found[:, :, 0].transpose(0, 1)


def advance(linear: Linear, after: Tensor, states: Tensor, algorithm: str) -> Tensor:
    """Turn `states` x (T, B, N) into the next iterate, in place; return the changes d.

    `after` is f at them, and is overwritten. Wherever nothing changes up to a position, its next
    state is f to the last bit: x' = f + (d - r).
    """
    if isinstance(linear, Linearised) and by_loop(after, algorithm):
        return linear.advance(after, states)
    residuals = after - states
    changes = corrections(linear, residuals, torch.zeros_like(states[0]), algorithm)
    torch.add(after, changes - residuals, out=states)
    return changes


def product(linear: Linear, v: Tensor) -> Tensor:
    """Return J v (B, N) for v (B, N), of Jacobians of one position."""
    if linear is None:
        return torch.zeros_like(v)
    if isinstance(linear, Linearised):
        return torch.einsum("bij,bj->bi", linear.matrices()[0], v)
    if isinstance(linear, ConstantBlocks):
        return v @ linear.blocks[0].T
    assert isinstance(linear, Diagonal | ConstantDiagonal)
    values = linear.values if isinstance(linear, ConstantDiagonal) else linear.values[:, 0]
    if values.is_complex():
        return torch.view_as_real(values * paired(v)).flatten(-2)
    return values * v


def paired(values: Tensor) -> Tensor:
    """Return (.., N / 2) complex numbers for N real ones, real and imaginary parts in turn."""
    return torch.view_as_complex(values.unflatten(-1, (-1, 2)).contiguous())


def _of(surrogate: Surrogate, jacobians: Linearised) -> Linear:
    if surrogate.diagonal:
        return Diagonal(jacobians.diagonal().transpose(0, 1))
    return jacobians
