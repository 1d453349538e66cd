"""The second pass of easy-first trees: those that a search has found, with gradients.

Beams that were pruned have no gradient, so of all nodes made in a search only those of trees that
are left at its end are made again, from the leaves up: merges of the same height together, of all
strings, beams and steps. That is some tens of calls of the cell instead of one for each
step, and no graph of the search.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from lrbench.encoders.base import dropping
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.trees.search import NodePool
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.rows import add_rows


@dataclass(frozen=True)
class Forest:
    """The nodes of some trees, by new numbers: padding and leaves as before, merges by height.

    numbers (all nodes,): of each old one, 0 where it is in none of the trees. merges (m,): the old
    numbers. children (2 m,): left and right child of each merge, new numbers. ends: of heights.
    """

    leaves: int
    numbers: Tensor
    merges: Tensor
    children: Tensor
    ends: tuple[int, ...]

    @classmethod
    def of(cls, nodes: NodePool, roots: Tensor) -> Forest:
        """Return the nodes that `roots` (..) are made of."""
        first, device = 1 + nodes.leaves, roots.device
        left, right, height = (
            t[: nodes.count].numpy(force=True) for t in (nodes.left, nodes.right, nodes.height)
        )
        order = first + height[first:].argsort(kind="stable")
        bounds = np.searchsorted(height[order], np.arange(1, height.max() + 2))
        needed = np.zeros(nodes.count, dtype=bool)
        needed[roots.flatten().numpy(force=True)] = True
        for start, end in reversed(list(pairwise(bounds.tolist()))):
            here = order[start:end]
            here = here[needed[here]]
            needed[left[here]] = True
            needed[right[here]] = True
        kept = order[needed[order]]
        numbers = np.zeros(nodes.count, dtype=np.int64)
        numbers[:first] = np.arange(first)
        numbers[kept] = first + np.arange(len(kept))
        children = numbers[np.stack([left[kept], right[kept]], 1)].reshape(-1)
        ends = np.searchsorted(height[kept], np.arange(1, height.max() + 1), side="right")
        tensors = [torch.from_numpy(a).to(device) for a in (numbers, kept, children)]
        return cls(nodes.leaves, tensors[0], tensors[1], tensors[2], tuple(ends.tolist()))

    def heights(self) -> list[slice]:
        """Return which merges have each height, lowest first."""
        return [slice(a, b) for a, b in zip((0, *self.ends), self.ends, strict=False) if b > a]


def rebuild(cell: GatedRecursiveCell, nodes: NodePool, forest: Forest, leaves: Tensor) -> Tensor:
    """Return the forest's nodes (.., d), padding first, as a function of leaves (T, d)."""
    bits = None if nodes.bits is None else nodes.bits.index_select(0, forest.merges)
    form = cell.form(None if bits is None else dropping(cell.dropout))
    drawn = [] if bits is None else [bits]

    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:
        return _forward(form, forest, *inputs)

    def backward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return _backward(form, forest, len(drawn), *tensors)

    whole = ClosedForm(forward, backward, one_by_one)
    return whole(*cell.weights(), leaves, *drawn)


def _forward(form: ClosedForm, forest: Forest, *inputs: Tensor) -> tuple[Tensor, ...]:
    *weights, leaves = inputs[:7]
    bits = inputs[7:]
    first = 1 + forest.leaves
    nodes = leaves.new_empty(first + len(forest.merges), leaves.shape[1])
    nodes[0] = 0
    nodes[1:first] = leaves
    kept: list[Tensor] = []
    for at in forest.heights():
        pairs = _children(nodes, forest, at)
        parents, *rest = form.forward(*weights, pairs, *(b[at] for b in bits))
        nodes[first + at.start : first + at.stop] = parents
        kept += rest
    return nodes, *kept


def _backward(form: ClosedForm, forest: Forest, drawn: int, *tensors: Tensor) -> tuple[Tensor, ...]:
    weights, bits, rest = tensors[:6], tensors[7 : 7 + drawn], tensors[7 + drawn :]
    nodes, *kept, gradient = rest
    first, gradient = 1 + forest.leaves, gradient.clone()
    sums = [torch.zeros_like(weight) for weight in weights]
    each = len(kept) // max(1, len(forest.heights()))
    for at in reversed(forest.heights()):
        pairs, numbers = _children(nodes, forest, at), kept[len(kept) - each :]
        del kept[len(kept) - each :]
        g = gradient[first + at.start : first + at.stop]
        *parts, dpairs = form.backward(*weights, pairs, *(b[at] for b in bits), *numbers, g)
        for total, part in zip(sums, parts, strict=True):
            total += part
        add_rows(gradient, forest.children[2 * at.start : 2 * at.stop], dpairs.view(-1, g.shape[1]))
    return *sums, gradient[1:first]


def _children(nodes: Tensor, forest: Forest, at: slice) -> Tensor:
    """Return the pairs (m, 2 d) that merges are made of."""
    both = nodes.index_select(0, forest.children[2 * at.start : 2 * at.stop])
    return both.view(at.stop - at.start, -1)
