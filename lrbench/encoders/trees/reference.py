"""Reference beam trees, as released (Ray Chowdhury & Caragea 2023), for the fast forms.

Beams hold all vectors of padded strings, every step scores every pair and moves every vector, and
autograd goes back through all steps. What is drawn is drawn in the order of the fast forms, so that
from one state of a generator both compute the same.

`by_products` is that of `bt_grc` and `bt_grc_os`: every pair of every beam is composed anew at
every step, and one-hot products choose. Beams that a string shorter than its batch cannot have are
kept, with a score of 46 less. Shapes: N strings, B beams, S nodes, P = S - 1 pairs, K pairs a beam,
C = B K candidates.

`ReleasedSearch` is that of `ebt_grc` and `rir_ebt_grc`: perturbations are of strings that are not
done, longest first, and dropout is of each new merge.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.trees.choice import (
    BEAMS,
    CELLS,
    PAIRS,
    Draws,
    beam_shares,
    gumbel,
    masked_log_softmax,
    top_k,
)

States = tuple[Tensor, Tensor, Tensor, Tensor]


def by_products(
    parts: tuple[nn.Module, GatedRecursiveCell, nn.Module],
    beam: int,
    strings: tuple[Tensor, Tensor],
    draws: Draws | None = None,
    noise: bool = True,
    soft: bool = False,
) -> Tensor:
    """Return vectors (N, d) of x (N, S, d) with a mask (N, S); parts: leaf, cell and scorer.

    draws: of training. soft: whether the last beam is a mixture there ("OneSoft").
    """
    (leaf, cell, scorer), (x, mask) = parts, strings
    h = leaf(x)[:, None]
    scores, beams = x.new_zeros(len(x), 1), torch.ones_like(mask[:, :1])
    for t in range(x.shape[1] - 1):
        valid, alive = mask[:, None, t + 1 :], mask[:, t + 1]
        going = alive[:, None, None, None]
        parents = _parents(cell, h, alive, None if draws is None else draws.source(t, CELLS))
        if parents.shape[2] == 1:
            h = torch.where(going, parents, h[:, :, :1])
            break
        e = scorer(parents).squeeze(-1)
        every, k, noisy = valid.expand_as(e), min(e.shape[2], beam), draws if noise else None
        positions = top_k(_noised(e, alive, noisy, t, PAIRS), every, k)
        scores = (scores[..., None] + masked_log_softmax(e, every).gather(2, positions)).flatten(1)
        first = torch.arange(k, device=x.device) == 0
        beams = (beams[..., None] & (alive[:, None, None] | first)).flatten(1)
        if soft and draws is not None and scores.shape[1] > beam:
            weights = _one_soft(scores, beams, beam)
        else:
            weights = _all_hard(scores, _noised(scores, alive, noisy, t, BEAMS), beams, beam)
        selected = weights @ one_hot(positions.flatten(1), e.shape[2]).to(x)
        owners = weights.unflatten(2, (-1, k)).sum(3)
        scores = (weights @ scores[..., None]).squeeze(-1)
        beams = (weights @ beams.to(x)[..., None]).squeeze(-1) > 0.5
        old, parents = (torch.einsum("ncb,nbsd->ncsd", owners, v) for v in (h, parents))
        h = torch.where(going, merged(old, parents, selected), old[:, :, :-1])
    result: Tensor = (beam_shares(scores, beams)[..., None] * h[:, :, 0]).sum(1)
    return result


def merged(h: Tensor, parents: Tensor, selected: Tensor) -> Tensor:
    """Return nodes (.., P, d) after a merge of nodes h (.., P + 1, d).

    parents (.., P, d), of every pair. selected (.., P): 1 at the pair that is merged, or shares
    that sum to one.
    """
    until = selected.cumsum(-1)
    left, right = 1 - until, until - selected
    stays, moves = left[..., None] * h[..., :-1, :], right[..., None] * h[..., 1:, :]
    return selected[..., None] * parents + stays + moves


def _all_hard(scores: Tensor, noised: Tensor, beams: Tensor, beam: int) -> Tensor:
    """Return weights (N, B', C): of each beam that goes on, the candidate that it is."""
    count = scores.shape[1]
    if count <= beam:
        return torch.eye(count).to(scores).expand(len(scores), -1, -1)
    return one_hot(top_k(noised, beams, beam), count).to(scores)


def _one_soft(scores: Tensor, beams: Tensor, beam: int) -> Tensor:
    """Return weights (N, beam, C): the best, and a mixture of all that are left."""
    order = top_k(scores.detach(), beams, scores.shape[1])
    best, merged_away = order[:, : beam - 1], order[:, beam - 1 :]
    shares = masked_log_softmax(scores.gather(1, merged_away), beams.gather(1, merged_away)).exp()
    mixture = torch.zeros_like(scores).scatter(1, merged_away, shares)
    return torch.cat([one_hot(best, scores.shape[1]).to(scores.dtype), mixture[:, None]], 1)


def _parents(
    cell: GatedRecursiveCell, h: Tensor, alive: Tensor, source: torch.Generator | None
) -> Tensor:
    pairs = torch.cat([h[:, :, :-1], h[:, :, 1:]], 3)[alive]
    parents = cell.reference(pairs.flatten(0, 2), source).view_as(h[alive][:, :, 1:])
    return torch.zeros_like(h[:, :, 1:]).index_put((alive,), parents)


def _noised(values: Tensor, alive: Tensor, draws: Draws | None, step: int, purpose: int) -> Tensor:
    values = values.detach().clone()
    if draws is not None:
        shape = tuple(values[alive].shape)
        values[alive] += gumbel(shape, draws.source(step, purpose), values)
    return values


class ReleasedSearch:
    """A search over beams (vectors h (N, B, S, d), their numbers (N, B, S), scores, validity)."""

    def __init__(
        self,
        cell: GatedRecursiveCell,
        scorer: nn.Module,
        leaves: int,
        beam: int,
        generator: torch.Generator | None,
    ) -> None:
        self.cell, self.scorer, self.beam, self.generator = cell, scorer, beam, generator
        self.merges: dict[tuple[int, int], int] = {}
        self.first = 1 + leaves
        self.bits: list[Tensor] = []

    def search(
        self, lengths: Tensor, h: Tensor, ids: Tensor, scores: Tensor, valid: Tensor
    ) -> States:
        """Return h (N, B, d), ids, scores and valid (N, B) of what strings of `lengths` become."""
        ordered, order = lengths.sort(descending=True, stable=True)
        h, ids, scores, valid = h[order], ids[order], scores[order], valid[order]
        for step in range(int(ordered[0]) - 1):
            left = ordered - 1 - step  # pairs that a string has
            going = (left > 0)[:, None]
            parents, positions, scores, valid = self._choose(h, left, scores, valid)
            h = _beams(h, parents)
            ids = _beams(ids, parents)
            pairs = [_beams(h, positions + side, 2) for side in (0, 1)]
            made = self._number(_beams(ids, positions, 2), _beams(ids, positions + 1, 2), going)
            merged = self.cell.parents(torch.cat(pairs, 2).flatten(0, 1), self._drawn(made))
            h = _merge(h, positions, merged.view_as(pairs[0]), going)
            ids = _merge(ids[..., None], positions, made[..., None], going)[..., 0]
        back = order.argsort()
        return h[back, :, 0], ids[back, :, 0], scores[back], valid[back]

    def _choose(self, h: Tensor, left: Tensor, scores: Tensor, valid: Tensor) -> States:
        """Return the beam that each beam comes from, the pair it merges, its score and validity."""
        n, beams, size, _ = h.shape
        count = size - 1
        if count == 1:
            same = torch.arange(beams).expand(n, -1)
            return same, torch.zeros_like(same), scores, valid
        e = self.scorer(h[:, :, :-1], h[:, :, 1:])
        ok = (torch.arange(count) < left[:, None])[:, None].expand_as(e)
        each = min(count, self.beam)
        positions = top_k(e.detach() + self._noise(e, left), ok, each)
        proposed = (scores[..., None] + masked_log_softmax(e, ok).gather(2, positions)).flatten(1)
        possible = valid.repeat_interleave(each, 1)
        kept = torch.arange(beams * each).expand(n, -1)
        if beams * each > self.beam:
            noise = self._noise(proposed, left)
            kept = top_k(proposed.detach() + noise, possible, self.beam)
        # strings that are done keep their beams; where there are to be more, copies, not valid
        slots = torch.arange(kept.shape[1])
        going, copies = (left > 0)[:, None], (slots % beams).expand_as(kept)
        return (
            torch.where(going, kept // each, copies),
            torch.where(going, positions.flatten(1).gather(1, kept), 0),
            torch.where(going, proposed.gather(1, kept), scores.gather(1, copies)),
            torch.where(going, possible.gather(1, kept), valid.gather(1, copies) & (slots < beams)),
        )

    def _noise(self, like: Tensor, left: Tensor) -> Tensor:
        """Draw perturbations for strings that are not done."""
        noise = torch.zeros_like(like)
        if self.generator is not None:
            going = int((left > 0).sum())
            noise[:going] = gumbel((going, *like.shape[1:]), self.generator, like)
        return noise

    def _number(self, left: Tensor, right: Tensor, going: Tensor) -> Tensor:
        """Return numbers (N, B) of merges, new ones for those that have not been made."""
        keys = list(zip(left.flatten().tolist(), right.flatten().tolist(), strict=True))
        active = going.expand_as(left).flatten().tolist()
        new = sorted(
            {key for key, is_made in zip(keys, active, strict=True) if is_made} - self.merges.keys()
        )
        for key in new:
            self.merges[key] = self.first + len(self.merges)
        bits, _ = self.cell.draw(len(new), self.generator, left.device)
        if bits is not None:
            self.bits.append(bits)
        made = [
            self.merges[key] if is_made else 0 for key, is_made in zip(keys, active, strict=True)
        ]
        return torch.tensor(made).view_as(left)

    def _drawn(self, made: Tensor) -> Tensor | None:
        """Return the bits of dropout of merges (N, B), any where none is made."""
        if not self.bits:
            return None
        return torch.cat(self.bits)[(made.flatten() - self.first).clamp(min=0)]


def _beams(x: Tensor, index: Tensor, axis: int = 1) -> Tensor:
    """Return x (N, B, ..) at the beams, or (N, B, S, ..) at the position, in index (N, B')."""
    if axis == 2:
        index = index[..., None]
    full = index.reshape(*index.shape, *(1 for _ in range(x.dim() - index.dim())))
    taken = x.gather(axis, full.expand(*index.shape, *x.shape[index.dim() :]))
    return taken.squeeze(2) if axis == 2 else taken


def _merge(h: Tensor, positions: Tensor, merged: Tensor, going: Tensor) -> Tensor:
    """Return h (N, B, S - 1, d) after merges; without the last position where none is made."""
    slots = torch.arange(h.shape[2] - 1)
    where = positions[..., None]
    at, after = (slots == where)[..., None], (slots > where)[..., None]
    moved = torch.where(at, merged[:, :, None], torch.where(after, h[:, :, 1:], h[:, :, :-1]))
    return torch.where(going[..., None, None], moved, h[:, :, :-1])
