"""The exact answer of a task as a finite automaton: a Moore machine over its symbols.

A machine says of every string what its last position's answer is, in one step a symbol. It is what
searches for wrong strings walk along, and what proofs for all lengths are checked against. Edges
may be missing: no valid string of the task continues that way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

NOWHERE = -1  # in `Machine.table`: no valid string goes on with this symbol
UNASKED = -1  # in `Machine.targets`: nothing is asked here

State = Any  # whatever a task describes its states by; hashable
Chances = NDArray[np.float64]


@dataclass(frozen=True)
class Drawing:
    """How the symbols of strings of one length are drawn: a random walk over a machine.

    stretches: pairs of a number of positions and the probabilities (Q, S) that a symbol is drawn
    there in a state; one after the other they are the string. read: the place of the last symbol
    that is no query. at_end: whether nothing counts as asked before the last position.
    """

    stretches: tuple[tuple[int, Chances], ...]
    read: int
    at_end: bool = False


@dataclass(frozen=True)
class Machine:
    """Q states over S symbols.

    names: what each state stands for. start: the state before the first symbol. delta[q][s]: the
    state after symbol s in state q, None where no valid string goes on so. answers[q]: the class
    asked of a string that ends in q, None where nothing is asked. The empty string is asked
    nothing, whatever stands at `start`.
    """

    names: tuple[str, ...]
    start: int
    delta: tuple[tuple[int | None, ...], ...]
    answers: tuple[int | None, ...]

    def __post_init__(self) -> None:
        states, symbols = len(self.names), len(self.delta[0])
        if len(self.delta) != states or len(self.answers) != states:
            raise ValueError(f"{states} names, {len(self.delta)} rows, {len(self.answers)} answers")
        if any(len(row) != symbols for row in self.delta):
            raise ValueError("every state needs an edge, or None, for every symbol")
        targets = {q for row in self.delta for q in row if q is not None} | {self.start}
        if not all(0 <= q < states for q in targets):
            raise ValueError(f"edges lead to states 0 to {states - 1}, not {sorted(targets)}")

    @property
    def states(self) -> int:
        """How many states there are: Q."""
        return len(self.names)

    @property
    def symbols(self) -> int:
        """How many symbols there are: S."""
        return len(self.delta[0])

    @property
    def table(self) -> NDArray[np.int64]:
        """The edges as an array (Q, S), `NOWHERE` where there is none."""
        rows = [[NOWHERE if to is None else to for to in row] for row in self.delta]
        return np.array(rows, dtype=np.int64)

    @property
    def targets(self) -> NDArray[np.int64]:
        """The answers as an array (Q,), `UNASKED` where nothing is asked."""
        return np.array([UNASKED if one is None else one for one in self.answers], dtype=np.int64)

    def evenly(self, symbols: Sequence[int] | None = None) -> Chances:
        """Return probabilities (Q, S): uniform over the edges of a state, or those of `symbols`.

        A state without such an edge has a row of zeros.
        """
        there = self.table != NOWHERE
        if symbols is not None:
            there &= np.isin(np.arange(self.symbols), symbols)
        chances: Chances = there / np.maximum(there.sum(1, keepdims=True), 1)
        return chances

    def shortest_endings(self) -> list[tuple[int, ...]]:
        """Return of each state that asks nothing the fewest symbols to one that asks, else none."""
        endings: list[tuple[int, ...]] = [()] * self.states
        known = {q for q, answer in enumerate(self.answers) if answer is not None}
        while True:
            found = {
                state: (symbol, *endings[to])
                for state, following in enumerate(self.delta)
                if state not in known
                for symbol, to in enumerate(following)
                if to is not None and to in known
            }
            if not found:
                return endings
            for state, ending in found.items():
                endings[state] = ending
            known |= set(found)

    def walk(self, tokens: Iterable[int]) -> list[int]:
        """Return the state after each symbol. Raises ValueError for a string that is not valid."""
        state, visited = self.start, []
        for place, token in enumerate(tokens, 1):
            to = self.delta[state][token] if 0 <= token < self.symbols else None
            if to is None:
                raise ValueError(f"symbol {place} cannot be {token} in a valid string")
            state = to
            visited.append(state)
        return visited

    def run(self, tokens: Iterable[int]) -> list[int | None]:
        """Return the answer at each position, None where nothing is asked; ValueError as `walk`."""
        return [self.answers[state] for state in self.walk(tokens)]


def explored(
    start: State,
    symbols: int,
    step: Callable[[State, int], State | None],
    answer: Callable[[State], int | None],
    name: Callable[[State], str] = str,
    most: int = 1_000_000,
) -> Machine:
    """Return the machine of all states that `step` reaches from `start`, in breadth-first order.

    step(state, symbol) is None where no valid string goes on. Raises ValueError beyond `most`
    states: then it is not finite, or too large to walk along.
    """
    number: dict[Hashable, int] = {start: 0}
    found: list[State] = [start]
    delta: list[tuple[int | None, ...]] = []
    for state in found:  # grows as states are found
        row: list[int | None] = []
        for symbol in range(symbols):
            to = step(state, symbol)
            if to is not None and to not in number:
                if len(found) == most:
                    raise ValueError(f"more than {most:,} states")
                number[to] = len(found)
                found.append(to)
            row.append(None if to is None else number[to])
        delta.append(tuple(row))
    answers = tuple(answer(state) for state in found)
    return Machine(tuple(map(name, found)), 0, tuple(delta), answers)


def minimised(machine: Machine) -> Machine:
    """Return the smallest machine with the same answers and the same missing edges.

    Moore's partition refinement: states are told apart by their answers and edges, then by the
    parts that their edges lead to. A state takes the name of the first that it stands for. States
    that cannot be reached from the start must be gone already (`explored` makes none).
    """
    part = _numbered(zip(machine.answers, map(_missing, machine.delta), strict=True))
    while True:
        signatures = [
            (part[q], tuple(None if to is None else part[to] for to in row))
            for q, row in enumerate(machine.delta)
        ]
        finer = _numbered(signatures)
        if max(finer) == max(part):
            break
        part = finer
    first = [part.index(number) for number in range(max(part) + 1)]
    delta = tuple(tuple(None if to is None else part[to] for to in machine.delta[q]) for q in first)
    names = tuple(machine.names[q] for q in first)
    return Machine(names, part[machine.start], delta, tuple(machine.answers[q] for q in first))


def _missing(row: Sequence[int | None]) -> tuple[bool, ...]:
    return tuple(to is None for to in row)


def _numbered(signatures: Iterable[Hashable]) -> list[int]:
    """Number equal things alike, in the order in which they first come."""
    number: dict[Hashable, int] = {}
    return [number.setdefault(signature, len(number)) for signature in signatures]
