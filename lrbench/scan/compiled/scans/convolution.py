"""Causal convolution as the sum is written, channels side by side: y_t = sum_{s <= t} k_{t-s} u_s.

Four outputs are added up at once: each number of a kernel that comes into registers serves four of
them in turn, and each input as well. Neither a Toeplitz matrix nor channels in front is needed.

Shapes: u, y and g (B, T, D), D a multiple of WIDE; padded (T + 2 MARGIN, D), a kernel between rows
of zeros; dkernel (T, D).
"""

from __future__ import annotations

from functools import cache

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import fma, load, store, zero

WIDE = 16  # channels handled together
MARGIN = 4


@cache
def convolution_loop(dtype: str) -> Loop:
    """Return the loop (u, padded, y to fill, first, step): time runs as it is read, from `first`.

    first, step: 0 and 1, or T - 1 and -1, which is the adjoint.
    """

    @compiled(dtype)
    def convolution(u, padded, y, first, step):  # type: ignore[no-untyped-def]
        length, features = u.shape[1:]
        nothing = zero(load(u, 0, WIDE))
        for string in range(u.shape[0]):
            for d in range(0, features, WIDE):
                start = (string * length + first) * features + d
                for t in range(0, length, 4):
                    y0, y1, y2, y3 = nothing, nothing, nothing, nothing
                    at = (MARGIN + t) * features + d
                    k1 = load(padded, at + features, WIDE)
                    k2 = load(padded, at + 2 * features, WIDE)
                    k3 = load(padded, at + 3 * features, WIDE)
                    for s in range(min(t + 4, length)):
                        k0 = load(padded, at - s * features, WIDE)
                        one = load(u, start + step * s * features, WIDE)
                        y0, y1 = fma(one, k0, y0), fma(one, k1, y1)
                        y2, y3 = fma(one, k2, y2), fma(one, k3, y3)
                        k3, k2, k1 = k2, k1, k0
                    out, on = start + step * t * features, step * features
                    store(y, out, y0)
                    if t + 1 < length:
                        store(y, out + on, y1)
                    if t + 2 < length:
                        store(y, out + 2 * on, y2)
                    if t + 3 < length:
                        store(y, out + 3 * on, y3)

    return convolution


@cache
def slope_loop(dtype: str) -> Loop:
    """Return the loop (u, g, zeros for dkernel): dk_l = sum_s g_{s+l} u_s, over all strings."""

    @compiled(dtype)
    def convolution_slope(u, g, dkernel):  # type: ignore[no-untyped-def]
        length, features = u.shape[1:]
        for string in range(u.shape[0]):
            for d in range(0, features, WIDE):
                start = string * length * features + d
                for lag in range(0, length - 3, 4):
                    at = lag * features + d
                    k0, k1 = load(dkernel, at, WIDE), load(dkernel, at + features, WIDE)
                    k2 = load(dkernel, at + 2 * features, WIDE)
                    k3 = load(dkernel, at + 3 * features, WIDE)
                    here = start + lag * features
                    g0, g1 = load(g, here, WIDE), load(g, here + features, WIDE)
                    g2 = load(g, here + 2 * features, WIDE)
                    for s in range(length - lag - 3):
                        g3 = load(g, here + (s + 3) * features, WIDE)
                        one = load(u, start + s * features, WIDE)
                        k0, k1 = fma(one, g0, k0), fma(one, g1, k1)
                        k2, k3 = fma(one, g2, k2), fma(one, g3, k3)
                        g0, g1, g2 = g1, g2, g3
                    left = start + (length - lag - 3) * features  # where g_{s+lag+3} has run out
                    u0, u1 = load(u, left, WIDE), load(u, left + features, WIDE)
                    u2 = load(u, left + 2 * features, WIDE)
                    k0 = fma(u2, g2, fma(u1, g1, fma(u0, g0, k0)))
                    k1, k2 = fma(u1, g2, fma(u0, g1, k1)), fma(u0, g2, k2)
                    store(dkernel, at, k0)
                    store(dkernel, at + features, k1)
                    store(dkernel, at + 2 * features, k2)
                    store(dkernel, at + 3 * features, k3)
                for lag in range(length - length % 4, length):
                    summed = load(dkernel, lag * features + d, WIDE)
                    for s in range(length - lag):
                        later = load(g, start + (s + lag) * features, WIDE)
                        summed = fma(load(u, start + s * features, WIDE), later, summed)
                    store(dkernel, lag * features + d, summed)

    return convolution_slope
