"""Labelled strings, or pairs of strings, side by side in three flat arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

PIECE = 1 << 20  # tokens


@dataclass(frozen=True, eq=False)
class Strings:
    """n labelled strings (`sides` = 1) or pairs of strings (`sides` = 2).

    `tokens` are the token ids of all strings one after the other, `offsets` (n sides + 1,) where
    each begins and where the last ends, `labels` (n,) classes. A pair is two consecutive strings.
    `made` says how they were made; it is kept with them on disk.
    """

    tokens: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    labels: NDArray[np.uint8]
    vocabulary: tuple[str, ...]  # printable symbols; index = token id
    class_names: tuple[str, ...]  # printable answers; index = label
    sides: int = 1
    made: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.labels)
        if self.sides not in (1, 2) or self.offsets.shape != (self.sides * n + 1,):
            raise ValueError(
                f"{n} labels and {self.sides} sides need {self.sides * n + 1} offsets,"
                f" not {len(self.offsets)}"
            )
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.tokens):
            raise ValueError(
                f"offsets must lead from 0 to {len(self.tokens)}, the tokens there are"
            )

    @classmethod
    def join(cls, parts: Sequence[Strings]) -> Strings:
        """Return the strings of several splits of one corpus, one after the other."""
        first = parts[0]
        for part in parts[1:]:
            if (part.vocabulary, part.class_names, part.sides) != (
                first.vocabulary,
                first.class_names,
                first.sides,
            ):
                raise ValueError(
                    "only strings with one vocabulary, classes and sides can be joined"
                )
        ends = np.cumsum([0] + [len(part.tokens) for part in parts])
        return replace(
            first,
            tokens=np.concatenate([part.tokens for part in parts]),
            offsets=np.concatenate(
                [[0], *(part.offsets[1:] + end for part, end in zip(parts, ends, strict=False))]
            ).astype(np.int64),
            labels=np.concatenate([part.labels for part in parts]),
            made={"joined": [dict(part.made) for part in parts]},
        )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many tokens each string has: (n,), of pairs (n, 2)."""
        lengths = np.diff(self.offsets)
        return lengths if self.sides == 1 else lengths.reshape(-1, self.sides)

    def row(self, index: int, side: int = 0) -> NDArray[np.uint8]:
        """Return the tokens of one string, or of one side of a pair: (length,)."""
        place = self.sides * range(len(self))[index] + range(self.sides)[side]
        return self.tokens[self.offsets[place] : self.offsets[place + 1]]

    def text(self, index: int, side: int = 0) -> str:
        """Return one string as a person would write it."""
        return " ".join(map(self.vocabulary.__getitem__, self.row(index, side).tolist()))

    def padded(
        self, rows: ArrayLike, side: int = 0, padding: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (tokens (N, S), lengths (N,)) of some rows; S is the longest of them.

        Tokens from a row's length on are `padding`, by default that of an ordinary symbol: only
        the lengths say what is valid.
        """
        positions = self.sides * np.asarray(rows, dtype=np.int64) + range(self.sides)[side]
        starts = self.offsets[positions]
        lengths = self.offsets[positions + 1] - starts
        position = np.arange(lengths.max(initial=0))
        index = np.minimum(starts[:, None] + position, len(self.tokens) - 1)
        valid = position < lengths[:, None]
        return np.where(valid, self.tokens[index], padding).astype(np.int64), lengths

    def part(self, start: int, stop: int) -> Strings:
        """Return rows start..stop-1, which share memory with all."""
        bounds = self.offsets[self.sides * start : self.sides * stop + 1]
        return replace(
            self,
            tokens=self.tokens[bounds[0] : bounds[-1]],
            offsets=bounds - bounds[0],
            labels=self.labels[start:stop],
        )

    def pieces(self) -> Iterator[Strings]:
        """Yield all rows in parts of about a million tokens, for work that needs much memory."""
        for start, stop in pairwise(piece_bounds(self.offsets[:: self.sides])):
            yield self.part(start, stop)

    def take(self, rows: ArrayLike) -> Strings:
        """Return copies of some rows: numbers of rows in any order, or a boolean for each."""
        chosen = np.asarray(rows)
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        positions = (self.sides * chosen[:, None] + np.arange(self.sides)).ravel()
        tokens, offsets = gather(self.tokens, self.offsets, positions)
        return replace(self, tokens=tokens, offsets=offsets, labels=self.labels[chosen])


def piece_bounds(offsets: NDArray[np.int64]) -> list[int]:
    """Return the rows at which strings can be cut into pieces of about a million tokens."""
    cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], PIECE))
    bounds: list[int] = np.unique(np.append(cuts, len(offsets) - 1)).tolist()
    return bounds


def gather(
    tokens: NDArray[np.uint8], offsets: NDArray[np.int64], positions: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return (tokens, offsets) of the strings at `positions`, copied one after the other."""
    starts = offsets[positions]
    lengths = offsets[positions + 1] - starts
    found = np.concatenate([[0], np.cumsum(lengths)])
    index = np.arange(found[-1])
    index += np.repeat(starts - found[:-1], lengths)
    return tokens[index], found
