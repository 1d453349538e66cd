"""Recursion in recursion with easy-first beam trees inside (`rir_ebt_grc`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "RIR-EBT-GRC": the levels of `base.py`, with the
beam search of `ebt_grc` on each chunk. Beams are kept from one level to the next: a level begins
with B rows of chunk vectors, whose scores are sums of those of their chunks, and there is one
softmax over beams, at the very end. Chunks' beams are put together by alignment.

A beam above is valid where the beam of its first chunk is one, as released. Training searches all
levels without a graph and then makes the trees that are left at the end, through all levels at
once: a level is no more than a restriction of which merges come first.

Evaluation is by default that of `ebt_grc` with this beam, on whole strings (`inference=full`), as
in the paper's tables; `inference=rir` chunks in evaluation too.

Without alignment the beams of a level's chunks are strung together: beam b above is made of beam b
of every chunk. Alignment draws these anew for each chunk,

    beam 0 as it is;  beams 1 .. B-1 from Categorical(softmax(score of beam)), with replacement

so that likely beams of chunks stand together more often. `random` draws from the valid beams alike,
`none` leaves all as they are. There is nothing to align where a string is one chunk or has one
beam.

In training draws are the generator's. In evaluation with chunks there still are draws: they come
from a hash of the length of the string, the level, the chunk and the beam, so that a string is read
alike whenever it is read. A chunk no longer than the number of beams has fewer beams to draw from.
How many depends on the longest chunk of the batch, so there a string depends on its company.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lrbench.checks import at_least, one_of, only_with
from lrbench.encoders.base import Tree, lengths_of
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.rir.base import ChunkLevel, RirConfig, RirEncoder
from lrbench.encoders.trees.choice import beam_shares
from lrbench.encoders.trees.ebt_grc import EasyFirst
from lrbench.encoders.trees.pair_scores import PairScorer
from lrbench.encoders.trees.reference import ReleasedSearch
from lrbench.registry import register_encoder


@dataclass
class RirEbtGrcConfig(RirConfig):
    """Settings of `rir_ebt_grc`, besides those of all `rir_*` (`base.py`).

    beam: trees that are kept of a chunk. With 1, nothing trains the scores that choose the tree.
    align: of the beams of chunks, `beam`, `random` or `none`. score_features: d_s, of each child,
    at most d.
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
        own, several = type(self).align, self.beam != 1
        only_with("model.encoder.align", self.align, own, several, "model.encoder.beam=2 or more")
        longer = self.chunk > 2  # of two there is one tree, and so one beam
        only_with("model.encoder.align", self.align, own, longer, "model.encoder.chunk=3 or more")
        if self.chunk == 2 and self.inference == "full":
            raise ValueError(
                "model.encoder.chunk=2 leaves no merge to choose in training, so nothing trains "
                "the scores that inference=full chooses by; add model.encoder.inference=rir"
            )


