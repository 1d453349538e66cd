"""The hidden layer that the features of generated blocks come from: relu(W u + c), and a 1.

It works position by position and leaves its result where a block scan reads it: (T, n + 1, B) in
memory. Autograd of one batched product would make a gradient of the weights for every position.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.products import add_product, product


def hidden_layer(weight: Tensor, bias: Tensor, u: Tensor) -> Tensor:
    """Return (relu(W u + c), 1), (B, T, n + 1), for u (B, T, D); weight (n, D), bias (n)."""
    return HIDDEN_LAYER(weight, bias, u)


def _forward(weight: Tensor, bias: Tensor, u: Tensor) -> tuple[Tensor]:
    """Map u (B, T, D) to (relu(W u + c), 1), (B, T, n + 1), position by position."""
    columns, matrix = with_ones(u), torch.cat([weight, bias[:, None]], 1)
    z = u.new_empty(len(columns), len(weight) + 1, len(u))
    z[:, -1] = 1
    for at, out in zip(columns, z[:, :-1], strict=True):
        product(matrix, at, out=out).relu_()
    return (z.permute(2, 0, 1),)


def _backward(
    weight: Tensor, bias: Tensor, u: Tensor, result: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    columns, transposed = with_ones(u), weight.T.contiguous()
    du = torch.empty_like(columns[:, :-1], memory_format=torch.contiguous_format)
    dmatrix = weight.new_zeros(len(weight), columns.shape[1])
    upstream = gradient.permute(1, 2, 0).contiguous()[:, :-1]
    z = result.permute(1, 2, 0)[:, :-1]
    before = torch.empty_like(z[0])
    for at, kept, g, out in zip(columns, z, upstream, du, strict=True):
        torch.ops.aten.threshold_backward(g, kept, 0, grad_input=before)
        add_product(dmatrix, before, at.T)
        product(transposed, before, out=out)
    return dmatrix[:, :-1], dmatrix[:, -1], du.permute(2, 0, 1)


def with_ones(u: Tensor) -> Tensor:
    """Return u (B, T, D) as (T, D + 1, B), with a 1 for the bias at the end."""
    columns = u.new_empty(u.shape[1], u.shape[2] + 1, len(u))
    columns[:, :-1] = u.permute(1, 2, 0)
    columns[:, -1] = 1
    return columns


HIDDEN_LAYER = ClosedForm(_forward, _backward, one_by_one)
