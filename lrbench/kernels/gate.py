"""The part of an S4 block after the mixer: GELU, a gated linear map and the residual.

    y = a + v s,   (v, p) = W z + c,   z = gelu(x) = x Phi(x),   s = sigmoid(p)

In a first layer a is a table of symbols, and needs no memory for each position. With numba, a piece
of some hundred positions goes through all of it before the next one does, on both sides of a
product (`products.py`). Kept for the backward: v and s; GELU is computed again. For an upstream
gradient g of y,

    dv = g s,   dp = g v s (1 - s),   dx = (W^T (dv, dp)) (Phi(x) + x phi(x)).

Shapes in loops: x, a, y and g (N, D), or a a table (S, D); h (N, 2 D), first W z and then (v, s); D
a multiple of WIDE. A piece is positions `start` to `stop`; its own arrays begin with `start`.
"""

from __future__ import annotations

from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, glu

from lrbench.kernels.choice import DTYPES, heard, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.elementary import DENSITY_AT_ZERO, bell, distribution, sigmoid
from lrbench.kernels.lanes import add, every, fma, load, mul, store, sub, zero
from lrbench.kernels.products import add_product, product
from lrbench.kernels.rows import rows

WIDE = 16  # the compiled loops take so many features at a time
ROWS = 512  # positions that go through together


def gated(layer: nn.Linear, x: Tensor, residual: Tensor, index: Tensor | None = None) -> Tensor:
    """Return residual + GLU(layer(gelu(x))), (..., D), for x (..., D).

    residual: (..., D), or a table (S, D) that is looked up by `index` (...).
    """
    width = x.shape[-1]
    fits = layer.weight.shape == (2 * width, width) and width % WIDE == 0 and x.numel() > 0
    same = layer.weight.dtype == x.dtype == residual.dtype and layer.bias is not None
    if heard(layer) or not (fits and same and usable(x, "gate", int(index is not None))):
        beside = residual if index is None else rows(residual, index)
        return beside + glu(layer(gelu(x)), -1)
    if index is None:
        return COMPILED(layer.weight, layer.bias, x, residual)
    return COMPILED_BY_SYMBOL(layer.weight, layer.bias, x, residual, index)


