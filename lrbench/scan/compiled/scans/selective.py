"""Selective scans, several channels side by side: see `lrbench.scan.diagonal.selective`.

One of the N numbers of a string's channels is followed over all positions before the next; its
decay is made where it is used. The backward makes the states and decays of that number again, into
a scratch that stays in the cache: nothing of size (B, T, N, E) is ever in memory.

Shapes: rates (N, E); skip (E); steps and x (B, T, E); b and c (B, T, N); x0 (B, N, E); out, and its
gradient, (B, T + N, E): the outputs, then the last state. E is a multiple of `wide`, the channels
that go together. reach is the r of a decay r e^(step rate) - (r - 1).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, every, fma, load, mul, store, total, zero
from lrbench.scan.compiled.power import exp2
from lrbench.scan.compiled.sigmoid import LOG2_E


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (rates, skip, steps, x, b, c, x0, reach; out to fill)."""

    @compiled(wide, dtype)
    def selective_forward(rates, skip, steps, x, b, c, x0, reach, out):  # type: ignore[no-untyped-def]
        strings, length, channels = x.shape
        modes, span = rates.shape[0], length * channels
        for string in range(strings):
            start, place = string * span, string * (span + modes * channels)
            for d in range(0, channels, wide):
                gain = load(skip, d, wide)
                for k in range(d, d + span, channels):
                    store(out, place + k, mul(gain, load(x, start + k, wide)))
            for n in range(modes):
                for d in range(0, channels, wide):
                    rate = load(rates, n * channels + d, wide)
                    falls = mul(rate, every(LOG2_E, rate))
                    scale, less = every(reach, rate), every(1 - reach, rate)
                    h = load(x0, (string * modes + n) * channels + d, wide)
                    for t in range(length):
                        k = t * channels + d
                        step = load(steps, start + k, wide)
                        decay = fma(scale, exp2(mul(step, falls)), less)
                        drive = mul(step, load(x, start + k, wide))
                        h = fma(decay, h, mul(drive, every(b[string, t, n], rate)))
                        seen = fma(every(c[string, t, n], rate), h, load(out, place + k, wide))
                        store(out, place + k, seen)
                    store(out, place + span + n * channels + d, h)

    return selective_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (rates, skip, steps, x, b, c, x0, reach, dout; gradients to fill).

    The gradients are those of rates and skip, which must come as zeros, and of steps, x, b, c, x0.
    """

    @compiled(wide, dtype)
    def selective_backward(  # type: ignore[no-untyped-def]
        rates, skip, steps, x, b, c, x0, reach, dout, drates, dskip, dsteps, dx, db, dc, dx0
    ):
        strings, length, channels = x.shape
        modes, span, pair = rates.shape[0], length * channels, 2 * wide
        kept = np.empty(length * pair, x.dtype)  # states before a position, and its decay
        sums = np.empty(length * pair, x.dtype)  # of the gradients of b and of c
        for string in range(strings):
            start, place = string * span, string * (span + modes * channels)
            for d in range(0, channels, wide):
                gain, of_skip = load(skip, d, wide), load(dskip, d, wide)
                for k in range(d, d + span, channels):
                    upstream = load(dout, place + k, wide)
                    store(dx, start + k, mul(gain, upstream))
                    store(dsteps, start + k, zero(gain))
                    of_skip = fma(upstream, load(x, start + k, wide), of_skip)
                store(dskip, d, of_skip)
            for n in range(modes):
                sums[:] = 0
                for d in range(0, channels, wide):
                    rate = load(rates, n * channels + d, wide)
                    falls = mul(rate, every(LOG2_E, rate))
                    scale, less = every(reach, rate), every(1 - reach, rate)
                    state = (string * modes + n) * channels + d
                    h = load(x0, state, wide)
                    for t in range(length):
                        k = start + t * channels + d
                        step = load(steps, k, wide)
                        fallen = mul(scale, exp2(mul(step, falls)))
                        store(kept, t * pair, h)
                        store(kept, t * pair + wide, fallen)
                        drive = mul(step, load(x, k, wide))
                        h = fma(add(fallen, less), h, mul(drive, every(b[string, t, n], rate)))
                    adjoint = load(dout, place + span + n * channels + d, wide)
                    of_rate = zero(rate)
                    for back in range(length):
                        t = length - 1 - back
                        k, at = start + t * channels + d, t * pair
                        upstream = load(dout, place + t * channels + d, wide)
                        store(sums, at + wide, fma(upstream, h, load(sums, at + wide, wide)))
                        adjoint = fma(upstream, every(c[string, t, n], rate), adjoint)
                        h, fallen = load(kept, at, wide), load(kept, at + wide, wide)
                        step, value = load(steps, k, wide), load(x, k, wide)
                        store(sums, at, fma(adjoint, mul(step, value), load(sums, at, wide)))
                        slope = mul(mul(adjoint, h), fallen)  # of step times rate
                        of_rate = fma(slope, step, of_rate)
                        into = mul(adjoint, every(b[string, t, n], rate))
                        of_step = fma(slope, rate, load(dsteps, k, wide))
                        store(dsteps, k, fma(into, value, of_step))
                        store(dx, k, fma(into, step, load(dx, k, wide)))
                        adjoint = mul(adjoint, add(fallen, less))
                    store(dx0, state, adjoint)
                    of_rate = add(of_rate, load(drates, n * channels + d, wide))
                    store(drates, n * channels + d, of_rate)
                for t in range(length):
                    db[string, t, n] = total(load(sums, t * pair, wide))
                    dc[string, t, n] = total(load(sums, t * pair + wide, wide))

    return selective_backward
