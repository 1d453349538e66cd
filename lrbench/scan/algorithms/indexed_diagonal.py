"""The loop over time for elementwise transitions that depend on a symbol alone.

Coefficients of a position are picked from the table when their turn comes and forgotten, in the
cache; the backward picks them again and adds its gradient to the table's at once, a product with
one-hot marks. Nothing of size (B, T, N) exists but the states and what they came from.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, one_by_one


def indexed_diagonal(values: Tensor, inputs: Tensor, index: Tensor, initial: Tensor) -> Tensor:
    """Return the states (B, T, N) for tables `values` (S, N) or (N), `inputs` (S, N).

    `index` (B, T) holds the symbol at each position, `initial` (B, N) the state before it.
    """
    return (CONSTANT if values.dim() == 1 else VARYING)(values, inputs, index, initial)


def _constant_forward(
    values: Tensor, table: Tensor, index: Tensor, initial: Tensor
) -> tuple[Tensor]:
    states, state = _picked(table, index), initial
    for out in states.unbind(1):
        state = out.addcmul_(values, state)
    return (states,)


def _varying_forward(
    values: Tensor, table: Tensor, index: Tensor, initial: Tensor
) -> tuple[Tensor]:
    states, state, a = _picked(table, index), initial, torch.empty_like(initial)
    for out, symbols in zip(states.unbind(1), index.T.contiguous(), strict=True):
        torch.index_select(values, 0, symbols, out=a)
        state = out.addcmul_(a, state)
    return (states,)


def _constant_backward(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    values, table, index, initial, states, gradient = tensors
    conjugate, dtable = values.conj().resolve_conj(), torch.zeros_like(rows_of(table))
    total, adjoint = torch.zeros_like(initial), torch.zeros_like(initial)
    scratch = torch.empty_like(initial)
    steps = gradient.unbind(1), (initial, *states.unbind(1)[:-1]), _marks(table, index)
    for upstream, before, mark in reversed(list(zip(*steps, strict=True))):
        torch.addcmul(upstream, conjugate, adjoint, out=adjoint)
        total.addcmul_(conjugate_into(scratch, adjoint), before)
        dtable.addmm_(mark, rows_of(adjoint))
    return total.conj().sum(0), _like(table, dtable), conjugate * adjoint


def _varying_backward(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    values, table, index, initial, states, gradient = tensors
    conjugate, dvalues = values.conj().resolve_conj(), torch.zeros_like(rows_of(values))
    dtable, carried = torch.zeros_like(rows_of(table)), torch.zeros_like(initial)
    adjoint, a, scratch = (torch.empty_like(initial) for _ in range(3))
    befores = initial, *states.unbind(1)[:-1]
    steps = gradient.unbind(1), befores, _marks(table, index), index.T.contiguous()
    for upstream, before, mark, symbols in reversed(list(zip(*steps, strict=True))):
        torch.add(upstream, carried, out=adjoint)
        dtable.addmm_(mark, rows_of(adjoint))
        torch.index_select(conjugate, 0, symbols, out=a)
        torch.mul(a, adjoint, out=carried)
        product = (
            conjugate_into(scratch, adjoint).mul_(before)
            if values.is_complex()
            else (torch.mul(adjoint, before, out=scratch))
        )
        dvalues.addmm_(mark, rows_of(product))
    return _like(values, dvalues).conj(), _like(table, dtable), carried


def rows_of(x: Tensor) -> Tensor:
    """Return complex (.., N) as real (.., 2N), and real x itself."""
    return torch.view_as_real(x.resolve_conj()).flatten(-2) if x.is_complex() else x


def conjugate_into(scratch: Tensor, values: Tensor) -> Tensor:
    """Return conj(values) in `scratch`, or the values where they are real."""
    return torch.conj_physical(values, out=scratch) if values.is_complex() else values


def _like(table: Tensor, rows: Tensor) -> Tensor:
    """Return real rows as numbers of the kind of `table`."""
    return torch.view_as_complex(rows.unflatten(-1, (-1, 2))) if table.is_complex() else rows


def _picked(table: Tensor, index: Tensor) -> Tensor:
    return table.index_select(0, index.flatten()).view(*index.shape, -1)


def _marks(table: Tensor, index: Tensor) -> Tensor:
    """Return one-hot symbols (T, S, B)."""
    symbols = torch.arange(len(table), device=index.device)
    return (index.T[:, None] == symbols[:, None]).to(rows_of(table).dtype)


CONSTANT = ClosedForm(_constant_forward, _constant_backward, one_by_one)
VARYING = ClosedForm(_varying_forward, _varying_backward, one_by_one)
