"""A two-layer perceptron, worked through in pieces that stay in the cache.

    z = relu(W_1 x + c_1),   y = W_2 z + c_2

The arithmetic of a small perceptron is nothing; reading and writing (B, T, D) numbers for each of
its operations and their gradients is what costs on CPU. So a piece of some hundred positions goes
through all of them before the next one does. Kept for the backward: x and z.

Compiled are, for few outputs, the ReLU and the small second product, row by row. W_1 x and the
gradients of W_1 and x are left to `products.py`. With an upstream gradient g of y,

    dz = (W_2^T g) [z > 0],   dW_2 = sum g z^T,   dc_2 = sum g,   dc_1 = sum dz.

Shapes in loops: z and dz (N, H), H a multiple of WIDE; y and g (C, N), classes first. A call works
on rows `start` to `stop`; dz holds only those.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from lrbench.kernels.choice import DTYPES, heard, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import (
    add,
    every,
    fma,
    load,
    store,
    total,
    where_positive,
    zero,
)
from lrbench.kernels.products import add_product, product

PIECE = 1 << 16  # hidden numbers at a time: 256 KiB in float32, inside a level-2 cache
WIDE = 16  # the compiled loops take so many hidden units at a time
MOST_COMPILED_OUTPUTS = 16  # with more, BLAS is better at the second product too


def perceptron(layers: nn.Sequential, x: Tensor, start: int = 0) -> Tensor:
    """Return layers[start:](x), (..., C) for x (..., D), where those are Linear, ReLU, Linear.

    On CPU the result lies in memory as (C, ...), which is what a softmax over few classes wants.
    """
    first, last = layers[start], layers[start + 2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    if x.device.type != "cpu" or heard(first, last):
        result: Tensor = last(torch.relu(first(x)))
        return result
    loop = COMPILED_TWO_LAYERS if _compiles(first, last, x) else TWO_LAYERS
    return loop(first.weight, first.bias, last.weight, last.bias, x)


def _forward(w1: Tensor, c1: Tensor, w2: Tensor, c2: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    rows = x.flatten(0, -2)
    z, logits = rows.new_empty(len(rows), len(w1)), rows.new_empty(len(w2), len(rows))
    piece = _rows_at_a_time(z)
    for xs, zs, out in zip(
        rows.split(piece), z.split(piece), logits.split(piece, dim=1), strict=True
    ):
        product(xs, w1.T, out=zs, bias=c1).relu_()
        product(w2, zs.T, out=out, bias=c2[:, None])
    return logits.T.unflatten(0, x.shape[:-1]), z


def _backward(*tensors: Tensor) -> tuple[Tensor, ...]:
    w1, c1, w2, _c2, x, _result, z, gradient = tensors
    rows, upstream = x.flatten(0, -2), gradient.flatten(0, -2)
    dx = torch.empty_like(rows, memory_format=torch.contiguous_format)
    dw1, dc1, dw2 = torch.zeros_like(w1), torch.zeros_like(c1), torch.zeros_like(w2)
    piece = _rows_at_a_time(z)
    split = (t.split(piece) for t in (rows, z, upstream, dx))
    for xs, zs, g, out in zip(*split, strict=True):
        add_product(dw2, g.T, zs)
        before = torch.ops.aten.threshold_backward(product(g, w2), zs, 0)
        dc1 += before.sum(0)
        add_product(dw1, before.T, xs)
        product(before, w1, out=out)
    return dw1, dc1, dw2, upstream.sum(0), dx.view(x.shape)


def _compiles(first: nn.Linear, last: nn.Linear, x: Tensor) -> bool:
    few = last.out_features <= MOST_COMPILED_OUTPUTS
    fits = few and first.out_features % WIDE == 0
    return fits and usable(x, "perceptron", first.out_features, last.out_features)


def _compiled_forward(
    w1: Tensor, c1: Tensor, w2: Tensor, c2: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    rows = x.flatten(0, -2)
    z, logits = rows.new_empty(len(rows), len(w1)), rows.new_empty(len(w2), len(rows))
    loop = forward_loop(len(w1), len(w2), DTYPES[x.dtype])
    arrays = [array(tensor) for tensor in (z, c1, w2, c2, logits)]
    piece, done = _rows_at_a_time(z), 0
    for xs, zs in zip(rows.split(piece), z.split(piece), strict=True):
        product(xs, w1.T, out=zs)
        loop(*arrays, done, done + len(xs))
        done += len(xs)
    return logits.T.unflatten(0, x.shape[:-1]), z


def _compiled_backward(*tensors: Tensor) -> tuple[Tensor, ...]:
    w1, c1, w2, c2, x, _result, z, gradient = tensors
    rows, upstream = x.flatten(0, -2), gradient.flatten(0, -2).T.contiguous()
    dx = torch.empty_like(rows, memory_format=torch.contiguous_format)
    dw1, *sums = (w.new_zeros(w.shape) for w in (w1, w2, c1, c2))  # contiguous, as loops want them
    piece, done = _rows_at_a_time(z), 0
    dz = z[:piece].clone()
    loop = backward_loop(len(w1), len(w2), DTYPES[x.dtype])
    arrays = [array(tensor) for tensor in (z, w2, upstream, dz, *sums)]
    for xs, out in zip(rows.split(piece), dx.split(piece), strict=True):
        loop(*arrays, done, done + len(xs))
        done += len(xs)
        before = dz[: len(xs)]
        add_product(dw1, before.T, xs)
        product(before, w1, out=out)
    dw2, dc1, dc2 = sums
    return dw1, dc1, dw2, dc2, dx.view(x.shape)


def _rows_at_a_time(z: Tensor) -> int:
    return max(1, PIECE // max(1, z.shape[1]))


TWO_LAYERS = ClosedForm(_forward, _backward, one_by_one)
COMPILED_TWO_LAYERS = ClosedForm(_compiled_forward, _compiled_backward, one_by_one)


@cache
def forward_loop(hidden: int, outputs: int, dtype: str) -> Loop:
    """Return the loop (z, which comes as W_1 x, c_1, W_2, c_2, y to fill, start, stop)."""

    @compiled(hidden, outputs, dtype)
    def perceptron_forward(z, c1, w2, c2, y, start, stop):  # type: ignore[no-untyped-def]
        nothing = zero(load(z, 0, WIDE))
        for row in range(start, stop):
            for j in range(0, hidden, WIDE):
                sums = add(load(z, row * hidden + j, WIDE), load(c1, j, WIDE))
                store(z, row * hidden + j, where_positive(sums, sums))
            for c in range(outputs):
                products = nothing
                for j in range(0, hidden, WIDE):
                    one = load(w2, c * hidden + j, WIDE)
                    products = fma(one, load(z, row * hidden + j, WIDE), products)
                y[c, row] = total(products) + c2[c]

    return perceptron_forward


@cache
def backward_loop(hidden: int, outputs: int, dtype: str) -> Loop:
    """Return the loop (z, W_2, g, dz to fill, sums to add to: dW_2, dc_1 and dc_2, start, stop)."""

    @compiled(hidden, outputs, dtype)
    def perceptron_backward(z, w2, g, dz, dw2, dc1, dc2, start, stop):  # type: ignore[no-untyped-def]
        nothing = zero(load(z, 0, WIDE))
        for row in range(start, stop):
            for c in range(outputs):
                dc2[c] += g[c, row]
            for j in range(0, hidden, WIDE):
                unit, sums = load(z, row * hidden + j, WIDE), nothing
                for c in range(outputs):
                    upstream, at = every(g[c, row], nothing), c * hidden + j
                    sums = fma(upstream, load(w2, at, WIDE), sums)
                    store(dw2, at, fma(upstream, unit, load(dw2, at, WIDE)))
                sums = where_positive(unit, sums)
                store(dz, (row - start) * hidden + j, sums)
                store(dc1, j, add(load(dc1, j, WIDE), sums))

    return perceptron_backward
