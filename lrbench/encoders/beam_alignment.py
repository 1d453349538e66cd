"""Beam alignment: which beam of each chunk goes into which beam above it (`rir_ebt_grc`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449). The beams of a level's chunks are strung together:
beam b above is made of beam b of every chunk. Alignment draws these anew for each chunk,

    beam 0 as it is;  beams 1 .. B-1 from Categorical(softmax(score of beam)), with replacement

so that likely beams of chunks stand together more often. `random` draws from the valid beams alike,
`none` leaves all as they are. There is nothing to align where a string is one chunk or has one
beam.

In training draws are the generator's. In evaluation with chunks there still are draws: they come
from a hash of the length of the string, the level, the chunk and the beam, so that what a string is
read as depends neither on others in its batch nor on when it is read.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from lrbench.encoders.beam_choice import beam_shares
from lrbench.encoders.rir_levels import Level

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


def hashed(level: Level, number: int, lengths: list[int], beams: int) -> Tensor:
    """Return draws (M, B) in [0, 1) for the chunks of level `number`, in evaluation."""
    counts = np.bincount(level.strings, minlength=len(lengths))
    chunks = np.arange(len(level.strings)) - np.repeat(counts.cumsum() - counts, counts)
    words = np.stack([np.asarray(lengths)[level.strings], np.full_like(chunks, number), chunks], 1)
    state = np.zeros((len(chunks), beams), dtype=np.uint64)
    for column in (*words.T[:, :, None], np.arange(beams)[None]):
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
