"""The sequential block scan whose coefficients come from a small table of symbols.

Here A_k = table[s_k] and b_k = inputs[s_k], one of S sets. In homogeneous coordinates (x; 1) a step
is one product with [[A, b], [0, 1]], and choosing among S of them is a product as well: the state
is written into the rows of its own symbol, with zeros in those of all others,

    (x_k; 1) = [M_1 ... M_S] (e_{s_k} (x) (x_{k-1}; 1)),      M_s = [[A_s, b_s], [0, 1]],

so that each step is one batched matrix product for all strings, exact because every sum has the
terms of one symbol only. The adjoint picks from the transposed table likewise, and the gradient of
the table is summed as the loop goes: (B, T, h, b, b) numbers are never in memory.

Glossary: marks the one-hot symbols (T, S, 1, B); spread the state in the rows of its symbol,
(h, S, b + 1, B).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from lrbench.scan.closed_form import ClosedForm, one_by_one

# A step costs S times the products of one symbol; from about 24 on, looking blocks up is faster
LARGEST_TABLE = 24


def table_scan(table: Tensor, inputs: Tensor, index: Tensor, initial: Tensor) -> Tensor:
    """Return the states (B, T, h, b) for blocks `table` (S, h, b, b), `inputs` (S, h, b).

    `index` (B, T) holds the symbol at each position, `initial` (B, h, b) the state before it.
    """
    return TABLE_LOOP(table, inputs, index, initial)


def _marks(index: Tensor, symbols: int, dtype: torch.dtype) -> Tensor:
    marks = one_hot(index.T, symbols).to(dtype)  # (T, B, S)
    return marks.transpose(1, 2).contiguous()[:, :, None]


def _homogeneous(table: Tensor, inputs: Tensor) -> Tensor:
    """Return [M_1 ... M_S] as (h, b + 1, S (b + 1))."""
    symbols, heads, size = inputs.shape
    rows = table.new_zeros(heads, size + 1, symbols, size + 1)
    rows[:, :size, :, :size] = table.permute(1, 2, 0, 3)
    rows[:, :size, :, size] = inputs.permute(1, 2, 0)
    rows[:, size, :, size] = 1
    return rows.flatten(2)


def _forward(
    table: Tensor, inputs: Tensor, index: Tensor, initial: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    symbols, heads, size = inputs.shape
    batch, length = index.shape
    step, marks = _homogeneous(table, inputs), _marks(index, symbols, table.dtype)
    states = table.new_empty(length + 1, heads, size + 1, batch)
    states[0, :, :size] = initial.permute(1, 2, 0)
    states[0, :, size] = 1
    spread = table.new_empty(heads, symbols, size + 1, batch)
    flat = spread.flatten(1, 2)
    for mark, before, after in zip(marks, states[:-1], states[1:], strict=True):
        torch.mul(mark, before[:, None], out=spread)
        torch.bmm(step, flat, out=after)
    return states[1:, :, :size].permute(3, 0, 1, 2).contiguous(), states, marks


def _backward(
    table: Tensor,
    inputs: Tensor,
    index: Tensor,
    initial: Tensor,
    result: Tensor,
    states: Tensor,
    marks: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    symbols, heads, size = inputs.shape
    back = table.permute(1, 3, 0, 2).flatten(2)  # (h, b, S b): the transposed blocks, side by side
    total = table.new_zeros(heads, symbols * size, size + 1)
    adjoints = gradient.permute(1, 2, 3, 0).clone(memory_format=torch.contiguous_format)
    carried = torch.zeros_like(adjoints[0])
    spread = table.new_empty(heads, symbols, size, len(index))
    flat = spread.flatten(1, 2)
    for k in range(len(marks) - 1, -1, -1):
        adjoint = adjoints[k].add_(carried)
        torch.mul(marks[k], adjoint[:, None], out=spread)
        total.baddbmm_(flat, states[k].mT)
        torch.bmm(back, flat, out=carried)
    total = total.unflatten(1, (symbols, size)).transpose(0, 1)  # (S, h, b, b + 1): dA and db
    return total[..., :size], total[..., size], carried.permute(2, 0, 1)


TABLE_LOOP = ClosedForm(_forward, _backward, one_by_one)
