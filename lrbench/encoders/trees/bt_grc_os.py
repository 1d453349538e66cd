"""Beam trees with one soft beam (`bt_grc_os`).

Ray Chowdhury & Caragea 2023, "Beam Tree Recursive Cells" (arXiv:2305.19999), "OneSoft": `bt_grc`,
but that in training the last of B beams is a mixture of all candidates that would be dropped,
weighted by the softmax q of their scores a. Mixed are nodes, parents of all pairs, scores and the
choice of a pair, which is a distribution s then (sums to one); the new nodes of that beam are

    h_i <- s_i p_i + (1 - sum_{j <= i} s_j) h_i + (sum_{j < i} s_j) h_{i+1}

Candidates go by score; noise is in the choice of pairs alone. In evaluation it is `bt_grc`.

Nothing is without a gradient here, so training has a graph. Strings leave when they have one node;
with `reuse_dropout` hard beams take the parents of unchanged pairs with them, and only the soft one
is composed anew. What is inside the cell is computed again in the backward of long strings.

Layout as in `search.py`, with vectors: h (R, B, M, d), parents (R, B, P, d).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lrbench.encoders.base import dropping
from lrbench.encoders.trees.bt_grc import BeamTree, BeamTreeConfig
from lrbench.encoders.trees.choice import (
    CELLS,
    PAIRS,
    Draws,
    beam_shares,
    gumbel,
    masked_log_softmax,
    propose,
    top_k,
)
from lrbench.encoders.trees.composed import sparing
from lrbench.encoders.trees.reference import merged
from lrbench.registry import register_encoder

KEPT = 1 << 16  # cells, of some kilobytes, whose inner numbers may be kept for the backward


@dataclass
class BtGrcOsConfig(BeamTreeConfig):
    """Settings of `bt_grc_os`: those of beam trees."""


@dataclass(frozen=True)
class Training:
    """What is drawn, and whether what is inside the cell is kept for the backward."""

    draws: Draws
    keep: bool


@dataclass(frozen=True)
class VectorBeams:
    """Beams of R strings: left (R,), how many pairs, h (R, B, M, d), scores and valid (R, B).

    parents (R, B, P, d), if they are known.
    """

    rows: Tensor
    left: Tensor
    h: Tensor
    scores: Tensor
    valid: Tensor
    parents: Tensor | None = None

    def only(self, kept: Tensor) -> VectorBeams:
        """Return the beams of some strings, by their places among the R."""
        fields = {k: v.index_select(0, kept) for k, v in vars(self).items() if v is not None}
        return VectorBeams(**fields)


@dataclass(frozen=True)
class MixedChoice:
    """What goes on: hard beams with their origin and place (R, H), and a soft one if there is one.

    owners (R, B), shares (R, P): of the soft beam, from which beams it is, and which pairs merge.
    scores, valid (R, B'): of all, hard ones first.
    """

    origin: Tensor
    place: Tensor
    scores: Tensor
    valid: Tensor
    soft: tuple[Tensor, Tensor] | None = None


@register_encoder("bt_grc_os", BtGrcOsConfig, "beam trees with one soft beam in training (2023)")
class BtGrcOs(BeamTree):
    """Beam trees whose last beam is a mixture in training (Ray Chowdhury & Caragea 2023)."""

    soft = True

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        if generator is None:
            return super().forward(x, mask)
        leaves, lengths = self._leaves(x, mask)
        sizes = mask.sum(1)
        positions = torch.arange(max(lengths), device=x.device)
        starts = (sizes.cumsum(0) - sizes)[:, None]
        at = starts + torch.minimum(positions, sizes[:, None] - 1)
        h = leaves.index_select(0, at.flatten()).view(len(x), 1, len(positions), -1)
        scores = x.new_zeros(len(x), 1)
        rows = torch.arange(len(x), device=x.device)
        nodes = VectorBeams(rows, sizes - 1, h, scores, torch.ones_like(scores, dtype=torch.bool))
        draws = self._draws(generator)
        assert draws is not None
        soft = 1 if self._kept else self.config.beam  # beams whose pairs are all composed anew
        cells = soft * sum(length * length for length in lengths) // 2
        how = Training(draws, keep=cells <= KEPT)
        return self._mixed(nodes, [length - 1 for length in lengths], how)

    def _mixed(self, nodes: VectorBeams, left: list[int], how: Training) -> Tensor:
        """Merge until every string has one node; left: how many merges each has to go."""
        rows, results, t = [], [], 0
        while left:
            done = [n for n, count in enumerate(left) if not count]
            if done:
                last = nodes.only(torch.tensor(done, device=nodes.h.device))
                rows.append(last.rows)
                shares = beam_shares(last.scores, last.valid)
                results.append((shares[..., None] * last.h[:, :, 0]).sum(1))
                going = [n for n, count in enumerate(left) if count]
                nodes = nodes.only(torch.tensor(going, dtype=torch.int64, device=nodes.h.device))
            left = [count - 1 for count in left if count]
            if left:
                nodes = self._step(nodes, t, how)
                t += 1
        return torch.cat(results)[torch.cat(rows).argsort()]

    def _step(self, nodes: VectorBeams, t: int, how: Training) -> VectorBeams:
        parents = nodes.parents
        if parents is None or not self._kept:
            parents = self._parents(nodes.h[:, :, :-1], nodes.h[:, :, 1:], how, t)
        e = self.scorer(parents).squeeze(3)
        choice = self._choose(nodes, e, t, how)
        hard = moved(nodes.h, parents, choice)
        onward = replace(
            nodes,
            left=nodes.left - 1,
            h=hard
            if choice.soft is None
            else torch.cat([hard, mixed(nodes.h, parents, choice)], 1),
            scores=choice.scores,
            valid=choice.valid,
            parents=None,
        )
        if not self._kept or parents.shape[2] == 1:
            return onward
        return replace(onward, parents=self._carried(onward.h, parents, choice, t + 1, how))

    @property
    def _kept(self) -> bool:
        """Whether the parents of unchanged pairs may stand."""
        return self.config.reuse_dropout or self.config.dropout == 0

    def _choose(self, nodes: VectorBeams, e: Tensor, t: int, how: Training) -> MixedChoice:
        """Return the beams that go on, from logits e (R, B, P)."""
        beam, noise = self.config.beam, None
        if self.config.noise:
            noise = gumbel(tuple(e.shape), how.draws.source(t, PAIRS), e)
        state = nodes.left, nodes.scores, nodes.valid
        positions, scores, valid, _ = propose(e, state, beam, noise, past_end=False)
        k = positions.shape[2]
        positions, count = positions.flatten(1), scores.shape[1]
        if count <= beam:
            order = torch.arange(count, device=e.device).expand_as(scores)
            return MixedChoice(order // k, positions, scores, valid)
        order = top_k(scores, valid, count)
        best, merged_away = order[:, : beam - 1], order[:, beam - 1 :]
        rest, counted = scores.gather(1, merged_away), valid.gather(1, merged_away)
        q = masked_log_softmax(rest, counted).exp()
        owners = torch.zeros_like(e[:, :, 0]).scatter_add(1, merged_away // k, q)
        shares = torch.zeros_like(e[:, 0]).scatter_add(1, positions.gather(1, merged_away), q)
        return MixedChoice(
            best // k,
            positions.gather(1, best),
            torch.cat([scores.gather(1, best), (q * rest).sum(1, keepdim=True)], 1),
            torch.cat([valid.gather(1, best), counted.any(1, keepdim=True)], 1),
            (owners, shares),
        )

    def _carried(
        self, h: Tensor, parents: Tensor, choice: MixedChoice, t: int, how: Training
    ) -> Tensor:
        """Return the parents of all pairs of h: those that stand, and what the rest comes to."""
        hard, pairs = choice.origin.shape[1], parents.shape[2] - 1
        stand = moved(parents, None, choice)
        around = choice.place[..., None] + torch.tensor([-1, 0, 1], device=h.device)
        around = around.clamp(0, pairs)[..., None].expand(-1, -1, -1, h.shape[3])
        beside = h[:, :hard].gather(2, around)
        sides = [(beside[:, :, :2], beside[:, :, 1:])]
        if choice.soft is not None:
            sides.append((h[:, hard:, :-1], h[:, hard:, 1:]))
        count = 2 * choice.origin.numel()
        left, right = (torch.cat([side[n].flatten(0, 2) for side in sides]) for n in range(2))
        made = self._cells(left, right, how, t)
        new = made[:count].view(*choice.origin.shape, 2, -1)
        numbers = torch.arange(pairs, device=h.device)
        for side in range(2):
            here = numbers == choice.place[..., None] - 1 + side
            stand = torch.where(here[..., None], new[:, :, side, None], stand)
        return torch.cat([stand, made[count:].view(len(h), -1, *stand.shape[2:])], 1)

    def _parents(self, left: Tensor, right: Tensor, how: Training, t: int) -> Tensor:
        return self._cells(left.flatten(0, 2), right.flatten(0, 2), how, t).view_as(left)

    def _cells(self, left: Tensor, right: Tensor, how: Training, t: int) -> Tensor:
        """Return the parents (n, d) of left and right (n, d)."""
        cell, rest, drop = self.cell, [], None
        if cell.dropout > 0:
            bits, _ = cell.draw(len(left), how.draws.source(t, CELLS), left.device)
            rest, drop = [] if bits is None else [bits], dropping(cell.dropout)
        form = sparing(cell.form(drop), how.keep)
        return form(*cell.weights(), torch.cat([left, right], 1), *rest)


def moved(table: Tensor, new: Tensor | None, choice: MixedChoice) -> Tensor:
    """Return hard beams (R, H, S - 1, d) of a table (R, B, S, d) after a merge.

    What is after the merge moves to the left by one. new (R, B, S - 1, d): what stands where the
    merge is, if it is known.
    """
    rows, beams, size = table.shape[:3]
    first = torch.arange(rows, device=table.device)[:, None] * beams + choice.origin
    whole = table.flatten(0, 1).index_select(0, first.flatten()).unflatten(0, first.shape)
    place, numbers = choice.place[..., None], torch.arange(size - 1, device=table.device)
    # not a gather: its backward would add vector by vector
    kept = torch.where((numbers > place)[..., None], whole[:, :, 1:], whole[:, :, :-1])
    if new is None:
        return kept
    at = (first * (size - 1) + choice.place).flatten()
    made = new.flatten(0, 2).index_select(0, at).view(*first.shape, 1, -1)
    return torch.where((numbers == place)[..., None], made, kept)


def mixed(h: Tensor, parents: Tensor, choice: MixedChoice) -> Tensor:
    """Return the soft beam (R, 1, P, d) from nodes (R, B, P + 1, d) and parents (R, B, P, d)."""
    assert choice.soft is not None
    owners, shares = choice.soft
    old, new = (
        (owners[:, None] @ tensor.flatten(2)).view(len(h), 1, *tensor.shape[2:])
        for tensor in (h, parents)
    )
    return merged(old, new, shares[:, None])
