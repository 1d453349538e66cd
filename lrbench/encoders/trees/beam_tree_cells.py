"""The gated recursive cell on many pairs with the bits of their dropout given, piece by piece."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lrbench.encoders.base import dropping
from lrbench.encoders.grc.cell import PIECE, GatedRecursiveCell
from lrbench.scan.closed_form import ClosedForm

TINY = 1e-30
WEIGHTS = 6  # tensors of a cell


def composed(cell: GatedRecursiveCell, pairs: Tensor, bits: Tensor | None) -> Tensor:
    """Return the parents (n, d) of pairs (n, 2d), without a graph; bits (n, 4d) or None."""
    if bits is None:
        parents: Tensor = cell(pairs)
        return parents
    form = cell.form(dropping(cell.dropout))
    return torch.cat([form(*cell.weights(), pairs[at], bits[at]) for at in pieces(pairs)])


def pieces(pairs: Tensor) -> Iterator[slice]:
    """Return which pairs go through the cell together, as it cuts them itself."""
    size = PIECE if pairs.device.type == "cpu" else max(1, len(pairs))
    return (slice(start, start + size) for start in range(0, len(pairs), size))


def telling(gradient: Tensor) -> Tensor:
    """Return which rows of a gradient (n, d) are of any size.

    A beam of little weight has gradients down to denormal numbers, with which products take five
    times as long.
    """
    return (gradient.abs().amax(1) > TINY).nonzero().squeeze(1)


def sparing(form: ClosedForm, keep: bool) -> ClosedForm:
    """Return a form of the cell whose backward leaves out pairs with a gradient below 1e-30.

    Without `keep` its inputs alone are kept, and what is inside is computed again.
    """

    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:
        results = form.forward(*inputs)
        return results if keep else results[:1]

    def backward(*tensors: Tensor) -> tuple[Tensor, ...]:
        weights, (pairs, *others, gradient) = tensors[:WEIGHTS], tensors[WEIGHTS:]
        some = telling(gradient)
        known = [tensor.index_select(0, some) for tensor in (pairs, *others)]
        inner = [] if keep else form.forward(*weights, *known)[1:]
        *changes, sides = form.backward(*weights, *known, *inner, gradient.index_select(0, some))
        return *changes, torch.zeros_like(pairs).index_copy_(0, some, sides)

    return ClosedForm(forward, backward, form.mapped, needs_result=False)
