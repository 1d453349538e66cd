"""The delta rule in compiled loops: the updates of `householder.py`, one after the other.

Values do not meet in an update, so a loop follows some values of a head over all its positions,
with their part of the state, M = S^T (K x values), in the first-level cache. An update reads M
along e and adds along k,

    c = v - M^T e,   M <- M + k c^T,   and   y = M^T q  after the last of a position.

The backward follows it again first, by spans of positions whose states before each update fit into
the cache, and then goes back with the adjoint A of M (w the gradient of y),

    dq = M w,   A <- A + q w^T;   d = A^T k,  dv = d,  dk = A c,  de = -M d,  A <- A - e d^T;
    da = sums of A * M,   A <- a * A.

Shapes: B strings, T length, H heads, n updates of each position; k and e (B, T, H, n, K);
a, the decays themselves, (B, T, H, R) with R = 0, 1 or K; v (B, T, H, n, V); q (B, T, H, K);
S (B, H, V, K).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.kernels.closed_form import Tensors
from lrbench.kernels.compiler import Loop, compiled
from lrbench.kernels.lanes import copy, every, fma, load, mul, store, total, zero
from lrbench.scan.matrix.by_values import ByValues


@cache
def forward_loop(dtype: str, wide: int, rates: int) -> Loop:
    """Return the loop for 0 `rates`, no decay, 1, one a head, or 2, one a channel."""

    @compiled(dtype, wide, rates)
    def delta_forward(v, k, e, a, q, start, low, high, result):  # type: ignore[no-untyped-def]
        strings, length, heads, count, values = v.shape
        keys = k.shape[4]
        last = length * heads * values
        matrix = np.empty(keys * wide, k.dtype)
        for string in range(strings):
            for head in range(heads):
                for block in range(low, high, wide):
                    for i in range(wide):
                        for j in range(keys):
                            matrix[j * wide + i] = start[string, head, block + i, j]
                    for t in range(length):
                        if rates > 0:
                            for j in range(keys):
                                m = load(matrix, j * wide, wide)
                                rate = a[string, t, head, j if rates > 1 else 0]
                                store(matrix, j * wide, mul(every(rate, m), m))
                        place = (string * length + t) * heads + head
                        for u in range(count):
                            change = load(v, (place * count + u) * values + block, wide)
                            for j in range(keys):
                                m = load(matrix, j * wide, wide)
                                change = fma(every(-e[string, t, head, u, j], m), m, change)
                            for j in range(keys):
                                m = load(matrix, j * wide, wide)
                                m = fma(every(k[string, t, head, u, j], m), change, m)
                                store(matrix, j * wide, m)
                        y = zero(load(matrix, 0, wide))
                        for j in range(keys):
                            m = load(matrix, j * wide, wide)
                            y = fma(every(q[string, t, head, j], m), m, y)
                        at = string * result.shape[1] + (t * heads + head) * values + block
                        store(result, at, y)
                    for i in range(wide):
                        at = last + (head * values + block + i) * keys
                        for j in range(keys):
                            result[string, at + j] = matrix[j * wide + i]

    return delta_forward


@cache
def backward_loop(dtype: str, wide: int, rates: int) -> Loop:
    """Return the loop back over the same."""

    @compiled(dtype, wide, rates)
    def delta_backward(  # type: ignore[no-untyped-def]
        v, k, e, a, q, start, gradient, low, high, span, dv, dk, de, da, dq, dstart
    ):
        strings, length, heads, count, values = v.shape
        keys = k.shape[4]
        size, last = keys * wide, length * heads * values
        spans = (length + span - 1) // span
        kept = (count + 1) * size  # of a position: before its decay, then before each update
        matrix, adjoint = np.empty(size, k.dtype), np.empty(size, k.dtype)
        starts = np.empty(spans * size, k.dtype)  # M before each span
        before = np.empty(span * kept + size, k.dtype)
        changes = np.empty(span * count * wide, k.dtype)
        for string in range(strings):
            for head in range(heads):
                for block in range(low, high, wide):
                    for i in range(wide):
                        at = last + (head * values + block + i) * keys
                        for j in range(keys):
                            matrix[j * wide + i] = start[string, head, block + i, j]
                            adjoint[j * wide + i] = gradient[string, at + j]
                    # Twice over the string: first for M before each span, then back, span by span.
                    for visit in range(2 * spans - 1):
                        forth = visit < spans - 1
                        part = visit if forth else 2 * spans - 2 - visit
                        first, end = part * span, min(length, (part + 1) * span)
                        if forth or visit == spans - 1:
                            copy(matrix, 0, starts, part * size, size)
                        else:
                            copy(starts, part * size, matrix, 0, size)
                        for t in range(first, end):
                            here = (t - first) * kept
                            for j in range(keys):
                                m = load(matrix, j * wide, wide)
                                store(before, here + j * wide, m)
                                if rates > 0:
                                    rate = a[string, t, head, j if rates > 1 else 0]
                                    store(matrix, j * wide, mul(every(rate, m), m))
                            place = (string * length + t) * heads + head
                            for u in range(count):
                                change = load(v, (place * count + u) * values + block, wide)
                                here += size
                                for j in range(keys):
                                    m = load(matrix, j * wide, wide)
                                    store(before, here + j * wide, m)
                                    erased = every(-e[string, t, head, u, j], m)
                                    change = fma(erased, m, change)
                                store(changes, ((t - first) * count + u) * wide, change)
                                for j in range(keys):
                                    m = load(matrix, j * wide, wide)
                                    m = fma(every(k[string, t, head, u, j], m), change, m)
                                    store(matrix, j * wide, m)
                        if forth:
                            continue
                        copy(matrix, 0, before, (end - first) * kept, size)
                        for t in range(end - 1, first - 1, -1):
                            here = (t - first) * kept
                            place = (string * length + t) * heads + head
                            at = string * gradient.shape[1] + (t * heads + head) * values + block
                            upstream = load(gradient, at, wide)
                            for j in range(keys):
                                m = load(before, here + kept + j * wide, wide)
                                dq[string, t, head, j] += total(mul(m, upstream))
                                d = load(adjoint, j * wide, wide)
                                d = fma(every(q[string, t, head, j], m), upstream, d)
                                store(adjoint, j * wide, d)
                            for back in range(count):
                                u = count - 1 - back
                                change = load(changes, ((t - first) * count + u) * wide, wide)
                                slope = zero(change)
                                for j in range(keys):
                                    d = load(adjoint, j * wide, wide)
                                    slope = fma(every(k[string, t, head, u, j], d), d, slope)
                                    dk[string, t, head, u, j] += total(mul(d, change))
                                store(dv, (place * count + u) * values + block, slope)
                                for j in range(keys):
                                    m = load(before, here + (1 + u) * size + j * wide, wide)
                                    de[string, t, head, u, j] -= total(mul(m, slope))
                                    d = load(adjoint, j * wide, wide)
                                    d = fma(every(-e[string, t, head, u, j], d), slope, d)
                                    store(adjoint, j * wide, d)
                            if rates > 0:
                                whole = zero(upstream)
                                for j in range(keys):
                                    m = load(before, here + j * wide, wide)
                                    d = load(adjoint, j * wide, wide)
                                    if rates > 1:
                                        da[string, t, head, j] += total(mul(d, m))
                                    else:
                                        whole = fma(d, m, whole)
                                    rate = a[string, t, head, j if rates > 1 else 0]
                                    store(adjoint, j * wide, mul(every(rate, d), d))
                                if rates == 1:
                                    da[string, t, head, 0] += total(whole)
                    for i in range(wide):
                        for j in range(keys):
                            dstart[string, head, block + i, j] = adjoint[j * wide + i]

    return delta_backward


def _rates(inputs: Tensors) -> tuple[int, ...]:
    return (min(inputs[3].shape[-1], 2),)


def _kept(inputs: Tensors) -> int:
    return 1 + inputs[1].shape[3]  # before the decay, and before each update


DELTA_RULE = ByValues("delta_rule", forward_loop, backward_loop, _rates, _kept)
