"""Tasks defined by an automaton: letters are drawn, answers are read off the state they lead to.

Groups, random automata, regular languages and bounded stacks are tables of states by letters; they
differ in the table and in how letters are drawn. What they share is here: the walk, in one look-up
a position for all rows of a batch, and drawing where a letter depends on the state.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lrbench.tasks.base import IGNORE, Batch, Carry, Device, Task
from lrbench.tasks.machine import NOWHERE, Chances, Drawing, Machine
from lrbench.tasks.stream import Stream, integers

ASKS = ("all", "last")

UNIT = 1 << 31  # chances are multiples of 1 / UNIT: what `integers` draws below


class MooreTask(Task):
    """A task whose answers are those of a machine; letters are uniform unless told otherwise.

    `asks` "all": at every position the class of the state, nothing where the machine asks nothing;
    "last": at the last position only. A string that the machine has no edge for is asked nothing
    from there on.
    """

    draws_ahead = True

    def __init__(self, config: Any, machine: Machine, asks: str = "all") -> None:
        super().__init__(config)
        self._machine, self.asks, self.by_position = machine, asks, asks == "all"
        # states are kept as their row in the flat table; row Q is for strings that are not valid
        table = machine.table
        dead = torch.full((machine.symbols,), machine.states)
        table[table == NOWHERE] = machine.states
        rows = torch.cat((torch.from_numpy(table).flatten(), dead)) * machine.symbols
        answers = torch.from_numpy(machine.targets)
        answers = torch.cat((answers.masked_fill(answers < 0, IGNORE), torch.tensor([IGNORE])))
        self._edges, self._classes = {"cpu": rows}, {"cpu": answers}

    def machine(self) -> Machine:
        """The automaton that answers."""
        return self._machine

    @property
    def uniform_letters(self) -> bool:
        """Where every letter may come in every state; what overrides `_letters` draws otherwise."""
        own = type(self)._letters is MooreTask._letters and type(self)._tokens is MooreTask._tokens
        return own and bool((self._machine.table != NOWHERE).all())

    def drawing(self, length: int) -> Drawing | None:
        """Uniform letters; None where some letter may not come."""
        if (self._machine.table == NOWHERE).any():
            return None
        return self._drawn(length, (self.positions(length), self._machine.evenly()))

    def _drawn(self, length: int, *stretches: tuple[int, Chances]) -> Drawing:
        """Return the walk of strings that are these stretches, one after the other."""
        return Drawing(stretches, self.last_read(length), at_end=self.asks == "last")

    def answers(self, tokens: Tensor) -> Tensor:
        """Return the targets (B, T) of given whole strings (B, T)."""
        return self._scored(super().answers(tokens), last=True)

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
        """Draw positions start..stop-1 of `length`; `carry` is the state at `start`."""
        return integers(stream, step, rows, start, stop, self._machine.symbols, device)

    def _tokens(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        return self._letters(stream, step, rows, 0, stop, stop, device, None)[:, start:]

    def _pieces(
        self, stream: Stream, batch: int, length: int, segment: int, device: Device, step: int
    ) -> Iterator[Batch]:
        carry: Carry | None = None
        end = self.positions(length)
        for start in range(0, end, segment):
            stop = min(start + segment, end)
            tokens = self._letters(stream, step, batch, start, stop, end, device, carry)
            targets, carry = self._answer(tokens, start, carry)
            lengths = torch.full((batch,), stop - start, device=device)
            yield Batch(tokens, self._scored(targets, last=stop == end), lengths)

    def of_lengths(
        self, stream: Stream, step: int, lengths: Sequence[int], device: Device
    ) -> Batch:
        """Draw rows of the longest; where the last is asked, that is each row's own last."""
        drawn = super().of_lengths(stream, step, lengths, device)
        if self.asks == "all" or not self.prefixes:
            return drawn
        targets, last = self._answer(drawn.tokens, 0, None)[0], drawn.lengths[:, None] - 1
        positions = torch.arange(targets.shape[1], device=targets.device)
        return replace(drawn, targets=targets.masked_fill(positions != last, IGNORE))

    def _answer(self, tokens: Tensor, start: int, carry: Carry | None) -> tuple[Tensor, Carry]:
        """Walk all rows at once; the carry is the states (B,), as rows of the flat table."""
        edges, states = self._on(self._edges, tokens), []
        state = self._first(len(tokens), tokens.device) if carry is None else carry[0]
        for letters in tokens.T.contiguous():
            state = edges.index_select(0, state + letters)
            states.append(state)
        visited = torch.stack(states, 1).div_(self._machine.symbols, rounding_mode="floor")
        return self._on(self._classes, tokens)[visited], (state,)

    def _first(self, rows: int, device: Device) -> Tensor:
        start = self._machine.start * self._machine.symbols
        return torch.full((rows,), start, dtype=torch.int64, device=device)

    def _scored(self, targets: Tensor, last: bool) -> Tensor:
        if self.asks == "last":
            targets[:, : -1 if last else None] = IGNORE
        return targets

    def _on(self, copies: dict[str, Tensor], like: Tensor) -> Tensor:
        """Return the copy of a table that lies where `like` does."""
        place = str(like.device)
        if place not in copies:
            copies[place] = copies["cpu"].to(like.device)
        return copies[place]


class WalkTask(MooreTask):
    """A task whose letters depend on the state: each row is a random walk over the machine."""

    prefixes = False  # how likely letters are may depend on the length

    def __init__(self, config: Any, machine: Machine, asks: str = "all") -> None:
        super().__init__(config, machine, asks)
        self._bounds: dict[tuple[int, str], Tensor] = {}  # by length of strings and device

    @abstractmethod
    def chances(self, length: int) -> Sequence[Sequence[float]]:
        """Return how likely each letter is in each state, (Q, S), in strings of `length`."""

    def drawing(self, length: int) -> Drawing:
        """The chances of letters, as `_letters` rounds them."""
        positions = self.positions(length)
        shares = np.diff(self._shares(positions).numpy(), prepend=0, append=UNIT) / UNIT
        return self._drawn(length, (positions, shares))

    def _shares(self, length: int) -> Tensor:
        """Return where the share of each letter but the last ends, (Q, S - 1) int64 of UNIT."""
        shares = torch.tensor(self.chances(length), dtype=torch.float64).cumsum(1)
        return (shares[:, :-1] * UNIT).round().long()

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
        """Draw a word a position, and take the letter in whose share of [0, 1) it falls."""
        words = integers(stream, step, rows, start, stop, UNIT, device)
        if (place := (length, str(device))) not in self._bounds:
            self._bounds[place] = self._shares(length).to(device)
        bounds = self._bounds[place]
        symbols, edges = self._machine.symbols, self._on(self._edges, words)
        state = self._first(len(words), words.device) if carry is None else carry[0]
        letters = []
        for word in words.T.contiguous():
            letters.append((word[:, None] >= bounds[state // symbols]).sum(1))
            state = edges.index_select(0, state + letters[-1])
        return torch.stack(letters, 1)
