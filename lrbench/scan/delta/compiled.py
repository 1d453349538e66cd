"""The delta rule in compiled loops: the updates of `householder.py`, one after the other.

Values do not meet in an update, so a loop follows WIDE values of a string over all its positions,
with their part of the state, M = S^T (K x WIDE), in the first-level cache. An update reads M along
e and adds along k,

    c = v - M^T e,   M <- M + k c^T,   and   y = M^T q  after the last of a position.

The backward follows it again first, by spans of positions whose states before each update fit into
the cache, and then goes back with the adjoint A of M (w the gradient of y),

    dq = M w,   A <- A + q w^T;   d = A^T k,  dv = d,  dk = A c,  de = -M d,  A <- A - e d^T;
    da = sums of A * M,   A <- a * A.

Shapes: as in `householder.py`; a, the decays themselves, (N, T, R) with R = 0, 1 or K.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, fold
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import every, fma, load, mul, store, total, zero

WIDTHS = (16, 8)  # values at a time: the first that divides their number
KEPT = 1 << 18  # bytes of states that the backward keeps at a time: they stay in the cache


def width_of(values: Tensor) -> int:
    """Return how many values the compiled loops take at a time for v (.., V); 0: none does."""
    return next((width for width in WIDTHS if values.shape[-1] % width == 0), 0)


def rates_of(decay: Tensor | None) -> int:
    """Return 0 without a decay (N, T, R), 1 where a state has one, 2 where each channel has."""
    return 0 if decay is None else min(decay.shape[-1], 2)


def compiles(values: Tensor, log_decay: Tensor | None) -> bool:
    """Tell whether the compiled loops can be used for values v (N, T, n, V) and log a."""
    width = width_of(values)
    if not width or not values.numel():
        return False
    return usable(values, "delta_rule", width, rates_of(log_decay))


def delta_loops(
    keys: Tensor,
    erased: Tensor,
    log_decay: Tensor | None,
    values: Tensor,
    queries: Tensor,
    initial: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return y (N, T, V) and the last state (N, V, K); arguments as for `delta_rule`.

    keys and erased are (N, T, n, K), log_decay (N, T, K), (N, T, 1) or None.
    """
    decay = keys.new_empty(*queries.shape[:2], 0) if log_decay is None else log_decay.exp()
    result = LOOPS(keys, erased, decay, values, queries, initial)
    length, size = queries.shape[1], values.shape[-1]
    y, state = result[:, : length * size], result[:, length * size :]
    return y.unflatten(1, (length, size)), state.unflatten(1, initial.shape[1:])


def _forward(
    keys: Tensor, erased: Tensor, decay: Tensor, values: Tensor, queries: Tensor, initial: Tensor
) -> tuple[Tensor]:
    (strings, length), size = queries.shape[:2], values.shape[-1]
    result = keys.new_empty(strings, length * size + initial[0].numel())
    loop = forward_loop(DTYPES[keys.dtype], width_of(values), rates_of(decay))
    loop(*map(array, (keys, erased, decay, values, queries, initial)), result.numpy())
    return (result,)


