"""Beam trees whose pairs are full cells (`bt_grc`): the search, and the gradient of what is left.

A pair's vector is that of its parent, so that a pair and its merge have one number, and only the
new pairs at both sides of a merge go through the cell. With fresh dropout (`bt_grc.py`) all pairs
do, at each step, and those that are chosen get a number. Candidates that a short string beside
longer ones cannot have are not valid; as released they would count with a score of 46 less.

Choices are hard, so that a beam that was dropped has no gradient. Of each step count the beams from
which one of the last came, and of these all valid pairs: the softmax over them is in the scores.
Entries are the pairs of such beams, step by step, beam by beam, pair by pair.

Results and logits are those that the search has found. The backward goes through the pairs that
count, higher ones first (or later steps, with fresh dropout), some hundred at a time, and computes
what is inside the cell again: kept are vectors of nodes only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from lrbench.encoders.base import Dropout, dropping
from lrbench.encoders.grc.cell import PIECE, GatedRecursiveCell
from lrbench.encoders.trees.choice import (
    CELLS,
    LOG_FLOOR,
    Beams,
    ChosenMerges,
    Draws,
    Noise,
    choose,
    shifted,
)
from lrbench.encoders.trees.search import FoundTrees, NodePool, SearchStep, TreeSearch, taken
from lrbench.kernels.closed_form import ClosedForm, one_by_one

TINY = 1e-30
WEIGHTS = 6  # tensors of a cell


@dataclass(frozen=True)
class ComposedStep:
    """What one step of the R strings `rows` of the batch had and chose.

    counts (R,): valid pairs. table: with fresh dropout nodes (R, B, M), otherwise pairs (R, B, P).
    logits (R, B, P), with fresh dropout only. origin, place, chosen (R, B'): of each beam that goes
    on, the beam it was, the pair that it merged, and the number of its new node.
    """

    rows: Tensor
    counts: Tensor
    table: Tensor
    logits: Tensor | None
    origin: Tensor
    place: Tensor
    chosen: Tensor


class CellSearch(TreeSearch):
    """A search whose pairs are composed, once each, and scored by a map of their parents."""

    fresh = False  # whether dropout is drawn for every pair at every step

    def __init__(
        self,
        cell: GatedRecursiveCell,
        scorer: nn.Linear,
        leaves: Tensor,
        lengths: list[int],
        beam: int,
        draws: Draws | None,
        noise: bool,
    ) -> None:
        drops = draws is not None and cell.dropout > 0 and not self.fresh
        merges = sum(lengths) - len(lengths)
        room = beam * merges if self.fresh else (2 * beam + 1) * merges
        nodes = NodePool(leaves, room, cell.first.out_features if drops else 0)
        super().__init__(nodes, beam, draws, noise)
        self.cell, self.scorer, self.lengths = cell, scorer, lengths
        self.left, self.right = nodes.left, nodes.right
        self.scores = nodes.vectors.new_zeros(0 if self.fresh else len(nodes.vectors))

    def strings(self) -> FoundTrees:
        """Search the trees of strings whose leaves stand one after the other."""
        device = self.nodes.vectors.device
        sizes = torch.tensor(self.lengths, device=device)
        positions = torch.arange(max(self.lengths), device=device)
        first = 1 + sizes.cumsum(0) - sizes
        leaves = first[:, None] + torch.minimum(positions, sizes[:, None] - 1)
        scores = self.nodes.vectors.new_zeros(len(sizes), 1)
        valid = torch.ones_like(scores, dtype=torch.bool)
        found = self.run(leaves[:, None], sizes, scores, valid, sort=False)
        found.widen(self.beam)
        return found

    def begin(self, beams: Beams) -> Beams:
        nodes = beams.pairs[:, 0]
        real = torch.arange(nodes.shape[1] - 1, device=nodes.device) < beams.left[:, None]
        pairs = torch.zeros_like(nodes[:, 1:])
        pairs[real] = self.add(nodes[:, :-1][real], nodes[:, 1:][real], 0)
        return replace(beams, pairs=pairs[:, None])

    def add(self, left: Tensor, right: Tensor, step: int) -> Tensor:
        bits, l_flat, r_flat = None, left.flatten(), right.flatten()
        if self.draws is not None and self.nodes.bits is not None:
            bits, _ = self.cell.draw(len(l_flat), self.draws.source(step, CELLS), left.device)
        parents = self.cell.parents(self.nodes.pairs(l_flat, r_flat), bits)
        numbers = self.nodes.add(l_flat, r_flat, parents, bits)
        self.scores[numbers] = self.scorer(parents).squeeze(1)
        return numbers.view_as(left)

    def merge(self, pairs: Tensor) -> Tensor:
        return pairs

    def choose(self, beams: Beams, noise: Noise) -> ChosenMerges:
        return choose(self.scores, beams, self.beam, noise, past_end=False)

    def record(self, step: SearchStep) -> ComposedStep:
        beams, chosen = step.beams, step.chosen
        table, logits = beams.pairs, None
        if self.fresh:
            table, logits = self._nodes(beams.pairs), self.scores[beams.pairs]
        went = chosen.parents, chosen.positions, step.nodes
        return ComposedStep(beams.rows, beams.left, table, logits, *went)

    def _nodes(self, pairs: Tensor) -> Tensor:
        """Return the nodes (R, B, M) of pairs of neighbours (R, B, P)."""
        return torch.cat([self.left[pairs], self.right[pairs[..., -1:]]], 2)


class FreshCellSearch(CellSearch):
    """A search whose pairs are composed anew at each step, with dropout of their own.

    left, right, scores and parents are those of the pairs of one step.
    """

    fresh = True

    def begin(self, beams: Beams) -> Beams:
        return replace(beams, pairs=self._anew(beams.pairs, beams, 0))

    def onward(self, step: SearchStep, number: int) -> Beams:
        chosen, count = step.chosen, step.beams.pairs.shape[2]
        positions = shifted(chosen.positions, count)
        nodes = taken(self._nodes(step.beams.pairs), chosen.parents, positions)
        here = torch.arange(count, device=nodes.device) == chosen.positions[..., None]
        nodes = torch.where(here, step.nodes[..., None], nodes)
        left = step.beams.left - 1
        beams = Beams(step.beams.rows, left, nodes, chosen.scores, chosen.valid)
        return replace(beams, pairs=self._anew(nodes, beams, number))

    def merge(self, pairs: Tensor) -> Tensor:
        flat = pairs.flatten()
        vectors = self.parents.index_select(0, self.positions[flat])
        return self.nodes.add(self.left[flat], self.right[flat], vectors, None).view_as(pairs)

    def _anew(self, nodes: Tensor, beams: Beams, step: int) -> Tensor:
        """Compose every pair of nodes (R, B, M); return numbers (R, B, P)."""
        shape = nodes[..., 1:].shape
        real = torch.arange(shape[2], device=nodes.device) < beams.left[:, None, None]
        real = (real & beams.valid[..., None]).flatten().nonzero().squeeze(1)
        self.left, self.right = nodes[..., :-1].flatten(), nodes[..., 1:].flatten()
        pairs = self.nodes.pairs(self.left[real], self.right[real])
        self.parents = self.cell.parents(pairs, self.fresh_bits(step, shape, real))
        self.positions = torch.zeros_like(self.left)
        self.positions[real] = torch.arange(len(real), device=real.device)
        self.scores = self.parents.new_zeros(len(self.left))
        self.scores[real] = self.scorer(self.parents).squeeze(1)
        return torch.arange(len(self.left), device=real.device).view(shape)

    def fresh_bits(self, step: int, shape: torch.Size, real: Tensor) -> Tensor | None:
        """Return the bits of dropout of some of a step's pairs (R, B, P)."""
        if self.draws is None:
            return None
        source = self.draws.source(step, CELLS)
        bits, _ = self.cell.draw(shape.numel(), source, self.draws.generator.device)
        return None if bits is None else bits.index_select(0, real)


@dataclass(frozen=True)
class CountedStep:
    """What is left of one step.

    owners (U, 2): row and beam of each beam that counts. real (U, P): its valid pairs. entries: how
    many there are before this step. nodes, at: numbers of new nodes, and entries of their pairs.
    """

    step: ComposedStep
    owners: Tensor
    real: Tensor
    entries: int
    nodes: Tensor
    at: Tensor

    def of_owners(self, table: Tensor) -> Tensor:
        """Return the rows of a table (R, B, S) that belong to beams that count, (U, S)."""
        return table[self.owners[:, 0], self.owners[:, 1]]


@dataclass(frozen=True)
class Ancestry:
    """All layers, and how scores follow from logits of entries.

    beam (E,): which beam that counts an entry belongs to, of `beams` in all steps. entry (C,): the
    pairs that were chosen, and `final` (C,), the last beam (N B numbers) that each is a part of.
    """

    layers: list[CountedStep]
    beams: int
    beam: Tensor
    entry: Tensor
    final: Tensor

    def scores(self, logits: Tensor, shape: torch.Size) -> Tensor:
        """Return the scores (N, B) of the last beams from logits of entries (E,)."""
        sizes = logits.new_full((self.beams,), -torch.inf)
        top = sizes.scatter_reduce(0, self.beam, logits.detach(), "amax")
        powers = (logits - top[self.beam]).exp()
        sums = torch.zeros_like(top).index_add(0, self.beam, powers)
        norms = top + sums.log()
        gained = logits[self.entry] - norms[self.beam[self.entry]]
        gained = gained.clamp(min=LOG_FLOOR)
        return gained.new_zeros(shape.numel()).index_add(0, self.final, gained).view(shape)


def trace(found: FoundTrees) -> Ancestry:
    """Follow the last beams of a search back to its first step."""
    shape, device = found.valid.shape, found.valid.device
    # a beam that is not valid is followed as the first one is, which always is
    now = torch.arange(shape[1], device=device) * found.valid
    numbers = torch.arange(shape.numel(), device=device).view(shape)
    passed = []
    for step in reversed(found.steps):
        slots = now[step.rows]
        now[step.rows] = step.origin.gather(1, slots)
        passed.append((step, slots))
    layers, owned, entries, finals = [], [], [], []
    beams = total = 0
    for step, slots in reversed(passed):
        origin, place = step.origin.gather(1, slots), step.place.gather(1, slots)
        used = torch.zeros(step.table.shape[:2], dtype=torch.bool, device=device)
        owners = used.scatter_(1, origin, True).nonzero()
        counts = step.counts[owners[:, 0]]
        pairs = int(counts.max())
        begins = torch.zeros(used.shape, dtype=torch.int64, device=device)
        begins[used] = total + counts.cumsum(0) - counts
        at = (begins.gather(1, origin) + place).flatten()
        real = torch.arange(pairs, device=device) < counts[:, None]
        nodes = step.chosen.gather(1, slots).flatten()
        layers.append(CountedStep(step, owners, real, total, nodes, at))
        numbered = beams + torch.arange(len(owners), device=device)
        owned.append(numbered.repeat_interleave(counts))
        entries.append(at)
        finals.append(numbers[step.rows].flatten())
        beams, total = beams + len(owners), total + len(owned[-1])
    return Ancestry(layers, beams, *map(torch.cat, (owned, entries, finals)))


@dataclass(frozen=True)
class PairGroup:
    """Pairs whose children are known before any of them: children (n, 2), bits of their dropout.

    nodes (k,), at (k,): numbers of nodes that are parents of these pairs, and of which.
    """

    children: Tensor
    nodes: Tensor
    at: Tensor
    bits: Callable[[], Tensor | None]


def differentiable(how: CellSearch, found: FoundTrees, leaves: Tensor) -> tuple[Tensor, Tensor]:
    """Return roots (N, B, d) and scores (N, B) as functions of leaves (n, d) and parameters."""
    shape = found.valid.shape
    if not found.steps:
        return leaves[found.roots - 1], found.scores
    traced = trace(found)
    if isinstance(how, FreshCellSearch):
        groups, logits, entries = _by_step(how, traced), _logits(traced), None
    else:
        groups, numbers, entries = _by_height(how.nodes, traced)
        logits = how.scorer(how.nodes.vectors[numbers]).squeeze(1).detach()
    values = torch.cat([how.nodes.vectors[found.roots].flatten(), logits])
    drop = dropping(how.cell.dropout) if how.draws is not None and how.cell.dropout else None
    form = _form(how, found, groups, values, drop)
    result = form(leaves, how.scorer.weight, how.scorer.bias, *how.cell.weights())
    roots, e = result.split([len(values) - len(logits), len(logits)])
    scores = traced.scores(e if entries is None else e.index_select(0, entries), shape)
    return roots.view(*shape, -1), scores


def _by_height(pool: NodePool, traced: Ancestry) -> tuple[list[PairGroup], Tensor, Tensor]:
    """Return groups of equal height, the numbers of their pairs, and which of these entries are."""
    entries = torch.cat([layer.of_owners(layer.step.table)[layer.real] for layer in traced.layers])
    wanted = torch.zeros(pool.count, dtype=torch.bool, device=entries.device)
    wanted[entries] = True
    numbers = wanted.nonzero().squeeze(1)
    heights, order = pool.height[numbers].sort(stable=True)
    numbers = numbers[order]
    rows = torch.zeros(pool.count, dtype=torch.int64, device=entries.device)
    rows[numbers] = torch.arange(len(numbers), device=entries.device)
    sizes = torch.bincount(heights)[1:].tolist()
    groups = [_of_height(pool, some) for some in numbers.split(sizes)]
    return groups, numbers, rows[entries]


def _of_height(pool: NodePool, numbers: Tensor) -> PairGroup:
    at = torch.arange(len(numbers), device=numbers.device)
    bits = pool.bits
    return PairGroup(
        torch.stack([pool.left[numbers], pool.right[numbers]], 1),
        numbers,
        at,
        lambda: None if bits is None else bits[numbers],
    )


def _by_step(how: FreshCellSearch, traced: Ancestry) -> list[PairGroup]:
    """Return the pairs of each step; their bits are drawn again."""
    return [_of_step(how, layer, t) for t, layer in enumerate(traced.layers)]


def _of_step(how: FreshCellSearch, layer: CountedStep, t: int) -> PairGroup:
    nodes = layer.of_owners(layer.step.table)[:, : layer.real.shape[1] + 1]
    children = torch.stack([nodes[:, :-1][layer.real], nodes[:, 1:][layer.real]], 1)

    def bits() -> Tensor | None:
        rows, beams, nodes = layer.step.table.shape
        real = torch.zeros(rows, beams, nodes - 1, dtype=torch.bool, device=children.device)
        owners = layer.owners
        real[owners[:, 0], owners[:, 1], : layer.real.shape[1]] = layer.real
        return how.fresh_bits(t, real.shape, real.flatten().nonzero().squeeze(1))

    return PairGroup(children, layer.nodes, layer.at - layer.entries, bits)


def _logits(traced: Ancestry) -> Tensor:
    found = []
    for layer in traced.layers:
        assert layer.step.logits is not None
        mine = layer.of_owners(layer.step.logits)[:, : layer.real.shape[1]]
        found.append(mine[layer.real])
    return torch.cat(found)


def _form(
    how: CellSearch,
    found: FoundTrees,
    groups: list[PairGroup],
    values: Tensor,
    drop: Dropout | None,
) -> ClosedForm:
    """Return (leaves, w, b, the cell's weights) -> values: roots, flat, and logits of all pairs."""
    cell, roots, pool = how.cell.form(drop), found.roots.flatten(), how.nodes

    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:
        return (values,)

    def backward(leaves: Tensor, w: Tensor, b: Tensor, *operands: Tensor) -> tuple[Tensor, ...]:
        *weights, gradient = operands
        ends = gradient[: len(roots) * leaves.shape[1]].view(len(roots), -1)
        of_logits = gradient[ends.numel() :]
        of_nodes = leaves.new_zeros(pool.count, leaves.shape[1]).index_add_(0, roots, ends)
        sums = [torch.zeros_like(weight) for weight in (w, *weights)]
        last = len(of_logits)
        for group in reversed(groups):
            first = last - len(group.children)
            slopes = of_logits[first:last]
            upstream = slopes[:, None] * w
            # the same pair may be told more than once: what is written is the same
            upstream[group.at] = slopes[group.at, None] * w + of_nodes[group.nodes]
            bits, some = group.bits(), telling(upstream)
            for at in (some[piece] for piece in pieces(some)):
                pairs = pool.pairs(*group.children[at].unbind(1))
                rest = [] if bits is None else [bits[at]]
                y, *kept = cell.forward(*weights, pairs, *rest)
                *changes, sides = cell.backward(*weights, pairs, *rest, *kept, upstream[at])
                for total, change in zip(sums, (slopes[at] @ y, *changes), strict=True):
                    total += change
                of_nodes.index_add_(0, group.children[at].flatten(), sides.view(-1, w.shape[1]))
            last = first
        return of_nodes[1 : 1 + len(leaves)], sums[0], of_logits.sum().view_as(b), *sums[1:]

    return ClosedForm(forward, backward, one_by_one, needs_result=False)


def pieces(pairs: Tensor) -> Iterator[slice]:
    """Return which pairs go through the cell together, as it cuts them itself."""
    size = PIECE if pairs.device.type == "cpu" else max(1, len(pairs))
    return (slice(start, start + size) for start in range(0, len(pairs), size))


def telling(gradient: Tensor) -> Tensor:
    """Return which rows of a gradient (n, d) are of any size.

    A beam of little weight has gradients down to denormal numbers, with which products take five
    times as long.
    """
    return (gradient.abs().amax(1) > TINY).nonzero().squeeze(1)


def sparing(form: ClosedForm, keep: bool) -> ClosedForm:
    """Return a form of the cell whose backward leaves out pairs with a gradient below 1e-30.

    Without `keep` its inputs alone are kept, and what is inside is computed again.
    """

    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:
        results = form.forward(*inputs)
        return results if keep else results[:1]

    def backward(*tensors: Tensor) -> tuple[Tensor, ...]:
        weights, (pairs, *operands, gradient) = tensors[:WEIGHTS], tensors[WEIGHTS:]
        some = telling(gradient)
        known = [tensor.index_select(0, some) for tensor in (pairs, *operands)]
        inner = [] if keep else form.forward(*weights, *known)[1:]
        *changes, sides = form.backward(*weights, *known, *inner, gradient.index_select(0, some))
        return *changes, torch.zeros_like(pairs).index_copy_(0, some, sides)

    return ClosedForm(forward, backward, form.mapped, needs_result=False)
