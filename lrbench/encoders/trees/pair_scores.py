"""Scores of pairs of nodes, e(l, r) = v_2 . gelu(V_1 (l[:d_s], r[:d_s]) + c_1) + c_2.

V_1 is d_s x 2 d_s. Its halves are applied to each node once: the two sides of a node, (M, 2, d_s),
are what it adds to pairs as a left child and as a right one. Adding to all scores changes nothing
in a search, so the gradient of c_2 is zero up to rounding. In compiled loops d_s is a multiple of
`wide`, the features that go together.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lrbench.encoders.grc.halves import ROOT_HALF, WIDTHS
from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.elementary import DENSITY_AT_ZERO, bell, distribution
from lrbench.kernels.lanes import add, every, fma, load, mul, store, total, zero
from lrbench.kernels.rows import add_rows

PIECE = 4096  # pairs at a time: a megabyte each of what they need


class PairScorer(nn.Module):
    """Scores of pairs of vectors of `width` features, of which the first `features` count."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.first = nn.Linear(2 * features, features)
        self.second = nn.Linear(features, 1)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """Map l and r (.., d) to scores (..), as the equation is written."""
        both = torch.cat([left[..., : self.features], right[..., : self.features]], -1)
        scores: Tensor = self.second(gelu(self.first(both))).squeeze(-1)
        return scores

    def without_gradient(self, beam: int) -> frozenset[str]:
        """Return the names of parameters that no gradient reaches: c_2, and of one beam all."""
        names = dict(self.named_parameters(prefix="scorer"))
        return frozenset(names if beam == 1 else ["scorer.second.bias"])

    def weights(self) -> tuple[Tensor, ...]:
        """Return V_1, c_1, v_2 (d_s,) and c_2 (1,)."""
        first, second = self.first, self.second
        return first.weight, first.bias, second.weight[0], second.bias

    def sides(self, nodes: Tensor) -> Tensor:
        """Return what nodes (M, d) add to pairs as left and as right children, (M, 2, d_s)."""
        first = self.first
        stacked = torch.cat(first.weight.split(self.features, 1))  # left half above right half
        bias = torch.cat([first.bias, torch.zeros_like(first.bias)])
        both = torch.addmm(bias, nodes[:, : self.features], stacked.T)
        return both.view(-1, 2, self.features)

    def of_pairs(self, sides: Tensor, left: Tensor, right: Tensor) -> Tensor:
        """Return scores (p,), without a graph, of pairs of nodes (p,) with `sides` (M, 2, d_s)."""
        v2, c2 = self.second.weight[0].detach(), self.second.bias.detach()
        wide = _wide(sides)
        if wide is not None:
            scores = sides.new_empty(len(left))
            given = sides, left, right, v2, c2, scores
            scores_loop(wide, DTYPES[sides.dtype])(*map(array, given))
            return scores
        flat = sides.view(-1, self.features)
        h = flat.index_select(0, 2 * left) + flat.index_select(0, 2 * right + 1)
        return gelu(h) @ v2 + c2


def slopes(
    weights: tuple[Tensor, ...], nodes: Tensor, left: Tensor, right: Tensor, gradient: Tensor
) -> tuple[Tensor, ...]:
    """Return gradients of V_1, c_1, v_2, c_2 and nodes (M, d).

    weights: of a scorer, `PairScorer.weights`. left, right (p,): the nodes of each pair. gradient
    (p,): that of its score.
    """
    v1, c1, v2, _ = weights
    features = len(v2)
    stacked = torch.cat(v1.split(features, 1))
    used = nodes[:, :features]
    sides = torch.addmm(torch.cat([c1, torch.zeros_like(c1)]), used, stacked.T)
    dsides, dv2 = torch.zeros_like(sides), torch.zeros_like(v2)
    add_slopes(sides, left, right, gradient, v2, dsides, dv2)
    dv1 = torch.cat((dsides.T @ used).split(features), 1)
    dnodes = torch.zeros_like(nodes)
    torch.mm(dsides, stacked, out=dnodes[:, :features])
    return dv1, dsides[:, :features].sum(0), dv2, gradient.sum()[None], dnodes


def add_slopes(
    sides: Tensor,
    left: Tensor,
    right: Tensor,
    gradient: Tensor,
    v2: Tensor,
    dsides: Tensor,
    dv2: Tensor,
) -> None:
    """Add gradients of sides (M, 2 d_s) and v_2, some thousand pairs at a time."""
    wide = _wide(sides)
    if wide is not None:
        given = sides, left, right, gradient, v2, dsides, dv2
        slopes_loop(wide, DTYPES[sides.dtype])(*map(array, (t.view(-1) for t in given)))
        return
    flat, dflat = sides.view(-1, len(v2)), dsides.view(-1, len(v2))
    for a, b, g in zip(*(t.split(PIECE) for t in (2 * left, 2 * right + 1, gradient)), strict=True):
        h = flat.index_select(0, a) + flat.index_select(0, b)
        share = torch.erf(h * ROOT_HALF).add_(1).mul_(0.5)
        dv2.addmv_((h * share).T, g)
        slope = torch.addcmul(share, h * DENSITY_AT_ZERO, torch.exp(-0.5 * h * h))
        slope.mul_(v2).mul_(g[:, None])
        add_rows(dflat, a, slope)
        add_rows(dflat, b, slope)


def _wide(sides: Tensor) -> int | None:
    """Return how many features the compiled loops take at a time, if they can be used."""
    features = sides.shape[-1] if sides.dim() == 3 else sides.shape[1] // 2
    wide = next((wide for wide in WIDTHS if features % wide == 0), None)
    return wide if wide is not None and usable(sides, "pair_scores", wide) else None


@cache
def scores_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (sides (M, 2, d_s), left (p,), right (p,), v (d_s,), c (1,); scores (p,))."""

    @compiled(wide, dtype)
    def pair_scores(sides, left, right, v, c, scores):  # type: ignore[no-untyped-def]
        width = len(v)
        for pair in range(len(left)):
            a, b = 2 * left[pair] * width, (2 * right[pair] + 1) * width
            summed = zero(load(v, 0, wide))
            for j in range(0, width, wide):
                h = add(load(sides, a + j, wide), load(sides, b + j, wide))
                u = mul(h, distribution(h, bell(h)))
                summed = fma(u, load(v, j, wide), summed)
            scores[pair] = total(summed) + c[0]

    return pair_scores


@cache
def slopes_loop(wide: int, dtype: str) -> Loop:
    """Return the loop that adds to gradients of sides and v.

    (sides (M, 2, d_s), left (p,), right (p,), gradient of scores (p,), v; dsides (M, 2, d_s),
    dv (d_s,))
    """

    @compiled(wide, dtype)
    def pair_slopes(sides, left, right, gradient, v, dsides, dv):  # type: ignore[no-untyped-def]
        width = len(v)
        nothing = zero(load(v, 0, wide))
        density = every(DENSITY_AT_ZERO, nothing)
        for pair in range(len(left)):
            a, b = 2 * left[pair] * width, (2 * right[pair] + 1) * width
            g = every(gradient[pair], nothing)
            for j in range(0, width, wide):
                h = add(load(sides, a + j, wide), load(sides, b + j, wide))
                falls = bell(h)
                share = distribution(h, falls)
                store(dv, j, fma(g, mul(h, share), load(dv, j, wide)))
                slope = mul(fma(h, mul(falls, density), share), mul(g, load(v, j, wide)))
                store(dsides, a + j, add(load(dsides, a + j, wide), slope))
                store(dsides, b + j, add(load(dsides, b + j, wide), slope))

    return pair_slopes
