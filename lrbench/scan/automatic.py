"""The algorithm that is fastest for a recurrence of a given size, as measured.

On a CPU a loop over time reads and writes everything once; a tree does so twice, but calls torch
some 6 log2 T times, not T times. What decides is therefore the work of one position: elementwise
transitions of up to about a thousand numbers over all strings take less time than the call (at
N = 64 and T = 5000 the tree takes an eighth of the loop's time for one string, and twice as long
for sixteen). A constant dense transition makes long products of the tree's levels, which are worth
more than the loop's small ones from some hundred positions on.

On a GPU with triton one kernel walks over all positions, wherever there is one that fits: every
other algorithm launches kernels for each position or level and reads its operands again in each.
"""

from __future__ import annotations

from torch import Tensor

from lrbench.scan.fused import fits, fused
from lrbench.scan.sequential import sequential
from lrbench.scan.transitions import (
    ConstantBlocks,
    ConstantDiagonal,
    Diagonal,
    Indexed,
    Transition,
)
from lrbench.scan.tree import tree

FEW_NUMBERS = 512  # real numbers of all strings at one position
SHORT, LONG = 8, 256  # positions


def automatic(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    if initial.is_cuda and fits(transition, inputs, initial):
        return fused(transition, inputs, initial)
    form: Transition = transition
    length = inputs.shape[1]
    if isinstance(transition, Indexed):
        form, length = transition.table, transition.index.shape[1]
    chosen = tree if _tree_is_faster(form, length, initial) else sequential
    return chosen(transition, inputs, initial)


def _tree_is_faster(form: Transition, length: int, initial: Tensor) -> bool:
    if isinstance(form, ConstantBlocks) and length >= LONG:
        return True
    if not isinstance(form, Diagonal | ConstantDiagonal) or length <= SHORT:
        return False
    numbers = initial.numel() * (2 if initial.is_complex() else 1)
    return numbers <= FEW_NUMBERS or initial.device.type != "cpu"
