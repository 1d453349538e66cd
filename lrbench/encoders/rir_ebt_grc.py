"""Recursion in recursion with easy-first beam trees inside (`rir_ebt_grc`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "RIR-EBT-GRC": the levels of `rir.py`, with the
beam search of `ebt_grc` on each chunk. Beams are kept from one level to the next: a level begins
with B rows of chunk vectors, whose scores are sums of those of their chunks, and there is one
softmax over beams, at the very end. Chunks' beams are put together by `beam_alignment.py`.

A beam above is valid where the beam of its first chunk is one, as released. Training searches all
levels without a graph and then makes the trees that are left at the end, through all levels at
once: a level is no more than a restriction of which merges come first.

Evaluation is by default that of `ebt_grc` with this beam, on whole strings (`inference=full`), as
in the paper's tables; `inference=rir` chunks in evaluation too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lrbench.checks import at_least, one_of
from lrbench.encoders.base import Tree, lengths_of
from lrbench.encoders.beam_alignment import WAYS, aligned, hashed
from lrbench.encoders.beam_choice import beam_shares
from lrbench.encoders.easy_first import EasyFirst
from lrbench.encoders.easy_first_reference import Reference
from lrbench.encoders.grc import GatedRecursiveCell
from lrbench.encoders.pair_scorer import PairScorer
from lrbench.encoders.rir import RirConfig, RirEncoder
from lrbench.encoders.rir_levels import Level
from lrbench.registry import register_encoder


@dataclass
class RirEbtGrcConfig(RirConfig):
    """Settings of `rir_ebt_grc`, besides those of all `rir_*` (`rir.py`).

    beam: trees that are kept of a chunk. align: of the beams of chunks, `beam`, `random` or `none`.
    score_features: d_s, of each child, at most d.
    """

    inference: str = "full"
    beam: int = 7
    align: str = "beam"
    score_features: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("model.encoder.beam", self.beam, 1)
        one_of("model.encoder.align", self.align, WAYS)
        at_least("model.encoder.score_features", self.score_features, 1)


@register_encoder("rir_ebt_grc", RirEbtGrcConfig, "recursion in recursion, easy-first beams (2023)")
class RirEbtGrc(RirEncoder):
    """Easy-first beam trees over chunks of chunks (Ray Chowdhury & Caragea 2023)."""

    config: RirEbtGrcConfig
    shows_trees = True

    def __init__(self, config: RirEbtGrcConfig, width: int) -> None:
        super().__init__(config, width)
        self.cell = GatedRecursiveCell(width, config.dropout)
        self.scorer = PairScorer(min(config.score_features, width))
        self.without_gradient = self.scorer.without_gradient(config.beam)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        return self._search(x, mask, generator).vectors()

    @torch.no_grad()
    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the tree of each string's best beam, of its positions."""
        return self._search(x, mask, None).trees(lengths_of(mask))

    def _search(self, x: Tensor, mask: Tensor, generator: torch.Generator | None) -> EasyFirst:
        leaves, lengths = self.leaves(x, mask, generator), lengths_of(mask)
        search = EasyFirst(self.cell, self.scorer, leaves, self.config.beam, generator)
        for number, level in enumerate(self.levels(mask, generator is not None)):
            found = search.climb(level)
            if level.several.any():
                uniform = self._draws(found.scores, (level, number, lengths), generator)
                search.choose(self._aligned(found.scores, found.valid, level, uniform))
        return search

    def reference(
        self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return what `forward` does, with each level's search in the released form."""
        leaves, lengths = self.leaves(x, mask, generator), lengths_of(mask)
        plain = Reference(self.cell, self.scorer, len(leaves), self.config.beam, generator)
        h, ids = leaves[:, None], torch.arange(1, len(leaves) + 1)[:, None]
        scores, valid = h.new_zeros(len(h), 1), torch.ones_like(ids, dtype=torch.bool)
        for number, level in enumerate(self.levels(mask, generator is not None)):
            places, inside = level.places(np.arange(len(level.lengths)))
            beams = [(t[places] * inside[..., *(None,) * (t.dim() - 1)]) for t in (h, ids, scores)]
            h, ids, scores, valid = plain.search(
                inside.sum(1),
                beams[0].transpose(1, 2),
                beams[1].transpose(1, 2),
                beams[2].sum(1),
                valid[places[:, 0]],
            )
            if level.several.any():
                uniform = self._draws(scores, (level, number, lengths), generator)
                chosen = self._aligned(scores.detach(), valid, level, uniform)
                ids, scores, valid = (t.gather(1, chosen) for t in (ids, scores, valid))
                h = h.gather(1, chosen[..., None].expand_as(h))
        return torch.einsum("nb,nbd->nd", beam_shares(scores, valid), h)

    def _draws(
        self,
        scores: Tensor,
        where: tuple[Level, int, list[int]],
        generator: torch.Generator | None,
    ) -> Tensor:
        """Return numbers in [0, 1) for the beams of chunks, like their scores (M, B)."""
        if generator is None:
            return hashed(*where, scores.shape[1]).to(scores)
        return torch.empty_like(scores).uniform_(generator=generator)

    def _aligned(self, scores: Tensor, valid: Tensor, level: Level, uniform: Tensor) -> Tensor:
        """Return which beam (M, B) of each chunk goes into each beam above it."""
        several = torch.from_numpy(level.several).to(scores.device)
        return aligned(scores, valid, several, uniform, self.config.align)
