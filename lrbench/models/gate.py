"""The part of an S4 block after the mixer: GELU, a gated linear map and the residual.

    y = a + v sigmoid(p),   (v, p) = W gelu(x) + c,   gelu(x) = x Phi(x)

In a first layer a is a table of symbols, and needs no memory for each position. With numba, a piece
of some hundred positions goes through all of it before the next one does: see
`lrbench.scan.compiled.layers.gate`. Kept for the backward: v and sigmoid(p); GELU is computed
again.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, glu

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable
from lrbench.scan.products import add_product, product
from lrbench.scan.rows import rows

WIDE = 16  # the compiled loops take so many features at a time
ROWS = 512  # positions that go through together


def gated(layer: nn.Linear, x: Tensor, residual: Tensor, index: Tensor | None = None) -> Tensor:
    """Return residual + GLU(layer(gelu(x))), (..., D), for x (..., D).

    residual: (..., D), or a table (S, D) that is looked up by `index` (...).
    """
    width = x.shape[-1]
    fits = layer.weight.shape == (2 * width, width) and width % WIDE == 0 and x.numel() > 0
    same = layer.weight.dtype == x.dtype == residual.dtype and layer.bias is not None
    if not (fits and same and usable(x, "gate", int(index is not None))):
        beside = residual if index is None else rows(residual, index)
        return beside + glu(layer(gelu(x)), -1)
    if index is None:
        return COMPILED(layer.weight, layer.bias, x, residual)
    return COMPILED_BY_SYMBOL(layer.weight, layer.bias, x, residual, index)


def _forward(
    weight: Tensor,
    bias: Tensor,
    x: Tensor,
    residual: Tensor,
    index: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    from lrbench.scan.compiled.layers.gate import forward_loop, gelu_loop

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


def _backward(
    weight: Tensor,
    bias: Tensor,
    x: Tensor,
    residual: Tensor,
    *rest: Tensor,
    by_symbol: bool,
) -> tuple[Tensor, ...]:
    from lrbench.scan.compiled.layers.gate import backward_loop, slope_loop

    *index, h, gradient = rest
    flat, width = x.flatten(0, -2), x.shape[-1]
    dweight, dbias = torch.zeros_like(weight), torch.zeros_like(bias)
    dx = flat.new_empty(flat.shape)
    dresidual = torch.zeros_like(residual) if by_symbol else gradient
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
