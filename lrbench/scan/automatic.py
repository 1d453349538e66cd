"""The algorithm that is fastest for a recurrence of a given size, as measured.

On a CPU a loop over time reads and writes everything once; a tree does so twice, but calls torch
some 2 log2 T times, not T times. What decides is therefore the work of one position: elementwise
transitions of up to about a thousand numbers over all strings take less time than the call.
"""

from __future__ import annotations

from torch import Tensor

from lrbench.scan.sequential import sequential
from lrbench.scan.transitions import (
    ConstantDiagonal,
    Diagonal,
    Indexed,
    Transition,
)
from lrbench.scan.tree import tree

FEW_NUMBERS = 512  # real numbers of all strings at one position
SHORT = 8  # positions


def automatic(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    indexed = isinstance(transition, Indexed)
    form = transition.table if isinstance(transition, Indexed) else transition
    length = transition.index.shape[1] if indexed else inputs.shape[1]
    numbers = initial.numel() * (2 if initial.is_complex() else 1)
    elementwise = isinstance(form, Diagonal | ConstantDiagonal)
    few = numbers <= FEW_NUMBERS or initial.device.type != "cpu"
    chosen = tree if elementwise and few and length > SHORT else sequential
    return chosen(transition, inputs, initial)
