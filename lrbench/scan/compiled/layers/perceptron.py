"""The ReLU and the small second product of a perceptron with few outputs, row by row.

    z = relu(W_1 x + c_1),   y = W_2 z + c_2

W_1 x and the gradients of W_1 and x are left to `lrbench.scan.products`. With an upstream
gradient g of y,

    dz = (W_2^T g) [z > 0],   dW_2 = sum g z^T,   dc_2 = sum g,   dc_1 = sum dz.

Shapes: z and dz (N, H), H a multiple of WIDE; y and g (C, N), classes first. A call works on rows
`start` to `stop`; dz holds only those.
"""

from __future__ import annotations

from functools import cache

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import (
    add,
    every,
    fma,
    load,
    store,
    total,
    where_positive,
    zero,
)

WIDE = 16  # numbers handled together


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
