"""The sequential block scan whose coefficients come from a small table of symbols.

Here A_k = table[s_k] and b_k = inputs[s_k], one of S sets. Choosing among S blocks is a product as
well: the state is written into the rows of its own symbol, with zeros in those of all others,

    x_k = b_k + [A_1 ... A_S] (e_{s_k} (x) x_{k-1}),

so that each step is one batched matrix product for all strings, exact because every sum has the
terms of one symbol only. The adjoint picks from the transposed table likewise, and the gradient of
the table is summed as the loop goes: (B, T, h, b, b) numbers are never in memory.

Glossary: marks the one-hot symbols (T, S, B); spread the state in the rows of its symbol,
(h, S, b, B). The batch is the last axis, as in `sequential.py`.

Compiled, a scan goes string by string: a string's symbols differ from its neighbour's, so strings
do not share registers; the rows of a block do. One string takes one step in all its blocks, each of
which is b vectors of b numbers, and the table, its gradient and two states stay in the first-level
cache. Shapes there: table (S, h, b, b), [row, column]; inputs (S, h, b); index (B, T); states
(B, T, h, b). Offsets count numbers: `here` in states, `entry` in inputs, `entry b` in the table.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import add, fma, load, spread, store, zero

# A step costs S times the products of one symbol; from about 24 on, looking blocks up is faster
LARGEST_TABLE = 24
LARGEST_COMPILED = 32  # block size: a block's loops are unrolled, which takes LLVM long beyond


def table_scan(table: Tensor, inputs: Tensor, index: Tensor, initial: Tensor) -> Tensor:
    """Return the states (B, T, h, b) for blocks `table` (S, h, b, b), `inputs` (S, h, b).

    `index` (B, T) holds the symbol at each position, `initial` (B, h, b) the state before it.
    Raises ValueError where shapes do not go together: the loops believe them.
    """
    square = table.shape == (*inputs.shape, inputs.shape[-1])
    if not square or initial.shape != (len(index), *inputs.shape[1:]):
        shapes = ", ".join(str(tuple(x.shape)) for x in (table, inputs, index, initial))
        raise ValueError(f"blocks, inputs, symbols and states do not go together: {shapes}")
    if compiles(table):
        return COMPILED_TABLE_LOOP(table, inputs, index, initial)
    return TABLE_LOOP(table, inputs, index, initial)


def compiles(table: Tensor) -> bool:
    """Tell whether there is a compiled loop for the blocks of `table` (S, h, b, b)."""
    size = table.shape[-1]
    return size <= LARGEST_COMPILED and usable(table, "table_scan", size)


def _forward(
    table: Tensor, inputs: Tensor, index: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    symbols, heads, size = inputs.shape
    batch, length = index.shape
    marks = table.new_zeros(length, symbols, batch).scatter_(1, index.T[:, None], 1)
    step = table.permute(1, 2, 0, 3).flatten(2)  # (h, b, S b): the blocks side by side
    states = torch.matmul(inputs.flatten(1).T, marks).view(length, heads, size, batch)
    spread = table.new_empty(heads, symbols, size, batch)
    flat = spread.flatten(1, 2)
    before = initial.permute(1, 2, 0)[:, None]
    views = marks[:, :, None], states, states[:, :, None]  # made here: indexing costs as a product
    for mark, state, again in zip(*views, strict=True):
        torch.mul(mark, before, out=spread)
        state.baddbmm_(step, flat)
        before = again
    return strings_first(states), states, marks


def _backward(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    table, inputs, index, initial, _result, states, marks, gradient = tensors
    symbols, heads, size = inputs.shape
    # (h, b, S b): the transposed blocks, side by side
    back = table.conj().resolve_conj().permute(1, 3, 0, 2).flatten(2)
    dtable = table.new_zeros(heads, symbols * size, size)
    adjoints = strings_last(gradient)
    spread = table.new_empty(heads, symbols, size, len(index))
    flat = spread.flatten(1, 2)
    first = initial.permute(1, 2, 0)
    carried = torch.zeros_like(first, memory_format=torch.contiguous_format)
    befores = (first.mT, *states[:-1].mT)
    views = marks[:, :, None], adjoints[:, :, None], befores, (carried, *adjoints[:-1])
    for mark, adjoint, before, carry in reversed(list(zip(*views, strict=True))):
        torch.mul(mark, adjoint, out=spread)
        dtable.baddbmm_(flat, before.conj())
        carry.baddbmm_(back, flat)
    dinputs = torch.matmul(marks, adjoints.flatten(1, 2).mT).sum(0)
    return (
        dtable.unflatten(1, (symbols, size)).transpose(0, 1),
        dinputs.view(inputs.shape),
        carried.permute(2, 0, 1),
    )


def strings_first(states: Tensor) -> Tensor:
    """Copy (T, h, b, B) to (B, T, h, b), flattened first: torch is twice as fast in two axes."""
    return states.flatten(0, 2).T.contiguous().view(-1, *states.shape[:3])


def strings_last(states: Tensor) -> Tensor:
    """Copy (B, T, h, b) to (T, h, b, B), a new tensor even where B is 1."""
    flat = states.flatten(1).T
    return flat.clone(memory_format=torch.contiguous_format).view(*states.shape[1:], -1)


def _compiled_forward(
    table: Tensor, inputs: Tensor, index: Tensor, initial: Tensor
) -> tuple[Tensor]:
    states = table.new_empty(*index.shape, *inputs.shape[1:])
    loop = forward_loop(inputs.shape[-1], DTYPES[table.dtype])
    loop(*map(array, (table, inputs, index, initial, states)))
    return (states,)


def _compiled_backward(
    table: Tensor, inputs: Tensor, index: Tensor, initial: Tensor, states: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    gradients = (
        table.new_zeros(table.shape),
        table.new_zeros(inputs.shape),
        initial.new_zeros(initial.shape),
    )
    loop = backward_loop(inputs.shape[-1], DTYPES[table.dtype])
    loop(*map(array, (table, index, initial, states, gradient, *gradients)))
    return gradients


TABLE_LOOP = ClosedForm(_forward, _backward, one_by_one)
COMPILED_TABLE_LOOP = ClosedForm(_compiled_forward, _compiled_backward, one_by_one)


@cache
def forward_loop(b: int, dtype: str) -> Loop:
    """Return the loop (table, inputs, index, initial, states to fill)."""

    @compiled(b, dtype)
    def table_forward(table, inputs, index, initial, states):  # type: ignore[no-untyped-def]
        symbols, heads = inputs.shape[:2]
        columns = np.empty_like(table)  # [column, row]: a column is one vector
        for s in range(symbols):
            for i in range(heads):
                for c in range(b):
                    for r in range(b):
                        columns[s, i, c, r] = table[s, i, r, c]
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
