"""Strings moved about: stacks, reversals, copies, sorting (Delétang et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.registry import register_task
from lrbench.tasks.chomsky.slots import (
    BITS,
    DIGITS,
    END,
    ManyAnswers,
    OneAnswer,
    QueryConfig,
    SlotConfig,
    below,
    words,
)
from lrbench.tasks.stream import Stream

POP, PUSH_0, PUSH_1 = 2, 3, 4
HOLE, PAD = 2, 3


class UniformStrings(ManyAnswers):
    """A task over strings of uniform symbols."""

    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        symbols: Tensor = below(words(stream, step, rows, length), len(self.symbols))
        return symbols

    def slots(self, length: int) -> int:
        """As many as symbols."""
        return length


@dataclass
class StackManipulationConfig(SlotConfig):
    """Settings of `nnch_stack_manipulation`."""

    name: str = "nnch_stack_manipulation"


@register_task(
    "nnch_stack_manipulation",
    StackManipulationConfig,
    "what is on a stack after some actions (Delétang et al. 2023)",
)
class StackManipulation(ManyAnswers):
    """Bits on a stack, the last one on top, then actions; the answers are the stack, top first.

    The number of bits is uniform from 1 to L - 1, the rest are actions: POP, PUSH 0, PUSH 1, each
    as likely; a POP of the empty stack does nothing. Answers go on with the class that ends them,
    then 0 to the last of L + 1 slots, which is trained on and not scored. Deterministic
    context-free. A string of one symbol is one bit.
    """

    level = "dcf"
    symbols = (*BITS, "POP", "PUSH0", "PUSH1")
    class_names = (*BITS, "end")
    terminated = True

    def slots(self, length: int) -> int:
        """The largest stack, and its end."""
        return length + 1

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Push and pop a list."""
        stack: list[int] = []
        for symbol in symbols:
            if symbol != POP:
                stack.append(symbol if symbol < POP else symbol - PUSH_0)
            elif stack:
                stack.pop()
        answers = [*reversed(stack), END]
        return answers + [0] * (len(symbols) + 1 - len(answers))

    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        drawn = words(stream, step, rows, length + 1)
        if length == 1:
            bits: Tensor = below(drawn[:, :1], 2)
            return bits
        initial = 1 + below(drawn[:, -1:], length - 1)
        word = drawn[:, :-1]
        actions = POP + below(word, 3)
        return torch.where(torch.arange(length) < initial, below(word, 2), actions)

    def _outputs(self, symbols: Tensor) -> Tensor:
        """Find the pushes that no later pop undoes.

        The height is a walk that cannot go below 0: its sum less the smallest one so far. What was
        pushed stays if the height never falls below its own again.
        """
        rows, length = symbols.shape
        pushed = symbols != POP
        sums = torch.where(pushed, 1, -1).cumsum(1)
        height = sums - sums.cummin(1).values.clamp(max=0)
        after = height.flip(1).cummin(1).values.flip(1)  # the least from here on
        stays = pushed & (after == height)
        final = height[:, -1:]
        answers = torch.zeros(rows, length + 2, dtype=torch.int64)  # the last takes what is gone
        place = torch.where(stays, final - height, length + 1)
        answers.scatter_(1, place, torch.where(symbols < POP, symbols, symbols - PUSH_0))
        return answers.scatter_(1, final, END)[:, :-1]


@dataclass
class ReverseStringConfig(SlotConfig):
    """Settings of `nnch_reverse_string`."""

    name: str = "nnch_reverse_string"


