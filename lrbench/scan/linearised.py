"""Scans over matrices given by their products: the Jacobians of a non-linear recurrence.

    d_k = J_k d_{k-1} + r_k          and its adjoint          l_k = g_k + J_{k+1}^T l_{k+1}

A Jacobian of a network of N units is made of a few vectors per position and matrices that all
positions share. A loop over time multiplies by those, N^2 a step as the network itself, and no
N x N matrix is ever written. Every other algorithm joins transitions, N^3 each: they get the
matrices. Time is the first axis throughout, (T, B, N).

`RowScaled` is J_k = diag(s_k) A, a matrix for all positions, its rows scaled at each:

    d_k = s_k (A d_{k-1}) + r_k

With upstream gradients g_k, l_k = g_k + A^T (s_{k+1} l_{k+1}) and

    dr_k = l_k,   ds_k = l_k (A d_{k-1}),   dA = sum_k (s_k l_k) d_{k-1}^T,   dd_0 = A^T (s_1 l_1).

Shapes: s, r, d (T, B, N), time first; A (N, N); d_0 (B, N).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.scan import scan
from lrbench.scan.transitions import BlockDiagonal

LOOP = "sequential"
MOST_NUMBERS = 1 << 27  # of matrices that `auto` writes to a GPU's memory, half a gigabyte


class Linearised(ABC):
    """Jacobians J_1..J_T of B strings, (T, B, N, N), none of them written out."""

    @abstractmethod
    def add_product(self, out: Tensor, position: int, v: Tensor) -> None:
        """Add J_k v to `out` (B, N) in place, k = `position` from 0."""

    @abstractmethod
    def add_transposed(self, out: Tensor, position: int, v: Tensor) -> None:
        """Add J_k^T v to `out` (B, N) in place."""

    @abstractmethod
    def matrices(self) -> Tensor:
        """Return J_1..J_T, (T, B, N, N), [row, column]; differentiable."""

    @abstractmethod
    def diagonal(self) -> Tensor:
        """Return the diagonals of J_1..J_T, (T, B, N); differentiable."""

    def loop(self, inputs: Tensor, initial: Tensor) -> Tensor:
        """Return d_1..d_T, (T, B, N), by a loop over time; without gradients."""
        states = inputs.clone(memory_format=torch.contiguous_format)
        before = initial
        for k, state in enumerate(states.unbind(0)):
            self.add_product(state, k, before)
            before = state
        return states

    def advance(self, after: Tensor, states: Tensor) -> Tensor:
        """Turn x (T, B, N) into f + J d, d_k = f_k + J_k d_{k-1} - x_k, in place; return d.

        f = `after` is overwritten. All of a position is done while it is in the cache.
        """
        changes = torch.empty_like(states)
        steps = zip(after.unbind(0), states.unbind(0), changes.unbind(0), strict=True)
        before = None
        for k, (value, state, change) in enumerate(steps):
            if before is not None:
                self.add_product(value, k, before)
            before = torch.sub(value, state, out=change)
            state.copy_(value)
        return changes


def linearised_scan(
    jacobians: Linearised, inputs: Tensor, initial: Tensor, algorithm: str
) -> Tensor:
    """Return d_1..d_T, (T, B, N), for r_1..r_T (T, B, N) and d_0 (B, N)."""
    if by_loop(inputs, algorithm):
        return jacobians.loop(inputs, initial)
    return _by_matrices(jacobians.matrices(), inputs, initial, algorithm)


def linearised_adjoint(jacobians: Linearised, gradient: Tensor, algorithm: str) -> Tensor:
    """Return l_1..l_T, (T, B, N), for upstream gradients g (T, B, N): one reversed scan."""
    if not by_loop(gradient, algorithm):
        backwards = jacobians.matrices().mT.flip(0).roll(1, 0)  # of the first nothing is carried
        zero = torch.zeros_like(gradient[0])
        return _by_matrices(backwards, gradient.flip(0), zero, algorithm).flip(0)
    adjoints = gradient.clone(memory_format=torch.contiguous_format)
    upstream = adjoints.unbind(0)
    for k in range(len(upstream) - 1, 0, -1):
        jacobians.add_transposed(upstream[k - 1], k, upstream[k])
    return adjoints


def _by_matrices(matrices: Tensor, inputs: Tensor, initial: Tensor, algorithm: str) -> Tensor:
    """Scan inputs (T, B, N) from (B, N) by matrices (T, B, N, N)."""
    transition = BlockDiagonal(matrices.transpose(0, 1)[:, :, None])
    states = scan(transition, inputs.transpose(0, 1)[:, :, None], initial[:, None], algorithm)
    return states[:, :, 0].transpose(0, 1)


def by_loop(inputs: Tensor, algorithm: str) -> bool:
    """Tell whether a loop is to be used for inputs (T, B, N).

    `auto`: a CPU has no use for N^3 a step; a GPU has, where the matrices fit.
    """
    if algorithm != "auto":
        return algorithm == LOOP
    large = inputs.numel() * inputs.shape[-1] > MOST_NUMBERS
    return large or inputs.device.type == "cpu"


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


def _backward(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scale, matrix, _, initial, states, gradient = tensors
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
