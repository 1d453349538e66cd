"""A two-layer perceptron, worked through in pieces that stay in the cache.

    z = relu(W_1 x + c_1),   y = W_2 z + c_2

The arithmetic of a small perceptron is nothing; reading and writing (B, T, D) numbers for each of
its operations and their gradients is what costs on CPU. So a piece of some hundred positions goes
through all of them before the next one does. Kept for the backward: x and z.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.constraints import PIECE


def perceptron(layers: nn.Sequential, x: Tensor, start: int = 0) -> Tensor:
    """Return layers[start:](x), (..., C) for x (..., D), where those are Linear, ReLU, Linear.

    On CPU the result lies in memory as (C, ...), which is what a softmax over few classes wants.
    """
    first, last = layers[start], layers[start + 2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    if x.device.type != "cpu":
        result: Tensor = last(torch.relu(first(x)))
        return result
    return TWO_LAYERS(first.weight, first.bias, last.weight, last.bias, x)


def _forward(w1: Tensor, c1: Tensor, w2: Tensor, c2: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    rows = x.flatten(0, -2)
    z, logits = rows.new_empty(len(rows), len(w1)), rows.new_empty(len(w2), len(rows))
    piece = _rows_at_a_time(z)
    for xs, zs, out in zip(
        rows.split(piece), z.split(piece), logits.split(piece, dim=1), strict=True
    ):
        torch.addmm(c1, xs, w1.T, out=zs).relu_()
        torch.addmm(c2[:, None], w2, zs.T, out=out)
    return logits.T.unflatten(0, x.shape[:-1]), z


def _backward(
    w1: Tensor,
    c1: Tensor,
    w2: Tensor,
    c2: Tensor,
    x: Tensor,
    result: Tensor,
    z: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, ...]:
    rows, upstream = x.flatten(0, -2), gradient.flatten(0, -2)
    dx = torch.empty_like(rows, memory_format=torch.contiguous_format)
    dw1, dc1, dw2 = torch.zeros_like(w1), torch.zeros_like(c1), torch.zeros_like(w2)
    piece = _rows_at_a_time(z)
    split = (t.split(piece) for t in (rows, z, upstream, dx))
    for xs, zs, g, out in zip(*split, strict=True):
        dw2.addmm_(g.T, zs)
        before = torch.ops.aten.threshold_backward(g @ w2, zs, 0)
        dc1 += before.sum(0)
        dw1.addmm_(before.T, xs)
        torch.mm(before, w1, out=out)
    return dw1, dc1, dw2, upstream.sum(0), dx.view(x.shape)


def _rows_at_a_time(z: Tensor) -> int:
    return max(1, PIECE // max(1, z.shape[1]))


TWO_LAYERS = ClosedForm(_forward, _backward, one_by_one)
