"""Layer normalisation and a linear map to a few numbers, row by row, in registers.

    y_c = sum_j w_cj n_j + b_c,   n = (x - mean) scale,   scale = 1 / sqrt(variance + epsilon)

The normalisation's own gain and shift are in w and b. For an upstream gradient g, over D features,

    d = w^T g,   dx = scale (d - sum(d) / D - n sum(d n) / D),   dw = g n^T,   db = g.

Shapes: x and dx (N, D), D a multiple of WIDE; w and dw (C, D); b and db (C); y and g (C, N); mean
and scale (N).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, every, fma, load, mul, store, sub, total, zero

WIDE = 16  # numbers handled together


@cache
def forward_loop(dtype: str) -> Loop:
    """Return the loop (x, w, b; y, mean and scale to fill; epsilon)."""

    @compiled(dtype)
    def normed_head_forward(x, w, b, y, mean, scale, epsilon):  # type: ignore[no-untyped-def]
        (outputs, features), nothing = w.shape, zero(load(x, 0, WIDE))
        distances = np.empty(features, x.dtype)
        for row in range(x.shape[0]):
            start, summed, squares = row * features, nothing, nothing
            for j in range(0, features, WIDE):
                summed = add(summed, load(x, start + j, WIDE))
            mean[row] = total(summed) / features
            middle = every(mean[row], nothing)
            for j in range(0, features, WIDE):
                distance = sub(load(x, start + j, WIDE), middle)
                store(distances, j, distance)
                squares = fma(distance, distance, squares)
            scale[row] = 1 / np.sqrt(total(squares) / features + epsilon)
            for c in range(outputs):
                products = nothing
                for j in range(0, features, WIDE):
                    one = load(w, c * features + j, WIDE)
                    products = fma(one, load(distances, j, WIDE), products)
                y[c, row] = total(products) * scale[row] + b[c]

    return normed_head_forward


@cache
def backward_loop(dtype: str) -> Loop:
    """Return the loop (x, w, mean, scale, g; dx to fill, zeros for dw and db)."""

    @compiled(dtype)
    def normed_head_backward(x, w, mean, scale, g, dx, dw, db):  # type: ignore[no-untyped-def]
        (outputs, features), nothing = w.shape, zero(load(x, 0, WIDE))
        normals, slopes = np.empty(features, x.dtype), np.empty(features, x.dtype)
        for row in range(x.shape[0]):
            start, first, second = row * features, nothing, nothing
            middle, factor = every(mean[row], nothing), every(scale[row], nothing)
            for c in range(outputs):
                db[c] += g[c, row]
            for j in range(0, features, WIDE):
                normal = mul(sub(load(x, start + j, WIDE), middle), factor)
                slope = nothing
                for c in range(outputs):
                    upstream, at = every(g[c, row], nothing), c * features + j
                    slope = fma(upstream, load(w, at, WIDE), slope)
                    store(dw, at, fma(upstream, normal, load(dw, at, WIDE)))
                store(normals, j, normal)
                store(slopes, j, slope)
                first, second = add(first, slope), fma(slope, normal, second)
            shift = every(total(first) / features, nothing)
            tilt = every(total(second) / features, nothing)
            for j in range(0, features, WIDE):
                slope = sub(load(slopes, j, WIDE), shift)
                left = sub(slope, mul(load(normals, j, WIDE), tilt))
                store(dx, start + j, mul(factor, left))

    return normed_head_backward
