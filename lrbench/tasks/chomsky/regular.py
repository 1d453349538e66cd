"""The regular tasks of Delétang et al. 2023, as automata with a query symbol."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from lrbench.registry import register_task
from lrbench.tasks.automata.moore import MooreTask
from lrbench.tasks.base import IGNORE, Batch, Carry, Device
from lrbench.tasks.chomsky.slots import BITS, DIGITS, EMPTY, TIMES, QueryConfig
from lrbench.tasks.machine import Drawing, Machine, explored
from lrbench.tasks.stream import Stream, integers
from lrbench.tasks.symbols.mod_arith import ModArith, ModArithConfig


def queried(machine: Machine, query: int) -> Machine:
    """Return a machine that asks nothing but at a last symbol, `query`.

    From each state that is asked something the query leads to a state with that answer, and no
    string goes on from there. Before any symbol there is no query. Symbols between those of
    `machine` and the query are in no string.
    """

    def step(state: tuple[str, int], symbol: int) -> tuple[str, int] | None:
        kind, q = state
        if kind == "answer":
            return None
        if symbol == query:
            answer = machine.answers[q]
            return None if kind == "empty" or answer is None else ("answer", answer)
        to = machine.delta[q][symbol] if symbol < machine.symbols else None
        return None if to is None else ("read", to)

    def name(state: tuple[str, int]) -> str:
        kind, number = state
        return machine.names[number] if kind == "read" else kind + f" {number}" * (kind != "empty")

    def answer(state: tuple[str, int]) -> int | None:
        return state[1] if state[0] == "answer" else None

    return explored(("empty", machine.start), query + 1, step, answer, name)


def widened(machine: Machine, symbols: int) -> Machine:
    """Return the machine with more symbols, which are in no string."""
    more = (None,) * (symbols - machine.symbols)
    edges = tuple((*row, *more) for row in machine.delta)
    return replace(machine, delta=edges)


class QueriedTask(MooreTask):
    """A task that asks one thing of a string: at a query behind it, or at its last symbol.

    With a query the automaton has a state for each answer, which the query leads to. `question` is
    how the query is written; `asks_at_query` says whether a task without the setting asks there.
    """

    level: ClassVar[str] = "regular"
    symbols: ClassVar[tuple[str, ...]]
    question: ClassVar[str] = EMPTY
    asks_at_query: ClassVar[bool] = False

    def __init__(self, config: Any, machine: Machine) -> None:
        self.query: bool = getattr(config, "query", self.asks_at_query)
        alphabet = len(self.symbols)
        queried_machine = queried(machine, alphabet) if self.query else widened(machine, alphabet)
        super().__init__(config, queried_machine, "all" if self.query else "last")
        self.by_position = False
        self.vocabulary = (*self.symbols, self.question) if self.query else self.symbols

    @abstractmethod
    def output(self, symbols: Sequence[int]) -> int:
        """Return the answer to the symbols of a string, slowly and obviously right."""

    @property
    def uniform_letters(self) -> bool:
        """Whether nothing is asked by a query, which any symbol might stand in the place of."""
        return not self.query

    def positions(self, length: int) -> int:
        """The symbols and the query."""
        return length + self.query

    def last_read(self, length: int) -> int:
        """The last symbol before the query."""
        return self.positions(length) - 1 - self.query

    def drawing(self, length: int) -> Drawing:
        """Uniform symbols among those that may come, then the query."""
        symbols, evenly = range(len(self.symbols)), self._machine.evenly
        query = (int(self.query), evenly((len(symbols),)))
        return self._drawn(length, (self.last_read(length) + 1, evenly(symbols)), query)

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Ask nothing but at the end; there what `output` says."""
        return [IGNORE] * (len(tokens) - 1) + [self.output(tokens[: len(tokens) - self.query])]

    def of_lengths(
        self, stream: Stream, step: int, lengths: Sequence[int], device: Device
    ) -> Batch:
        """Draw rows of the longest; put the query, if there is one, behind each row's own end."""
        if not self.query:
            return super().of_lengths(stream, step, lengths, device)
        for length in sorted(set(lengths)):
            self._check(len(lengths), length, length)
        ends = [self.positions(length) - 1 for length in lengths]
        tokens = self._tokens(stream, step, len(lengths), 0, max(ends) + 1, device)
        own = torch.tensor(ends, device=device)
        tokens[torch.arange(len(own), device=device), own] = len(self.symbols)
        return Batch(tokens, self.answers(tokens), own + 1)

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
        """Draw symbols, and put the query at the last of `length` positions."""
        end = min(stop, length - self.query)
        drawn = self._symbols(stream, step, rows, start, end, device)
        if stop == end:
            return drawn
        return torch.cat((drawn, drawn.new_full((len(drawn), 1), len(self.symbols))), 1)

    def _symbols(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        """Draw symbols start..stop-1, uniform."""
        return integers(stream, step, rows, start, stop, len(self.symbols), device)


def cycle(steps: Sequence[int], size: int) -> Machine:
    """Return the machine that adds steps[symbol] to a place on a cycle, and answers the place."""
    edges = tuple(tuple((q + step) % size for step in steps) for q in range(size))
    return Machine(tuple(map(str, range(size))), 0, edges, tuple(range(size)))


def first_and_last() -> Machine:
    """Return the machine over two symbols that answers 1 where first and last differ, else 0."""

    def step(state: tuple[int, int] | None, bit: int) -> tuple[int, int]:
        return (bit, bit) if state is None else (state[0], bit)

    def answer(state: tuple[int, int] | None) -> int | None:
        return None if state is None else int(state[0] != state[1])

    def name(state: tuple[int, int] | None) -> str:
        return "no bit" if state is None else f"{state[0]}..{state[1]}"

    return explored(None, 2, step, answer, name)


@dataclass
class ParityCheckConfig(QueryConfig):
    """Settings of `nnch_parity_check`."""

    name: str = "nnch_parity_check"


@register_task(
    "nnch_parity_check",
    ParityCheckConfig,
    "is the number of ones odd? (Delétang et al. 2023)",
)
class ParityCheck(QueriedTask):
    """Bits, uniform; the answer is the number of ones mod 2. Regular."""

    symbols = class_names = BITS

    def __init__(self, config: Any) -> None:
        super().__init__(config, cycle((0, 1), 2))

    def output(self, symbols: Sequence[int]) -> int:
        """Count the ones."""
        return list(symbols).count(1) % 2


@dataclass
class EvenPairsConfig(QueryConfig):
    """Settings of `nnch_even_pairs`."""

    name: str = "nnch_even_pairs"


@register_task(
    "nnch_even_pairs",
    EvenPairsConfig,
    "do first and last bit differ? (Delétang et al. 2023)",
)
class EvenPairs(QueriedTask):
    """Bits, uniform; the answer is the number of unequal neighbours mod 2. Regular.

    That is whether first and last differ, so the polarity is that of the source: 1 where they do.
    `even_pair` answers 1 where they are equal.
    """

    symbols = class_names = BITS

    def __init__(self, config: Any) -> None:
        super().__init__(config, first_and_last())

    def output(self, symbols: Sequence[int]) -> int:
        """Count unequal neighbours."""
        return sum(a != b for a, b in itertools.pairwise(symbols)) % 2


@dataclass
class CycleNavigationConfig(QueryConfig):
    """Settings of `nnch_cycle_navigation`."""

    name: str = "nnch_cycle_navigation"


@register_task(
    "nnch_cycle_navigation",
    CycleNavigationConfig,
    "the place on a cycle of five (Delétang et al. 2023)",
)
class CycleNavigation(QueriedTask):
    """Moves left, stay and right on a cycle of five, uniform; the answer is the place. Regular.

    It begins at place 0; left goes from 0 to 4.
    """

    symbols = ("left", "stay", "right")
    class_names = DIGITS

    def __init__(self, config: Any) -> None:
        super().__init__(config, cycle((-1, 0, 1), 5))

    def output(self, symbols: Sequence[int]) -> int:
        """Walk."""
        return sum({"left": -1, "stay": 0, "right": 1}[self.symbols[s]] for s in symbols) % 5


@dataclass
class ModularArithmeticConfig(QueryConfig):
    """Settings of `nnch_modular_arithmetic`."""

    name: str = "nnch_modular_arithmetic"


@register_task(
    "nnch_modular_arithmetic",
    ModularArithmeticConfig,
    "value mod 5 of an expression without brackets (Delétang et al. 2023)",
)
class ModularArithmetic(QueriedTask):
    """Digits 0..4 at even places, operators at odd ones; the answer is the value mod 5. Regular.

    Multiplication comes before addition and subtraction; all choices are uniform. Lengths are odd:
    the source shortens an even one by one. Its blank, a ninth symbol, is in no string. The strings
    are those of `mod_arith`, which asks at every number.
    """

    symbols = (*DIGITS, "+", "-", TIMES, "_")
    class_names = DIGITS
    length_rule = "odd lengths >= 1 (number, operator, ..., number)"

    def __init__(self, config: Any) -> None:
        self.expressions = ModArith(ModArithConfig())
        super().__init__(config, self.expressions.machine())

    def valid_length(self, length: int) -> bool:
        """Whether `length` is odd: an expression begins and ends with a number."""
        return length >= 1 and length % 2 == 1

    def output(self, symbols: Sequence[int]) -> int:
        """Evaluate the expression from scratch."""
        return self.expressions._value(symbols)

    def _symbols(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        """Draw what `mod_arith` draws from a stream."""
        return self.expressions._tokens(stream, step, rows, start, stop, device)
