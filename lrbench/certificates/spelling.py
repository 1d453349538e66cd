"""Strings that grow side by side, kept as what each step added and written out only when asked.

Writing out thousands of strings of a hundred thousand symbols takes gigabytes, and copying them at
every step hours. One in a million of them is ever looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]  # of strings side by side, and their states or symbols
Word = tuple[int, ...]


class Spelling(Protocol):
    """B strings of one length."""

    @property
    def length(self) -> int: ...

    def of(self, row: int) -> Word:
        """Return the symbols of one string."""
        ...

    def longer(self, rows: Rows, symbols: Rows) -> Spelling:
        """Return strings `rows`, each with its symbol more."""
        ...

    def picked(self, rows: Rows) -> Spelling:
        """Return strings `rows` alone."""
        ...


@dataclass(frozen=True)
class Grown:
    """Strings that each name a shorter one, in `before`, and the symbol that it was extended by.

    Without `before` they are copies of the empty string.
    """

    before: Grown | None = None
    rows: NDArray[np.int32] | None = None
    symbols: NDArray[np.int32] | None = None
    length: int = 0

    def of(self, row: int) -> Word:
        """Return the symbols of one string, followed back to the first."""
        word: list[int] = []
        at: Grown = self
        while at.before is not None:
            assert at.rows is not None
            assert at.symbols is not None
            word.append(int(at.symbols[row]))
            row, at = int(at.rows[row]), at.before
        return tuple(reversed(word))

    def longer(self, rows: Rows, symbols: Rows) -> Grown:
        """Return strings `rows`, each with its symbol more."""
        return Grown(self, rows.astype(np.int32), symbols.astype(np.int32), self.length + 1)

    def picked(self, rows: Rows) -> Grown:
        """Return strings `rows` alone."""
        if self.before is None:
            return self
        assert self.rows is not None
        assert self.symbols is not None
        return Grown(self.before, self.rows[rows], self.symbols[rows], self.length)


@dataclass(frozen=True)
class Endless:
    """The beginnings, `length` symbols long, of a prefix each and its pattern for ever.

    prefixes (B, p) and patterns (B, v), padded; how long each is in `before` and `period` (B,).
    """

    prefixes: Rows
    before: Rows
    patterns: Rows
    period: Rows
    length: int = 0

    @classmethod
    def of_words(cls, words: Sequence[tuple[Word, Word]]) -> Endless:
        """Return the empty beginnings of (prefix, pattern) pairs."""
        prefixes, before = _padded([prefix for prefix, _ in words])
        patterns, period = _padded([pattern for _, pattern in words])
        return cls(prefixes, before, patterns, period)

    def following(self) -> Rows:
        """Return the symbol that comes next in each string (B,)."""
        rows, n = np.arange(len(self.before)), self.length
        repeated = self.patterns[rows, (n - self.before) % self.period]
        if n >= self.prefixes.shape[1]:
            return np.asarray(repeated)
        return np.where(n < self.before, self.prefixes[:, n], repeated)

    def of(self, row: int) -> Word:
        """Return the symbols of one string."""
        prefix = self.prefixes[row, : self.before[row]].tolist()
        pattern = self.patterns[row, : self.period[row]].tolist()
        repeats = -(-max(0, self.length - len(prefix)) // len(pattern))
        return tuple([*prefix, *(pattern * repeats)][: self.length])

    def longer(self, rows: Rows, symbols: Rows) -> Endless:
        """Return strings `rows`, a symbol longer; it must be the one that follows."""
        mine = self.picked(rows)
        assert np.array_equal(symbols, mine.following())
        return Endless(mine.prefixes, mine.before, mine.patterns, mine.period, self.length + 1)

    def picked(self, rows: Rows) -> Endless:
        """Return strings `rows` alone."""
        if np.array_equal(rows, np.arange(len(self.before))):
            return self
        kept = (part[rows] for part in (self.prefixes, self.before, self.patterns, self.period))
        prefixes, before, patterns, period = kept
        return Endless(prefixes, before, patterns, period, self.length)


def _padded(words: Sequence[Word]) -> tuple[Rows, Rows]:
    """Return words (B, longest), padded with zeros, and how long each is (B,)."""
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    table = np.zeros((len(words), int(lengths.max(initial=0))), dtype=np.int64)
    for row, word in enumerate(words):
        table[row, : len(word)] = word
    return table, lengths


@dataclass(frozen=True)
class WithEnding:
    """Strings `rows` of others, each with the same symbols behind it; they grow no longer."""

    words: Spelling
    rows: Rows
    ending: Word

    @property
    def length(self) -> int:
        return self.words.length + len(self.ending)

    def of(self, row: int) -> Word:
        """Return the symbols of one string."""
        return (*self.words.of(int(self.rows[row])), *self.ending)
