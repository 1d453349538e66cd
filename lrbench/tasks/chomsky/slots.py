"""The form of the tasks of Delétang et al. 2023: what is read, then slots where answers are given.

A string of L input symbols is followed by as many copies of one more symbol as there are answers;
each answer is read at one of these slots. Source: "Neural networks and the Chomsky hierarchy"
(arXiv:2207.02098) and its released code, whose generators these tasks have the strings of, in other
random numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from lrbench.tasks.base import IGNORE, Device, WholeTask
from lrbench.tasks.stream import Stream, integers

EMPTY = "?"  # the symbol of a slot
END = 2  # the class that ends an answer of bits; what follows it is trained on and not scored
WORD = 31  # bits of a random word

BITS = ("0", "1")
DIGITS = ("0", "1", "2", "3", "4")
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass
class SlotConfig:
    """Settings of a task with several answers: none but its name."""

    name: str = "???"


@dataclass
class QueryConfig:
    """Settings of a task with one answer a string.

    query: whether it is asked at a query symbol behind the string, as in the source; false: at the
    last input symbol, as some papers do that use the same names.
    """

    name: str = "???"
    query: bool = True

    @property
    def title(self) -> str:
        """How a table calls it."""
        return self.name if self.query else f"{self.name} (no query)"


class SlotTask(WholeTask):
    """A task whose strings are drawn whole, with one slot for each answer.

    It states `symbols` and `class_names`, `_inputs`, `_outputs` and `output`. `level` is its place
    in the hierarchy: dcf (deterministic context-free) or cs (context-sensitive). Of tasks with
    several answers accuracy is the share of scored slots. Numbers are made on the CPU, whatever the
    device: they are few.
    """

    draws_ahead = True
    level: ClassVar[str]
    symbols: ClassVar[tuple[str, ...]]
    terminated: ClassVar[bool] = False

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.query: bool = getattr(config, "query", True)
        self.empty = len(self.symbols)
        self.vocabulary = (*self.symbols, EMPTY) if self.query else self.symbols

    @abstractmethod
    def slots(self, length: int) -> int:
        """How many answers a string of `length` has."""

    @abstractmethod
    def output(self, symbols: Sequence[int]) -> list[int]:
        """Return the answers to the symbols of a string, slowly and obviously right."""

    @abstractmethod
    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        """Draw the symbols of strings of `length`: (rows, length) int64."""

    @abstractmethod
    def _outputs(self, symbols: Tensor) -> Tensor:
        """Return the answers (B, slots) to the symbols (B, L) of strings."""

    def positions(self, length: int) -> int:
        """The symbols and the slots."""
        return length + self.slots(length) if self.query else length

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Ask nothing but at the slots; there what `output` says."""
        symbols = [token for token in tokens if token != self.empty]
        answers = self.output(symbols)
        return [IGNORE] * (len(tokens) - len(answers)) + answers

    def counts(self, targets: Tensor) -> Tensor | None:
        """Return the answers up to the one that ends them, where one does."""
        if not self.terminated:
            return None
        ends = (targets == END).long()
        return (targets != IGNORE) & (ends.cumsum(1) == ends)

    def _strings(
        self, stream: Stream, step: int | range, rows: int, length: int, device: Device
    ) -> Tensor:
        symbols = self._inputs(stream, step, rows, length)
        slots = self.positions(length) - length
        slot = torch.full((len(symbols), slots), self.empty)
        return torch.cat((symbols, slot), 1).to(device)

    def _targets(self, tokens: Tensor) -> Tensor:
        length = int((tokens[0] != self.empty).sum())
        answers = self._outputs(tokens[:, :length].cpu())
        targets = torch.full_like(tokens, IGNORE)
        targets[:, tokens.shape[1] - answers.shape[1] :] = answers
        return targets


class ManyAnswers(SlotTask):
    """A task with several answers a string: its accuracy is the share of scored slots."""

    averaged = True


class OneAnswer(SlotTask):
    """A task with one answer a string."""

    def slots(self, length: int) -> int:
        """One."""
        return 1


def words(stream: Stream, step: int | range, rows: int, count: int) -> Tensor:
    """Return `count` random words a row: (rows, count) int64, uniform below 2^31."""
    return integers(stream, step, rows, 0, count, 1 << WORD, "cpu")


def below(word: Any, high: Any) -> Any:
    """Return what a random word makes of [0, high), high < 2^32: each within 2^-31 of 1/high."""
    return (word * high) >> WORD