def _forward(
    weight: Tensor, bias: Tensor, x: Tensor, residual: Tensor, index: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    flat, width = x.flatten(0, -2), x.shape[-1]
    h, y = flat.new_empty(len(flat), 2 * width), flat.new_empty(flat.shape)
    z = flat.new_empty(min(ROWS, len(flat)), width)
    first = gelu_loop(DTYPES[x.dtype])
    second = forward_loop(index is not None, DTYPES[x.dtype])
    source, piece = array(flat), array(z)
    products = array(h), array(bias), array(residual.flatten(0, -2)), _positions(index), array(y)
    for start in range(0, len(flat), ROWS):
        stop = min(start + ROWS, len(flat))
        first(source, piece, start, stop)
        product(z[: stop - start], weight.T, out=h[start:stop])
        second(*products, start, stop)
    return y.view(x.shape), h


def _backward(*tensors: Tensor, by_symbol: bool) -> tuple[Tensor, ...]:
    weight, bias, x, residual, *index, h, gradient = tensors
    flat, width = x.flatten(0, -2), x.shape[-1]
    dweight, dbias = torch.zeros_like(weight), torch.zeros_like(bias)
    dx = flat.new_empty(flat.shape)
    dresidual = residual.new_zeros(residual.shape) if by_symbol else gradient
    z, slope = flat.new_empty(2, min(ROWS, len(flat)), width)
    dh = flat.new_empty(len(z), 2 * width)
    first = slope_loop(DTYPES[x.dtype])
    second = backward_loop(by_symbol, DTYPES[x.dtype])
    source, pieces = array(flat), (array(z), array(slope))
    upstream, symbols = gradient.flatten(0, -2), _positions(*index)
    sums = array(dbias), array(dresidual if by_symbol else dbias[None])
    gates = array(h), array(upstream), symbols, array(dh), *sums
    for start in range(0, len(flat), ROWS):
        stop = min(start + ROWS, len(flat))
        here = slice(0, stop - start)
        first(source, *pieces, start, stop)
        second(*gates, start, stop)
        add_product(dweight, dh[here].T, z[here])
        product(dh[here], weight, out=dx[start:stop]).mul_(slope[here])
    return dweight, dbias, dx.view(x.shape), dresidual


def _positions(index: Tensor | None = None) -> object:
    """Return symbols as the loops want them; something of the type where there are none."""
    return array(torch.empty(0, dtype=torch.int64) if index is None else index.flatten())


COMPILED = ClosedForm(_forward, partial(_backward, by_symbol=False), one_by_one, False)
COMPILED_BY_SYMBOL = ClosedForm(_forward, partial(_backward, by_symbol=True), one_by_one, False)


@cache
def gelu_loop(dtype: str) -> Loop:
    """Return the loop (x, piece of z to fill, start, stop)."""

    @compiled(dtype)
    def gelu(x, z, start, stop):  # type: ignore[no-untyped-def]
        features = x.shape[1]
        first = start * features
        for at in range(first, stop * features, WIDE):
            one = load(x, at, WIDE)
            store(z, at - first, mul(one, distribution(one, bell(one))))

    return gelu


@cache
def slope_loop(dtype: str) -> Loop:
    """Return the loop (x, pieces to fill: z and GELU's slope, start, stop)."""

    @compiled(dtype)
    def gelu_slope(x, z, slope, start, stop):  # type: ignore[no-untyped-def]
        features = x.shape[1]
        first = start * features
        density = every(DENSITY_AT_ZERO, load(x, first, WIDE))
        for at in range(first, stop * features, WIDE):
            one = load(x, at, WIDE)
            falls = bell(one)
            share = distribution(one, falls)
            store(z, at - first, mul(one, share))
            store(slope, at - first, fma(one, mul(falls, density), share))

    return gelu_slope


@cache
def forward_loop(by_symbol: bool, dtype: str) -> Loop:
    """Return the loop (h, W z to become (v, s), c, a, index, y to fill, start, stop).

    index (N): which row of a belongs to a position, if `by_symbol`, where a is a table.
    """

    @compiled(int(by_symbol), dtype)
    def gate_forward(h, c, a, index, y, start, stop):  # type: ignore[no-untyped-def]
        features = y.shape[1]
        for row in range(start, stop):
            beside = index[row] if by_symbol else row
            if beside < 0 or beside >= a.shape[0]:
                raise IndexError("a symbol is not in the table")
            for j in range(0, features, WIDE):
                pair = row * 2 * features + j
                value = add(load(h, pair, WIDE), load(c, j, WIDE))
                gate = sigmoid(add(load(h, pair + features, WIDE), load(c, j + features, WIDE)))
                store(h, pair, value)
                store(h, pair + features, gate)
                total = fma(value, gate, load(a, beside * features + j, WIDE))
                store(y, row * features + j, total)

    return gate_forward


@cache
def backward_loop(by_symbol: bool, dtype: str) -> Loop:
    """Return the loop (h, g, index, piece of dh to fill, dc and da to add to, start, stop).

    da is of the table, and left alone unless `by_symbol`.
    """

    @compiled(int(by_symbol), dtype)
    def gate_backward(h, g, index, dh, dc, da, start, stop):  # type: ignore[no-untyped-def]
        features, one = g.shape[1], every(1.0, zero(load(g, 0, WIDE)))
        for row in range(start, stop):
            for j in range(0, features, WIDE):
                pair, out = row * 2 * features + j, (row - start) * 2 * features + j
                value, gate = load(h, pair, WIDE), load(h, pair + features, WIDE)
                upstream = load(g, row * features + j, WIDE)
                dvalue = mul(upstream, gate)
                dgate = mul(mul(dvalue, value), sub(one, gate))
                store(dh, out, dvalue)
                store(dh, out + features, dgate)
                store(dc, j, add(load(dc, j, WIDE), dvalue))
                store(dc, j + features, add(load(dc, j + features, WIDE), dgate))
                if by_symbol:
                    beside = index[row] * features + j
                    store(da, beside, add(load(da, beside, WIDE), upstream))

    return gate_backward
