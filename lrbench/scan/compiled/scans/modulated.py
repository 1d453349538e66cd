"""Modulated diagonal systems, several channels side by side: see `lrbench.scan.diagonal.modulated`.

One of the M numbers of a string's channels is followed over all positions before the next: its
coefficients, its state and the sums of its gradients stay in registers, and what lies in memory is
read and written in the order of the inputs. The backward computes the states of that number again,
into a scratch that stays in the first-level cache: nothing of size (B, T, M, D) is ever in memory.

Shapes: systems (6, M, D), real and imaginary parts of a, b and of 2 C in turn; skip (D); u, v and y
(B, T, D); x0 and last (B, 2, M, D). D is a multiple of `wide`, the channels that go together.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, fma, load, mul, store, sub, zero


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (systems, skip, u, v, x0; y and last to fill)."""

    @compiled(wide, dtype)
    def modulated_forward(systems, skip, u, v, x0, y, last):  # type: ignore[no-untyped-def]
        strings, length, channels = u.shape
        modes = systems.shape[1]
        part = modes * channels  # from a real part to its imaginary one
        for string in range(strings):
            start = string * length * channels
            for d in range(0, channels, wide):
                gain = load(skip, d, wide)
                for k in range(start + d, start + d + length * channels, channels):
                    store(y, k, mul(gain, load(u, k, wide)))
            for at in range(0, part, wide):
                d, state = at % channels, string * 2 * part + at
                ar, ai = load(systems, at, wide), load(systems, at + part, wide)
                br, bi = load(systems, at + 2 * part, wide), load(systems, at + 3 * part, wide)
                cr, ci = load(systems, at + 4 * part, wide), load(systems, at + 5 * part, wide)
                xr, xi = load(x0, state, wide), load(x0, state + part, wide)
                for k in range(start + d, start + d + length * channels, channels):
                    drive, factor = load(u, k, wide), load(v, k, wide)
                    tr, ti = fma(br, factor, ar), fma(bi, factor, ai)
                    new = sub(fma(tr, xr, mul(br, drive)), mul(ti, xi))
                    xi = fma(tr, xi, fma(ti, xr, mul(bi, drive)))
                    xr = new
                    store(y, k, sub(fma(cr, xr, load(y, k, wide)), mul(ci, xi)))
                store(last, state, xr)
                store(last, state + part, xi)

    return modulated_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (systems, skip, u, v, x0, dy, dlast; gradients to fill).

    The gradients are those of systems and skip, which must come as zeros, and of u, v and x0.
    """

    @compiled(wide, dtype)
    def modulated_backward(systems, skip, u, v, x0, dy, dlast, dsystems, dskip, du, dv, dx0):  # type: ignore[no-untyped-def]
        strings, length, channels = u.shape
        modes = systems.shape[1]
        part, pair = modes * channels, 2 * wide
        states = np.empty((length + 1) * pair, u.dtype)
        for string in range(strings):
            start = string * length * channels
            for d in range(0, channels, wide):
                gain, sums = load(skip, d, wide), load(dskip, d, wide)
                for k in range(start + d, start + d + length * channels, channels):
                    upstream = load(dy, k, wide)
                    store(du, k, mul(gain, upstream))
                    store(dv, k, zero(gain))
                    sums = fma(upstream, load(u, k, wide), sums)
                store(dskip, d, sums)
            for at in range(0, part, wide):
                d, state = at % channels, string * 2 * part + at
                ar, ai = load(systems, at, wide), load(systems, at + part, wide)
                br, bi = load(systems, at + 2 * part, wide), load(systems, at + 3 * part, wide)
                cr, ci = load(systems, at + 4 * part, wide), load(systems, at + 5 * part, wide)
                xr, xi = load(x0, state, wide), load(x0, state + part, wide)
                place = 0
                for k in range(start + d, start + d + length * channels, channels):
                    store(states, place, xr)
                    store(states, place + wide, xi)
                    place += pair
                    drive, factor = load(u, k, wide), load(v, k, wide)
                    tr, ti = fma(br, factor, ar), fma(bi, factor, ai)
                    new = sub(fma(tr, xr, mul(br, drive)), mul(ti, xi))
                    xi = fma(tr, xi, fma(ti, xr, mul(bi, drive)))
                    xr = new
                lr, li = load(dlast, state, wide), load(dlast, state + part, wide)  # lambda
                dar, dai, dbr, dbi = zero(ar), zero(ar), zero(ar), zero(ar)
                dcr, dci = zero(ar), zero(ar)
                for back in range(length - 1, -1, -1):
                    k = start + d + back * channels
                    drive, factor = load(u, k, wide), load(v, k, wide)
                    upstream = load(dy, k, wide)
                    dcr, dci = fma(upstream, xr, dcr), sub(dci, mul(upstream, xi))
                    lr, li = fma(upstream, cr, lr), sub(li, mul(upstream, ci))
                    xr, xi = load(states, back * pair, wide), load(states, back * pair + wide, wide)
                    slope_r = fma(lr, xr, mul(li, xi))
                    slope_i = sub(mul(li, xr), mul(lr, xi))
                    dar, dai = add(dar, slope_r), add(dai, slope_i)
                    dbr = fma(lr, drive, fma(slope_r, factor, dbr))
                    dbi = fma(li, drive, fma(slope_i, factor, dbi))
                    store(du, k, fma(lr, br, fma(li, bi, load(du, k, wide))))
                    store(dv, k, fma(slope_r, br, fma(slope_i, bi, load(dv, k, wide))))
                    tr, ti = fma(br, factor, ar), fma(bi, factor, ai)
                    new = fma(tr, lr, mul(ti, li))
                    li = sub(mul(tr, li), mul(ti, lr))
                    lr = new
                store(dx0, state, lr)
                store(dx0, state + part, li)
                store(dsystems, at, add(load(dsystems, at, wide), dar))
                for offset, found in ((1, dai), (2, dbr), (3, dbi), (4, dcr), (5, dci)):
                    here = at + offset * part
                    store(dsystems, here, add(load(dsystems, here, wide), found))

    return modulated_backward
