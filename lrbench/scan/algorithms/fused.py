"""The scan by fused kernels, and what they cover."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from lrbench.kernels.choice import Means, usable
from lrbench.scan.algorithms.sequential import sequential
from lrbench.scan.fused.blocks import SIZES, block_scan
from lrbench.scan.fused.diagonal import diagonal_scan
from lrbench.scan.fused.tiles import LARGEST_TABLE
from lrbench.scan.transitions import (
    BlockDiagonal,
    Constant,
    ConstantBlocks,
    ConstantDiagonal,
    Dense,
    Diagonal,
    GeneratedBlocks,
    Indexed,
    PerceptronBlocks,
    Structured,
    Transition,
    looked_up,
)

Form: TypeAlias = Dense | Constant | GeneratedBlocks | PerceptronBlocks

REAL = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)


def fused(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`.

    Where no kernel fits, the loop over time does it.
    """
    if not fits(transition, inputs, initial):
        return sequential(transition, inputs, initial)
    if isinstance(transition, Indexed) and inputs.shape[1] <= LARGEST_TABLE:
        table = transition.table.written()
        if isinstance(table, Diagonal | BlockDiagonal):
            numbers = numbers_of(table)[0]
            return _scan(numbers, inputs[0], initial, transition.index)
    found, inputs = looked_up(transition, inputs)
    return _scan(numbers_of(found), inputs, initial)


def fits(transition: Transition, inputs: Tensor, initial: Tensor) -> bool:
    """Tell whether there is a kernel for a recurrence, where its tensors are.

    There is none for half precision, complex blocks, blocks of other sizes than 1, 2, 4, 8, 16,
    transitions that are broadcast and structures of their own; on a CPU there is none but in
    triton's interpreter.
    """
    form = transition.table if isinstance(transition, Indexed) else transition
    dtype = initial.dtype
    if isinstance(form, Structured):
        return False
    if isinstance(form, Diagonal | ConstantDiagonal):
        covered = dtype in (*REAL, *COMPLEX) and initial.dim() == 2
    else:
        covered = dtype in REAL and initial.dim() == 3 and initial.shape[-1] in (1, *SIZES)
    if not (covered and _numbers_match(form, inputs, dtype)):
        return False
    name = "fused_diagonal" if initial.dim() == 2 else "fused_blocks"
    layout = _layout(transition, inputs, initial)
    return usable(initial, name, *layout, by=Means.TRITON)


def _layout(
    transition: Transition, inputs: Tensor, initial: Tensor
) -> tuple[str, int] | tuple[str, int, int]:
    """Return what a kernel is compiled for: access, and width, or heads and block size."""
    form = transition.table if isinstance(transition, Indexed) else transition
    if isinstance(form, ConstantDiagonal | ConstantBlocks):
        access = "constant"
    elif isinstance(transition, Indexed) and inputs.shape[1] <= LARGEST_TABLE:
        access = "table"
    else:
        access = "step"
    if initial.dim() == 2:
        return access, initial.shape[1]
    return access, initial.shape[1], initial.shape[2]


def _numbers_match(form: Form, inputs: Tensor, dtype: torch.dtype) -> bool:
    """Tell whether transitions are of a dtype, as inputs are, and given for each of these."""
    if isinstance(form, GeneratedBlocks | PerceptronBlocks):
        return form.weight.dtype == inputs.dtype == dtype
    numbers = numbers_of(form)
    shape = (
        inputs.shape[2:] if isinstance(form, ConstantDiagonal | ConstantBlocks) else inputs.shape
    )
    given = numbers.shape[: len(shape)] == shape
    return given and numbers.dtype == inputs.dtype == dtype


def numbers_of(form: Dense | Constant) -> Tensor:
    """Return the numbers of a transition."""
    return form.values if isinstance(form, Diagonal | ConstantDiagonal) else form.blocks


def _scan(numbers: Tensor, inputs: Tensor, initial: Tensor, index: Tensor | None = None) -> Tensor:
    """Scan by values (.., N) or blocks (.., h, b, b); those of b = 1 are a diagonal."""
    if initial.dim() == 2:
        return diagonal_scan(numbers, inputs, initial, index)
    if initial.shape[-1] == 1:
        flat = diagonal_scan(numbers[..., 0, 0], inputs[..., 0], initial[..., 0], index)
        return flat[..., None]
    return block_scan(numbers, inputs, initial, index)
