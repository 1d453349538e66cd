"""Answers at every position, counted: how many are right, and how many strings are right so far.

For tasks that ask at every position (Merrill, Petty & Sabharwal 2024; Siems et al. 2025):
token      the share of asked positions that are right
sequence   the share of strings that are right at all of them
prefix(t)  the share of strings that are right at all of them up to position t
The answer at the final position alone, `accuracy`, is at least prefix there. A guesser among C
classes has 1/C of the tokens and C^-t of the prefixes. Tasks whose answers stand in slots behind
the string have `token` as their accuracy, and `sequence` beside it as `exact`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from lrbench.tasks.base import IGNORE


class PositionCounts:
    """What strings of one length add up to; they come some rows at a time, piece by piece."""

    def __init__(self, length: int) -> None:
        self.strings, self.right, self.scored = 0, 0, 0
        self._prefixes = torch.zeros(length, dtype=torch.int64)  # rows right up to each position
        self._alive: Tensor | None = None  # (rows, 1) of the rows being read
        self._read = 0

    def begin(self, rows: int) -> None:
        """Begin with the first piece of other rows."""
        self.strings, self._alive, self._read = self.strings + rows, None, 0

    def add(self, logits: Tensor, targets: Tensor, scored: Tensor | None = None) -> None:
        """Count the next piece: logits (B, S, C), targets (B, S); those of `scored` (B, S) alone.

        None: all that are not IGNORE. What is not finite is wrong.
        """
        scored = targets != IGNORE if scored is None else scored
        right = (logits.argmax(-1) == targets) & logits.isfinite().all(-1)
        self.right += int((right & scored).sum())
        self.scored += int(scored.sum())
        alive = (right | ~scored).long().cumprod(1)
        if self._alive is not None:
            alive *= self._alive
        self._alive, stop = alive[:, -1:], self._read + targets.shape[1]
        self._prefixes[self._read : stop] += alive.sum(0).cpu()
        self._read = stop

    @property
    def token(self) -> float:
        """The share of asked positions that are right."""
        return self.right / self.scored

    @property
    def sequence(self) -> float:
        """The share of strings that are right at every asked position."""
        return self.prefix(len(self._prefixes))

    def prefix(self, length: int) -> float:
        """The share of strings that are right at every asked position of the first `length`."""
        return int(self._prefixes[length - 1]) / self.strings

    def curve(self, last: int) -> Iterator[tuple[int, float]]:
        """Yield (t, prefix(t)) at t = 1, 2, 3, 4, 6, 8, 12, 16, ..., and at `last`, the length.

        What stands before the string itself, a start symbol, is in every prefix and counts in none.
        """
        before = len(self._prefixes) - last
        powers = [step << shift for shift in range(last.bit_length()) for step in (2, 3)]
        for length in sorted({1, last, *(t for t in powers if t <= last)}):
            yield length, self.prefix(before + length)
