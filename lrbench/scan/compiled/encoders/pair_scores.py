"""Scores of pairs of nodes, v . gelu(left side + right side) + c, and their gradients.

`lrbench/encoders/trees/ebt_grc.py` says what they are. Sides are (M, 2, d_s): what a node adds
to pairs as a left child, and as a right one. d_s is a multiple of `wide`.
"""

from __future__ import annotations

from functools import cache

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, every, fma, load, mul, store, total, zero
from lrbench.scan.compiled.normal import DENSITY_AT_ZERO, bell, distribution


@cache
def scores_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (sides (M, 2, d_s), left (p,), right (p,), v (d_s,), c (1,); scores (p,))."""

    @compiled(wide, dtype)
    def pair_scores(sides, left, right, v, c, scores):  # type: ignore[no-untyped-def]
        width = len(v)
        for pair in range(len(left)):
            a, b = 2 * left[pair] * width, (2 * right[pair] + 1) * width
            summed = zero(load(v, 0, wide))
            for j in range(0, width, wide):
                h = add(load(sides, a + j, wide), load(sides, b + j, wide))
                u = mul(h, distribution(h, bell(h)))
                summed = fma(u, load(v, j, wide), summed)
            scores[pair] = total(summed) + c[0]

    return pair_scores


@cache
def slopes_loop(wide: int, dtype: str) -> Loop:
    """Return the loop that adds to gradients of sides and v.

    (sides (M, 2, d_s), left (p,), right (p,), gradient of scores (p,), v; dsides (M, 2, d_s),
    dv (d_s,))
    """

    @compiled(wide, dtype)
    def pair_slopes(sides, left, right, gradient, v, dsides, dv):  # type: ignore[no-untyped-def]
        width = len(v)
        nothing = zero(load(v, 0, wide))
        density = every(DENSITY_AT_ZERO, nothing)
        for pair in range(len(left)):
            a, b = 2 * left[pair] * width, (2 * right[pair] + 1) * width
            g = every(gradient[pair], nothing)
            for j in range(0, width, wide):
                h = add(load(sides, a + j, wide), load(sides, b + j, wide))
                falls = bell(h)
                share = distribution(h, falls)
                store(dv, j, fma(g, mul(h, share), load(dv, j, wide)))
                slope = mul(fma(h, mul(falls, density), share), mul(g, load(v, j, wide)))
                store(dsides, a + j, add(load(dsides, a + j, wide), slope))
                store(dsides, b + j, add(load(dsides, b + j, wide), slope))

    return pair_slopes
