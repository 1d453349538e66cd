"""Counter-based randomness: a symbol is a hash of where it stands, not of what was drawn before.

Position t of row r at step s of a stream is a fixed function of (stream key, s, r, t), computed in
64-bit wrap-around integer arithmetic. The bits are therefore the same on CPU and CUDA, however a
batch is split into rows or a string into segments, and in whatever order the pieces are drawn: a
resumed, replayed or regrouped run sees exactly the data it would have seen.

Each row is a SplitMix64 sequence (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number
generators", figure 17) whose start is itself a hash of key, step and row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

_WORD = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: SplitMix64's step from one position to the next
_ROW_GAMMA = 0xD1342543DE82EF95  # an odd constant unrelated to _GAMMA: the step between rows
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)


@dataclass(frozen=True)
class Stream:
    """A source of random symbols, named by a 63-bit key; `first_row` shifts its rows.

    Row i of `stream.from_row(n)` is row n + i of `stream`, so that a batch may be drawn in parts;
    row i of `stream.only(rows)` is row rows[i].
    """

    key: int
    first_row: int = 0
    rows: tuple[int, ...] | None = None

    @classmethod
    def named(cls, data_seed: int, *purpose: str | int) -> Stream:
        """Return the stream of a data seed and a purpose such as ("test", 500)."""
        digest = hashlib.sha256(json.dumps([data_seed, *purpose]).encode()).digest()
        return cls(int.from_bytes(digest[:8], "big") >> 1)

    def from_row(self, rows: int) -> Stream:
        """Return this stream with its first `rows` rows left out."""
        return replace(self, first_row=self.first_row + rows)

    def only(self, rows: Sequence[int]) -> Stream:
        """Return the stream of some rows of this one, of which there are no more."""
        known = self.numbers(max(rows) + 1, "cpu").tolist()
        return replace(self, first_row=0, rows=tuple(known[row] for row in rows))

    def fold(self, *purpose: str | int) -> Stream:
        """Return a stream unrelated to this one, named by this one's key and a purpose."""
        named = self.named(self.key, *purpose)
        return replace(named, first_row=self.first_row, rows=self.rows)

    def numbers(self, rows: int, device: torch.device | str) -> Tensor:
        """Return the numbers of its first `rows` rows: (rows,) int64."""
        if self.rows is None:
            return torch.arange(self.first_row, self.first_row + rows, device=device)
        if self.first_row + rows > len(self.rows):
            raise ValueError(f"rows {self.first_row} to {self.first_row + rows} of {self.rows}")
        return torch.tensor(self.rows[self.first_row : self.first_row + rows], device=device)


def integers(
    stream: Stream,
    step: int | range,
    rows: int,
    start: int,
    stop: int,
    high: int | Tensor,
    device: torch.device | str,
) -> Tensor:
    """Return positions start..stop-1 of `rows` rows: (rows, stop - start) int64 in [0, high).

    For a range of steps it is the rows of the first, then those of the next, and so on. `high` is
    one bound below 2^31 or a tensor of them, one a position. The range of values is reached by
    multiply-shift of 32 bits, so each value's probability is within 2^-32 of 1/high.
    """
    row = stream.numbers(rows, device)
    row.mul_(_signed(_ROW_GAMMA))
    if isinstance(step, int):
        seeds = _mix_(row.add_(_signed(_step_seed(stream.key, step))))
    else:
        bases = torch.tensor([_signed(_step_seed(stream.key, s)) for s in step], device=device)
        seeds = _mix_((bases[:, None] + row).flatten())
    position = torch.arange(start + 1, stop + 1, device=device).mul_(_signed(_GAMMA))
    word = _mix_(seeds.unsqueeze(1) + position)
    return _shift_right_(word, 32).mul_(high).bitwise_right_shift_(32)


def _step_seed(key: int, step: int) -> int:
    """Hash key and step into 64 bits (Python integers: once a call, exact)."""
    word = 0
    for part in (key, step):
        word = (word + (part + 1) * _GAMMA) & _WORD
        for shift, multiplier in zip(_SHIFTS, (*_MULTIPLIERS, 1), strict=True):
            word = ((word ^ (word >> shift)) * multiplier) & _WORD
    return word


def _mix_(word: Tensor) -> Tensor:
    """Apply SplitMix64's finaliser to every element of an int64 tensor, in place."""
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        word.bitwise_xor_(_shift_right_(word.clone(), shift)).mul_(_signed(multiplier))
    return word.bitwise_xor_(_shift_right_(word.clone(), _SHIFTS[-1]))


def _shift_right_(word: Tensor, bits: int) -> Tensor:
    """Shift right in place, filling with zeros: torch copies the sign bit, so it is masked out."""
    return word.bitwise_right_shift_(bits).bitwise_and_(_WORD >> bits)


def _signed(word: int) -> int:
    """Return the int64 with the bits of an unsigned 64-bit word, as torch wants its scalars."""
    return word - (1 << 64) if word >> 63 else word