@register_encoder("rir_ebt_grc", RirEbtGrcConfig, "recursion in recursion, easy-first beams (2023)")
class RirEbtGrc(RirEncoder):
    """Easy-first beam trees over chunks of chunks (Ray Chowdhury & Caragea 2023)."""

    config: RirEbtGrcConfig
    shows_trees = True

    def __init__(self, config: RirEbtGrcConfig, width: int) -> None:
        super().__init__(config, width)
        if config.inference == "rir" and config.align != "none" and config.chunk <= config.beam:
            self.company = "the longest chunk of a batch says from how many beams alignment draws"
        self.cell = GatedRecursiveCell(width, config.dropout)
        self.scorer = PairScorer(min(config.score_features, width))
        # a chunk of two is a pair, and there is nothing to choose in training
        beams = 1 if config.chunk == 2 else config.beam
        self.without_gradient = self.scorer.without_gradient(beams)

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
            found = search.climb(*level.indices(np.arange(len(level.lengths))))
            if level.several.any():
                uniform = self._draws(found.scores, (level, number, lengths), generator)
                search.go_on(self._aligned(found.scores, found.valid, level, uniform))
        return search

    def reference(
        self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        """Return what `forward` does, with each level's search in the released form."""
        leaves, lengths = self.leaves(x, mask, generator), lengths_of(mask)
        plain = ReleasedSearch(self.cell, self.scorer, len(leaves), self.config.beam, generator)
        h, ids = leaves[:, None], torch.arange(1, len(leaves) + 1)[:, None]
        scores, valid = h.new_zeros(len(h), 1), torch.ones_like(ids, dtype=torch.bool)
        for number, level in enumerate(self.levels(mask, generator is not None)):
            indices, inside = level.indices(np.arange(len(level.lengths)))
            beams = [(t[indices] * inside[..., *(None,) * (t.dim() - 1)]) for t in (h, ids, scores)]
            h, ids, scores, valid = plain.search(
                inside.sum(1),
                beams[0].transpose(1, 2),
                beams[1].transpose(1, 2),
                beams[2].sum(1),
                valid[indices[:, 0]],
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
        where: tuple[ChunkLevel, int, list[int]],
        generator: torch.Generator | None,
    ) -> Tensor:
        """Return numbers in [0, 1) for the beams of chunks, like their scores (M, B)."""
        if generator is None:
            return hashed(*where, scores.shape[1]).to(scores)
        return torch.empty_like(scores).uniform_(generator=generator)

    def _aligned(self, scores: Tensor, valid: Tensor, level: ChunkLevel, uniform: Tensor) -> Tensor:
        """Return which beam (M, B) of each chunk goes into each beam above it."""
        several = torch.from_numpy(level.several).to(scores.device)
        return aligned(scores, valid, several, uniform, self.config.align)


WAYS = ("beam", "random", "none")
MULTIPLIERS = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64


def aligned(scores: Tensor, valid: Tensor, several: Tensor, uniform: Tensor, way: str) -> Tensor:
    """Return the beam of each chunk that goes into each beam above it, (M, B).

    scores, valid (M, B). several (M,): whether a string has other chunks. uniform (M, B): draws
    in [0, 1); those of beam 0 are not looked at.
    """
    same = torch.arange(scores.shape[1], device=scores.device).expand_as(scores)
    if way == "none":
        return same
    shares = beam_shares(scores if way == "beam" else torch.zeros_like(scores), valid)
    below = shares.cumsum(1)
    drawn = torch.searchsorted(below, uniform * below[:, -1:], right=True)
    # a draw that rounding puts beyond the last beam with a share is that beam's
    last = (shares > 0).long().mul(same).amax(1, keepdim=True)
    moves = several[:, None] & (same > 0)
    return torch.where(moves, torch.minimum(drawn, last), same)


def hashed(level: ChunkLevel, number: int, lengths: list[int], beams: int) -> Tensor:
    """Return draws (M, B) in [0, 1) for the chunks of level `number`, in evaluation."""
    counts = np.bincount(level.strings, minlength=len(lengths))
    chunks = np.arange(len(level.strings)) - np.repeat(counts.cumsum() - counts, counts)
    keys = np.stack([np.asarray(lengths)[level.strings], np.full_like(chunks, number), chunks], 1)
    state = np.zeros((len(chunks), beams), dtype=np.uint64)
    for column in (*keys.T[:, :, None], np.arange(beams)[None]):
        state = _mixed(state + column.astype(np.uint64))
    return torch.from_numpy((state >> np.uint64(11)).astype(np.float64) / 2.0**53)


def _mixed(state: np.ndarray) -> np.ndarray:
    """Return splitmix64 of numbers (Steele, Lea & Flood 2014)."""
    step, first, second = (np.uint64(number) for number in MULTIPLIERS)
    state = state + step
    state = (state ^ (state >> np.uint64(30))) * first
    state = (state ^ (state >> np.uint64(27))) * second
    mixed: np.ndarray = state ^ (state >> np.uint64(31))
    return mixed
