"""Responses to single symbols added up: what `lrbench.scan.time_invariant.responses` computes.

A string reads 40 symbols or so, so that adding rows of the kernels, which stay in the cache, is
less work than the product with marks that are nearly all zero.

Shapes: kernel and its gradient (S, T, D); index (B, T); y and g (B, T, D); D a multiple of `wide`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, load, store, zero


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (kernel, index, y to fill)."""

    @compiled(wide, dtype)
    def responses_forward(kernel, index, y):  # type: ignore[no-untyped-def]
        symbols, length, features = kernel.shape
        nothing = zero(load(kernel, 0, wide))
        starts = np.empty(length, np.int64)  # where the row for position 0 would be
        for string in range(index.shape[0]):
            for j in range(length):
                symbol = index[string, j]
                if symbol < 0 or symbol >= symbols:
                    raise IndexError("a symbol is not in the table")
                starts[j] = (symbol * length - j) * features
            for t in range(length):
                for d in range(0, features, wide):
                    row, summed = t * features + d, nothing
                    for j in range(t + 1):
                        summed = add(summed, load(kernel, starts[j] + row, wide))
                    store(y, string * length * features + row, summed)

    return responses_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (index, g, zeros for dkernel)."""

    @compiled(wide, dtype)
    def responses_backward(index, g, dkernel):  # type: ignore[no-untyped-def]
        length, features = dkernel.shape[1:]
        for string in range(index.shape[0]):
            for j in range(length):
                here = (string * length + j) * features
                there = index[string, j] * length * features
                for at in range(0, (length - j) * features, wide):
                    upstream = load(g, here + at, wide)
                    store(dkernel, there + at, add(load(dkernel, there + at, wide), upstream))

    return responses_backward
