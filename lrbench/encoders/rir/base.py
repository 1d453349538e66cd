"""Recursion in recursion: a shallow outer tree of chunks around any inner encoder.

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449):

    leaves    h = LN(W_0 x' + b_0),   x' = S4D(x), or x itself
    a level   chunks of k vectors (`levels_of`) -> the inner encoder -> a vector for each chunk

until one vector is left for each string: about log_k S levels, all with the same inner encoder.
Leaves are made once, before all levels. With k = 2 the tree is the balanced one; with k >= S there
is one chunk, the string.

What an inner encoder without beams has to be is the `forward` of an `Encoder`,

    inner(x (M, c, d), mask (M, c), generator) -> (M, d),

called once a level on the chunks of all strings; one that keeps beams between levels
(`rir_ebt_grc.py`) walks the levels itself. Because chunks depend on how far a batch is padded, so
do results, unless every string of it is shorter than 1.5 k.

Which chunks there are at each level is a matter of lengths alone. As released, with S positions,
padding included,

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lrbench.checks import UNBOUNDED, between, fraction, one_of, only_with
from lrbench.encoders.base import Encoder, Tree, folded, lengths_of
from lrbench.encoders.sequence.s4d_layer import S4dLayer
from lrbench.kernels.normalisation import LayerNorm
from lrbench.mixers.base import ParameterRule

DECISIONS = ("batch", "row")


@dataclass(frozen=True)
class ChunkLevel:
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

    def indices(self, chunks: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return where positions of some chunks lie, (m, c), 0 at padding, and their mask (m, c).

        c is the longest of them.
        """
        lengths = torch.from_numpy(self.lengths[chunks])
        steps = torch.arange(int(lengths.max()))
        mask = steps < lengths[:, None]
        return (torch.from_numpy(self.starts[chunks])[:, None] + steps) * mask, mask


def levels_of(
    lengths: list[int], padded: int, chunk: int, decision: str = "batch"
) -> list[ChunkLevel]:
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


