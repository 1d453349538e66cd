"""Matrix states under one decay a head in compiled loops: `duality.py`, position by position.

    S_t = a_t S'_{t-1} + w_t v_t k_t^T,   y_t = S_t q_t,   S'_t = S_t + l_t v_t k_t^T

A loop follows some values of a head over all its positions, with their part of the state,
M = S'^T (K x values), in the first-level cache. One pass over its rows is a position:

    R_j = a M_j + w k_j v,   y <- y + q_j R_j,   M_j <- R_j + l k_j v.

The backward follows the states again first, by spans of positions that fit into the cache, and then
goes back with the adjoint A of M (g the gradient of y), again in one pass:

    dq_j = R_j . g,   B_j = A_j + q_j g,   dk_j = (w B_j + l A_j) . v,   A_j <- a B_j,
    dw = v . sum of k_j B_j,   dl = v . sum of k_j A_j,   dv = sum of k_j (w B_j + l A_j),
    da = sum of B * M_{t-1}.

Shapes: as in `duality.py`; k and q alike, of H heads or of 1 for all; l (B, T, H), or (B, T, 0)
where nothing is written behind what is read.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.kernels.closed_form import Tensors
from lrbench.kernels.compiler import Loop, compiled
from lrbench.kernels.lanes import copy, every, fma, load, mul, store, total, zero
from lrbench.scan.matrix.by_values import ByValues


@cache
def forward_loop(dtype: str, wide: int, later: int) -> Loop:
    """Return the loop over v, a, k, q, w, l and S_0; `later`: whether there is an l."""

    @compiled(dtype, wide, later)
    def dual_forward(v, a, k, q, w, late, start, low, high, result):  # type: ignore[no-untyped-def]
        strings, length, heads, values = v.shape
        groups, keys = k.shape[2:]
        last = length * heads * values
        matrix = np.empty(keys * wide, k.dtype)
        for string in range(strings):
            for head in range(heads):
                group = head if groups > 1 else 0
                for block in range(low, high, wide):
                    for i in range(wide):
                        for j in range(keys):
                            matrix[j * wide + i] = start[string, head, block + i, j]
                    for t in range(length):
                        place = (string * length + t) * heads + head
                        value = load(v, place * values + block, wide)
                        now = mul(every(w[string, t, head], value), value)
                        behind = zero(value)
                        if later:
                            behind = mul(every(late[string, t, head], value), value)
                        rate, y = every(a[string, t, head], value), zero(value)
                        for j in range(keys):
                            key = every(k[string, t, group, j], value)
                            m = fma(key, now, mul(rate, load(matrix, j * wide, wide)))
                            y = fma(every(q[string, t, group, j], m), m, y)
                            store(matrix, j * wide, fma(key, behind, m) if later else m)
                        at = string * result.shape[1] + (t * heads + head) * values + block
                        store(result, at, y)
                    for i in range(wide):
                        at = last + (head * values + block + i) * keys
                        for j in range(keys):
                            result[string, at + j] = matrix[j * wide + i]

    return dual_forward


@cache
def backward_loop(dtype: str, wide: int, later: int) -> Loop:
    """Return the loop back over the same."""

    @compiled(dtype, wide, later)
    def dual_backward(  # type: ignore[no-untyped-def]
        v, a, k, q, w, late, start, gradient, low, high, span, dv, da, dk, dq, dw, dlate, dstart
    ):
        strings, length, heads, values = v.shape
        groups, keys = k.shape[2:]
        size, last = keys * wide, length * heads * values
        spans = (length + span - 1) // span
        adjoint = np.empty(size, k.dtype)
        starts = np.empty(spans * size, k.dtype)  # M before each span
        states = np.empty((span + 1) * size, k.dtype)  # M before each position of one, and after
        for string in range(strings):
            for head in range(heads):
                group = head if groups > 1 else 0
                for block in range(low, high, wide):
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
                        copy(starts, part * size, states, 0, size)
                        for t in range(first, end - (0 if forth else 1)):
                            here = (t - first) * size
                            place = (string * length + t) * heads + head
                            value = load(v, place * values + block, wide)
                            weight = w[string, t, head]
                            if later:
                                weight += late[string, t, head]
                            written = mul(every(weight, value), value)
                            rate = every(a[string, t, head], value)
                            for j in range(keys):
                                m = mul(rate, load(states, here + j * wide, wide))
                                m = fma(every(k[string, t, group, j], m), written, m)
                                store(states, here + size + j * wide, m)
                        if forth:
                            copy(states, (end - first) * size, starts, (part + 1) * size, size)
                            continue
                        for t in range(end - 1, first - 1, -1):
                            here = (t - first) * size
                            place = (string * length + t) * heads + head
                            value = load(v, place * values + block, wide)
                            rate = every(a[string, t, head], value)
                            now = every(w[string, t, head], value)
                            written = mul(now, value)
                            at = string * gradient.shape[1] + (t * heads + head) * values + block
                            upstream = load(gradient, at, wide)
                            by_now, by_later, decayed = zero(value), zero(value), zero(value)
                            behind = zero(value)
                            if later:
                                behind = every(late[string, t, head], value)
                            for j in range(keys):
                                key = every(k[string, t, group, j], value)
                                before = load(states, here + j * wide, wide)
                                m = fma(key, written, mul(rate, before))
                                dq[string, t, group, j] += total(mul(m, upstream))
                                d = load(adjoint, j * wide, wide)
                                changed = zero(value)
                                if later:
                                    by_later = fma(key, d, by_later)
                                    changed = mul(behind, d)
                                d = fma(every(q[string, t, group, j], d), upstream, d)
                                by_now = fma(key, d, by_now)
                                dk[string, t, group, j] += total(mul(fma(now, d, changed), value))
                                decayed = fma(d, before, decayed)
                                store(adjoint, j * wide, mul(rate, d))
                            da[string, t, head] += total(decayed)
                            dw[string, t, head] += total(mul(by_now, value))
                            slope = mul(now, by_now)
                            if later:
                                dlate[string, t, head] += total(mul(by_later, value))
                                slope = fma(behind, by_later, slope)
                            store(dv, place * values + block, slope)
                    for i in range(wide):
                        for j in range(keys):
                            dstart[string, head, block + i, j] = adjoint[j * wide + i]

    return dual_backward


def _later(inputs: Tensors) -> tuple[int, ...]:
    return (int(inputs[5].shape[-1] > 0),)


DUAL_SCAN = ByValues("dual_scan", forward_loop, backward_loop, _later, lambda _: 1)
