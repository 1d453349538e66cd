"""Arithmetic of binary numbers: sums, products and square roots (Delétang et al. 2023).

Numbers of up to 62 bits are int64, for all rows at once. Longer ones, in tests, are Python's
integers.
"""

from __future__ import annotations

import math
import operator
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from lrbench.registry import register_task
from lrbench.tasks.chomsky.slots import (
    BITS,
    END,
    TIMES,
    WORD,
    ManyAnswers,
    SlotConfig,
    below,
    words,
)
from lrbench.tasks.stream import Stream

NARROW = 62  # bits: sums and squares of roots stay inside int64
SIGN = 2  # the symbol between two numbers


def bits_of(numbers: Tensor, width: int) -> Tensor:
    """Return numbers (N, 1) in [0, 2^62) as bits (N, width), the least first."""
    return (numbers >> torch.arange(width).clamp(max=NARROW)) & 1


def applied(
    function: Callable[..., int], numbers: Sequence[Tensor], width: int, fast: Callable[..., Tensor]
) -> Tensor:
    """Apply an exact function to rows of numbers, bits (N, L), the least first: bits (N, width).

    `fast` is the same function of int64 tensors, for numbers and results that are small.
    """
    length = numbers[0].shape[1]
    if length <= NARROW:
        powers = 1 << torch.arange(length)
        return bits_of(fast(*((bits * powers).sum(1, keepdim=True) for bits in numbers)), width)
    columns = []
    for bits in numbers:
        packed = np.packbits(bits.numpy().astype(np.uint8), axis=1, bitorder="little")
        columns.append([int.from_bytes(row.tobytes(), "little") for row in packed])
    size = width // 8 + 1
    found = b"".join(function(*row).to_bytes(size, "little") for row in zip(*columns, strict=True))
    unpacked = np.unpackbits(
        np.frombuffer(found, dtype=np.uint8).reshape(-1, size), axis=1, bitorder="little"
    )
    return torch.from_numpy(unpacked[:, :width].astype(np.int64))


def positive(word: Tensor, small: Tensor, bits: Tensor) -> Tensor:
    """Draw numbers from 1 to 2^bits - 1, as bits (N, W), the least first; zeros from `bits` on.

    word: random words (N, W), which are the bits of long numbers. small: a word (N, 1), of which
    numbers of up to 31 bits are made: of them 0 cannot be left out bit by bit. A long number is 0
    once in 2^32 times; then it is 1.
    """
    positions = torch.arange(word.shape[1])
    short = 1 + below(small, (1 << bits.clamp(max=WORD)) - 1)
    long = below(word, 2) * (positions < bits)
    long[:, 0] |= (long.sum(1) == 0).long()
    return torch.where(bits <= WORD, bits_of(short, word.shape[1]), long)


class TwoNumbers(ManyAnswers):
    """A task over two binary numbers with a sign between them, both with the least bit first.

    From L = 3 on the first has l bits, uniform from 1 to L - 2, and the second L - 1 - l; each is
    uniform over 1 to 2^bits - 1. Shorter strings are one number from 0 to 2^L - 2, with no sign.
    Answers have no leading zeros; they go on with the class that ends them, then 0, which is
    trained on and not scored.
    """

    level = "cs"
    class_names = (*BITS, "end")
    terminated = True
    fast: ClassVar[Callable[..., Tensor]]
    exact: ClassVar[Callable[..., int]]

    @abstractmethod
    def alone(self, number: Tensor) -> Tensor:
        """Return the answer's bits (N, slots) to strings of one number (N, L)."""

    def split(self, symbols: Sequence[int]) -> list[int]:
        """Return the numbers of one string."""
        text = "".join(self.symbols[symbol] for symbol in symbols)
        return [int(part[::-1], 2) for part in text.split(self.symbols[SIGN])]

    def written(self, number: int | None, length: int) -> list[int]:
        """Return a number as answers; None is no digit at all."""
        digits = "" if number is None else f"{number:b}"[::-1]
        answers = [*map(int, digits), END]
        return answers + [0] * (self.slots(length) - len(answers))

    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        word = words(stream, step, rows, length + 3)
        if length < 3:
            return bits_of(below(word[:, -1:], (1 << length) - 1), length)
        first = 1 + below(word[:, -3:-2], length - 2)
        word, small = word[:, :-3], word[:, -2:]
        left = positive(word, small[:, :1], first)
        # the second number from its place on: shifted there by as many places as come before it
        right = positive(word.flip(1), small[:, 1:], length - 1 - first)
        from_there = (torch.arange(length) - first - 1) % length
        symbols = left + right.gather(1, from_there)
        return symbols.scatter_(1, first, SIGN)

    def _outputs(self, symbols: Tensor) -> Tensor:
        length = symbols.shape[1]
        if length < 3:
            return self.alone(symbols)
        sign = (symbols == SIGN).long().argmax(1, keepdim=True)
        positions = torch.arange(length)
        left = symbols * (positions < sign)
        shifted = symbols.gather(1, (positions + sign + 1) % length)
        right = shifted * (positions < length - 1 - sign)
        bits = applied(type(self).exact, (left, right), self.slots(length), type(self).fast)
        return ended(bits)


