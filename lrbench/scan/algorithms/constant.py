"""The loop over time for transitions that are the same at every position.

A step reads one set of coefficients that stays in the cache, so that time goes into reading inputs
and writing states alone; the batch stays first, as the products before and after the scan want it.
The gradient of the coefficients is summed as the loop goes: products lambda x^H of all positions
would be as large as the states.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, fold, one_by_one
from lrbench.kernels.rows import LARGEST_PRODUCT
from lrbench.scan.algorithms.indexed_diagonal import conjugate_into, indexed_diagonal
from lrbench.scan.transitions import (
    Constant,
    ConstantBlocks,
    ConstantDiagonal,
    Indexed,
    Transition,
    form_of,
    looked_up,
)


def constant_loop(transition: Constant | Indexed, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states (B, T, ...) from `initial` (B, ...).

    `inputs` is (B, T, ...), or the table (1, S, ...) of an `Indexed` constant transition.
    """
    if isinstance(transition, Indexed) and inputs.shape[1] <= LARGEST_PRODUCT:
        table = transition.table
        if isinstance(table, ConstantDiagonal):
            return indexed_diagonal(table.values, inputs[0], transition.index, initial)
    found, inputs = looked_up(transition, inputs)
    if isinstance(found, ConstantDiagonal):
        values = found.values.expand(initial.shape)  # by string, so that groups fold
        return DIAGONAL(values, inputs, initial)
    assert isinstance(found, ConstantBlocks)
    return BLOCKS(found.blocks, inputs, initial)


def is_constant(transition: Transition) -> TypeGuard[Constant | Indexed]:
    """Whether a transition, or what is looked up in its table, is the same at every position."""
    return form_of(transition).constant


def _own(values: Tensor) -> Tensor:
    """Return a copy in the order of its axes, even of a view on memory of another order."""
    return values.clone(memory_format=torch.contiguous_format)


def _diagonal_forward(values: Tensor, inputs: Tensor, initial: Tensor) -> tuple[Tensor]:
    """Scan inputs (B, T, N) from (B, N) by values (B, N): states (B, T, N)."""
    states, state = _own(inputs), initial
    for out in states.unbind(1):
        state = out.addcmul_(values, state)
    return (states,)


def _diagonal_backward(
    values: Tensor, _: Tensor, initial: Tensor, states: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    adjoints, conjugate = _own(gradient), values.conj().resolve_conj()
    total, scratch = torch.zeros_like(initial), torch.empty_like(initial)
    later = None
    befores = (initial, *states.unbind(1)[:-1])
    for adjoint, before in zip(reversed(adjoints.unbind(1)), reversed(befores), strict=True):
        if later is not None:
            adjoint.addcmul_(conjugate, later)
        total.addcmul_(conjugate_into(scratch, adjoint), before)
        later = adjoint
    assert later is not None
    return total.conj(), adjoints, conjugate * later


def _blocks_forward(blocks: Tensor, inputs: Tensor, initial: Tensor) -> tuple[Tensor]:
    """Scan inputs (B, T, h, b) from (B, h, b) by blocks (h, b, b): states (B, T, h, b)."""
    states, transposed = _heads_first(inputs), blocks.mT.contiguous()
    state = initial.transpose(0, 1)
    for out in states:
        state = out.baddbmm_(state, transposed)
    return (states.permute(2, 0, 1, 3),)


def _blocks_backward(
    blocks: Tensor, _: Tensor, initial: Tensor, states: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    adjoints = _heads_first(gradient.conj())
    for k in range(len(adjoints) - 2, -1, -1):
        adjoints[k].baddbmm_(adjoints[k + 1], blocks)
    befores = torch.cat([initial[:, None], states[:, :-1]], 1).permute(2, 3, 1, 0)
    conjugate = adjoints.permute(1, 3, 0, 2).flatten(2) @ befores.flatten(2).mT
    dinitial = torch.bmm(adjoints[0], blocks).transpose(0, 1)
    return conjugate.conj(), adjoints.permute(2, 0, 1, 3).conj(), dinitial.conj()


def _heads_first(values: Tensor) -> Tensor:
    """Copy (B, T, h, b) to (T, h, B, b), a new tensor."""
    return values.permute(1, 2, 0, 3).clone(memory_format=torch.contiguous_format)


DIAGONAL = ClosedForm(_diagonal_forward, _diagonal_backward, fold)
BLOCKS = ClosedForm(_blocks_forward, _blocks_backward, one_by_one)