@register_task(
    "nnch_reverse_string",
    ReverseStringConfig,
    "a string of bits backwards (Delétang et al. 2023)",
)
class ReverseString(UniformStrings):
    """Bits, uniform; the answers are the string backwards. Deterministic context-free."""

    level = "dcf"
    symbols = class_names = BITS

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Turn it round."""
        return list(symbols)[::-1]

    def _outputs(self, symbols: Tensor) -> Tensor:
        return symbols.flip(1)


@dataclass
class DuplicateStringConfig(SlotConfig):
    """Settings of `nnch_duplicate_string`."""

    name: str = "nnch_duplicate_string"


@register_task(
    "nnch_duplicate_string",
    DuplicateStringConfig,
    "a string of bits twice (Delétang et al. 2023)",
)
class DuplicateString(UniformStrings):
    """Bits, uniform; the answers are the string, twice. Context-sensitive."""

    level = "cs"
    symbols = class_names = BITS

    def slots(self, length: int) -> int:
        """Two strings."""
        return 2 * length

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Write it twice."""
        return [*symbols, *symbols]

    def _outputs(self, symbols: Tensor) -> Tensor:
        return symbols.repeat(1, 2)


@dataclass
class MissingDuplicateStringConfig(QueryConfig):
    """Settings of `nnch_missing_duplicate_string`."""

    name: str = "nnch_missing_duplicate_string"


@register_task(
    "nnch_missing_duplicate_string",
    MissingDuplicateStringConfig,
    "the bit that is missing in a string written twice (Delétang et al. 2023)",
)
class MissingDuplicateString(OneAnswer):
    """A string of uniform bits written twice, with one bit hidden; the answer is that bit.

    Every one of the 2 (L // 2) places is as likely to be hidden. Odd lengths end in a pad symbol.
    The string of one symbol is the bit 1, with answer 1. Context-sensitive.
    """

    level = "cs"
    symbols = (*BITS, "_", ".")
    class_names = BITS

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Look at the other copy."""
        if len(symbols) == 1:
            return [1]
        half = len(symbols) // 2
        pairs = zip(symbols[:half], symbols[half : 2 * half], strict=True)
        return [b if a == HOLE else a for a, b in pairs if HOLE in (a, b)]

    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        half = length // 2
        drawn = words(stream, step, rows, half + 1)
        if length == 1:
            return torch.ones(len(drawn), 1, dtype=torch.int64)
        bits = below(drawn[:, :half], 2)
        copies = bits.repeat(1, 2).scatter_(1, below(drawn[:, half:], 2 * half), HOLE)
        return torch.cat((copies, torch.full((len(drawn), length % 2), PAD)), 1)

    def _outputs(self, symbols: Tensor) -> Tensor:
        rows, length = symbols.shape
        if length == 1:
            return torch.ones(rows, 1, dtype=torch.int64)
        hole = (symbols == HOLE).long().argmax(1, keepdim=True)
        return symbols.gather(1, (hole + length // 2) % (length // 2 * 2))


@dataclass
class OddsFirstConfig(SlotConfig):
    """Settings of `nnch_odds_first`."""

    name: str = "nnch_odds_first"


@register_task(
    "nnch_odds_first",
    OddsFirstConfig,
    "symbols 1, 3, 5, .. of a string, then 0, 2, 4, .. (Delétang et al. 2023)",
)
class OddsFirst(UniformStrings):
    """Bits, uniform; the answers are x_1 x_3 .. and then x_0 x_2 .., counted from 0.

    So does the released code; its documentation says the opposite. Context-sensitive.
    """

    level = "cs"
    symbols = class_names = BITS

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Take every other one, twice."""
        return [*symbols[1::2], *symbols[0::2]]

    def _outputs(self, symbols: Tensor) -> Tensor:
        return torch.cat((symbols[:, 1::2], symbols[:, 0::2]), 1)


@dataclass
class BucketSortConfig(SlotConfig):
    """Settings of `nnch_bucket_sort`."""

    name: str = "nnch_bucket_sort"


@register_task(
    "nnch_bucket_sort",
    BucketSortConfig,
    "a string of five symbols, sorted (Delétang et al. 2023)",
)
class BucketSort(UniformStrings):
    """Digits 0..4, uniform; the answers are the string, sorted. Context-sensitive.

    Of long strings the place alone tells nine answers in ten: hold every accuracy against that.
    """

    level = "cs"
    symbols = class_names = DIGITS

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Sort it."""
        return sorted(symbols)

    def _outputs(self, symbols: Tensor) -> Tensor:
        return symbols.sort(1).values
