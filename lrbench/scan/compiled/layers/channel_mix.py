"""The elementwise parts of RWKV-4's channel mix, some strings at a time.

    a = p + mu_k (z - p),  b = p + mu_r (z - p),   p the position before
    y <- y s,  s = sigmoid(y_r)

Backward, of g and of the gradients da and db of a and b: dy = g s, dy_r = g y (1 - s), and

    dz_t = mu_k da_t + mu_r db_t + (1 - mu_k) da_{t+1} + (1 - mu_r) db_{t+1},
    dmu_k = sum da (z - p),  dmu_r = sum db (z - p).

Shapes: z, s, y, g and dz (B, T, D); first and dfirst (B, D), the position before the first; mu and
dmu (2, D). Pieces, such as a, b, da and db, hold the strings from `start` to `stop` (rows, D).
"""

from __future__ import annotations

from functools import cache

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, every, fma, load, mul, store, sub, zero
from lrbench.scan.compiled.sigmoid import sigmoid

WIDE = 16  # numbers handled together


@cache
def shift_loop(dtype: str) -> Loop:
    """Return the loop (z, first, mu, pieces to fill: a and b, start, stop)."""

    @compiled(dtype)
    def channel_shift(z, first, mu, a, b, start, stop):  # type: ignore[no-untyped-def]
        length, features = z.shape[1:]
        for string in range(start, stop):
            for d in range(0, features, WIDE):
                before = load(first, string * features + d, WIDE)
                for_key, for_gate = load(mu, d, WIDE), load(mu, features + d, WIDE)
                for t in range(length):
                    now = load(z, (string * length + t) * features + d, WIDE)
                    out = ((string - start) * length + t) * features + d
                    change = sub(now, before)
                    store(a, out, fma(change, for_key, before))
                    store(b, out, fma(change, for_gate, before))
                    before = now

    return channel_shift


@cache
def gate_loop(dtype: str) -> Loop:
    """Return the loop (y_r to become s, y to become y s; numbers `start` to `stop`)."""

    @compiled(dtype)
    def channel_gate(s, y, start, stop):  # type: ignore[no-untyped-def]
        for at in range(start, stop, WIDE):
            gate = sigmoid(load(s, at, WIDE))
            store(s, at, gate)
            store(y, at, mul(load(y, at, WIDE), gate))

    return channel_gate


@cache
def gate_slope_loop(dtype: str) -> Loop:
    """Return the loop (g, s, y, pieces to fill: dy and dy_r; numbers `start` to `stop`)."""

    @compiled(dtype)
    def channel_gate_slope(g, s, y, dy, dgate, start, stop):  # type: ignore[no-untyped-def]
        one = every(1.0, zero(load(g, 0, WIDE)))
        for at in range(start, stop, WIDE):
            upstream, gate = load(g, at, WIDE), load(s, at, WIDE)
            store(dy, at - start, mul(upstream, gate))
            slope = mul(mul(upstream, load(y, at, WIDE)), sub(one, gate))
            store(dgate, at - start, slope)

    return channel_gate_slope


@cache
def shift_slope_loop(dtype: str) -> Loop:
    """Return the loop (z, first, mu, da, db; dz and dfirst to fill, dmu to add to; start, stop)."""

    @compiled(dtype)
    def channel_shift_slope(z, first, mu, da, db, dz, dfirst, dmu, start, stop):  # type: ignore[no-untyped-def]
        length, features = z.shape[1:]
        one = every(1.0, zero(load(z, 0, WIDE)))
        for string in range(start, stop):
            for d in range(0, features, WIDE):
                for_key, for_gate = load(mu, d, WIDE), load(mu, features + d, WIDE)
                key_before, gate_before = sub(one, for_key), sub(one, for_gate)
                of_key, of_gate = load(dmu, d, WIDE), load(dmu, features + d, WIDE)
                passed = zero(one)
                for back in range(length):
                    t = length - 1 - back
                    here = (string * length + t) * features + d
                    if t > 0:
                        before = load(z, here - features, WIDE)
                    else:
                        before = load(first, string * features + d, WIDE)
                    change = sub(load(z, here, WIDE), before)
                    at = ((string - start) * length + t) * features + d
                    key, gate = load(da, at, WIDE), load(db, at, WIDE)
                    of_key, of_gate = fma(key, change, of_key), fma(gate, change, of_gate)
                    store(dz, here, add(passed, fma(key, for_key, mul(gate, for_gate))))
                    passed = fma(key, key_before, mul(gate, gate_before))
                store(dfirst, string * features + d, passed)
                store(dmu, d, of_key)
                store(dmu, features + d, of_gate)

    return channel_shift_slope
