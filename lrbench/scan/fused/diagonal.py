"""Diagonal recurrences by fused kernels: how their work is cut into programs, and their gradients.

Shapes: G groups (1, or the members of a group of trials), B strings, T positions, N numbers, S
symbols. All tensors have G in front, so that K calls on G groups are one on K G.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, fold
from lrbench.scan.fused.tiles import STAGES, diagonal_grid, padded


def diagonal_scan(
    values: Tensor, inputs: Tensor, initial: Tensor, index: Tensor | None = None
) -> Tensor:
    """Return the states (B, T, N) from `initial` (B, N), all real or all complex.

    values: (B, T, N) or (N), with inputs (B, T, N); with `index` (B, T) both are tables (S, N).
    """
    if index is not None:
        return TABLE(values[None], inputs[None], initial[None], index[None])[0]
    form = CONSTANT if values.dim() == 1 else STEP
    return form(values[None], inputs[None], initial[None])[0]


def _forward(
    values: Tensor, inputs: Tensor, initial: Tensor, *index: Tensor, kind: str
) -> tuple[Tensor]:
    groups, batch, width = initial.shape
    length = (index[0] if index else inputs).shape[2]
    states = initial.new_empty(groups, batch, length, width)
    grid, strings, channels = diagonal_grid(groups, batch, width)
    with torch.cuda.device_of(values):
        _kernels().forward[grid](
            *_pairs(values, inputs, *(index or (initial,)), initial, states),
            batch,
            length,
            KIND=kind,
            PARTS=1 + values.is_complex(),
            WIDTH=width,
            SYMBOLS=inputs.shape[1],
            STRINGS=strings,
            CHANNELS=channels,
            STAGES=STAGES,
            num_warps=1,
        )
    return (states,)


def _backward(
    values: Tensor,
    inputs: Tensor,
    initial: Tensor,
    states: Tensor,
    gradient: Tensor,
    *,
    kind: str,
) -> tuple[Tensor, Tensor, Tensor]:
    groups, batch, length, width = states.shape
    grid, strings, channels = diagonal_grid(groups, batch, width)
    constant = kind == "constant"
    dvalues = states.new_empty((groups, grid[0], width) if constant else states.shape)
    dinputs, dinitial = states.new_empty(states.shape), states.new_empty(groups, batch, width)
    with torch.cuda.device_of(values):
        _kernels().backward[grid](
            *_pairs(values, initial, states, gradient, dvalues, dinputs, dinitial),
            batch,
            length,
            KIND=kind,
            PARTS=1 + values.is_complex(),
            WIDTH=width,
            STRINGS=strings,
            CHANNELS=channels,
            STAGES=STAGES,
            num_warps=1,
        )
    return dvalues.sum(1) if constant else dvalues, dinputs, dinitial


def _table_backward(
    values: Tensor,
    inputs: Tensor,
    initial: Tensor,
    index: Tensor,
    states: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    groups, batch, length, width = states.shape
    symbols = values.shape[1]
    grid, strings, channels = diagonal_grid(groups, batch, width, each=1)
    dvalues = states.new_empty(groups, grid[0], symbols, width)
    dinputs, dinitial = torch.empty_like(dvalues), states.new_empty(groups, batch, width)
    with torch.cuda.device_of(values):
        _kernels().table_backward[grid](
            *_pairs(values, index, initial, states, gradient, dvalues, dinputs, dinitial),
            batch,
            length,
            PARTS=1 + values.is_complex(),
            WIDTH=width,
            SYMBOLS=symbols,
            PADDED=padded(symbols),
            STRINGS=strings,
            CHANNELS=channels,
            STAGES=STAGES,
            num_warps=1,
        )
    return dvalues.sum(1), dinputs.sum(1), dinitial


def _kernels() -> Any:
    """Return the module of kernels; only now is triton imported."""
    from lrbench.scan.fused import diagonal_kernels

    return diagonal_kernels


def _pairs(*tensors: Tensor) -> list[Any]:
    """Return tensors as kernels read them: contiguous, complex numbers as pairs (.., 2)."""
    contiguous = [tensor.resolve_conj().contiguous() for tensor in tensors]
    return [torch.view_as_real(t) if t.is_complex() else t for t in contiguous]


STEP, CONSTANT = (
    ClosedForm(partial(_forward, kind=kind), partial(_backward, kind=kind), fold)
    for kind in ("step", "constant")
)
TABLE = ClosedForm(partial(_forward, kind="table"), _table_backward, fold)
