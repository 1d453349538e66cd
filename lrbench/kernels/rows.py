"""Rows of a table picked by symbols, with a gradient that is one product.

Autograd adds up the gradient of a looked-up row one position after another. A table of symbols has
few rows, and the product of one-hot marks (S, B T) with the gradient (B T, n) is five times faster
on CPU.

`add_rows` adds rows to rows chosen by number: torch's `index_add_`, which takes half a microsecond
a row, or compiled.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import add, load, store

LARGEST_PRODUCT = 64  # rows; the product costs time in proportion to them


def rows(table: Tensor, index: Tensor) -> Tensor:
    """Return table (S, ...), real or complex, at `index` (...): (..., ...)."""
    picked = ROWS(table.reshape(len(table), -1), index)
    return picked.view(*index.shape, *table.shape[1:])


def _forward(table: Tensor, index: Tensor) -> tuple[Tensor]:
    picked = table.index_select(0, index.flatten())
    return (picked.view(*index.shape, table.shape[1]),)


def _backward(table: Tensor, index: Tensor, _: Tensor, gradient: Tensor) -> tuple[Tensor]:
    flat, symbols = gradient.flatten(0, -2), index.flatten()
    if len(table) > LARGEST_PRODUCT:
        return (torch.zeros_like(table).index_add_(0, symbols, flat),)
    real = torch.view_as_real(flat.resolve_conj()).flatten(1) if table.is_complex() else flat
    marks = real.new_zeros(len(table), len(symbols)).scatter_(0, symbols[None], 1)
    summed = marks @ real
    if table.is_complex():
        return (torch.view_as_complex(summed.unflatten(1, (-1, 2))),)
    return (summed,)


ROWS = ClosedForm(_forward, _backward, one_by_one)


WIDTHS = (16, 8)  # how many features the compiled loop may take at a time


def add_rows(target: Tensor, index: Tensor, source: Tensor) -> None:
    """Add row i of source (m, d) to row index[i] of target (M, d), in place.

    index (m,) may name a row more than once; target is contiguous.
    """
    wide = next((wide for wide in WIDTHS if target.shape[1] % wide == 0), None)
    if wide is None or not usable(target, "row_sums", wide):
        target.index_add_(0, index, source)
        return
    loop = add_rows_loop(wide, DTYPES[target.dtype])
    loop(target.detach().numpy(), array(index), array(source))


@cache
def add_rows_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (target (M, d), index (m,), source (m, d)); d is a multiple of `wide`."""

    @compiled(wide, dtype)
    def add_rows(target, index, source):  # type: ignore[no-untyped-def]
        width = source.shape[1]
        for row in range(len(index)):
            first, here = index[row] * width, row * width
            for j in range(0, width, wide):
                total = add(load(target, first + j, wide), load(source, here + j, wide))
                store(target, first + j, total)

    return add_rows
