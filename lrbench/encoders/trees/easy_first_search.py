"""The beam search of easy-first trees, without a graph (Ray Chowdhury & Caragea 2023, `ebt_grc`).

A beam is a row of nodes and a score. Each step merges one pair of neighbours in each beam of each
string that has two nodes left. With s the masked softmax of the scores e of all pairs of a beam,

    1. each beam proposes K = min(pairs, beam) merges: the largest e, perturbed in training
    2. a proposal has the score of its beam + log s of its pair, never perturbed
    3. of all proposals of a string the `beam` best stay (perturbed again in training), best first

The last pair of the longest string is merged unscored. Pairs beyond the end of a string count as
invalid proposals at log 1e-20, as in the released code: they fill up beams where a string has fewer
pairs than K. What differs from it: strings that are done are left as they are (there they go on
taking part in step 3, which changes nothing but the order of their beams, and collect log(1/pairs)
in all of them), padding is a zero vector, and merges are shared by beams (`easy_first_nodes.py`).

Scores of pairs do not change as long as a pair is there: each is scored once (exact). For the
gradient, each beam carries along how much of softmax each of its pairs has had: with that, the
derivative of a beam's score is known without ever looking at it step by step,

    d score / d e_pair = [it was merged] - sum over steps of s_pair.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from lrbench.encoders.trees.easy_first_nodes import Pairs
from lrbench.encoders.trees.easy_first_steps import Beams, Choice, choose, move


@dataclass(frozen=True)
class Step:
    """One step of the n strings that have it: which beam (n, B) each beam comes from, of `before`.

    pairs, weights (n, B, 3): the pairs that end, merged or beside the merge, and the derivative of
    the beam's score by theirs.
    """

    before: int
    parents: Tensor
    pairs: Tensor
    weights: Tensor


@dataclass
class Found:
    """What a search found for M strings.

    roots, scores, valid (M, B): the tree of each beam, its score and whether it is one. Where a
    string has fewer than B, the others are copies of those and not valid: slots (M, B) says of
    which. order (M,): strings by length, longest first; steps are of the first of them.
    """

    roots: Tensor
    scores: Tensor
    valid: Tensor
    order: Tensor
    slots: Tensor
    steps: list[Step] = field(default_factory=list)

    def pull(self, gradient: Tensor, to_pairs: Tensor) -> Tensor:
        """Take the gradient of scores (M, B) back to those at the beginning (M, B_0).

        Adds to the gradients of pairs (all pairs,) on the way.
        """
        g = torch.zeros_like(gradient).scatter_add_(1, self.slots, gradient)[self.order]
        for step in reversed(self.steps):
            rows, beams = step.parents.shape
            here = g[:rows, :beams]
            to_pairs.index_add_(0, step.pairs.flatten(), (step.weights * here[..., None]).flatten())
            earlier = here.new_zeros(rows, step.before).scatter_add_(1, step.parents, here)
            g[:rows, : step.before] = earlier
            g[:rows, step.before :] = 0
        pulled = torch.empty_like(g)
        pulled[self.order] = g
        return pulled


@torch.no_grad()
def search(
    pairs: Pairs,
    leaves: Tensor,
    lengths: Tensor,
    scores: Tensor,
    valid: Tensor,
    beam: int,
    generator: torch.Generator | None,
    tracks: bool,
) -> Found:
    """Search trees over leaves (M, B_0, S), numbers of nodes, of strings of `lengths` (M,).

    scores, valid (M, B_0): of the beams that there are already. generator: of the perturbations;
    without one the best pairs and beams are taken. tracks: whether gradients are going to be asked
    for.
    """
    ordered, order = lengths.sort(descending=True, stable=True)
    longest = int(ordered[0])
    counts = (ordered[:, None] > torch.arange(1, longest, device=lengths.device)).sum(0).tolist()
    leaves = leaves[order, :, :longest]
    found = _Finished(leaves[:, :, 0], scores[order], valid[order])
    numbers = pairs.add(leaves[:, :, :-1], leaves[:, :, 1:])
    shares = torch.zeros_like(pairs.scores[numbers]) if tracks else None
    beams = Beams(numbers, shares, found.scores, found.valid)
    steps = []
    for step, rows in enumerate(counts):
        beams = beams.first(rows)
        left = ordered[:rows] - 1 - step
        beams, merged, told = _step(pairs, beams, left, beam, generator)
        if told is not None:
            steps.append(told)
        found.put(merged if beams.pairs.shape[2] == 0 else pairs.left[beams.pairs[:, :, 0]], beams)
    return found.result(order, steps)


class _Finished:
    """Roots, scores and validity of sorted strings as they are after their last steps."""

    def __init__(self, roots: Tensor, scores: Tensor, valid: Tensor) -> None:
        self.roots, self.scores, self.valid = roots, scores, valid
        places = torch.arange(roots.shape[1], device=roots.device)
        self.slots = places.expand_as(roots)

    def put(self, roots: Tensor, beams: Beams) -> None:
        rows, width = roots.shape
        if width > self.roots.shape[1]:
            self._widen(width)
        parts = (self.roots, roots), (self.scores, beams.scores), (self.valid, beams.valid)
        self.roots, self.scores, self.valid = (torch.cat([n, o[rows:]]) for o, n in parts)
        places = torch.arange(width, device=roots.device).expand_as(roots)
        self.slots = torch.cat([places, self.slots[rows:]])

    def _widen(self, width: int) -> None:
        """Fill up with copies of the beams there are, which are not valid."""
        had = self.roots.shape[1]
        copies = torch.arange(width, device=self.roots.device) % had
        self.roots, self.scores = self.roots[:, copies], self.scores[:, copies]
        self.valid, self.slots = self.valid[:, copies].clone(), self.slots[:, copies]
        self.valid[:, had:] = False

    def result(self, order: Tensor, steps: list[Step]) -> Found:
        back = order.argsort()
        tensors = self.roots[back], self.scores[back], self.valid[back]
        return Found(*tensors, order, self.slots[back], steps)


def _step(
    pairs: Pairs, beams: Beams, left: Tensor, beam: int, generator: torch.Generator | None
) -> tuple[Beams, Tensor, Step | None]:
    """Merge a pair in each beam; left (n,): the pairs that a string has."""
    rows, before, count = beams.pairs.shape
    if count == 1:
        parents = torch.arange(before, device=left.device).expand(rows, before)
        chosen = Choice(parents, torch.zeros_like(parents), beams.scores, beams.valid)
    else:
        chosen = choose(pairs.scores, beams, left, beam, generator)
    ended, told = _ended(beams, chosen, before, 1.0 if count > 1 else 0.0)
    new = pairs.nodes.merge(pairs.left[ended[..., 1]], pairs.right[ended[..., 1]])
    if count == 1:
        numbers, shares = beams.pairs[..., :0], beams.shares
    else:
        beside = pairs.left[ended[..., 0]], pairs.right[ended[..., 2]]
        made = pairs.add(torch.stack([beside[0], new], 2), torch.stack([new, beside[1]], 2))
        numbers, shares = move(beams, chosen, made)
    return Beams(numbers, shares, chosen.scores, chosen.valid), new, told


def _ended(beams: Beams, chosen: Choice, before: int, merged: float) -> tuple[Tensor, Step | None]:
    """Return the pairs (n, B, 3) left of a merge, merged and right of it, and what is told of them.

    Where there is none, another stands in its place, with a derivative of zero.
    """
    rows, width = chosen.places.shape
    count = beams.pairs.shape[2]
    around = chosen.places[..., None] + torch.arange(-1, 2, device=chosen.places.device)
    at = (chosen.parents[..., None] * count + around.clamp(0, count - 1)).flatten(1)
    ended = beams.pairs.flatten(1).gather(1, at).view(rows, width, 3)
    if beams.shares is None:
        return ended, None
    had = beams.shares.flatten(1).gather(1, at).view(rows, width, 3)
    weights = torch.where((around >= 0) & (around < count), -had, 0)
    weights[..., 1] += merged
    return ended, Step(before, chosen.parents, ended, weights)
