"""Beam trees as released: every pair of every beam anew at every step, one-hot products.

The oracle of `bt_grc` and `bt_grc_os` (Ray Chowdhury & Caragea 2023, arXiv:2305.19999 and
2311.04449): what `beam_tree_search.py` and `bt_grc_os.py` compute with indices, caches and packed
rows. Beams that a string shorter than its batch cannot have are kept here, as released, with a
score of 46 less.

Shapes: N strings, B beams, S nodes, P = S - 1 pairs, K pairs a beam, C = B K candidates.
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
        places = top_k(_noised(e, alive, noisy, t, PAIRS), every, k)
        scores = (scores[..., None] + masked_log_softmax(e, every).gather(2, places)).flatten(1)
        first = torch.arange(k, device=x.device) == 0
        beams = (beams[..., None] & (alive[:, None, None] | first)).flatten(1)
        if soft and draws is not None and scores.shape[1] > beam:
            weights = _one_soft(scores, beams, beam)
        else:
            weights = _all_hard(scores, _noised(scores, alive, noisy, t, BEAMS), beams, beam)
        selected = weights @ one_hot(places.flatten(1), e.shape[2]).to(x)
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
    best, others = order[:, : beam - 1], order[:, beam - 1 :]
    shares = masked_log_softmax(scores.gather(1, others), beams.gather(1, others)).exp()
    mixture = torch.zeros_like(scores).scatter(1, others, shares)
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
