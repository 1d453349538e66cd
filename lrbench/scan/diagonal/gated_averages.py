"""The averages of RWKV-4 and their gate in compiled loops; `triples.py` has torch's way without it.

    d = v - m,  e = sigmoid(u + k - s),  g = sigmoid(w + k - s),  y = (m + e d) sigmoid(r)
    m <- m + g d,   s <- log(e^{s - w} + e^k)

Keys, values and gates may be tables, looked up position by position: nothing of the size of the
strings is made of them, and their gradients are added up in the cache. Some channels of a string
are followed over all its positions, with their state in registers. The backward goes over them
again first, into a scratch that stays in the first-level cache.

Shapes: k, v, r and their gradients (N, D), of which position t of a string reads row index[., t];
index (B, T); y and dy (B, T, D); w and u (D); states m and s (B, D); D a multiple of WIDE.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled, part
from lrbench.kernels.elementary import LOG2_E, exp2, log2, sigmoid
from lrbench.kernels.lanes import (
    add,
    every,
    fma,
    greater,
    load,
    magnitude,
    mul,
    reciprocal,
    store,
    sub,
    where_positive,
    zero,
)

WIDE = 16  # the compiled loops take so many channels at a time


def compiles(k: Tensor) -> bool:
    """Tell whether the compiled loops can be used for keys k (..., D)."""
    return k.shape[-1] % WIDE == 0 and k.numel() > 0 and usable(k, "gated_averages")


def gated_averages(
    k: Tensor, v: Tensor, r: Tensor, index: Tensor, w: Tensor, u: Tensor, m: Tensor, s: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return y (B, T, D) and the state (m, s) after the last position.

    Args:
        k, v, r: tables (N, D).
        index: which rows of theirs belong to which position, (B, T).
        w, u: decay > 0 and the bonus of the present position, (D,).
        m, s: the average and log weight before the first position, (B, D) each.
    """
    result = AVERAGES(k, v, r, index, w, u, m, s)
    after, count = m.numel(), index.numel() * k.shape[1]
    y, m, s = result.split([count, after, after])
    batch, length = index.shape
    return y.view(batch, length, -1), (m.view(batch, -1), s.view(batch, -1))


def _forward(
    k: Tensor, v: Tensor, r: Tensor, index: Tensor, w: Tensor, u: Tensor, m: Tensor, s: Tensor
) -> tuple[Tensor]:
    after, count = m.numel(), index.numel() * k.shape[1]
    result = k.new_empty(count + 2 * after)
    y, m_after, s_after = result.split([count, after, after])
    m_after.copy_(m.flatten())
    s_after.copy_(s.flatten())
    loop = forward_loop(DTYPES[k.dtype])
    loop(*map(array, (k, v, r, index, w, u, m_after, s_after, y)))
    return (result,)


def _backward(*tensors: Tensor) -> tuple[Tensor, ...]:
    k, v, r, index, w, u, m, s, gradient = tensors
    after, count = m.numel(), index.numel() * k.shape[1]
    dy, dm, ds = gradient.split([count, after, after])
    dm, ds = dm.clone().view(m.shape), ds.clone().view(s.shape)
    sums = [torch.zeros_like(t, memory_format=torch.contiguous_format) for t in (k, v, r, w, u)]
    loop = backward_loop(DTYPES[k.dtype])
    inputs = k, v, r, index, w, u, m.flatten(), s.flatten(), dy, dm.flatten(), ds.flatten()
    loop(*map(array, (*inputs, *sums)))
    return *sums, dm, ds


AVERAGES = ClosedForm(_forward, _backward, one_by_one, needs_result=False)


@part
def share_and_weight(k, s, w):  # type: ignore[no-untyped-def]
    """Return g and the next s, with one exponential for both."""
    one, ahead = every(1.0, k), add(sub(k, s), w)
    ratio = exp2(mul(magnitude(ahead), every(-LOG2_E, k)))
    sums = add(one, ratio)
    larger = reciprocal(sums)
    smaller = mul(ratio, larger)
    g = add(smaller, where_positive(ahead, sub(larger, smaller)))
    return g, fma(log2(sums), every(1 / LOG2_E, k), greater(sub(s, w), k))


