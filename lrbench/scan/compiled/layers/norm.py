"""Layer normalisation, row by row, with everything about a row in registers.

    y = (x - mean) scale gamma + beta,   scale = 1 / sqrt(variance + epsilon)

With d = g gamma for an upstream gradient g and n = (x - mean) scale, over D features,

    dx = scale (d - sum(d) / D - n sum(d n) / D),   dgamma = sum g n,   dbeta = sum g.

Shapes: x, y and their gradients (N, D), D a multiple of WIDE; mean and scale (N,).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, every, fma, load, mul, store, sub, total, zero

WIDE = 16  # numbers handled together


@cache
def forward_loop(features: int, dtype: str) -> Loop:
    """Return the loop (x, gamma, beta, y to fill, mean to fill, scale to fill, epsilon)."""

    @compiled(features, dtype)
    def norm_forward(x, gamma, beta, y, mean, scale, epsilon):  # type: ignore[no-untyped-def]
        nothing = zero(load(x, 0, WIDE))
        for row in range(x.shape[0]):
            start, summed, squares = row * features, nothing, nothing
            for j in range(0, features, WIDE):
                summed = add(summed, load(x, start + j, WIDE))
            mean[row] = total(summed) / features
            middle = every(mean[row], nothing)
            for j in range(0, features, WIDE):
                distance = sub(load(x, start + j, WIDE), middle)
                squares = fma(distance, distance, squares)
            scale[row] = 1 / np.sqrt(total(squares) / features + epsilon)
            factor = every(scale[row], nothing)
            for j in range(0, features, WIDE):
                normal = mul(sub(load(x, start + j, WIDE), middle), factor)
                store(y, start + j, fma(normal, load(gamma, j, WIDE), load(beta, j, WIDE)))

    return norm_forward


@cache
def backward_loop(features: int, dtype: str) -> Loop:
    """Return the loop (x, gamma, mean, scale, g, dx to fill, zeros for dgamma and dbeta)."""

    @compiled(features, dtype)
    def norm_backward(x, gamma, mean, scale, g, dx, dgamma, dbeta):  # type: ignore[no-untyped-def]
        nothing = zero(load(x, 0, WIDE))
        for row in range(x.shape[0]):
            start, first, second = row * features, nothing, nothing
            middle, factor = every(mean[row], nothing), every(scale[row], nothing)
            for j in range(0, features, WIDE):
                upstream = load(g, start + j, WIDE)
                normal = mul(sub(load(x, start + j, WIDE), middle), factor)
                store(dgamma, j, fma(upstream, normal, load(dgamma, j, WIDE)))
                store(dbeta, j, add(load(dbeta, j, WIDE), upstream))
                slope = mul(upstream, load(gamma, j, WIDE))
                first, second = add(first, slope), fma(slope, normal, second)
            shift = every(total(first) / features, nothing)
            tilt = every(total(second) / features, nothing)
            for j in range(0, features, WIDE):
                normal = mul(sub(load(x, start + j, WIDE), middle), factor)
                slope = mul(load(g, start + j, WIDE), load(gamma, j, WIDE))
                store(dx, start + j, mul(factor, sub(sub(slope, shift), mul(normal, tilt))))

    return norm_backward
