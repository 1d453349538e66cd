"""Matrix states under one decay a head in compiled loops: `duality.py`, position by position.

    S_t = a_t S_{t-1} + v_t k_t^T,   y_t = S_t q_t

A loop follows some values of a head over all its positions, with their part of the state,
M = S^T (K x values), in the first-level cache. One pass over its rows is a position:

    M_j <- a M_j + k_j v,   y <- y + q_j M_j.

The backward follows the states again first, by spans of positions that fit into the cache, and then
goes back with the adjoint A of M (w the gradient of y), again in one pass:

    dq_j = M_j . w,   A_j <- A_j + q_j w,   dv <- dv + k_j A_j,   dk_j = A_j . v,
    da = sum of A * M_{t-1},   A_j <- a A_j.

Shapes: as in `duality.py`; k and q alike, of H heads or of 1 for all.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.kernels.compiler import Loop, compiled
from lrbench.kernels.lanes import every, fma, load, mul, store, total, zero
from lrbench.scan.matrix.by_values import ByValues


@cache
def forward_loop(dtype: str, wide: int) -> Loop:
    """Return the loop over v, a, k, q and S_0."""

    @compiled(dtype, wide)
    def dual_forward(v, a, k, q, start, first_value, end_value, result):  # type: ignore[no-untyped-def]
        strings, length, heads, values = v.shape
        groups, keys = k.shape[2:]
        last = length * heads * values
        matrix = np.empty(keys * wide, k.dtype)
        for string in range(strings):
            for head in range(heads):
                group = head if groups > 1 else 0
                for block in range(first_value, end_value, wide):
                    for i in range(wide):
                        for j in range(keys):
                            matrix[j * wide + i] = start[string, head, block + i, j]
                    for t in range(length):
                        place = (string * length + t) * heads + head
                        value = load(v, place * values + block, wide)
                        rate = every(a[string, t, head], value)
                        y = zero(value)
                        for j in range(keys):
                            m = mul(rate, load(matrix, j * wide, wide))
                            m = fma(every(k[string, t, group, j], m), value, m)
                            store(matrix, j * wide, m)
                            y = fma(every(q[string, t, group, j], m), m, y)
                        at = string * result.shape[1] + (t * heads + head) * values + block
                        store(result, at, y)
                    for i in range(wide):
                        at = last + (head * values + block + i) * keys
                        for j in range(keys):
                            result[string, at + j] = matrix[j * wide + i]

    return dual_forward


@cache
def backward_loop(dtype: str, wide: int) -> Loop:
    """Return the loop back over the same."""

    @compiled(dtype, wide)
    def dual_backward(  # type: ignore[no-untyped-def]
        v, a, k, q, start, gradient, first_value, end_value, span, dv, da, dk, dq, dstart
    ):
        strings, length, heads, values = v.shape
        groups, keys = k.shape[2:]
        size, last = keys * wide, length * heads * values
        spans = (length + span - 1) // span
        adjoint = np.empty(size, k.dtype)
        starts = np.empty((spans + 1) * size, k.dtype)  # M before each span
        states = np.empty((span + 1) * size, k.dtype)  # M before each position of a span, and after
        for string in range(strings):
            for head in range(heads):
                group = head if groups > 1 else 0
                for block in range(first_value, end_value, wide):
                    for i in range(wide):
                        at = last + (head * values + block + i) * keys
                        for j in range(keys):
                            starts[j * wide + i] = start[string, head, block + i, j]
                            adjoint[j * wide + i] = gradient[string, at + j]
                    # Twice over the string: first for M before each span, then back, span by span.
                    for visit in range(2 * spans - 1):
                        forth = visit < spans - 1
                        part = visit if forth else 2 * spans - 2 - visit
                        first, end = part * span, min(length, (part + 1) * span)
                        states[:size] = starts[part * size : (part + 1) * size]
                        for t in range(first, end):
                            here = (t - first) * size
                            place = (string * length + t) * heads + head
                            value = load(v, place * values + block, wide)
                            rate = every(a[string, t, head], value)
                            for j in range(keys):
                                m = mul(rate, load(states, here + j * wide, wide))
                                m = fma(every(k[string, t, group, j], m), value, m)
                                store(states, here + size + j * wide, m)
                        if forth:
                            after = (end - first) * size
                            starts[end // span * size :][:size] = states[after : after + size]
                            continue
                        for t in range(end - 1, first - 1, -1):
                            here = (t - first) * size
                            place = (string * length + t) * heads + head
                            value = load(v, place * values + block, wide)
                            rate = every(a[string, t, head], value)
                            at = string * gradient.shape[1] + (t * heads + head) * values + block
                            upstream = load(gradient, at, wide)
                            slope, decayed = zero(value), zero(value)
                            for j in range(keys):
                                m = load(states, here + size + j * wide, wide)
                                dq[string, t, group, j] += total(mul(m, upstream))
                                d = load(adjoint, j * wide, wide)
                                d = fma(every(q[string, t, group, j], d), upstream, d)
                                slope = fma(every(k[string, t, group, j], d), d, slope)
                                dk[string, t, group, j] += total(mul(d, value))
                                decayed = fma(d, load(states, here + j * wide, wide), decayed)
                                store(adjoint, j * wide, mul(rate, d))
                            store(dv, place * values + block, slope)
                            da[string, t, head] += total(decayed)
                    for i in range(wide):
                        for j in range(keys):
                            dstart[string, head, block + i, j] = adjoint[j * wide + i]

    return dual_backward


DUAL_SCAN = ByValues("dual_scan", forward_loop, backward_loop, lambda _: (), lambda _: 1)
