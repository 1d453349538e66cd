"""Easy-first trees of strings, of one level or of several: a search, then the result."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lrbench.encoders.base import Tree
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.rir.base import Level
from lrbench.encoders.trees.choice import beam_shares
from lrbench.encoders.trees.easy_first_nodes import Nodes, Pairs
from lrbench.encoders.trees.easy_first_rebuild import Forest, rebuild, with_gradient
from lrbench.encoders.trees.easy_first_search import Found, search
from lrbench.encoders.trees.pair_scorer import PairScorer


@dataclass
class Climbed:
    """What one level did.

    places (M, c): the packed positions of each chunk; mask (M, c). chosen (T', B): the beam of each
    chunk that became a beam above it.
    """

    places: Tensor
    mask: Tensor
    found: Found
    chosen: Tensor


class EasyFirst:
    """Beams of nodes over packed positions, which a level turns into beams over chunks.

    beams (T, B): the node of each position in each beam; scores, valid (T, B) likewise.
    """

    def __init__(
        self,
        cell: GatedRecursiveCell,
        scorer: PairScorer,
        leaves: Tensor,
        beam: int,
        generator: torch.Generator | None,
    ) -> None:
        merges = len(leaves) * beam
        with torch.no_grad():
            self.nodes = Nodes(cell, scorer, leaves, merges, generator)
        self.leaves, self.beam, self.generator = leaves, beam, generator
        self.tracks = torch.is_grad_enabled()
        # each merge scores two pairs; a level begins with those of neighbours, in every beam
        self.pairs = Pairs(self.nodes, 4 * merges)
        self.beams = torch.arange(1, len(leaves) + 1, device=leaves.device)[:, None]
        self.scores = torch.zeros_like(leaves[:, :1]).detach()
        self.valid = torch.ones_like(self.beams, dtype=torch.bool)
        self.climbed: list[Climbed] = []

    def climb(self, level: Level) -> Found:
        """Go from positions to the chunks of a level, beam b of all of them in beam b."""
        chunks = np.arange(len(level.lengths))
        places, mask = (t.to(self.beams.device) for t in level.places(chunks))
        inside = mask[..., None]
        leaves = (self.beams[places] * inside).transpose(1, 2)
        scores = (self.scores[places] * inside).sum(1)
        lengths = torch.from_numpy(level.lengths).to(self.beams.device)
        valid = self.valid[places[:, 0]]
        found = search(
            self.pairs, leaves, lengths, scores, valid, self.beam, self.generator, self.tracks
        )
        same = torch.arange(found.roots.shape[1], device=places.device).expand_as(found.roots)
        self.climbed.append(Climbed(places, mask, found, same))
        self.choose(same)
        return found

    def choose(self, chosen: Tensor) -> None:
        """Let beam b above a chunk be beam chosen[.., b] of the chunk, (M, B), instead."""
        at = self.climbed[-1]
        at.chosen, found = chosen, at.found
        self.beams = found.roots.gather(1, chosen)
        self.scores, self.valid = found.scores.gather(1, chosen), found.valid.gather(1, chosen)

    def vectors(self) -> Tensor:
        """Return the vectors of strings (N, d): sums over beams, weighted by softmax of scores."""
        nodes, roots, scores, valid = self.result()
        vectors = nodes.index_select(0, roots.flatten()).view(*roots.shape, -1)
        return torch.einsum("nb,nbd->nd", beam_shares(scores, valid), vectors)

    def result(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return nodes (.., d), roots (N, B) among them, scores and validity (N, B) of beams.

        Nodes and scores have gradients where those are wanted.
        """
        if not self.tracks:
            return self.nodes.values, self.beams, self.scores, self.valid
        forest = Forest.of(self.nodes, self.beams)
        nodes = rebuild(self.nodes, forest, self.leaves)
        scores = with_gradient(self.scores, self._pull, self.pairs, forest, nodes)
        return nodes, forest.numbers[self.beams], scores, self.valid

    def _pull(self, gradient: Tensor, to_pairs: Tensor) -> None:
        """Take the gradient of scores (N, B) down all levels to the scores of pairs."""
        for at in reversed(self.climbed):
            found = torch.zeros_like(at.found.scores).scatter_add_(1, at.chosen, gradient)
            below = at.found.pull(found, to_pairs)
            rows, positions = at.mask.nonzero(as_tuple=True)
            gradient = below.new_zeros(len(rows), below.shape[1])
            gradient[at.places[rows, positions]] = below[rows, : gradient.shape[1]]

    def trees(self, lengths: list[int]) -> list[Tree]:
        """Return the tree of each string's best beam; leaves are positions of the string."""
        best = self.scores.masked_fill(~self.valid, -torch.inf).argmax(1, keepdim=True)
        left, right = self.nodes.left.tolist(), self.nodes.right.tolist()
        made: list[Tree] = [0, *(place for length in lengths for place in range(length))]
        for node in range(len(made), self.nodes.count):
            made.append((made[left[node]], made[right[node]]))
        return [made[root] for root in self.beams.gather(1, best)[:, 0].tolist()]
