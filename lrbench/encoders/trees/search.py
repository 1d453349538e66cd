"""The beam search over trees, without a graph: nodes by number, pairs of neighbours, merges.

A beam is a row of nodes and a score. Each step merges one pair of neighbours in each beam of each
string that has two nodes left. With s the masked softmax of the scores e of all pairs of a beam,

    1. each beam proposes K = min(pairs, beam) merges: the largest e, perturbed in training
    2. a proposal has the score of its beam + log s of its pair, never perturbed
    3. of all proposals of a string the `beam` best stay (perturbed again in training), best first

The last pair of the longest string is merged unscored. A merge leaves all pairs as they are but
three, so what is known of a pair is kept: beams hold numbers of pairs, and a step makes the two new
pairs beside its merge. What a pair is, how it is scored, and what is written down of a step for a
gradient, says each model (`bt_grc.py`, `ebt_grc.py`). Strings leave as soon as they have one node.

Layout: R strings that still merge, B beams, M nodes of the longest, P = M - 1 pairs. Node 0 is
padding; then come all leaves, string by string, then merges, children before parents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from lrbench.encoders.base import Tree
from lrbench.encoders.trees.choice import (
    Beams,
    ChosenMerges,
    Draws,
    Kept,
    Noise,
    choose,
    move,
    noise_of,
)


class NodePool:
    """A growing pool of vectors without a graph, with children, heights and bits of dropout.

    room: the largest number of merges. bits: how many numbers of dropout are kept with each.
    """

    def __init__(self, leaves: Tensor, room: int, bits: int = 0) -> None:
        self.leaves, self.count = len(leaves), 1 + len(leaves)
        size = self.count + room
        self.vectors = leaves.new_empty(size, leaves.shape[1])
        self.vectors[0] = 0
        self.vectors[1 : self.count] = leaves.detach()
        numbers = torch.zeros(3, size, dtype=torch.int64, device=leaves.device)
        self.left, self.right, self.height = numbers
        kept = torch.empty(size, bits, dtype=torch.int16, device=leaves.device)
        self.bits = kept if bits else None

    def pairs(self, left: Tensor, right: Tensor) -> Tensor:
        """Return the vectors (n, 2 d) of pairs of nodes (n,)."""
        both = self.vectors.index_select(0, torch.stack([left, right], 1).flatten())
        return both.view(len(left), -1)

    def add(self, left: Tensor, right: Tensor, vectors: Tensor, bits: Tensor | None) -> Tensor:
        """Append the merges (n, d) of nodes (n,); return their numbers."""
        at = slice(self.count, self.count + len(left))
        self.left[at], self.right[at], self.vectors[at] = left, right, vectors
        self.height[at] = 1 + torch.maximum(self.height[left], self.height[right])
        if self.bits is not None and bits is not None:
            self.bits[at] = bits
        self.count = at.stop
        return torch.arange(at.start, at.stop, device=left.device)

    def trees(self, roots: Tensor, lengths: list[int]) -> list[Tree]:
        """Return the trees of nodes `roots` (N,); leaves are positions of strings of `lengths`."""
        left, right = self.left.tolist(), self.right.tolist()
        made: list[Tree] = [0, *(place for length in lengths for place in range(length))]
        for node in range(len(made), self.count):
            made.append((made[left[node]], made[right[node]]))
        return [made[root] for root in roots.tolist()]


@dataclass(frozen=True)
class SearchStep:
    """One step: the beams before it, what they chose, and the new nodes (R, B').

    around (R, B', 3): the pairs left of each merge, merged, and right of it. Where there is none,
    another stands in its place.
    """

    beams: Beams
    chosen: ChosenMerges
    around: Tensor
    nodes: Tensor

    def only(self, kept: Kept) -> SearchStep:
        """Return the step of some strings."""
        parts = self.beams.only(kept), self.chosen.only(kept), self.around[kept]
        return SearchStep(*parts, self.nodes[kept])


@dataclass
class FoundTrees:
    """What a search found for N strings.

    roots, scores, valid (N, B): the tree of each beam, its score and whether it is one. Where a
    string has fewer than B, the others are copies of those and not valid: slots (N, B) says of
    which. rows (N,): the strings in the order of the search. steps: what the model writes down.
    """

    roots: Tensor
    scores: Tensor
    valid: Tensor
    rows: Tensor
    slots: Tensor
    steps: list[Any] = field(default_factory=list)

    def put(self, rows: Tensor, roots: Tensor, beams: ChosenMerges) -> None:
        """Write down the beams of strings that have one node left."""
        width = roots.shape[1]
        self.widen(width)
        self.roots[rows, :width], self.scores[rows, :width] = roots, beams.scores
        self.valid[rows, :width] = beams.valid
        self.slots[rows, :width] = torch.arange(width, device=rows.device)

    def widen(self, width: int) -> None:
        """Fill up with copies of the beams there are, which are not valid."""
        had = self.roots.shape[1]
        if width <= had:
            return
        copies = torch.arange(width, device=self.roots.device) % had
        self.roots, self.scores = self.roots[:, copies], self.scores[:, copies]
        self.valid, self.slots = self.valid[:, copies], self.slots[:, copies]
        self.valid[:, had:] = False

    def best(self) -> Tensor:
        """Return the root (N,) of the beam with the best score of each string."""
        best = self.scores.masked_fill(~self.valid, -torch.inf).argmax(1, keepdim=True)
        return self.roots.gather(1, best)[:, 0]


class TreeSearch(ABC):
    """A search over `nodes`: pairs by number have left and right nodes and a score.

    draws: of training, all that is random. noise: whether choices are perturbed there.
    """

    left: Tensor
    right: Tensor
    scores: Tensor

    def __init__(self, nodes: NodePool, beam: int, draws: Draws | None, noise: bool) -> None:
        self.nodes, self.beam, self.draws = nodes, beam, draws
        self.noisy = draws if noise else None

    @torch.no_grad()
    def run(
        self, leaves: Tensor, lengths: Tensor, scores: Tensor, valid: Tensor, sort: bool
    ) -> FoundTrees:
        """Search trees over leaves (N, B_0, S), numbers of nodes, of strings of `lengths` (N,).

        scores, valid (N, B_0): of the beams that there are already. sort: longest strings first, so
        that those that are done need not be taken out of tables.
        """
        if sort:
            sizes, rows = lengths.sort(descending=True, stable=True)
        else:
            sizes, rows = lengths, torch.arange(len(lengths), device=lengths.device)
        slots = torch.arange(leaves.shape[1], device=rows.device).expand_as(scores)
        found = FoundTrees(
            leaves[:, :, 0].clone(), scores.clone(), valid.clone(), rows, slots.clone()
        )
        left = [size - 1 for size in sizes.tolist()]
        if not any(left):
            return found
        kept, going = _going(left, rows)
        first = slice(0, len(rows)) if sort else kept
        rows, left = rows[first], left if sort else going
        table = leaves[rows, :, : max(left) + 1]
        beams = self.begin(Beams(rows, sizes[first] - 1, table, scores[rows], valid[rows]))
        if sort:
            beams, left = beams.only(kept), going
        while left:
            step = self._step(beams, len(found.steps))
            found.steps.append(self.record(step))
            left = [count - 1 for count in left]
            kept, going = _going(left, rows)
            if len(going) < len(left):
                done = torch.tensor([not count for count in left], device=rows.device)
                ended = step.only(done)
                found.put(ended.beams.rows, self._first_nodes(ended), ended.chosen)
            if going:
                # which strings have new pairs: last bits of scores may depend on how many are
                # computed together, and numbers of published runs are to come out again
                if sort:
                    beams = self.onward(step, len(found.steps)).only(kept)
                else:
                    beams = self.onward(step.only(kept), len(found.steps))
            left = going
        return found

    @abstractmethod
    def begin(self, beams: Beams) -> Beams:
        """Return beams of pairs for those of nodes (R, B, M), which stand for `pairs`."""

    @abstractmethod
    def add(self, left: Tensor, right: Tensor, step: int) -> Tensor:
        """Score pairs of nodes (..) before a step and return their numbers (..)."""

    @abstractmethod
    def merge(self, pairs: Tensor) -> Tensor:
        """Return the nodes (..) that pairs (..) are merged into."""

    @abstractmethod
    def record(self, step: SearchStep) -> Any:
        """Return what a gradient needs to know of a step."""

    def choose(self, beams: Beams, noise: Noise) -> ChosenMerges:
        """Return the merges of a step with several pairs, by `lrbench.encoders.trees.choice`."""
        return choose(self.scores, beams, self.beam, noise)

    def onward(self, step: SearchStep, number: int) -> Beams:
        """Return the beams before step `number`, with the new pairs of the step before it."""
        around, new, chosen = step.around, step.nodes, step.chosen
        left, right = self.left[around[..., 0]], self.right[around[..., 2]]
        made = self.add(torch.stack([left, new], 2), torch.stack([new, right], 2), number)
        pairs, shares = move(step.beams, chosen, made)
        rows, count = step.beams.rows, step.beams.left - 1
        return Beams(rows, count, pairs, chosen.scores, chosen.valid, shares)

    def _step(self, beams: Beams, number: int) -> SearchStep:
        shape = beams.pairs.shape
        rows, before, count = shape
        if count == 1:
            same = torch.arange(before, device=beams.rows.device).expand(rows, before)
            chosen = ChosenMerges(same, torch.zeros_like(same), beams.scores, beams.valid)
        else:
            noise = noise_of(self.noisy, number, shape, self.beam, self.scores)
            chosen = self.choose(beams, noise)
        beside = chosen.positions[..., None] + torch.arange(-1, 2, device=beams.rows.device)
        around = taken(beams.pairs, chosen.parents, beside.clamp(0, count - 1))
        return SearchStep(beams, chosen, around, self.merge(around[..., 1]))

    def _first_nodes(self, step: SearchStep) -> Tensor:
        """Return the first node of each beam after a step."""
        pairs, chosen = step.beams.pairs, step.chosen
        first = self.left[pairs[..., 0].gather(1, chosen.parents)]
        return torch.where(chosen.positions == 0, step.nodes, first)


def taken(table: Tensor, parents: Tensor, positions: Tensor) -> Tensor:
    """Return what stands in a table (R, B, P) at positions (R, B', k) of the beams `parents`."""
    at = parents[..., None] * table.shape[2] + positions
    return table.flatten(1).gather(1, at.flatten(1)).view_as(positions)


def _going(left: list[int], like: Tensor) -> tuple[Kept, list[int]]:
    """Return which strings have merges left, and how many each."""
    going = [n for n, count in enumerate(left) if count]
    some = [left[n] for n in going]
    if not going or going[-1] == len(going) - 1:
        return slice(0, len(going)), some
    return torch.tensor(going, device=like.device), some
