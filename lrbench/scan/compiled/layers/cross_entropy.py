"""Cross-entropy with smoothed labels, its gradient in the same pass.

For logits l (C, N), targets t and smoothing e, over the n targets that are not `ignored`,

    loss = mean_i ( log sum_c exp l_ci - (1 - e) l_{t_i i} - (e / C) sum_c l_ci ),
    dl_ci = ( softmax(l)_ci - (1 - e) [c = t_i] - e / C ) / n.

WIDE positions lie side by side in lanes: exponentials are what costs. N must be a multiple of WIDE.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, every, greater, load, mul, reciprocal, store, sub, zero
from lrbench.scan.compiled.power import exp2, log2

WIDE = 16
LOG2_E = 1 / math.log(2)


@cache
def loss_loop(classes: int, dtype: str) -> Loop:
    """Return the loop (l, t, dl to fill, smoothing, ignored) -> loss; C = `classes`."""

    @compiled(classes, dtype)
    def cross_entropy(logits, targets, slopes, smoothing, ignored):  # type: ignore[no-untyped-def]
        positions = targets.shape[0]
        counted = 0
        for i in range(positions):
            if targets[i] != ignored:
                if targets[i] < 0 or targets[i] >= classes:
                    raise IndexError("a target is not among the classes")
                counted += 1
        log_sums = np.empty(WIDE, logits.dtype)
        nothing = zero(load(logits, 0, WIDE))
        log2_e, log_2 = every(LOG2_E, nothing), every(1 / LOG2_E, nothing)
        share, of_all = every(1 / counted, nothing), every(smoothing / classes, nothing)
        loss = 0.0
        for start in range(0, positions, WIDE):
            largest = load(logits, start, WIDE)
            for c in range(1, classes):
                largest = greater(largest, load(logits, c * positions + start, WIDE))
            sums = nothing
            for c in range(classes):
                at = c * positions + start
                power = exp2(mul(sub(load(logits, at, WIDE), largest), log2_e))
                store(slopes, at, power)
                sums = add(sums, power)
            store(log_sums, 0, add(largest, mul(log2(sums), log_2)))
            inverse = reciprocal(sums)
            for c in range(classes):
                at = c * positions + start
                probability = mul(load(slopes, at, WIDE), inverse)
                store(slopes, at, mul(sub(probability, of_all), share))
            for i in range(start, start + WIDE):
                target = targets[i]
                if target == ignored:
                    for c in range(classes):
                        slopes[c, i] = 0
                else:
                    spread = 0.0
                    for c in range(classes):
                        spread += logits[c, i]
                    loss += log_sums[i - start] - (1 - smoothing) * logits[target, i]
                    loss -= smoothing / classes * spread
                    slopes[target, i] -= (1 - smoothing) / counted
        return loss / counted

    return cross_entropy
