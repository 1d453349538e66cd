"""The gated recursive cell over trees built easiest merge first, by beam search (`ebt_grc`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "EBT-GRC", efficient beam tree recursion:

    leaves    h_i = LN(W_0 x_i + b_0)
    a score   e(l, r) = v_2 . gelu(V_1 (l[:d_s], r[:d_s]) + c_1) + c_2,  of a pair of neighbours
    a step    of each beam, one pair becomes R(l, r) (`grc/cell.py`), as `search.py` chooses
    result    sum_b softmax(score)_b h_b,  of the B vectors that are left

V_1 is d_s x 2 d_s; its two halves are applied to each node once, so that a pair costs no product
with V_1. Adding to all scores changes nothing, so the gradient of c_2 is zero up to rounding.

Pairs beyond the end of a string count as valid proposals at log 1e-20, as in the released code:
they fill up beams where a string has fewer pairs than K. What differs from it: strings that are
done are left as they are (there they go on taking part in step 3, which changes nothing but the
order of their beams, and collect log(1/pairs) in all of them), padding is a zero vector, and a
merge of the same two nodes is the same node in whichever beam and at whichever step it is made:
beams differ mostly in the order of their merges, so that most merges of a step have been made
before. In training the dropout of a merge is drawn when it is made.

Training is two passes: the search, then the trees it ends with (`rebuild.py`). That is exact.
Scores of pairs do not change as long as a pair is there: each is scored once. Each beam carries
along how much of softmax each of its pairs has had: with that, the derivative of a beam's score is
known without ever looking at it step by step,

    d score / d e_pair = [it was merged] - sum over steps of s_pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Encoder, Tree, lengths_of
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.trees.choice import (
    Beams,
    ChosenMerges,
    Draws,
    Noise,
    beam_shares,
    choose_fast,
)
from lrbench.encoders.trees.pair_scores import PairScorer, slopes
from lrbench.encoders.trees.rebuild import Forest, rebuild
from lrbench.encoders.trees.reference import ReleasedSearch
from lrbench.encoders.trees.search import FoundTrees, NodePool, SearchStep, TreeSearch, taken
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.normalisation import LayerNorm
from lrbench.registry import register_encoder


@dataclass
class EbtGrcConfig:
    """Settings of `ebt_grc`.

    dropout: of the cell's hidden layer. beam: trees that are kept. With 1, nothing trains the
    scores that choose the tree. score_features: d_s, of each child, at most d.
    """

    dropout: float = 0.1
    beam: int = 5
    score_features: int = 64

    def __post_init__(self) -> None:
        fraction("model.encoder.dropout", self.dropout)
        at_least("model.encoder.beam", self.beam, 1)
        at_least("model.encoder.score_features", self.score_features, 1)


@register_encoder("ebt_grc", EbtGrcConfig, "gated recursive cell, easy-first beam trees (2023)")
class EbtGrc(Encoder):
    """The gated recursive cell over easy-first beam trees (Ray Chowdhury & Caragea 2023)."""

    config: EbtGrcConfig
    padding = 1e-10
    padding_reason = (
        "where a string has fewer pairs than the beam, padding is a merge of share 1e-20"
    )
    shows_trees = True

    def __init__(self, config: EbtGrcConfig, width: int) -> None:
        super().__init__(config, width)
        self.leaf = nn.Sequential(nn.Linear(width, width), LayerNorm(width))
        self.cell = GatedRecursiveCell(width, config.dropout)
        self.scorer = PairScorer(min(config.score_features, width))
        self.without_gradient = self.scorer.without_gradient(config.beam)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._search(x, mask, generator).vectors()

    def reference(
        self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return what `forward` does, in the released form."""
        leaves, lengths = self.leaf(x[mask]), mask.sum(1)
        plain = ReleasedSearch(self.cell, self.scorer, len(leaves), self.config.beam, generator)
        longest = mask[:, : int(lengths.max())]
        ids = torch.zeros_like(longest, dtype=torch.int64)
        ids[longest] = torch.arange(1, len(leaves) + 1)
        h = torch.cat([torch.zeros_like(leaves[:1]), leaves])[ids]
        scores, valid = h.new_zeros(len(h), 1), mask[:, :1]
        h, _, scores, valid = plain.search(lengths, h[:, None], ids[:, None], scores, valid)
        return torch.einsum("nb,nbd->nd", beam_shares(scores, valid), h)

    @torch.no_grad()
    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the tree of each string's best beam, of its positions."""
        return self._search(x, mask, None).trees(lengths_of(mask))

    def _search(self, x: Tensor, mask: Tensor, generator: torch.Generator | None) -> EasyFirst:
        lengths = lengths_of(mask)
        leaves = self.leaf(x[mask])
        search = EasyFirst(self.cell, self.scorer, leaves, self.config.beam, generator)
        if max(lengths) > 1:
            sizes = mask.sum(1)
            inside = mask[:, : max(lengths)]
            starts = (sizes.cumsum(0) - sizes)[:, None]
            search.climb((starts + torch.arange(max(lengths), device=x.device)) * inside, inside)
        return search


