"""The vectors of a search over trees: leaves and merges, each made once, referred to by number.

Beams hold numbers of nodes, not vectors. A merge of the same two nodes is the same node in
whichever beam and at whichever step it is made: beams differ mostly in the order of their merges,
so that most merges of a step have been made before. In training the dropout of a merge is drawn
when it is made; beams with a merge in common have it in common with its dropout.

Node 0 is padding, a zero vector; nodes 1 .. T are leaves; children come before parents. Merges with
the same left child form a chain (`newest`, `older`), where one is looked for.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.trees.pair_scorer import PairScorer


class Nodes:
    """A growing pool of nodes without a graph; `room` is the largest number of merges."""

    def __init__(
        self,
        cell: GatedRecursiveCell,
        scorer: PairScorer,
        leaves: Tensor,
        room: int,
        generator: torch.Generator | None,
    ) -> None:
        self.cell, self.scorer, self.generator = cell, scorer, generator
        self.leaves = len(leaves)
        self.count = 1 + len(leaves)
        size = self.count + room
        self.values = leaves.new_empty(size, leaves.shape[1])
        self.values[0] = 0
        self.values[1 : self.count] = leaves.detach()
        self.sides = leaves.new_empty(size, 2, scorer.features)
        self.sides[: self.count] = scorer.sides(self.values[: self.count])
        numbers = torch.zeros(5, size, dtype=torch.int64, device=leaves.device)
        self.left, self.right, self.height, self.newest, self.older = numbers
        self.bits: list[Tensor] = []

    def merge(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the nodes (..) that merge left and right ones (..), made if they are new."""
        found: Tensor = self.newest[left]
        while True:
            other = (self.right[found] != right) & (found > 0)
            if not bool(other.any()):
                break
            found = torch.where(other, self.older[found], found)
        new = found == 0
        keys = left[new] * len(self.left) + right[new]
        if len(keys):
            unique, place = keys.unique(return_inverse=True)
            first = self.count
            self._make(unique // len(self.left), unique % len(self.left))
            found[new] = first + place
        return found

    def _make(self, left: Tensor, right: Tensor) -> None:
        """Add merges, sorted by their left children."""
        at = slice(self.count, self.count + len(left))
        self.left[at], self.right[at] = left, right
        self.height[at] = 1 + torch.maximum(self.height[left], self.height[right])
        self._chain(left)
        pairs = self.values.index_select(0, torch.stack([left, right], 1).flatten())
        bits, _ = self.cell.draw(len(left), self.generator, pairs.device)
        self.values[at] = self.cell.parents(pairs.view(len(left), -1), bits)
        self.sides[at] = self.scorer.sides(self.values[at])
        if bits is not None:
            self.bits.append(bits)
        self.count += len(left)

    def _chain(self, left: Tensor) -> None:
        """Put new merges, sorted by their left children, before older ones of the same."""
        new = torch.arange(self.count, self.count + len(left), device=left.device)
        again = torch.zeros_like(left, dtype=torch.bool)
        again[1:] = left[1:] == left[:-1]
        self.older[new] = torch.where(again, new - 1, self.newest[left])
        last = torch.ones_like(again)
        last[:-1] = ~again[1:]
        self.newest[left[last]] = new[last]

    def drawn(self, merges: Tensor) -> Tensor | None:
        """Return the bits of dropout of some merges (m,), as they were drawn."""
        if not self.bits:
            return None
        return torch.cat(self.bits).index_select(0, merges - 1 - self.leaves)


class Pairs:
    """A growing list of pairs of nodes with their scores; `room` is the largest number of them."""

    def __init__(self, nodes: Nodes, room: int) -> None:
        self.nodes, self.count = nodes, 0
        self.left, self.right = torch.zeros(2, room, dtype=torch.int64, device=nodes.left.device)
        self.scores = nodes.values.new_zeros(room)

    def add(self, left: Tensor, right: Tensor) -> Tensor:
        """Score pairs of nodes (..) and return their numbers (..)."""
        at = slice(self.count, self.count + left.numel())
        l_flat, r_flat = left.flatten(), right.flatten()
        self.left[at], self.right[at] = l_flat, r_flat
        self.scores[at] = self.nodes.scorer.of_pairs(self.nodes.sides, l_flat, r_flat)
        self.count += left.numel()
        return torch.arange(at.start, at.stop, device=left.device).view_as(left)
