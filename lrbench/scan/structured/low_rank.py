"""A diagonal matrix plus one of low rank, whose factors are the same at every position.

    x_k = A_k x_{k-1} + b_k,   A_k = diag(d_k) + U diag(s_k) V^T

costs R (2 N + 1) products a position, not N^2, where U and V are N x R. Products of such matrices
are not of this form, so that trees and chunks write them out. The loop here has the closed-form
adjoint of all its positions at once:

    lambda_k = g_k + d_{k+1} * lambda_{k+1} + V (s_{k+1} * U^T lambda_{k+1}),   with w = U^T lambda,
    dd = lambda * x,   ds = w * V^T x,   dU = lambda (s * V^T x)^T,   dV = x (s * w)^T.

`act` and `written` are the slow truth. Shapes: d (B, T, N), s (B, T, R), U and V (N, R), states
(B, 1, N); real.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.scan.transitions import BlockDiagonal, Structured


@dataclass(frozen=True)
class DiagonalPlusLowRank(Structured):
    """A_1..A_T of `values` d, `scales` s, `left` U and `right` V."""

    values: Tensor
    scales: Tensor
    left: Tensor
    right: Tensor

    def act(self, position: int, state: Tensor) -> Tensor:
        d, s = (x[:, position, None] for x in (self.values, self.scales))
        return d * state + (s * (state @ self.right)) @ self.left.T

    def written(self) -> BlockDiagonal:
        low = (self.left * self.scales[:, :, None]) @ self.right.T
        return BlockDiagonal((torch.diag_embed(self.values) + low)[:, :, None])

    def looped(self, inputs: Tensor, initial: Tensor) -> Tensor:
        parts = self.values, self.scales, self.left, self.right
        return LOOP(*parts, inputs[:, :, 0], initial[:, 0])[:, :, None]


def _forward(
    d: Tensor, s: Tensor, left: Tensor, right: Tensor, inputs: Tensor, initial: Tensor
) -> tuple[Tensor]:
    """Return the states (B, T, N) for inputs (B, T, N) and an initial one (B, N)."""
    diagonals, scales = (x.transpose(0, 1).contiguous() for x in (d, s))
    states = inputs.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    state = initial
    for diagonal, scale, out in zip(diagonals, scales, states, strict=True):
        state = out.addcmul_(diagonal, state).addmm_((state @ right).mul_(scale), left.T)
    return (states.transpose(0, 1),)


def _backward(*tensors: Tensor) -> Tensors:
    d, s, left, right, _inputs, initial, states, gradient = tensors
    diagonals, scales = (x.transpose(0, 1).contiguous() for x in (d, s))
    adjoints = gradient.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    carried = torch.zeros_like(adjoints[0])
    for k in range(len(adjoints) - 1, -1, -1):
        adjoint = adjoints[k].add_(carried)
        carried = torch.addmm(diagonals[k] * adjoint, (adjoint @ left).mul_(scales[k]), right.T)
    before = torch.cat([initial[None], states.transpose(0, 1)[:-1]])
    read, written = before @ right, adjoints @ left
    dleft = adjoints.flatten(0, 1).T @ (scales * read).flatten(0, 1)
    dright = before.flatten(0, 1).T @ (scales * written).flatten(0, 1)
    by_position = adjoints * before, written * read, adjoints
    dd, ds, dinputs = (x.transpose(0, 1) for x in by_position)
    return dd, ds, dleft, dright, dinputs, carried


LOOP = ClosedForm(_forward, _backward, one_by_one)
