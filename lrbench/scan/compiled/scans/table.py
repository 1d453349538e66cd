"""The block scan over a table of symbols, string by string: what `scan/blocks/indexed.py` computes.

A string's symbols differ from its neighbour's, so strings do not share registers here; the rows of
a block do. One string takes one step in all its blocks, each of which is b vectors of b numbers,
and the table, its gradient and two states stay in the first-level cache throughout.

Shapes: table (S, h, b, b), [row, column]; inputs (S, h, b); index (B, T); states (B, T, h, b).
Offsets count numbers: `here` in states, `entry` in inputs, `entry b` in the table.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import add, fma, load, spread, store, zero


@cache
def forward_loop(b: int, dtype: str) -> Loop:
    """Return the loop (table, inputs, index, initial, states to fill)."""

    @compiled(b, dtype)
    def table_forward(table, inputs, index, initial, states):  # type: ignore[no-untyped-def]
        symbols, heads = inputs.shape[:2]
        columns = np.empty_like(table)  # [column, row]: a column is one vector
        for s in range(symbols):
            for i in range(heads):
                columns[s, i] = table[s, i].T
        for string in range(index.shape[0]):
            for k in range(index.shape[1]):
                s = index[string, k]
                if s < 0 or s >= symbols:
                    raise IndexError("a symbol is not in the table")
                for i in range(heads):
                    here = ((string * index.shape[1] + k) * heads + i) * b
                    entry = (s * heads + i) * b
                    if k > 0:
                        x = load(states, here - heads * b, b)
                    else:
                        x = load(initial, (string * heads + i) * b, b)
                    y = load(inputs, entry, b)
                    for c in range(b):
                        y = fma(load(columns, entry * b + c * b, b), spread(x, c), y)
                    store(states, here, y)

    return table_forward


@cache
def backward_loop(b: int, dtype: str) -> Loop:
    """Return the loop (table, index, initial, states, gradient of the states; gradients to fill).

    The gradients are those of table and inputs, which must come as zeros, and of initial. In
    between the last is where the adjoint lambda_k lies: A_{k+1}^T lambda_{k+1} of the string.
    """

    @compiled(b, dtype)
    def table_backward(table, index, initial, states, gradient, dtable, dinputs, dinitial):  # type: ignore[no-untyped-def]
        heads = table.shape[1]
        for string in range(index.shape[0]):
            for k in range(index.shape[1] - 1, -1, -1):
                s = index[string, k]
                for i in range(heads):
                    here = ((string * index.shape[1] + k) * heads + i) * b
                    start, entry = (string * heads + i) * b, (s * heads + i) * b
                    x = load(states, here - heads * b, b) if k > 0 else load(initial, start, b)
                    adjoint = add(load(dinitial, start, b), load(gradient, here, b))
                    store(dinputs, entry, add(load(dinputs, entry, b), adjoint))
                    carried = zero(adjoint)
                    for r in range(b):
                        row, one = entry * b + r * b, spread(adjoint, r)
                        carried = fma(load(table, row, b), one, carried)
                        store(dtable, row, fma(one, x, load(dtable, row, b)))
                    store(dinitial, start, carried)

    return table_backward
