"""Rows of a table picked by symbols, with a gradient that is one product.

Autograd adds up the gradient of a looked-up row one position after another. A table of symbols has
few rows, and the product of one-hot marks (S, B T) with the gradient (B T, n) is five times faster
on CPU.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.scan.closed_form import ClosedForm, one_by_one

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
