"""Strings that a model gets wrong, the shortest that three searches find.

Accuracy on random strings does not see a string that is drawn once in 2.4e8. So strings are not
drawn here but sought, cheapest first:

    complete   every valid string up to a length: what is found is the shortest there is
    families   w v v v ...: a short prefix and a short pattern for ever, where most drifts show
    beam       symbol after symbol, the strings of each state that were answered most narrowly

What is found is made shorter by leaving out parts of it, and is put to the model once more as a
whole, as an evaluation reads it, before it counts: rounding differs between the two ways.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lrbench.certificates.reader import SymbolReader, chosen
from lrbench.tasks.machine import NOWHERE, Machine

Tokens = NDArray[np.int16]  # strings (B, n), small because the longest have a thousand symbols
Rows = NDArray[np.int64]  # of strings side by side, and their states or symbols

FLOATS = 1 << 25  # carried numbers that are held at once
ROWS = 8192  # strings stepped side by side, at most
SETTLED = 64  # symbols after which only the narrowest families go on
NARROWEST = 2000  # of them
DIGITS = 6  # to which margins of a beam differ
FEWEST_IN_BEAM = 600  # over all states, of tasks that have few
# (longest prefix, longest pattern) of families, the first that fits is taken
FAMILIES = ((3, 4), (3, 3), (2, 3), (2, 2), (1, 2), (1, 1), (0, 1))


@dataclass(frozen=True)
class SearchBudget:
    """How far each search goes.

    complete: every string is tried up to the greatest length that has so many valid ones.
    families: infinite words side by side. beam: strings kept for each state of the task. longest:
    symbols of the longest string that families and beam reach. Zero turns a search off. seconds:
    after so many nothing more is tried, and what was found stands; None: it takes what it takes.
    """

    complete: int = 2_000_000
    families: int = 20_000
    beam: int = 100
    longest: int = 1000
    seconds: float | None = None


@dataclass(frozen=True)
class Witness:
    """A string that the model gets wrong at its last position, read as an evaluation reads it.

    given is None where the logits are not finite. found_by: complete, families or beam. shortest:
    whether every shorter string was tried and found right.
    """

    tokens: tuple[int, ...]
    given: int | None
    right: int
    found_by: str
    shortest: bool
    rarity: float  # how many strings of this length are drawn until it comes, on average

    @property
    def length(self) -> int:
        return len(self.tokens)


@dataclass
class WitnessSearch:
    """What a search found, and how far it went.

    complete_to: every valid string of up to so many symbols is right (0: not asked). least_margin:
    the narrowest right answer that was met, in logits, and of which string. unconfirmed: strings
    wrong symbol by symbol, and right when read as a whole. out_of_time: the budget's seconds had
    passed, so that the searches did not go as far as they might.
    """

    budget: SearchBudget
    witness: Witness | None = None
    complete_to: int = 0
    families_to: int = 0
    beam_to: int = 0
    strings: int = 0
    least_margin: float = float("inf")
    least_margin_at: tuple[int, ...] = ()
    unconfirmed: int = 0
    out_of_time: bool = False
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


def search(
    model: nn.Module,
    machine: Machine,
    budget: SearchBudget | None = None,
    device: torch.device | str = "cpu",
) -> WitnessSearch:
    """Search for the shortest string that `model` gets wrong; the model is left in eval mode.

    Raises UserError for a model without a carried state.
    """
    began = time.perf_counter()
    seeker = _Seeker(SymbolReader(model, device), machine, budget or SearchBudget())
    try:
        seeker.all_strings()
        if seeker.found.witness is None:
            seeker.families()
            seeker.beam()
            seeker.shorten()
    except _OutOfTime:
        seeker.found.out_of_time = True
    shortest = seeker.found.witness
    if shortest is not None:  # shortened below what was read symbol by symbol
        seeker.found.complete_to = min(seeker.found.complete_to, shortest.length - 1)
    seeker.found.seconds = time.perf_counter() - began
    return seeker.found


class _OutOfTime(Exception):
    """The seconds of the budget have passed."""


@dataclass
class _Front:
    """Strings side by side, one symbol a step: what they are, their states here and in the model.

    margins are of the last position that was asked, infinite before any.
    """

    tokens: Tokens  # (B, n)
    at: Rows  # states of the machine (B,)
    states: Any
    margins: NDArray[np.float64]


class _Seeker:
    """The three searches over one model, and what they found so far."""

    def __init__(self, reader: SymbolReader, machine: Machine, budget: SearchBudget) -> None:
        self.reader, self.machine, self.budget = reader, machine, budget
        self.table, self.asked = machine.table, machine.asked
        self.found = WitnessSearch(budget)
        seconds = float("inf") if budget.seconds is None else budget.seconds
        self.until = time.monotonic() + seconds
        numbers = reader.numbers(machine.symbols)
        if getattr(reader.model, "state_size", 0) is None:  # it grows with the string
            numbers *= budget.longest
        self.rows = max(16, min(ROWS, FLOATS // (numbers * machine.symbols)))
        self.most = max(16, FLOATS // numbers)

    def _watch_the_time(self) -> None:
        if time.monotonic() >= self.until:
            raise _OutOfTime

    # --- every string

    def all_strings(self) -> None:
        """Try every valid string up to the length that the budget allows, shortest first found."""
        length = self._complete_length()
        if length == 0:
            return
        start = _Front(
            np.zeros((1, 0), np.int16), np.array([self.machine.start]), None, np.array([np.inf])
        )
        self._descend(start, length)
        witness = self.found.witness
        if witness is None:
            self.found.complete_to = length
        else:
            self.found.complete_to = witness.length - 1
            self.found.witness = replace(witness, shortest=True)

    def _complete_length(self) -> int:
        """The greatest length with no more valid strings than may be tried."""
        ending, length = np.zeros(self.machine.states), 0
        ending[self.machine.start] = 1
        while True:
            following = np.zeros_like(ending)
            for symbol in range(self.machine.symbols):
                to = self.table[:, symbol]
                np.add.at(following, to[to != NOWHERE], ending[to != NOWHERE])
            if following.sum() > self.budget.complete or not following.any() or length >= 10_000:
                return length
            ending, length = following, length + 1

    def _descend(self, front: _Front, left: int) -> None:
        """Try all that `front` can be continued to, `left` symbols further at most."""
        witness = self.found.witness
        if left == 0 or (witness is not None and front.tokens.shape[1] + 1 >= witness.length):
            return
        for start in range(0, len(front.tokens), self.rows):
            part = _part(front, np.arange(start, min(start + self.rows, len(front.tokens))))
            self._descend(self._extended(part, "complete"), left - 1)

    # --- families

    def families(self) -> None:
        """Follow prefixes with a pattern for ever, all in step, to the first that is wrong."""
        words = self._words()
        if not words:
            return
        endless = np.array([_unrolled(*word, self._longest()) for word in words], np.int16)
        front: _Front | None = None
        for n in range(self._longest()):
            if front is None:
                count = len(words)
                at = np.full(count, self.machine.start)
                front = _Front(np.zeros((count, 0), np.int16), at, None, np.full(count, np.inf))
            front = self._with(
                front, np.arange(len(front.at)), endless[:, n].astype(np.int64), "families"
            )
            self.found.families_to = n + 1
            if self._shorter_than(n + 2):
                return
            if n + 1 == SETTLED and len(front.at) > NARROWEST:
                kept = np.argsort(front.margins, kind="stable")[:NARROWEST]
                front, endless = _part(front, kept), endless[kept]

    def _words(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Prefixes and patterns, each infinite word once, as many as the budget allows."""
        for longest_prefix, longest_pattern in FAMILIES:
            words = []
            most = min(self.budget.families, self.most)
            for word in self._valid_words(longest_prefix, longest_pattern):
                words.append(word)
                if len(words) > most:
                    break
            if len(words) <= most:
                return words
        return []

    def _valid_words(
        self, prefix: int, pattern: int
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yield valid w v v v ... in its one shortest writing.

        v is no power of a shorter pattern, and does not end as w does (or w could be shorter).
        """
        prefixes = list(self._paths(self.machine.start, prefix))
        patterns = {q: list(self._paths(q, pattern)) for q in {at for _, at in prefixes}}
        for before, at in prefixes:
            for repeated, end in patterns[at]:
                if not repeated or not _primitive(repeated):
                    continue
                if before and before[-1] == repeated[-1]:
                    continue
                if self._goes_round(end, repeated):
                    yield before, repeated

    def _paths(self, start: int, longest: int) -> Iterator[tuple[tuple[int, ...], int]]:
        level: list[tuple[tuple[int, ...], int]] = [((), start)]
        yield from level
        for _ in range(longest):
            level = [
                ((*word, symbol), int(to))
                for word, at in level
                for symbol, to in enumerate(self.table[at])
                if to != NOWHERE
            ]
            yield from level

    def _goes_round(self, at: int, pattern: tuple[int, ...]) -> bool:
        """Whether `pattern` can be repeated for ever from a state."""
        for _ in range(self.machine.states + 1):
            for symbol in pattern:
                at = int(self.table[at, symbol])
                if at == NOWHERE:
                    return False
        return True

    # --- beam

    def beam(self) -> None:
        """Extend the narrowest strings of each state by every symbol, to the first wrong one."""
        if self.budget.beam == 0:
            return
        width = max(self.budget.beam, -(-FEWEST_IN_BEAM // self.machine.states))
        width = max(1, min(width, self.most // (self.machine.states * self.machine.symbols)))
        front = _Front(
            np.zeros((1, 0), np.int16), np.array([self.machine.start]), None, np.array([np.inf])
        )
        for n in range(self._longest()):
            front = self._extended(front, "beam")
            self.found.beam_to = n + 1
            if self._shorter_than(n + 2) or len(front.at) == 0:
                return
            front = _part(front, _narrowest(front, width))

    # --- steps

    def _extended(self, front: _Front, how: str) -> _Front:
        """Return all valid strings that are one symbol longer, having looked at their answers."""
        rows, symbols = np.nonzero(self.table[front.at] != NOWHERE)
        return self._with(front, rows, symbols, how)

    def _with(self, front: _Front, rows: Rows, symbols: Rows, how: str) -> _Front:
        """Return strings `rows` of a front, each with one symbol more, and look at the answers."""
        self._watch_the_time()
        last = symbols[:, None].astype(np.int16)
        longer = np.concatenate([front.tokens[rows], last], axis=1)
        at = self.table[front.at[rows], symbols]
        picked = torch.from_numpy(np.ascontiguousarray(rows))
        states = None if front.states is None else chosen(front.states, picked)
        logits, states = self.reader.step(torch.from_numpy(np.ascontiguousarray(symbols)), states)
        margins, wrong = self._judged(logits, at)
        kept = np.where(self.asked[at] >= 0, margins, front.margins[rows])
        self.found.strings += len(rows)
        self._note(longer, at, margins, wrong, how)
        return _Front(longer, at, states, kept)

    def _judged(self, logits: Tensor, at: Rows) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return by how much each right answer leads, in logits, and which answers are wrong.

        Where nothing is asked the lead is infinite. What is not finite is no answer.
        """
        values = logits.detach().cpu().double().numpy()
        right = self.asked[at]
        asked, index = right >= 0, np.arange(len(right))
        answer = np.where(asked, right, 0)
        others = values.copy()
        others[index, answer] = -np.inf
        margins = values[index, answer] - others.max(1)
        finite = np.isfinite(values).all(1)
        wrong = asked & (~finite | (values.argmax(1) != right))
        margins = np.where(finite, margins, -np.inf)
        return np.where(asked, margins, np.inf), wrong

    def _note(
        self,
        tokens: Tokens,
        at: Rows,
        margins: NDArray[np.float64],
        wrong: NDArray[np.bool_],
        how: str,
    ) -> None:
        """Remember the narrowest right answer and, once confirmed, a string that is wrong."""
        if not len(tokens):
            return  # no valid string goes on
        right = np.where(wrong, np.inf, margins)
        narrowest = int(right.argmin())
        if right[narrowest] < self.found.least_margin:
            self.found.least_margin = float(right[narrowest])
            self.found.least_margin_at = tuple(tokens[narrowest].tolist())
        for row in np.nonzero(wrong)[0]:
            if self._shorter_than(tokens.shape[1] + 1):
                return
            witness = self._confirmed(tokens[row], how)
            if witness is None:
                self.found.unconfirmed += 1
            else:
                self.found.witness = witness

    def _confirmed(self, tokens: Tokens, how: str) -> Witness | None:
        """Put one whole string to the model; None if it is right after all, or asks nothing."""
        right = self.machine.answers[self.machine.walk(tokens.tolist())[-1]]
        if right is None:
            return None
        logits = self.reader.at_end(torch.from_numpy(tokens[None].astype(np.int64)))[0]
        given = int(logits.argmax()) if bool(logits.isfinite().all()) else None
        if given == right:
            return None
        word = tuple(tokens.tolist())
        return Witness(word, given, right, how, False, rarity(self.machine, word))

    def _shorter_than(self, length: int) -> bool:
        """Whether a witness of fewer than `length` symbols is known."""
        witness = self.found.witness
        return witness is not None and witness.length < length

    def _longest(self) -> int:
        """How many symbols are worth looking at: fewer than those of a witness that is known."""
        witness = self.found.witness
        return self.budget.longest if witness is None else witness.length - 1

    # --- shortening

    def shorten(self) -> None:
        """Leave out parts of the witness, large ones first, as long as it stays wrong."""
        while (witness := self.found.witness) is not None:
            if not self._shortened(np.array(witness.tokens, np.int16), witness.found_by):
                return

    def _shortened(self, tokens: Tokens, how: str) -> bool:
        """Try to leave out one part; whether the witness became shorter."""
        sizes = [2**k for k in range(len(tokens).bit_length())]
        for size in sorted({*sizes, 3} & set(range(1, len(tokens))), reverse=True):
            cut = [np.delete(tokens, slice(i, i + size)) for i in range(len(tokens) - size + 1)]
            valid = np.array([word for word in np.unique(cut, axis=0) if self._asks(word)])
            for start in range(0, len(valid), self.rows):
                self._watch_the_time()
                words = valid[start : start + self.rows]
                at = np.array([self.machine.walk(word)[-1] for word in words.tolist()])
                _, wrong = self._judged(
                    self.reader.at_end(torch.from_numpy(words.astype(np.int64))), at
                )
                for row in np.nonzero(wrong)[0]:
                    witness = self._confirmed(words[row], how)
                    if witness is not None:
                        self.found.witness = witness
                        return True
        return False

    def _asks(self, tokens: Tokens) -> bool:
        """Whether a string is valid and asks for an answer at its end."""
        try:
            return self.machine.run(tokens.tolist())[-1] is not None
        except ValueError:
            return False


def rarity(machine: Machine, tokens: tuple[int, ...]) -> float:
    """Return how many random strings of its length contain `tokens` once, on average.

    Symbols are taken to be drawn uniformly among those that may come, as built-in tasks draw them.
    """
    drawn = 1.0
    for state in [machine.start, *machine.walk(tokens)[:-1]]:
        drawn *= sum(to is not None for to in machine.delta[state])
    return drawn


def _part(front: _Front, rows: Rows) -> _Front:
    """Return some strings of a front."""
    picked = torch.from_numpy(np.ascontiguousarray(rows))
    states = None if front.states is None else chosen(front.states, picked)
    return _Front(front.tokens[rows], front.at[rows], states, front.margins[rows])


def _narrowest(front: _Front, width: int) -> Rows:
    """Return the `width` strings of least margin of each state, no two with the same margin."""
    margins = np.round(front.margins, DIGITS)
    order = np.lexsort((margins, front.at))
    at, sorted_margins = front.at[order], margins[order]
    new = np.ones(len(order), bool)
    new[1:] = (at[1:] != at[:-1]) | (sorted_margins[1:] != sorted_margins[:-1])
    order = order[new]
    _, first, inverse = np.unique(front.at[order], return_index=True, return_inverse=True)
    place = np.arange(len(order)) - first[inverse]
    return order[place < width]


def _unrolled(prefix: tuple[int, ...], pattern: tuple[int, ...], length: int) -> list[int]:
    """Return the first `length` symbols of a prefix and its pattern for ever."""
    repeats = -(-max(0, length - len(prefix)) // len(pattern))
    return [*prefix, *(pattern * repeats)][:length]


def _primitive(word: tuple[int, ...]) -> bool:
    """Whether a word is no power of a shorter one."""
    return all(
        len(word) % size or word[:size] * (len(word) // size) != word
        for size in range(1, len(word))
    )
