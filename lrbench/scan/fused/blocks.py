"""Block-diagonal recurrences by fused kernels: their work in programs, and their gradients.

Shapes: G groups (1, or the members of a group of trials), B strings, T positions, h blocks of
b x b numbers, S symbols. All tensors have G in front, so that K calls on G groups are one on K G.

The gradient of a table is summed in two steps: over positions in the registers of a program, which
writes it out once for each string, and then over strings. Adding to one table atomically would do
with less memory, but makes B T h b^2 additions meet in S h b^2 places, in an order of their own
each time: runs would not repeat.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, fold
from lrbench.scan.fused.tiles import STAGES, THREADS, block_grid, padded, sums_fit

SIZES = (2, 4, 8, 16)  # blocks of one number are a diagonal


def block_scan(
    blocks: Tensor, inputs: Tensor, initial: Tensor, index: Tensor | None = None
) -> Tensor:
    """Return the states (B, T, h, b) from `initial` (B, h, b), for b in `SIZES`.

    blocks: (B, T, h, b, b) or (h, b, b), with inputs (B, T, h, b); with `index` (B, T) both are
    tables: (S, h, b, b) and (S, h, b).
    """
    if index is not None:
        return TABLE(blocks[None], inputs[None], initial[None], index[None])[0]
    form = CONSTANT if blocks.dim() == 3 else STEP
    return form(blocks[None], inputs[None], initial[None])[0]


def _forward(
    blocks: Tensor, inputs: Tensor, initial: Tensor, *index: Tensor, kind: str
) -> tuple[Tensor]:
    from lrbench.scan.fused import block_kernels

    groups, batch, heads, size = initial.shape
    length = (index[0] if index else inputs).shape[2]
    states = initial.new_empty(groups, batch, length, heads, size)
    grid, chains = block_grid(groups, batch, heads, size)
    with torch.cuda.device_of(blocks):
        block_kernels.forward[grid](
            *_contiguous(blocks, inputs, *(index or (initial,)), initial),
            states,
            batch,
            length,
            KIND=kind,
            HEADS=heads,
            SYMBOLS=inputs.shape[1],
            SIZE=size,
            CHAINS=chains,
            STAGES=STAGES,
            num_warps=1,
        )
    return (states,)


def _backward(
    blocks: Tensor,
    inputs: Tensor,
    initial: Tensor,
    states: Tensor,
    gradient: Tensor,
    *,
    kind: str,
) -> tuple[Tensor, Tensor, Tensor]:
    from lrbench.scan.fused import block_kernels

    groups, batch, length, heads, size = states.shape
    constant = kind == "constant"
    positions = (groups, batch) if constant else (groups, batch, length)
    dblocks = states.new_empty(*positions, heads, size, size)
    dinputs = states.new_empty(states.shape)
    dinitial = states.new_empty(groups, batch, heads, size)
    grid, chains = block_grid(groups, batch, heads, size)
    with torch.cuda.device_of(blocks):
        block_kernels.backward[grid](
            *_contiguous(blocks, initial, states, gradient),
            dblocks,
            dinputs,
            dinitial,
            batch,
            length,
            KIND=kind,
            HEADS=heads,
            SIZE=size,
            CHAINS=chains,
            STAGES=STAGES,
            num_warps=1,
        )
    return dblocks.sum(1) if constant else dblocks, dinputs, dinitial


def _table_backward(
    blocks: Tensor,
    inputs: Tensor,
    initial: Tensor,
    index: Tensor,
    states: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    from lrbench.scan.fused import block_kernels

    groups, batch, length, heads, size = states.shape
    symbols = blocks.shape[1]
    dblocks = states.new_empty(groups, batch, symbols, heads, size, size)
    dinputs = states.new_empty(groups, batch, symbols, heads, size)
    dinitial = states.new_empty(groups, batch, heads, size)
    each = sums_fit(symbols, states.element_size())
    grid, chains = block_grid(groups, batch, heads, size, each)
    with torch.cuda.device_of(blocks):
        block_kernels.table_backward[grid](
            *_contiguous(blocks, index, initial, states, gradient),
            dblocks,
            dinputs,
            dinitial,
            batch,
            length,
            HEADS=heads,
            SYMBOLS=symbols,
            PADDED=padded(symbols),
            SIZE=size,
            CHAINS=chains,
            STAGES=STAGES,
            num_warps=max(size**2 * chains // (THREADS * each), 1),
        )
    return dblocks.sum(1), dinputs.sum(1), dinitial


def _contiguous(*tensors: Tensor) -> list[Tensor]:
    return [tensor.contiguous() for tensor in tensors]


STEP, CONSTANT = (
    ClosedForm(partial(_forward, kind=kind), partial(_backward, kind=kind), fold)
    for kind in ("step", "constant")
)
TABLE = ClosedForm(partial(_forward, kind="table"), _table_backward, fold)
