"""Which chunks there are at each level of recursion in recursion: a matter of lengths alone.

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), released code. With S positions, padding included,

    while S > 1:
        if S >= k + floor(k / 2):   chunks of k positions, S <- ceil(S / k)
        else:                       one chunk of all S,    S <- 1

so that a short rest never becomes a chunk of its own level. S is that of the padded batch: a string
of 40 beside one of 50 is two chunks for k = 30, and one by itself. `decision` "row" counts each
string's own positions instead.

A chunk whose first position is padding is none at all: levels here list only the others, string by
string and from left to right, of positions that lie in the same order one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

DECISIONS = ("batch", "row")


@dataclass(frozen=True)
class Level:
    """The M chunks of one level.

    strings (M,): the string of each chunk. lengths (M,): its positions, 1 .. size. starts (M,):
    where the first of them lies among the packed ones of the level below. composed (M,): false
    where a chunk is a vector that has already been through all levels of its own string ("row").
    several (M,): whether its string has other chunks at this level, padding counted. size: c.
    """

    strings: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray
    composed: np.ndarray
    several: np.ndarray
    size: int

    def places(self, chunks: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return where positions of some chunks lie, (m, c), 0 at padding, and their mask (m, c).

        c is the longest of them.
        """
        lengths = torch.from_numpy(self.lengths[chunks])
        steps = torch.arange(int(lengths.max()))
        mask = steps < lengths[:, None]
        return (torch.from_numpy(self.starts[chunks])[:, None] + steps) * mask, mask


def levels_of(lengths: list[int], padded: int, chunk: int, decision: str = "batch") -> list[Level]:
    """Return the levels from positions of strings, padded to `padded`, to one vector for each."""
    counts = np.asarray(lengths)
    sizes = np.full_like(counts, padded) if decision == "batch" else counts  # S, of each string
    levels = []
    while sizes.max(initial=1) > 1:
        splits = sizes >= chunk + chunk // 2
        spans = np.where(splits, chunk, sizes)
        chunks = -(-counts // spans)
        levels.append(_level(counts, sizes, spans, chunks))
        counts, sizes = chunks, -(-sizes // spans)
    return levels


def _level(counts: np.ndarray, sizes: np.ndarray, spans: np.ndarray, chunks: np.ndarray) -> Level:
    strings = np.repeat(np.arange(len(counts)), chunks)
    number = np.arange(len(strings)) - np.repeat(chunks.cumsum() - chunks, chunks)
    before = number * spans[strings]
    firsts = np.asarray([0, *accumulate(counts.tolist())][:-1])
    return Level(
        strings,
        np.minimum(counts[strings] - before, spans[strings]),
        firsts[strings] + before,
        sizes[strings] > 1,
        -(-sizes // spans)[strings] > 1,
        int(spans.max()),
    )
