"""A loop over time with a closed-form backward: the fastest scan on CPU for small blocks.

For x_k = A_k x_{k-1} + b_k with upstream gradients g_k the adjoint is the same recurrence run
backwards,

    lambda_T = g_T,   lambda_k = g_k + A_{k+1}^H lambda_{k+1},
    db_k = lambda_k,   dA_k = lambda_k x_{k-1}^H,   dx_0 = A_1^H lambda_1,

so nothing but A and the states has to be kept, and no step allocates a full-length gradient.

Layout: inside, the batch is the last axis, (T, h, b, b, B). Every operation of a step is then
elementwise over contiguous rows of B numbers, six times faster on CPU than batched 8 x 8 products.
A caller who computes blocks in that layout and passes a permuted view causes no copy.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from lrbench.scan.indexed import table_scan
from lrbench.scan.transitions import BlockDiagonal, Diagonal, Indexed, Transition, written_out


def sequential(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    if isinstance(transition, Indexed) and isinstance(transition.table, BlockDiagonal):
        return table_scan(transition.table.blocks[0], inputs[0], transition.index, initial)
    dense, inputs = written_out(transition, inputs)
    if isinstance(dense, Diagonal):
        return DiagonalLoop.apply(dense.values, inputs, initial)
    return BlockLoop.apply(dense.blocks, inputs, initial)


def fold_batch(info: Any, in_dims: tuple[int | None, ...], tensors: tuple[Tensor, ...]) -> Any:
    """Move each tensor's vmapped axis into its batch axis, for a vmap rule: (K, B, ..) -> (K B, ..)."""
    folded = []
    for tensor, dim in zip(tensors, in_dims, strict=True):
        moved = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
        folded.append(moved.expand(info.batch_size, *moved.shape[1:]).flatten(0, 1))
    return folded


class BlockLoop(Function):
    """blocks (B, T, h, b, b), inputs (B, T, h, b), initial (B, h, b) -> states (B, T, h, b)."""

    @staticmethod
    def forward(blocks: Tensor, inputs: Tensor, initial: Tensor) -> Tensor:
        a = blocks.permute(1, 2, 3, 4, 0).contiguous()
        states = inputs.permute(1, 2, 3, 0).contiguous().clone()
        state = initial.permute(1, 2, 0)
        for step, out in zip(a, states, strict=True):
            state = out.add_((step * state[:, None]).sum(2))
        return states.permute(3, 0, 1, 2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        blocks, _, initial = inputs
        ctx.save_for_backward(blocks, initial, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        blocks, initial, states = ctx.saved_tensors
        a = blocks.permute(1, 2, 3, 4, 0)
        x = states.permute(1, 2, 3, 0)
        adjoint = grads[0].permute(1, 2, 3, 0).contiguous().clone()
        first = initial.permute(1, 2, 0)
        da = torch.empty_like(a, memory_format=torch.contiguous_format)
        carried = torch.zeros_like(first)
        for k in range(len(adjoint) - 1, -1, -1):
            lam = adjoint[k].add_(carried)
            before = x[k - 1] if k else first
            torch.mul(lam[:, :, None], before[:, None].conj(), out=da[k])
            carried = (a[k].conj() * lam[:, :, None]).sum(1)
        return da.permute(4, 0, 1, 2, 3), adjoint.permute(3, 0, 1, 2), carried.permute(2, 0, 1)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> Any:
        states = BlockLoop.apply(*fold_batch(info, in_dims, tensors))
        return states.unflatten(0, (info.batch_size, -1)), 0


class DiagonalLoop(Function):
    """values (B, T, N), inputs (B, T, N), initial (B, N) -> states (B, T, N); real or complex."""

    @staticmethod
    def forward(values: Tensor, inputs: Tensor, initial: Tensor) -> Tensor:
        a = values.transpose(0, 1).contiguous()
        states = inputs.transpose(0, 1).contiguous().clone()
        state = initial
        for step, out in zip(a, states, strict=True):
            state = out.addcmul_(step, state)
        return states.transpose(0, 1)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        values, _, initial = inputs
        ctx.save_for_backward(values, initial, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        values, initial, states = ctx.saved_tensors
        a = values.transpose(0, 1).contiguous().conj().resolve_conj()
        adjoint = grads[0].transpose(0, 1).contiguous().clone()
        carried = torch.zeros_like(adjoint[0])
        for k in range(len(adjoint) - 1, -1, -1):
            carried = a[k] * adjoint[k].add_(carried)
        before = torch.cat([initial[None], states.transpose(0, 1)[:-1]])
        da = adjoint * before.conj()
        return da.transpose(0, 1), adjoint.transpose(0, 1), carried

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> Any:
        states = DiagonalLoop.apply(*fold_batch(info, in_dims, tensors))
        return states.unflatten(0, (info.batch_size, -1)), 0