def _level(
    counts: np.ndarray, sizes: np.ndarray, spans: np.ndarray, chunks: np.ndarray
) -> ChunkLevel:
    strings = np.repeat(np.arange(len(counts)), chunks)
    number = np.arange(len(strings)) - np.repeat(chunks.cumsum() - chunks, chunks)
    before = number * spans[strings]
    firsts = np.asarray([0, *accumulate(counts.tolist())][:-1])
    return ChunkLevel(
        strings,
        np.minimum(counts[strings] - before, spans[strings]),
        firsts[strings] + before,
        sizes[strings] > 1,
        -(-sizes // spans)[strings] > 1,
        int(spans.max()),
    )


INFERENCES = ("rir", "full")
ROUNDING = 1e-8
ROUNDING_REASON = "convolutions of another length round differently"
PADDING_REASON = "a batch is cut into chunks by its padded length, once that is 1.5 chunks"

Inner = Callable[[Tensor, Tensor, torch.Generator | None], Tensor]


@dataclass
class RirConfig:
    """Settings that every `rir_*` encoder has; those with another default say so.

    dropout: of the cell's hidden layer. chunk: k. chunk_decision: `batch` (as released) or `row`,
    whose positions say when to chunk. inference: `rir`, chunks in evaluation too, or `full`, the
    inner encoder on whole strings then. s4d: whether the S4D layer comes before the leaves.

    s4d_dropout: of that layer's channels. s4d_detach_backward: no gradient through its backward
    half, as released.
    """

    dropout: float = 0.1
    chunk: int = 30
    chunk_decision: str = "batch"
    inference: str = "rir"
    s4d: bool = True
    s4d_dropout: float = 0.1
    s4d_detach_backward: bool = True

    def __post_init__(self) -> None:
        fraction("model.encoder.dropout", self.dropout)
        fraction("model.encoder.s4d_dropout", self.s4d_dropout)
        between("model.encoder.chunk", self.chunk, 2, UNBOUNDED)
        one_of("model.encoder.chunk_decision", self.chunk_decision, DECISIONS)
        one_of("model.encoder.inference", self.inference, INFERENCES)
        own, share, detach = type(self), self.s4d_dropout, self.s4d_detach_backward
        read, other = self.s4d or share == 0, "model.encoder.s4d=true"  # presets say 0
        only_with("model.encoder.s4d_dropout", share, own.s4d_dropout, read, other)
        key = "model.encoder.s4d_detach_backward"
        only_with(key, detach, own.s4d_detach_backward, self.s4d, other)


class RirLeaves(nn.Module):
    """x' = S4D(x) or x, then LN(W_0 x' + b_0); `norm` is the batch normalisation of S4D."""

    def __init__(self, config: RirConfig, width: int, norm: bool = False) -> None:
        super().__init__()
        detach, dropout = config.s4d_detach_backward, config.s4d_dropout
        layer = S4dLayer(width, dropout=dropout, norm=norm, detach_backward=detach)
        self.s4d = layer if config.s4d else None
        self.map = nn.Sequential(nn.Linear(width, width), LayerNorm(width))

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Map x (N, S, d) with mask (N, S) to leaves, string by string: (L_1 + .. + L_N, d)."""
        if self.s4d is not None:
            x = self.s4d(x, mask, generator)
        leaves: Tensor = self.map(x[mask])
        return leaves

    def rules(self) -> dict[str, ParameterRule]:
        """Return the rules of the parameters of the S4D layer."""
        if self.s4d is None:
            return {}
        return {f"s4d.spaces.{name}": rule for name, rule in self.s4d.spaces.rules().items()}


class RirEncoder(Encoder):
    """What encoders of recursion in recursion share: leaves, and the levels of a batch."""

    config: RirConfig

    def __init__(self, config: RirConfig, width: int, norm: bool = False) -> None:
        super().__init__(config, width)
        own = config.inference == "full" or config.chunk_decision == "row"
        self.padding = ROUNDING if own else None
        self.padding_reason = ROUNDING_REASON if own else PADDING_REASON
        self.leaves = RirLeaves(config, width, norm)
        # the detached half is computed and not differentiated
        self.exact_gradient = not (config.s4d and config.s4d_detach_backward)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return {f"leaves.{name}": rule for name, rule in self.leaves.rules().items()}

    def levels(self, mask: Tensor, training: bool) -> list[ChunkLevel]:
        """Return the levels of strings with mask (N, S)."""
        config: Any = self.config
        whole = not training and config.inference == "full"
        chunk = max(2, mask.shape[1]) if whole else config.chunk
        return levels_of(lengths_of(mask), mask.shape[1], chunk, config.chunk_decision)

    @torch.no_grad()
    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the trees of chunks of chunks, each by `chunk_trees`, as in evaluation."""
        packed: Tensor = self.leaves(x, mask)
        found: list[Tree] = [place for length in lengths_of(mask) for place in range(length)]
        for level in self.levels(mask, training=False):
            chunks = np.flatnonzero(level.composed)
            below, real = gather(packed, level, chunks)
            read = dict(zip(chunks.tolist(), self.chunk_trees(below, real), strict=True))
            found = [
                grafted(read[number], found[start : start + length]) if composed else found[start]
                for number, (start, length, composed) in enumerate(
                    zip(level.starts, level.lengths, level.composed, strict=True)
                )
            ]
            packed = ascend(self.compose, packed, level, None)
        return found

    def compose(self, x: Tensor, mask: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return a vector for each chunk: x (M, c, d), mask (M, c) -> (M, d)."""
        raise NotImplementedError(f"{type(self).__name__} has no inner encoder of chunks")

    def chunk_trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return how `compose` reads each chunk: a tree over its positions, from 0."""
        raise NotImplementedError(f"{type(self).__name__} has no trees of chunks")

    def recurse(
        self, inner: Inner, x: Tensor, mask: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Return a vector for each string (N, d): leaves, then one call of `inner` a level."""
        packed: Tensor = self.leaves(x, mask, generator)
        for level in self.levels(mask, generator is not None):
            packed = ascend(inner, packed, level, generator)
        return packed


def ascend(
    inner: Inner, packed: Tensor, level: ChunkLevel, generator: torch.Generator | None
) -> Tensor:
    """Return vectors of chunks (M, d) for those of the packed positions below (T, d)."""
    chunks = np.flatnonzero(level.composed)
    below, mask = gather(packed, level, chunks)
    above = inner(below, mask, generator)
    if len(chunks) == len(level.composed):
        return above
    starts = torch.from_numpy(level.starts).to(packed.device)
    return packed.index_select(0, starts).index_copy(
        0, torch.from_numpy(chunks).to(packed.device), above
    )


def gather(packed: Tensor, level: ChunkLevel, chunks: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return the vectors of chunks (m, c, d), 0 at padding, and their mask (m, c)."""
    indices, mask = (tensor.to(packed.device) for tensor in level.indices(chunks))
    below = packed.index_select(0, indices.flatten()).view(*indices.shape, -1)
    return below * mask[..., None], mask


def grafted(tree: Tree, parts: Sequence[Tree]) -> Tree:
    """Return `tree` with parts[i] in the place of leaf i; however deep it is."""

    def part(leaf: int) -> Tree:
        return parts[leaf]

    def join(left: Tree, right: Tree) -> Tree:
        return left, right

    return folded(tree, part, join)