@dataclass(frozen=True)
class EndedPairs:
    """The pairs that end in a step of n strings: merged, or beside the merge.

    before: how many beams there were. parents (n, B): which of them each beam comes from. pairs,
    weights (n, B, 3): those pairs, and the derivative of the beam's score by theirs.
    """

    before: int
    parents: Tensor
    pairs: Tensor
    weights: Tensor


@dataclass
class Climbed:
    """What one level did.

    indices (M, c): the packed positions of each chunk; mask (M, c). chosen (T', B): the beam of
    each chunk that became a beam above it.
    """

    indices: Tensor
    mask: Tensor
    found: FoundTrees
    chosen: Tensor


class EasyFirst(TreeSearch):
    """Easy-first trees of strings: beams over packed positions, which a level turns into chunks'.

    beams (T, B): the node of each position in each beam; beam_scores, valid (T, B) likewise.
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
        drops = generator is not None and cell.dropout > 0
        nodes = NodePool(leaves, merges, cell.first.out_features if drops else 0)
        draws = None if generator is None else Draws(generator)
        super().__init__(nodes, beam, draws, noise=True)
        self.cell, self.scorer, self.leaves, self.generator = cell, scorer, leaves, generator
        self.tracks = torch.is_grad_enabled()
        size = len(nodes.vectors)
        # merges with the same left child form a chain, where one is looked for
        self.newest, self.older = torch.zeros(2, size, dtype=torch.int64, device=leaves.device)
        with torch.no_grad():
            self.sides = leaves.new_empty(size, 2, scorer.features)
            self.sides[: nodes.count] = scorer.sides(nodes.vectors[: nodes.count])
        # each merge scores two pairs; a level begins with those of neighbours, in every beam
        self.pairs = 0
        self.left, self.right = self.newest.new_zeros(2, 4 * merges)
        self.scores = leaves.new_zeros(4 * merges, requires_grad=False)
        self.beams = torch.arange(1, len(leaves) + 1, device=leaves.device)[:, None]
        self.beam_scores = torch.zeros_like(leaves[:, :1]).detach()
        self.valid = torch.ones_like(self.beams, dtype=torch.bool)
        self.climbed: list[Climbed] = []

    def climb(self, indices: Tensor, mask: Tensor) -> FoundTrees:
        """Go from positions to the chunks of a level, beam b of all of them in beam b.

        indices (M, c): the packed positions of each chunk; mask (M, c).
        """
        indices, mask = indices.to(self.beams.device), mask.to(self.beams.device)
        inside = mask[..., None]
        leaves = (self.beams[indices] * inside).transpose(1, 2)
        scores = (self.beam_scores[indices] * inside).sum(1)
        found = self.run(leaves, mask.sum(1), scores, self.valid[indices[:, 0]], sort=True)
        same = torch.arange(found.roots.shape[1], device=indices.device).expand_as(found.roots)
        self.climbed.append(Climbed(indices, mask, found, same))
        self.go_on(same)
        return found

    def go_on(self, chosen: Tensor) -> None:
        """Let beam b above a chunk be beam chosen[.., b] of the chunk, (M, B)."""
        at = self.climbed[-1]
        at.chosen, found = chosen, at.found
        self.beams = found.roots.gather(1, chosen)
        self.beam_scores = found.scores.gather(1, chosen)
        self.valid = found.valid.gather(1, chosen)

    def begin(self, beams: Beams) -> Beams:
        pairs = self.add(beams.pairs[..., :-1], beams.pairs[..., 1:], 0)
        shares = torch.zeros_like(self.scores[pairs]) if self.tracks else None
        return Beams(beams.rows, beams.left, pairs, beams.scores, beams.valid, shares)

    def choose(self, beams: Beams, noise: Noise) -> ChosenMerges:
        return choose_fast(self.scores, beams, self.beam, noise)

    def add(self, left: Tensor, right: Tensor, step: int) -> Tensor:
        at = slice(self.pairs, self.pairs + left.numel())
        if at.stop > len(self.scores):
            self._grow(at.stop)
        l_flat, r_flat = left.flatten(), right.flatten()
        self.left[at], self.right[at] = l_flat, r_flat
        self.scores[at] = self.scorer.of_pairs(self.sides, l_flat, r_flat)
        self.pairs = at.stop
        return torch.arange(at.start, at.stop, device=left.device).view_as(left)

    def _grow(self, size: int) -> None:
        """Make room for padding, where strings are of very different lengths."""
        more = max(size, 2 * len(self.scores)) - len(self.scores)
        numbers = self.left.new_zeros(more)
        self.left, self.right = torch.cat([self.left, numbers]), torch.cat([self.right, numbers])
        self.scores = torch.cat([self.scores, self.scores.new_zeros(more)])

    def merge(self, pairs: Tensor) -> Tensor:
        """Return the nodes (..) that pairs (..) are merged into, made if they are new."""
        left, right = self.left[pairs], self.right[pairs]
        found: Tensor = self.newest[left]
        while True:
            other = (self.nodes.right[found] != right) & (found > 0)
            if not bool(other.any()):
                break
            found = torch.where(other, self.older[found], found)
        new, size = found == 0, len(self.newest)
        keys = left[new] * size + right[new]
        if len(keys):
            unique, place = keys.unique(return_inverse=True)
            found[new] = self._make(unique // size, unique % size)[place]
        return found

    def _make(self, left: Tensor, right: Tensor) -> Tensor:
        """Add merges, sorted by their left children; return their numbers."""
        bits, _ = self.cell.draw(len(left), self.generator, left.device)
        vectors = self.cell.parents(self.nodes.pairs(left, right), bits)
        new = self.nodes.add(left, right, vectors, bits)
        self.sides[new[0] : new[-1] + 1] = self.scorer.sides(vectors)
        again = torch.zeros_like(left, dtype=torch.bool)
        again[1:] = left[1:] == left[:-1]
        self.older[new] = torch.where(again, new - 1, self.newest[left])
        last = torch.ones_like(again)
        last[:-1] = ~again[1:]
        self.newest[left[last]] = new[last]
        return new

    def record(self, step: SearchStep) -> EndedPairs | None:
        beams, chosen = step.beams, step.chosen
        _, before, count = beams.pairs.shape
        if beams.shares is None:
            return None
        beside = chosen.positions[..., None] + torch.arange(-1, 2, device=chosen.positions.device)
        had = taken(beams.shares, chosen.parents, beside.clamp(0, count - 1))
        weights = torch.where((beside >= 0) & (beside < count), -had, 0)
        weights[..., 1] += 1.0 if count > 1 else 0.0
        return EndedPairs(before, chosen.parents, step.around, weights)

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
            return self.nodes.vectors, self.beams, self.beam_scores, self.valid
        forest = Forest.of(self.nodes, self.beams)
        nodes = rebuild(self.cell, self.nodes, forest, self.leaves)
        return nodes, forest.numbers[self.beams], self._differentiable(forest, nodes), self.valid

    def _differentiable(self, forest: Forest, nodes: Tensor) -> Tensor:
        """Return scores of beams as a function of the forest's nodes and the scorer's weights."""
        scores = self.beam_scores

        def forward(*inputs: Tensor) -> tuple[Tensor, ...]:
            return (scores.clone(),)

        def backward(*tensors: Tensor) -> tuple[Tensor, ...]:
            *weights, made, gradient = tensors  # V_1, c_1, v_2, c_2; nodes
            to_pairs = torch.zeros_like(self.scores[: self.pairs])
            self._pull(gradient, to_pairs)
            some = to_pairs.nonzero()[:, 0]
            left, right = (forest.numbers[t[some]] for t in (self.left, self.right))
            return slopes(tuple(weights), made, left, right, to_pairs[some])

        form = ClosedForm(forward, backward, one_by_one, needs_result=False)
        return form(*self.scorer.weights(), nodes)

    def _pull(self, gradient: Tensor, to_pairs: Tensor) -> None:
        """Take the gradient of scores (N, B) down all levels to the scores of pairs."""
        for at in reversed(self.climbed):
            found = torch.zeros_like(at.found.scores).scatter_add_(1, at.chosen, gradient)
            below = pulled(at.found, found, to_pairs)
            rows, positions = at.mask.nonzero(as_tuple=True)
            gradient = below.new_zeros(len(rows), below.shape[1])
            gradient[at.indices[rows, positions]] = below[rows, : gradient.shape[1]]

    def trees(self, lengths: list[int]) -> list[Tree]:
        """Return the tree of each string's best beam; leaves are positions of the string."""
        best = self.beam_scores.masked_fill(~self.valid, -torch.inf).argmax(1, keepdim=True)
        return self.nodes.trees(self.beams.gather(1, best)[:, 0], lengths)


def pulled(found: FoundTrees, gradient: Tensor, to_pairs: Tensor) -> Tensor:
    """Take the gradient of scores (M, B) back to those at the beginning (M, B_0).

    Adds to the gradients of pairs (all pairs,) on the way.
    """
    g = torch.zeros_like(gradient).scatter_add_(1, found.slots, gradient)[found.rows]
    for step in reversed(found.steps):
        rows, beams = step.parents.shape
        here = g[:rows, :beams]
        to_pairs.index_add_(0, step.pairs.flatten(), (step.weights * here[..., None]).flatten())
        earlier = here.new_zeros(rows, step.before).scatter_add_(1, step.parents, here)
        g[:rows, : step.before] = earlier
        g[:rows, step.before :] = 0
    below = torch.empty_like(g)
    below[found.rows] = g
    return below
