"""Flip-flops: a bit is written now and then, and must be remembered over what is to be ignored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lrbench.checks import fraction
from lrbench.registry import register_task
from lrbench.tasks.automata.moore import UNIT, MooreTask
from lrbench.tasks.base import IGNORE, Carry, Device
from lrbench.tasks.machine import NOWHERE, Drawing, explored
from lrbench.tasks.stream import Stream, integers

WRITE, READ, SKIP, ZERO = range(4)  # symbols; ZERO and the one after it are the bits


@dataclass
class FlipFlopConfig:
    """Settings of `flip_flop`.

    ignore: how likely an instruction is i; w and r share the rest.
    """

    name: str = "flip_flop"
    ignore: float = 0.8

    def __post_init__(self) -> None:
        fraction("task.ignore", self.ignore)

    @property
    def title(self) -> str:
        """How a table calls it: flip_flop (ignore 0.8)."""
        return f"{self.name} (ignore {self.ignore:g})"


@register_task("flip_flop", FlipFlopConfig, "the bit written last (Liu et al. 2023)")
class FlipFlop(MooreTask):
    """Pairs of an instruction and a bit: w writes it, i says to ignore it, r asks the last written.

    The first instruction is w, the last r, and those between i with probability `task.ignore`, else
    w or r; bits are uniform. Asked is at the bit after r, whatever that bit is. Lengths are even.

    Source: Liu et al. 2023, "Exposing attention glitches with flip-flop language modeling"
    (arXiv:2306.00946). There the bit after r is the right one, and a language model foretells it;
    here it is any bit, so that it tells nothing.
    """

    prefixes = False  # they end in r
    length_rule = "even lengths >= 4 (pairs of an instruction and a bit)"

    def __init__(self, config: Any) -> None:
        def step(state: tuple[int, int | None], symbol: int) -> tuple[int, int | None] | None:
            expected, bit = state  # an instruction that waits for its bit, or none; what is written
            if expected < 0:
                valid = symbol < ZERO and (bit is not None or symbol == WRITE)
                kept = None if symbol == WRITE else bit
                return (symbol, kept) if valid else None
            if symbol < ZERO:
                return None
            return (-1 - (expected == READ), symbol - ZERO if expected == WRITE else bit)

        def answer(state: tuple[int, int | None]) -> int | None:
            return state[1] if state[0] == -2 else None

        self.vocabulary, self.class_names = ("w", "r", "i", "0", "1"), ("0", "1")
        super().__init__(config, explored((-1, None), 5, step, answer))

    def valid_length(self, length: int) -> bool:
        """Whether there is room for a w and an r."""
        return length >= 4 and length % 2 == 0

    def drawing(self, length: int) -> Drawing:
        """A pair that writes, pairs by `task.ignore`, and one that reads."""
        ignore, machine = self.config.ignore, self._machine
        bits = machine.evenly((ZERO, ZERO + 1))
        between = bits.copy()  # a state waits for an instruction or for a bit
        rest = (1 - ignore) / 2
        between[machine.table[:, READ] != NOWHERE, :ZERO] = rest, rest, ignore
        first, last = machine.evenly((WRITE,)), machine.evenly((READ,))
        ends = ((1, first), (1, bits)), ((1, last), (1, bits))
        return self._drawn(length, *ends[0], (length - 4, between), *ends[1])

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Look back from each r for the last w."""
        answers = [IGNORE] * len(tokens)
        for place in range(0, len(tokens) - 1, 2):
            if tokens[place] == READ:
                writes = [before for before in range(0, place, 2) if tokens[before] == WRITE]
                answers[place + 1] = tokens[writes[-1] + 1] - ZERO
        return answers

    def _letters(
        self,
        stream: Stream,
        step: int | range,
        rows: int,
        start: int,
        stop: int,
        length: int,
        device: Device,
        carry: Carry | None,
    ) -> Tensor:
        words = integers(stream, step, rows, start, stop, UNIT, device)
        share = round((1 - self.config.ignore) * UNIT)  # of writes and reads
        half = share // 2
        letters: Tensor = (words >= half).long() + (words >= share).long()
        letters[:, 1 - start % 2 :: 2] = ZERO + (words[:, 1 - start % 2 :: 2] >= UNIT // 2).long()
        for place, instruction in ((0, WRITE), (length - 2, READ)):
            if start <= place < stop:
                letters[:, place - start] = instruction
        return letters
