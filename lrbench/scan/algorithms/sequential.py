"""A loop over time with a closed-form backward: the fastest scan on CPU for small blocks.

For x_k = A_k x_{k-1} + b_k with upstream gradients g_k the adjoint is the same recurrence run
backwards,

    lambda_T = g_T,   lambda_k = g_k + A_{k+1}^H lambda_{k+1},
    db_k = lambda_k,   dA_k = lambda_k x_{k-1}^H,   dx_0 = A_1^H lambda_1,

so nothing but A and the states has to be kept, and no step allocates a full-length gradient.

Layout: inside, the batch is the last axis, (T, h, b, b, B). Every operation of a step is then
elementwise over contiguous rows of B numbers, six times faster on CPU than batched 8 x 8 products.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, fold
from lrbench.kernels.rows import LARGEST_PRODUCT
from lrbench.scan.algorithms.adjoint import in_order
from lrbench.scan.algorithms.constant import constant_loop, is_constant
from lrbench.scan.algorithms.indexed_diagonal import indexed_diagonal
from lrbench.scan.blocks.generated import generated_scan
from lrbench.scan.blocks.indexed import LARGEST_TABLE, table_scan
from lrbench.scan.blocks.perceptron_blocks import perceptron_scan
from lrbench.scan.transitions import (
    BlockDiagonal,
    Diagonal,
    GeneratedBlocks,
    Indexed,
    PerceptronBlocks,
    Structured,
    Transition,
    scanned,
    written_out,
)


def sequential(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    by_itself = scanned(in_order, transition, inputs, initial)
    if by_itself is not None:
        return by_itself
    if inputs.device.type == "cpu":  # loops that keep one position in the cache
        if isinstance(transition, PerceptronBlocks):
            return perceptron_scan(transition, inputs, initial)
        if isinstance(transition, GeneratedBlocks):
            return generated_scan(transition, inputs, initial)
        if isinstance(transition, Indexed) and inputs.shape[1] <= LARGEST_TABLE:
            table = transition.table.written()
            if isinstance(table, BlockDiagonal):
                blocks = table.blocks[0].expand(*inputs.shape[1:], -1)  # of a structure, for all h
                return table_scan(blocks, inputs[0], transition.index, initial)
    if isinstance(transition, Structured):
        return transition.looped(inputs, initial)
    if is_constant(transition):
        return constant_loop(transition, inputs, initial)
    if isinstance(transition, Indexed) and isinstance(transition.table, Diagonal):
        values = transition.table.values[0]
        if len(values) <= LARGEST_PRODUCT:
            return indexed_diagonal(values, inputs[0], transition.index, initial)
    dense, inputs = written_out(transition, inputs)
    if isinstance(dense, Diagonal):
        return DIAGONAL_LOOP(dense.values, inputs, initial)
    blocks = dense.blocks.expand(-1, -1, inputs.shape[2], -1, -1)  # of a structure, for all h
    return BLOCK_LOOP(blocks, inputs, initial)


def _block_forward(blocks: Tensor, inputs: Tensor, initial: Tensor) -> tuple[Tensor]:
    """Scan blocks (B, T, h, b, b) and inputs (B, T, h, b) from (B, h, b): states (B, T, h, b)."""
    a = blocks.permute(1, 2, 3, 4, 0).contiguous()
    states = inputs.permute(1, 2, 3, 0).clone(memory_format=torch.contiguous_format)
    state = initial.permute(1, 2, 0)
    for step, out in zip(a, states, strict=True):
        state = out.add_((step * state[:, None]).sum(2))
    return (states.permute(3, 0, 1, 2),)


def _block_backward(
    blocks: Tensor, _: Tensor, initial: Tensor, states: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    a = blocks.permute(1, 2, 3, 4, 0)
    x = states.permute(1, 2, 3, 0)
    adjoint = gradient.permute(1, 2, 3, 0).clone(memory_format=torch.contiguous_format)
    first = initial.permute(1, 2, 0)
    da = torch.empty_like(a, memory_format=torch.contiguous_format)
    carried = torch.zeros_like(first)
    for k in range(len(adjoint) - 1, -1, -1):
        lam = adjoint[k].add_(carried)
        before = x[k - 1] if k else first
        torch.mul(lam[:, :, None], before[:, None].conj(), out=da[k])
        carried = (a[k].conj() * lam[:, :, None]).sum(1)
    return da.permute(4, 0, 1, 2, 3), adjoint.permute(3, 0, 1, 2), carried.permute(2, 0, 1)


def _diagonal_forward(values: Tensor, inputs: Tensor, initial: Tensor) -> tuple[Tensor]:
    """Scan values (B, T, N) and inputs (B, T, N) from (B, N), real or complex: states (B, T, N)."""
    a = values.transpose(0, 1).contiguous()
    states = inputs.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    state = initial
    for step, out in zip(a, states, strict=True):
        state = out.addcmul_(step, state)
    return (states.transpose(0, 1),)


def _diagonal_backward(
    values: Tensor, _: Tensor, initial: Tensor, states: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    a = values.transpose(0, 1).contiguous().conj().resolve_conj()
    adjoint = gradient.transpose(0, 1).clone(memory_format=torch.contiguous_format)
    carried = torch.zeros_like(adjoint[0])
    for k in range(len(adjoint) - 1, -1, -1):
        carried = a[k] * adjoint[k].add_(carried)
    before = torch.cat([initial[None], states.transpose(0, 1)[:-1]])
    da = adjoint * before.conj()
    return da.transpose(0, 1), adjoint.transpose(0, 1), carried


BLOCK_LOOP = ClosedForm(_block_forward, _block_backward, fold)
DIAGONAL_LOOP = ClosedForm(_diagonal_forward, _diagonal_backward, fold)
