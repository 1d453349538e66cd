"""GELU and the gate of an S4 block, a piece of positions at a time, on both sides of a product.

    z = x Phi(x),   (v, p) = W z + c,   y = a + v s with s = sigmoid(p)

The product is done by others (`lrbench.scan.products`). For an upstream gradient g of y,

    dv = g s,   dp = g v s (1 - s),   dx = (W^T (dv, dp)) (Phi(x) + x phi(x)).

Shapes: x, a, y and g (N, D), or a a table (S, D); h (N, 2 D), first W z and then (v, s); D a
multiple of WIDE. A piece is positions `start` to `stop`; its own arrays begin with `start`.
"""

from __future__ import annotations

from functools import cache

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, every, fma, load, mul, store, sub, zero
from lrbench.scan.compiled.normal import DENSITY_AT_ZERO, bell, distribution
from lrbench.scan.compiled.sigmoid import sigmoid

WIDE = 16  # numbers handled together


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
