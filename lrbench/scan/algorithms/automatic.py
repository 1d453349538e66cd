"""The algorithm that is fastest for a recurrence of a given size, as measured (`fastest.py`).

On a CPU a loop over time reads and writes everything once; a tree does so twice, but calls torch
some 6 log2 T times, not T times. What decides is therefore the work of one position: elementwise
transitions of up to about a thousand numbers over all strings take less time than the call. A
constant dense transition makes long products of the tree's levels. Blocks that are generated are
made in the loop, and by no other algorithm; so is what a structure of its own does.

On a GPU with triton one kernel walks over all positions, wherever there is one that fits: every
other algorithm launches kernels for each position or level and reads its operands again in each.
"""

from __future__ import annotations

from torch import Tensor

from lrbench.scan.algorithms.chunked import chunked
from lrbench.scan.algorithms.fastest import fastest, size_of
from lrbench.scan.algorithms.fused import fits, fused
from lrbench.scan.algorithms.sequential import sequential
from lrbench.scan.algorithms.tree import tree
from lrbench.scan.transitions import Form, Transition, form_of

SHORT = 8  # positions, steps above all
CHOICES = {"sequential": sequential, "tree": tree, "chunked": chunked}


def automatic(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    if initial.is_cuda and fits(transition, inputs, initial):
        return fused(transition, inputs, initial)
    form, size = form_of(transition), size_of(transition, inputs, initial)
    if size.length <= SHORT or form.made_in_loops:
        return sequential(transition, inputs, initial)
    chosen = fastest(size)
    return CHOICES[chosen or _unmeasured(form)](transition, inputs, initial)


def _unmeasured(form: Form) -> str:
    """Return an algorithm for a device that the table says nothing about: few calls are best."""
    return "tree" if form.diagonal else "sequential"