def ended(bits: Tensor) -> Tensor:
    """Put the class that ends an answer behind the highest bit that is set, or behind one 0."""
    highest = (bits * torch.arange(1, bits.shape[1] + 1)).amax(1, keepdim=True).clamp(min=1)
    return bits.scatter(1, highest, END)


@dataclass
class BinaryAdditionConfig(SlotConfig):
    """Settings of `nnch_binary_addition`."""

    name: str = "nnch_binary_addition"


@register_task(
    "nnch_binary_addition",
    BinaryAdditionConfig,
    "the sum of two binary numbers (Delétang et al. 2023)",
)
class BinaryAddition(TwoNumbers):
    """Two binary numbers, least bit first, and + between them; the answers are their sum.

    A string of one or two bits has no sign, and the number itself as its answer. Context-sensitive.
    """

    symbols = (*BITS, "+")
    fast = torch.add
    exact = operator.add

    def slots(self, length: int) -> int:
        """The longest sum, and its end."""
        return length + 1

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Add Python's integers."""
        return self.written(sum(self.split(symbols)), len(symbols))

    def alone(self, number: Tensor) -> Tensor:
        """The number."""
        return ended(torch.cat((number, torch.zeros_like(number[:, :1])), 1))


@dataclass
class BinaryMultiplicationConfig(SlotConfig):
    """Settings of `nnch_binary_multiplication`."""

    name: str = "nnch_binary_multiplication"


@register_task(
    "nnch_binary_multiplication",
    BinaryMultiplicationConfig,
    "the product of two binary numbers (Delétang et al. 2023)",
)
class BinaryMultiplication(TwoNumbers):
    """Two binary numbers, least bit first, and x between them; the answers are their product.

    A string of one or two bits has no sign; its answer is L - 1 zeros. Context-sensitive.
    """

    symbols = (*BITS, TIMES)
    fast = torch.mul
    exact = operator.mul

    def slots(self, length: int) -> int:
        """The longest product, and its end."""
        return length

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Multiply Python's integers."""
        numbers = self.split(symbols)
        if len(numbers) == 1:
            return [0] * (len(symbols) - 1) + [END]
        return self.written(math.prod(numbers), len(symbols))

    def alone(self, number: Tensor) -> Tensor:
        """Zeros, and the end."""
        answers = torch.zeros_like(number)
        answers[:, -1] = END
        return answers


@dataclass
class ComputeSqrtConfig(SlotConfig):
    """Settings of `nnch_compute_sqrt`."""

    name: str = "nnch_compute_sqrt"


@register_task(
    "nnch_compute_sqrt",
    ComputeSqrtConfig,
    "the square root of a binary number, rounded down (Delétang et al. 2023)",
)
class ComputeSqrt(ManyAnswers):
    """A number from 1 to 2^L - 1, uniform, highest bit first; the answers are its square root.

    It is rounded down, in ceil(L / 2) bits, the highest first, with zeros before it.
    Context-sensitive.
    """

    level = "cs"
    symbols = class_names = BITS

    def slots(self, length: int) -> int:
        """Half as many as symbols, rounded up."""
        return -(-length // 2)

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Take the root of a Python integer."""
        root = math.isqrt(int("".join(map(str, symbols)), 2))
        return [int(bit) for bit in f"{root:b}".zfill(self.slots(len(symbols)))]

    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        word = words(stream, step, rows, length + 1)
        bits = torch.full((len(word), 1), length)
        return positive(word[:, :-1], word[:, -1:], bits).flip(1)

    def _outputs(self, symbols: Tensor) -> Tensor:
        slots = self.slots(symbols.shape[1])
        return applied(math.isqrt, (symbols.flip(1),), slots, _roots).flip(1)


def _roots(numbers: Tensor) -> Tensor:
    """Return the roots of numbers below 2^62, rounded down: float64's, put right by one."""
    roots = numbers.double().sqrt().long()
    roots -= (roots * roots > numbers).long()
    return roots + ((roots + 1) * (roots + 1) <= numbers).long()
