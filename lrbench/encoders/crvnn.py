"""The continuous recursive neural network (`crvnn`): soft merges of neighbours, all at once.

Ray Chowdhury & Caragea 2021 (arXiv:2106.06038), as they use it in 2023 (arXiv:2311.04449), without
losses for halting. A string stands between learnt vectors START and END, h = LN(W_0 x + b_0) of all
of them, and exists: e = 1. A step is, with soft neighbours l_ij, r_ij (`crvnn_steps.py`),

    s_i  = w . gelu(W (l l h, l h, h, r h, r r h)_i + c) + b,        c_i = exp(s_i)
    p_i  = c_i / (c_i + exp(0) + (l c)_i + (r c)_i)                  merges into its right neighbour
    a_i  = (l p)_i                                                   its left neighbour does
    h_i <- a_i R((l h)_i, h_i) + (1 - a_i) h_i,    e_i <- e_i (1 - p_i)

where c_i is 0 for START, END and the last token. A string has halted when at most one token has
e_i > 0.1, or after L_n steps: it stays what it is. Output: h of the last token.

Glossary
    p, a    composition probability; that of the left neighbour
    R       gated recursive cell (`grc.py`)
    l, r    row i has the existence of the tokens left (right) of i as far as it adds up to 1

Differences: probabilities are divided by the largest of their string before they are added up
(released: by the largest of the batch, beside which a string may underflow). `halt=false` carries
halted strings along to the end, as the paper's timings do: the same numbers, without dropout.
`reference` is the step as written, on padded strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, pad

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Encoder, Tree, lengths_of
from lrbench.encoders.crvnn_steps import EPSILON, EXISTS, Composition
from lrbench.encoders.soft_trees import by_existence
from lrbench.mixers.normalisation import LayerNorm
from lrbench.registry import register_encoder

CELLS = 4_000_000  # of the neighbour matrices of strings that are evaluated together


@dataclass
class CrvnnConfig:
    """Settings of `crvnn`.

    dropout: of the cell's hidden layer. halt: whether strings leave the batch once they have
    halted. kept: gigabytes of steps kept for the backward; those beyond are computed twice.
    """

    dropout: float = 0.1
    halt: bool = True
    kept: float = 4.0

    def __post_init__(self) -> None:
        fraction("model.encoder.dropout", self.dropout)
        at_least("model.encoder.kept", self.kept, 0)


@register_encoder("crvnn", CrvnnConfig, "continuous recursive neural network (2021)")
class Crvnn(Encoder):
    """The continuous recursive neural network (Ray Chowdhury & Caragea 2021)."""

    config: CrvnnConfig
    shows_trees = True

    def __init__(self, config: CrvnnConfig, width: int) -> None:
        super().__init__(config, width)
        self.ends = nn.Parameter(torch.randn(2, width))
        self.leaf = nn.Sequential(nn.Linear(width, width), LayerNorm(width))
        self.composition = Composition(width, config.dropout)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        lengths = mask.sum(1)
        h = self.leaf(between(self.ends, x, lengths)) * reaches(lengths)
        return composed(self.composition, h, lengths, generator, self.config)

    @torch.no_grad()
    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the trees that the existence of tokens after each step comes nearest to."""
        pairs = zip(x, lengths_of(mask), strict=True)
        ends, leaf = self.leaf(self.ends), self.leaf
        return [tree_of(self.composition, ends, leaf(row[:length])) for row, length in pairs]

    def reference(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return what `forward` does without dropout: every position of padded strings."""
        lengths, padded = mask.sum(1), pad(x * mask[..., None], (0, 0, 1, 1))
        position = torch.arange(padded.shape[1], device=x.device)
        last = position == lengths[:, None]
        end, real = position == lengths[:, None] + 1, position < lengths[:, None] + 2
        padded = torch.where((position == 0)[:, None], self.ends[0], padded)
        padded = torch.where(end[..., None], self.ends[1], padded)
        h, e = self.leaf(padded) * real[..., None], real.to(x.dtype)
        allowed = (position > 0) & real & ~last & ~end
        alive = torch.ones_like(lengths, dtype=torch.bool)
        for step in range(1, mask.shape[1] + 1):
            after, existing = self._plain_step(h, e, allowed, real)
            h = torch.where(alive[:, None, None], after, h)
            e = torch.where(alive[:, None], existing, e)
            alive = alive & ((e > EXISTS).sum(1) - 2 > 1) & (step < lengths)
            if not alive.any():
                break
        result: Tensor = h[torch.arange(len(h)), lengths]
        return result

    def _plain_step(
        self, h: Tensor, e: Tensor, allowed: Tensor, real: Tensor
    ) -> tuple[Tensor, Tensor]:
        left, right = plain_neighbours(e)
        parts, both = self.composition, torch.stack([left, right], 1)
        near = both @ h[:, None]
        far = both @ near
        window = torch.cat([far[:, 0], near[:, 0], h, near[:, 1], far[:, 1]], 2)
        scores = parts.score(gelu(parts.window(window))).squeeze(2)
        scores = scores.masked_fill(~allowed, -torch.inf)
        largest = scores.amax(1, keepdim=True).clamp(min=0).detach()
        c, stay = (scores - largest).exp(), (-largest).exp()
        beside = (both @ c[:, None, :, None]).sum(1).squeeze(2)
        merges = c / (c + stay + beside + EPSILON)
        share = left @ merges[..., None]
        pairs = torch.cat([near[:, 0], h], 2).flatten(0, 1)
        parents = parts.cell.reference(pairs).view_as(h)
        return (share * parents + (1 - share) * h) * real[..., None], e * (1 - merges)


def composed(
    composition: Composition,
    h: Tensor,
    lengths: Tensor,
    generator: torch.Generator | None,
    config: Any,
) -> Tensor:
    """Return what strings h (N, S + 2, d), ends included, come to: (N, d).

    config: with `halt` and `kept`. Outside of training only so many strings go at once that their
    matrices of neighbours stay small.
    """
    if torch.is_grad_enabled() or generator is not None:
        together: Tensor = composition(h, lengths, generator, config.halt, config.kept)
        return together
    order = lengths.argsort(descending=True, stable=True)
    results, sizes = [], lengths[order].tolist()
    start = 0
    while start < len(order):
        some = order[start : start + max(1, CELLS // (sizes[start] + 2) ** 2)]
        longest = sizes[start] + 2
        results.append(composition(h[some, :longest], lengths[some], halt=config.halt))
        start += len(some)
    result = torch.cat(results)
    return torch.empty_like(result).index_copy(0, order, result)


def tree_of(composition: Composition, ends: Tensor, x: Tensor) -> Tree:
    """Return the tree that tokens x (L, d) between two `ends` (2, d) come nearest to."""
    lengths = torch.tensor([len(x)], device=x.device)
    history: list[Tensor] = []
    composition(between(ends, x[None], lengths), lengths, history=history)
    existences = [existence[0, 1 : len(x) + 1].tolist() for existence in history]
    return by_existence(existences, len(x))


def between(ends: Tensor, x: Tensor, lengths: Tensor) -> Tensor:
    """Return strings x (N, S, d) between the two `ends` (2, d): (N, longest + 2, d).

    The second one follows directly on the last token; what is beyond it is zero.
    """
    longest = int(lengths.max())
    position = torch.arange(longest, device=x.device)
    tokens = torch.where((position < lengths[:, None])[..., None], x[:, :longest], 0)
    start = ends[0].expand(len(x), 1, -1)
    framed = torch.cat([start, tokens, torch.zeros_like(start)], 1)
    places = torch.arange(len(x), device=x.device) * framed.shape[1] + lengths + 1
    end = ends[1:].expand(len(x), -1)
    return framed.flatten(0, 1).index_copy(0, places, end).view_as(framed)


def reaches(lengths: Tensor) -> Tensor:
    """Return 1 where a string with its ends stands and 0 beyond, (N, longest + 2, 1), bool."""
    position = torch.arange(int(lengths.max()) + 2, device=lengths.device)
    return (position < lengths[:, None] + 2)[..., None]


def plain_neighbours(e: Tensor) -> tuple[Tensor, Tensor]:
    """Return soft left and right neighbours (N, S, S) of e (N, S), side by side of the diagonal."""
    sums = e.cumsum(1)
    after = sums[:, None, :] - sums[:, :, None]  # of i+1 .. j
    right = after.clamp(max=1) - (after - e[:, None, :]).clamp(max=1)
    before = (sums - e)[:, :, None] - (sums - e)[:, None, :]  # of j .. i-1
    left = before.clamp(max=1) - (before - e[:, None, :]).clamp(max=1)
    return left.tril(-1), right.triu(1)
