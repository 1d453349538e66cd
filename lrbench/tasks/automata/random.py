"""Random automata by kind: tables drawn until they are what their kind says.

A uniform random table forgets: most have a word after which the state no longer depends on what
came before. So the kind decides what an automaton tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrbench.tasks.machine import Machine, minimised
from lrbench.tasks.stream import Stream, integers

KINDS = ("uniform", "permutation", "reset", "aperiodic")
TARGETS = ("state", "accept")

MOST_STATES, MOST_LETTERS = 100, 100
APERIODIC = (5, 3)  # states and letters whose monoid, of at most 5^5 maps, is listed at each draw

TABLES = 10_000  # drawn before an automaton is said not to exist
ACCEPTANCES = 20  # sets of accepting states drawn for a table
SHARE = (0.3, 0.7)  # of the strings of this length that must be accepted
SHARE_LENGTH = 40

_AT_ONCE = 1000  # tables drawn together: one call to torch for many that are refused
_WORDS, _LONGEST = 200, 10_000  # from which the synchronisation time is measured

Table = NDArray[np.int64]  # (n, k): the state after letter a in state q


@dataclass(frozen=True, eq=False)
class RandomAutomaton:
    """A drawn automaton: starts in state 0, `tables` tables were drawn to find it.

    chances are those of its letters, which are uniform but for a reset. synchronisation is the mean
    number of random letters until the state no longer depends on the first one; None where that
    never happens.
    """

    table: Table
    accepting: tuple[bool, ...]
    chances: tuple[float, ...]
    synchronisation: float | None
    tables: int

    def record(self) -> dict[str, Any]:
        """Return what result.json says of it."""
        return {
            "start": 0,
            "table": self.table.tolist(),
            "accepting": [q for q, accepts in enumerate(self.accepting) if accepts],
            "letter_chances": list(self.chances),
            "synchronisation": self.synchronisation,
            "tables_drawn": self.tables,
        }


@lru_cache(maxsize=64)
def automaton(
    states: int, letters: int, kind: str, seed: int, target: str, reset_p: float
) -> RandomAutomaton:
    """Draw an automaton, a function of the arguments alone.

    Tables are drawn until all states are reachable from state 0, the automaton is minimal for its
    accepting states (drawn again `ACCEPTANCES` times before the table is) and, where acceptance is
    asked, accepts a share of `SHARE` of its strings. Raises ValueError where none of `TABLES` is.
    """
    stream = Stream.named(0, "dfa", "automaton", seed)
    chances = _letter_chances(letters, kind, reset_p)
    for tried, table in enumerate(_tables(stream, states, letters, kind), 1):
        if not _all_reachable(table) or (kind == "aperiodic" and not is_aperiodic(table)):
            continue
        ends = _after(table, chances, SHARE_LENGTH)
        bits = integers(stream.fold("accepting"), tried, ACCEPTANCES, 0, states, 2, "cpu")
        for accepting in bits.bool().tolist():
            share = float(ends[accepting].sum())
            if target == "accept" and not SHARE[0] <= share <= SHARE[1]:
                continue
            if _is_minimal(table, accepting):
                time = _synchronisation(table, chances, stream.fold("words"))
                return RandomAutomaton(table, tuple(accepting), chances, time, tried)
    wanted = "reachable, minimal and balanced" if target == "accept" else "reachable and minimal"
    raise ValueError(
        f"no {kind} automaton of task.states={states} and task.letters={letters} is {wanted}"
        f" among {TABLES:,} tables (task.automaton={seed})\n"
        "take other numbers of states or letters, or another task.kind"
    )


def _letter_chances(letters: int, kind: str, reset_p: float) -> tuple[float, ...]:
    if kind != "reset":
        return (1 / letters,) * letters
    return (*[(1 - reset_p) / (letters - 1)] * (letters - 1), reset_p)


def _tables(stream: Stream, n: int, k: int, kind: str) -> Iterator[Table]:
    """Yield tables of a kind: letters as uniform maps, or as permutations, the last one a reset."""
    for step in range(TABLES // _AT_ONCE):
        if kind in ("permutation", "reset"):
            words = integers(stream, step, _AT_ONCE, 0, n * k, 1 << 31, "cpu").numpy()
            maps = words.reshape(_AT_ONCE, k, n).argsort(2, kind="stable")
        else:
            drawn = integers(stream, step, _AT_ONCE, 0, n * k, n, "cpu").numpy()
            maps = drawn.reshape(_AT_ONCE, k, n)
        if kind == "reset":
            to = integers(stream.fold("reset"), step, _AT_ONCE, 0, 1, n, "cpu").numpy()
            maps[:, -1] = to
        yield from maps.transpose(0, 2, 1)


def _all_reachable(table: Table) -> bool:
    found = [0]
    for state in found:  # grows as states are found
        found += dict.fromkeys(to for to in table[state].tolist() if to not in found)
    return len(found) == len(table)


def is_aperiodic(table: Table) -> bool:
    """Whether no word permutes any states in a cycle: every map of its monoid has f^n = f^(n+1).

    McNaughton & Papert 1971: the languages of such automata are the star-free ones.
    """
    letters = [tuple(column) for column in table.T.tolist()]
    if not all(map(_settles, letters)):
        return False
    seen = set(letters)
    found = list(seen)
    for word in found:  # grows as maps are found
        for letter in letters:
            longer = tuple(letter[state] for state in word)
            if longer not in seen:
                if not _settles(longer):
                    return False
                seen.add(longer)
                found.append(longer)
    return True


def _settles(word: Sequence[int]) -> bool:
    power = word
    for _ in word:
        power = tuple(word[state] for state in power)
    return all(word[state] == state for state in power)


def _after(table: Table, chances: Sequence[float], length: int) -> NDArray[np.float64]:
    """Return how likely each state is after so many letters: (n,)."""
    step = np.zeros((len(table), len(table)))
    for letter, chance in enumerate(chances):
        np.add.at(step, (np.arange(len(table)), table[:, letter]), chance)
    result: NDArray[np.float64] = np.linalg.matrix_power(step, length)[0]
    return result


def _is_minimal(table: Table, accepting: Sequence[bool]) -> bool:
    names = tuple(map(str, range(len(table))))
    edges = tuple(map(tuple, table.tolist()))
    return minimised(Machine(names, 0, edges, tuple(map(int, accepting)))).states == len(table)


def is_synchronising(table: Table) -> bool:
    """Whether some word leads all states to one: every two states can be led together (Černý)."""
    merged = {(q, q) for q in range(len(table))}
    pairs = set(combinations(range(len(table)), 2))
    while True:
        more = {
            (p, q)
            for p, q in pairs - merged
            if any((min(to), max(to)) in merged for to in zip(table[p], table[q], strict=True))
        }
        if not more:
            return pairs <= merged
        merged |= more


def _synchronisation(table: Table, chances: Sequence[float], stream: Stream) -> float | None:
    """Return the mean number of letters until all states are one, over random words."""
    if not is_synchronising(table):
        return None
    bounds = np.cumsum(chances)[:-1]
    states = np.tile(np.arange(len(table)), (_WORDS, 1))
    lengths = np.zeros(_WORDS)
    for place in range(_LONGEST):
        apart = (states != states[:, :1]).any(1)
        if not apart.any():
            return float(lengths.mean())
        lengths += apart
        words = integers(stream, 0, _WORDS, place, place + 1, 1 << 31, "cpu")[:, 0].numpy()
        letters = np.searchsorted(bounds, words / (1 << 31), side="right")
        states = table[states, letters[:, None]]
    return None
