"""The sequential block scan whose coefficients come from a table of symbols.

Same recurrence and adjoint as `sequential.py`, but A_k = table[s_k] and b_k = inputs[s_k]: only S
sets of coefficients exist, and the gradients are summed into the table as the loop goes, so that
neither (B, T, h, b, b) transitions nor their gradients are ever in memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import one_hot

# On CPU a product with one-hot columns gathers a small table faster than indexing does, and
# exactly: every sum has one term that is not zero.
LARGEST_ONE_HOT = 64


def table_scan(table: Tensor, inputs: Tensor, index: Tensor, initial: Tensor) -> Tensor:
    """Return the states (B, T, h, b) for blocks `table` (S, h, b, b), `inputs` (S, h, b).

    `index` (B, T) holds the symbol at each position, `initial` (B, h, b) the state before it.
    """
    states: Tensor = TableLoop.apply(table, inputs, index, initial)
    return states


class _Gather:
    """Picks rows of a table, given as columns (n, S), for each symbol of a step: (n, B)."""

    def __init__(self, index: Tensor, symbols: int, dtype: torch.dtype) -> None:
        self.index = index.T.contiguous()  # (T, B)
        self.weights: Tensor | None = None
        if index.device.type == "cpu" and symbols <= LARGEST_ONE_HOT:
            self.weights = one_hot(self.index, symbols).to(dtype).transpose(1, 2).contiguous()

    def take(self, columns: Tensor, step: int) -> Tensor:
        if self.weights is not None:
            return columns @ self.weights[step]
        return columns.index_select(1, self.index[step])

    def sum_into(self, total: Tensor, values: Tensor, step: int) -> None:
        """Add values (n, B) of this step to the columns (n, S) of their symbols."""
        if self.weights is not None:
            total.addmm_(values, self.weights[step].T)
        else:
            total.index_add_(1, self.index[step], values)


class TableLoop(Function):
    """table (S, h, b, b), inputs (S, h, b), index (B, T), initial (B, h, b) -> (B, T, h, b)."""

    @staticmethod
    def forward(table: Tensor, inputs: Tensor, index: Tensor, initial: Tensor) -> Tensor:
        symbols, heads, size = inputs.shape
        gather = _Gather(index, symbols, table.dtype)
        blocks = table.reshape(symbols, -1).T.contiguous()
        values = inputs.reshape(symbols, -1).T.contiguous()
        batch, length = index.shape
        states = table.new_empty(length, heads, size, batch)
        state = initial.permute(1, 2, 0)
        for k in range(length):
            a = gather.take(blocks, k).view(heads, size, size, batch)
            b = gather.take(values, k).view(heads, size, batch)
            state = torch.add((a * state[:, None]).sum(2), b, out=states[k])
        return states.permute(3, 0, 1, 2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        table, values, index, initial = inputs
        ctx.input_shape = values.shape
        ctx.save_for_backward(table, index, initial, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        table, index, initial, states = ctx.saved_tensors
        symbols, heads, size = ctx.input_shape
        gather = _Gather(index, symbols, table.dtype)
        blocks = table.reshape(symbols, -1).T.contiguous()
        x = states.permute(1, 2, 3, 0)
        upstream = grads[0].permute(1, 2, 3, 0).contiguous()
        first = initial.permute(1, 2, 0).contiguous()
        da = torch.zeros_like(blocks)
        db = table.new_zeros(heads * size, symbols)
        carried = torch.zeros_like(first)
        for k in range(len(x) - 1, -1, -1):
            lam = upstream[k] + carried
            before = x[k - 1] if k else first
            outer = lam[:, :, None] * before[:, None]
            gather.sum_into(da, outer.view(len(da), -1), k)
            gather.sum_into(db, lam.reshape(len(db), -1), k)
            a = gather.take(blocks, k).view(outer.shape)
            carried = (a * lam[:, :, None]).sum(1)
        return da.T.reshape(table.shape), db.T.reshape(ctx.input_shape), None, carried.permute(2, 0, 1)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *tensors: Tensor) -> Any:
        """Stack the K tables into one of K S symbols and fold K into the batch."""
        table, inputs, index, initial = (
            (t.unsqueeze(0) if d is None else t.movedim(d, 0)).expand(
                info.batch_size, *(t.shape if d is None else t.movedim(d, 0).shape[1:])
            )
            for t, d in zip(tensors, in_dims, strict=True)
        )
        offset = torch.arange(info.batch_size, device=index.device) * table.shape[1]
        states = table_scan(
            table.flatten(0, 1),
            inputs.flatten(0, 1),
            (index + offset[:, None, None]).flatten(0, 1),
            initial.flatten(0, 1),
        )
        return states.unflatten(0, (info.batch_size, -1)), 0
