"""The loop of an sLSTM, units side by side: see `lrbench/mixers/xlstm/cell.py`.

    k = s + log sigmoid(f),  g = sigmoid(i - k),  s <- log(e^k + e^i),  a <- a + g (tanh z - a)
    h = sigmoid(o) a,        (i, f, z, o) = drive + R h of the position before

One head of one string is followed over all its positions, with its state in the first-level cache.

Shapes: drive and its gradient (B, T, H, 4, d); recurrent (H, d, 4, d), from a unit to gates, and
turned (H, 4, d, d), the other way; a and s (B, H, d); y, dy (B, T, H, d); kept (B, T, H, 5, d):
g, tanh z, 1 - sigmoid(f), sigmoid(o) and a. d is a multiple of `wide`, the units that go together.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled, part
from lrbench.scan.compiled.lanes import (
    add,
    every,
    fma,
    greater,
    load,
    magnitude,
    mul,
    store,
    sub,
    zero,
)
from lrbench.scan.compiled.power import exp2, log2
from lrbench.scan.compiled.sigmoid import LOG2_E, sigmoid

LOG_2 = math.log(2)
KEPT = 5


@part
def log_of_one_and(x):  # type: ignore[no-untyped-def]
    """Return log(1 + e^{-|x|}) in each lane."""
    fallen = exp2(mul(magnitude(x), every(-LOG2_E, x)))
    return mul(log2(add(every(1.0, x), fallen)), every(LOG_2, x))


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (drive, recurrent, h, a, s to be followed; y and kept to fill)."""

    @compiled(wide, dtype)
    def slstm_forward(drive, recurrent, h, a, s, y, kept):  # type: ignore[no-untyped-def]
        strings, length, heads, _, units = drive.shape
        new = np.empty(units, drive.dtype)
        one = every(1.0, zero(load(drive, 0, wide)))
        for string in range(strings):
            for head in range(heads):
                state = (string * heads + head) * units
                for t in range(length):
                    place = (string * length + t) * heads + head
                    for j in range(0, units, wide):
                        gates = place * 4 * units + j
                        into = load(drive, gates, wide)
                        forget = load(drive, gates + units, wide)
                        value = load(drive, gates + 2 * units, wide)
                        out = load(drive, gates + 3 * units, wide)
                        row = head * units * 4 * units + j
                        for k in range(units):
                            unit = every(h[state + k], one)
                            into = fma(unit, load(recurrent, row, wide), into)
                            forget = fma(unit, load(recurrent, row + units, wide), forget)
                            value = fma(unit, load(recurrent, row + 2 * units, wide), value)
                            out = fma(unit, load(recurrent, row + 3 * units, wide), out)
                            row += 4 * units
                        falls = sigmoid(sub(zero(one), forget))
                        least = sub(zero(one), greater(sub(zero(one), forget), zero(one)))
                        k_log = add(load(s, state + j, wide), sub(least, log_of_one_and(forget)))
                        ahead = sub(into, k_log)
                        share = sigmoid(ahead)
                        store(s, state + j, add(greater(into, k_log), log_of_one_and(ahead)))
                        tanh = sub(mul(every(2.0, one), sigmoid(add(value, value))), one)
                        before = load(a, state + j, wide)
                        average = fma(share, sub(tanh, before), before)
                        store(a, state + j, average)
                        gate = sigmoid(out)
                        store(new, j, mul(gate, average))
                        at = place * 5 * units + j
                        store(kept, at, share)
                        store(kept, at + units, tanh)
                        store(kept, at + 2 * units, falls)
                        store(kept, at + 3 * units, gate)
                        store(kept, at + 4 * units, average)
                    for j in range(0, units, wide):
                        store(h, state + j, load(new, j, wide))
                        store(y, place * units + j, load(new, j, wide))

    return slstm_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (turned, a before, kept, dy; dh, da, ds to be followed; ddrive to fill).

    dh comes as zeros; da and ds as the gradients of the last state. They leave as those of the
    first.
    """

    @compiled(wide, dtype)
    def slstm_backward(turned, first, kept, dy, dh, da, ds, ddrive):  # type: ignore[no-untyped-def]
        strings, length, heads, units = dy.shape
        one = every(1.0, zero(load(dy, 0, wide)))
        for string in range(strings):
            for head in range(heads):
                state = (string * heads + head) * units
                for back in range(length):
                    t = length - 1 - back
                    place = (string * length + t) * heads + head
                    for j in range(0, units, wide):
                        at = place * 5 * units + j
                        share, tanh = load(kept, at, wide), load(kept, at + units, wide)
                        gate = load(kept, at + 3 * units, wide)
                        average = load(kept, at + 4 * units, wide)
                        if t > 0:
                            before = load(kept, at + 4 * units - heads * 5 * units, wide)
                        else:
                            before = load(first, state + j, wide)
                        upstream = add(load(dy, place * units + j, wide), load(dh, state + j, wide))
                        of_average = fma(upstream, gate, load(da, state + j, wide))
                        of_weight = load(ds, state + j, wide)
                        keep = sub(one, share)
                        x = mul(mul(of_average, sub(tanh, before)), mul(share, keep))
                        of_before = sub(mul(of_weight, keep), x)
                        out = place * 4 * units + j
                        store(ddrive, out, fma(of_weight, share, x))
                        falls = load(kept, at + 2 * units, wide)
                        store(ddrive, out + units, mul(of_before, falls))
                        slope = mul(mul(of_average, share), sub(one, mul(tanh, tanh)))
                        store(ddrive, out + 2 * units, slope)
                        slope = mul(mul(upstream, average), mul(gate, sub(one, gate)))
                        store(ddrive, out + 3 * units, slope)
                        store(da, state + j, mul(of_average, keep))
                        store(ds, state + j, of_before)
                    for k in range(0, units, wide):
                        sums, later_sums = zero(one), zero(one)
                        row = head * 4 * units * units + k
                        out = place * 4 * units
                        for gate_unit in range(2 * units):
                            slope = every(ddrive[out + gate_unit], one)
                            sums = fma(slope, load(turned, row, wide), sums)
                            slope = every(ddrive[out + 2 * units + gate_unit], one)
                            later = row + 2 * units * units
                            later_sums = fma(slope, load(turned, later, wide), later_sums)
                            row += units
                        store(dh, state + k, add(sums, later_sums))

    return slstm_backward