def _backward(
    keys: Tensor,
    erased: Tensor,
    decay: Tensor,
    values: Tensor,
    queries: Tensor,
    initial: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, ...]:
    inputs = keys, erased, decay, values, queries, initial
    sums = [torch.zeros_like(x, memory_format=torch.contiguous_format) for x in inputs]
    width = width_of(values)
    states = (keys.shape[2] + 1) * keys.shape[3] * width * keys.element_size()  # of a position
    span = max(1, min(keys.shape[1], KEPT // states))
    loop = backward_loop(DTYPES[keys.dtype], width, rates_of(decay))
    loop(*map(array, (*inputs, gradient)), span, *(x.numpy() for x in sums))
    return tuple(sums)


LOOPS = ClosedForm(_forward, _backward, fold, needs_result=False)


@cache
def forward_loop(dtype: str, wide: int, rates: int) -> Loop:
    """Return the loop (k, e, a, v, q, S_0, what to fill: y and the last S of each string)."""

    @compiled(dtype, wide, rates)
    def delta_forward(k, e, a, v, q, start, result):  # type: ignore[no-untyped-def]
        strings, length, count, keys = k.shape
        values = v.shape[3]
        size, last = keys * wide, length * values
        matrix = np.empty(size, k.dtype)
        for string in range(strings):
            for block in range(0, values, wide):
                for i in range(wide):
                    for j in range(keys):
                        matrix[j * wide + i] = start[string, block + i, j]
                for t in range(length):
                    if rates > 0:
                        for j in range(keys):
                            m = load(matrix, j * wide, wide)
                            rate = a[string, t, j if rates > 1 else 0]
                            store(matrix, j * wide, mul(every(rate, m), m))
                    for u in range(count):
                        at = ((string * length + t) * count + u) * values + block
                        change = load(v, at, wide)
                        for j in range(keys):
                            m = load(matrix, j * wide, wide)
                            change = fma(every(-e[string, t, u, j], m), m, change)
                        for j in range(keys):
                            m = load(matrix, j * wide, wide)
                            m = fma(every(k[string, t, u, j], m), change, m)
                            store(matrix, j * wide, m)
                    y = zero(load(matrix, 0, wide))
                    for j in range(keys):
                        m = load(matrix, j * wide, wide)
                        y = fma(every(q[string, t, j], m), m, y)
                    store(result, string * result.shape[1] + t * values + block, y)
                for i in range(wide):
                    for j in range(keys):
                        result[string, last + (block + i) * keys + j] = matrix[j * wide + i]

    return delta_forward


@cache
def backward_loop(dtype: str, wide: int, rates: int) -> Loop:
    """Return the loop over the same, their gradient, a span, and zeros: dk, de, da, dv, dq, dS_0.

    span: of how many positions the states before each update are kept at a time.
    """

    @compiled(dtype, wide, rates)
    def delta_backward(k, e, a, v, q, start, gradient, span, dk, de, da, dv, dq, dstart):  # type: ignore[no-untyped-def]
        strings, length, count, keys = k.shape
        values = v.shape[3]
        size, last = keys * wide, length * values
        spans = (length + span - 1) // span
        matrix, adjoint = np.empty(size, k.dtype), np.empty(size, k.dtype)
        starts = np.empty(spans * size, k.dtype)  # M before each span
        before = np.empty((span * (count + 1) + 1) * size, k.dtype)  # each decay, then each update
        changes = np.empty(span * count * wide, k.dtype)
        for string in range(strings):
            for block in range(0, values, wide):
                for i in range(wide):
                    for j in range(keys):
                        matrix[j * wide + i] = start[string, block + i, j]
                        place = last + (block + i) * keys + j
                        adjoint[j * wide + i] = gradient[string, place]
                # Twice over the string: first for M before each span, then back, span by span.
                for visit in range(2 * spans - 1):
                    forth = visit < spans - 1
                    part = visit if forth else 2 * spans - 2 - visit
                    first, end = part * span, min(length, (part + 1) * span)
                    if forth or visit == spans - 1:
                        starts[part * size : (part + 1) * size] = matrix
                    else:
                        matrix[:] = starts[part * size : (part + 1) * size]
                    for t in range(first, end):
                        here = (t - first) * (count + 1) * size
                        for j in range(keys):
                            m = load(matrix, j * wide, wide)
                            store(before, here + j * wide, m)
                            if rates > 0:
                                rate = a[string, t, j if rates > 1 else 0]
                                store(matrix, j * wide, mul(every(rate, m), m))
                        for u in range(count):
                            at = ((string * length + t) * count + u) * values + block
                            change = load(v, at, wide)
                            here += size
                            for j in range(keys):
                                m = load(matrix, j * wide, wide)
                                store(before, here + j * wide, m)
                                change = fma(every(-e[string, t, u, j], m), m, change)
                            store(changes, ((t - first) * count + u) * wide, change)
                            for j in range(keys):
                                m = load(matrix, j * wide, wide)
                                m = fma(every(k[string, t, u, j], m), change, m)
                                store(matrix, j * wide, m)
                    if forth:
                        continue
                    after = (end - first) * (count + 1) * size
                    before[after : after + size] = matrix
                    for t in range(end - 1, first - 1, -1):
                        here = (t - first) * (count + 1) * size
                        after = here + (count + 1) * size
                        at = string * gradient.shape[1] + t * values + block
                        upstream = load(gradient, at, wide)
                        for j in range(keys):
                            m = load(before, after + j * wide, wide)
                            dq[string, t, j] += total(mul(m, upstream))
                            d = load(adjoint, j * wide, wide)
                            d = fma(every(q[string, t, j], m), upstream, d)
                            store(adjoint, j * wide, d)
                        for back in range(count):
                            u = count - 1 - back
                            change = load(changes, ((t - first) * count + u) * wide, wide)
                            slope = zero(change)
                            for j in range(keys):
                                d = load(adjoint, j * wide, wide)
                                slope = fma(every(k[string, t, u, j], d), d, slope)
                            store(dv, ((string * length + t) * count + u) * values + block, slope)
                            for j in range(keys):
                                m = load(before, here + (1 + u) * size + j * wide, wide)
                                d = load(adjoint, j * wide, wide)
                                dk[string, t, u, j] += total(mul(d, change))
                                de[string, t, u, j] -= total(mul(m, slope))
                                d = fma(every(-e[string, t, u, j], d), slope, d)
                                store(adjoint, j * wide, d)
                        if rates > 0:
                            for j in range(keys):
                                m = load(before, here + j * wide, wide)
                                d = load(adjoint, j * wide, wide)
                                channel = j if rates > 1 else 0
                                da[string, t, channel] += total(mul(d, m))
                                d = mul(every(a[string, t, channel], d), d)
                                store(adjoint, j * wide, d)
                for i in range(wide):
                    for j in range(keys):
                        dstart[string, block + i, j] = adjoint[j * wide + i]

    return delta_backward
