"""The scan of J_k = diag(s_k) A: a matrix for all positions, its rows scaled at each.

    d_k = s_k (A d_{k-1}) + r_k

With upstream gradients g_k, l_k = g_k + A^T (s_{k+1} l_{k+1}) and

    dr_k = l_k,   ds_k = l_k (A d_{k-1}),   dA = sum_k (s_k l_k) d_{k-1}^T,   dd_0 = A^T (s_1 l_1).

Shapes: s, r, d (T, B, N), time first; A (N, N); d_0 (B, N).
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.linearised import Linearised


class RowScaled(Linearised):
    """Jacobians diag(s_k) A of a layer of units with weights A: `scale` (T, B, N), `matrix`."""

    def __init__(self, scale: Tensor, matrix: Tensor) -> None:
        self.scale, self.matrix = scale, matrix

    def add_product(self, out: Tensor, position: int, v: Tensor) -> None:
        out.addcmul_(self.scale[position], v @ self.matrix.T)

    def add_transposed(self, out: Tensor, position: int, v: Tensor) -> None:
        out.addmm_(v * self.scale[position], self.matrix)

    def matrices(self) -> Tensor:
        return self.scale[..., None] * self.matrix

    def diagonal(self) -> Tensor:
        return self.scale * self.matrix.diagonal()

    def loop(self, inputs: Tensor, initial: Tensor) -> Tensor:
        """Return d_1..d_T, (T, B, N), by a loop over time; differentiable."""
        return ROW_SCALED(self.scale, self.matrix, inputs, initial)


def _forward(scale: Tensor, matrix: Tensor, inputs: Tensor, initial: Tensor) -> tuple[Tensor]:
    states = inputs.clone(memory_format=torch.contiguous_format)
    transposed, before = matrix.T, initial
    for state, factor in zip(states.unbind(0), scale.unbind(0), strict=True):
        before = state.addcmul_(factor, before @ transposed)
    return (states,)


def _backward(
    scale: Tensor,
    matrix: Tensor,
    _: Tensor,
    initial: Tensor,
    states: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    adjoints = gradient.clone(memory_format=torch.contiguous_format)
    scaled = torch.empty_like(adjoints)
    carried = torch.zeros_like(initial)
    parts = zip(adjoints.unbind(0), scale.unbind(0), scaled.unbind(0), strict=True)
    for adjoint, factor, out in reversed(list(parts)):
        torch.mul(adjoint.add_(carried), factor, out=out)
        carried = out @ matrix
    before = torch.cat([initial[None], states[:-1]])
    dscale = (before @ matrix.T).mul_(adjoints)
    dmatrix = scaled.flatten(0, 1).T @ before.flatten(0, 1)
    return dscale, dmatrix, adjoints, carried


ROW_SCALED = ClosedForm(_forward, _backward, one_by_one)