@cache
def forward_loop(dtype: str) -> Loop:
    """Return the loop (k, v, r, index, w, u, m, s, y to fill); m and s become those at the end."""

    @compiled(dtype)
    def averages_forward(k, v, r, index, w, u, m, s, y):  # type: ignore[no-untyped-def]
        (strings, length), features = index.shape, w.shape[0]
        for string in range(strings):
            for t in range(length):
                if index[string, t] < 0 or index[string, t] >= k.shape[0]:
                    raise IndexError("a symbol is not in the table")
            for d in range(0, features, WIDE):
                decay, bonus = load(w, d, WIDE), load(u, d, WIDE)
                state = string * features + d
                mean, weight = load(m, state, WIDE), load(s, state, WIDE)
                for t in range(length):
                    at = index[string, t] * features + d
                    key = load(k, at, WIDE)
                    e = sigmoid(add(bonus, sub(key, weight)))
                    new = sub(load(v, at, WIDE), mean)
                    average = fma(e, new, mean)
                    gate = sigmoid(load(r, at, WIDE))
                    store(y, (string * length + t) * features + d, mul(average, gate))
                    g, weight = share_and_weight(key, weight, decay)
                    mean = fma(g, new, mean)
                store(m, state, mean)
                store(s, state, weight)

    return averages_forward


@cache
def backward_loop(dtype: str) -> Loop:
    """Return the loop over the same, dy, dm and ds, and zeros: dk, dv, dr, dw and du.

    dm and ds, gradients of the state at the end, become those of the state before the strings.
    """

    @compiled(dtype)
    def averages_backward(k, v, r, index, w, u, m, s, dy, dm, ds, dk, dv, dr, dw, du):  # type: ignore[no-untyped-def]
        (strings, length), features = index.shape, w.shape[0]
        es, gs = np.empty(length * WIDE, k.dtype), np.empty(length * WIDE, k.dtype)
        news, averages = np.empty(length * WIDE, k.dtype), np.empty(length * WIDE, k.dtype)
        one = every(1.0, zero(load(w, 0, WIDE)))
        for string in range(strings):
            for d in range(0, features, WIDE):
                decay, bonus = load(w, d, WIDE), load(u, d, WIDE)
                state = string * features + d
                mean, weight = load(m, state, WIDE), load(s, state, WIDE)
                for t in range(length):
                    at = index[string, t] * features + d
                    key = load(k, at, WIDE)
                    e = sigmoid(add(bonus, sub(key, weight)))
                    new = sub(load(v, at, WIDE), mean)
                    g, weight = share_and_weight(key, weight, decay)
                    store(es, t * WIDE, e)
                    store(gs, t * WIDE, g)
                    store(news, t * WIDE, new)
                    store(averages, t * WIDE, fma(e, new, mean))
                    mean = fma(g, new, mean)
                of_mean, of_weight = load(dm, state, WIDE), load(ds, state, WIDE)
                of_decay, of_bonus = load(dw, d, WIDE), load(du, d, WIDE)
                for back in range(length):
                    t = length - 1 - back
                    at, here = index[string, t] * features + d, t * WIDE
                    upstream = load(dy, (string * length + t) * features + d, WIDE)
                    gate = sigmoid(load(r, at, WIDE))
                    e, g, new = load(es, here, WIDE), load(gs, here, WIDE), load(news, here, WIDE)
                    upstream = mul(upstream, gate)
                    slope = mul(mul(upstream, load(averages, here, WIDE)), sub(one, gate))
                    store(dr, at, add(load(dr, at, WIDE), slope))
                    direct, through = mul(upstream, e), mul(of_mean, g)
                    both = add(direct, through)
                    store(dv, at, add(load(dv, at, WIDE), both))
                    of_mean = add(of_mean, sub(upstream, both))
                    x = mul(mul(direct, sub(one, e)), new)
                    of_bonus, of_decay = add(of_bonus, x), sub(of_decay, x)
                    x = fma(mul(through, sub(one, g)), new, x)
                    of_key = fma(of_weight, g, x)
                    store(dk, at, add(load(dk, at, WIDE), of_key))
                    of_weight = sub(of_weight, of_key)
                    of_decay = sub(of_decay, of_weight)
                store(dm, state, of_mean)
                store(ds, state, of_weight)
                store(dw, d, of_decay)
                store(du, d, of_bonus)

    return averages_backward
