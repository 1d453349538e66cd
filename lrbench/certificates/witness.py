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

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lrbench.certificates.families import endless_words
from lrbench.certificates.reader import SymbolReader, chosen
from lrbench.certificates.spelling import Endless, Grown, Rows, Spelling, WithEnding, Word
from lrbench.tasks.machine import NOWHERE, Machine

FLOATS = 1 << 25  # carried numbers and logits that are held at once
ROWS = 8192  # strings stepped side by side, at most
SETTLED = 64  # symbols after which only the narrowest families go on
NARROWEST = 2000  # of them
DIGITS = 6  # to which margins of a beam differ
FEWEST_IN_BEAM = 600  # over all states, of tasks that have few
LONGEST_COMPLETE = 10_000  # symbols, of machines that let few strings go on
CUT_SYMBOLS = 1 << 22  # that are read to leave out parts of one size
COMPLETE, FAMILIES, BEAM = SEARCHES = ("complete", "families", "beam")
SHORTENING = "shortening"


@dataclass(frozen=True)
class SearchBudget:
    """How far each search goes.

    complete: every string is tried up to the greatest length that has so many valid ones.
    families: infinite words side by side; after SETTLED symbols the NARROWEST go on. beam: strings
    kept for each state of the task, more where it has few states (FEWEST_IN_BEAM in all), fewer
    where memory does not hold them. longest: symbols of the longest string of any search. Zero
    turns a search off. seconds: after which a search stops, keeping what it found; a third of them
    for all strings, half of what is then left for families.
    """

    complete: int = 2_000_000
    families: int = 20_000
    beam: int = 100
    longest: int = 1000
    seconds: float = math.inf


@dataclass(frozen=True)
class Witness:
    """A string that the model gets wrong at its last position, read as an evaluation reads it.

    given is None where the logits are not finite. found_by: complete, families or beam. shortest:
    whether every shorter string was tried, symbol by symbol, and found right.
    """

    tokens: tuple[int, ...]
    given: int | None
    right: int
    found_by: str
    shortest: bool
    rarity: int  # how many strings of this length are drawn until it comes, on average

    @property
    def length(self) -> int:
        return len(self.tokens)


@dataclass
class WitnessSearch:
    """What a search found, and how far it went.

    complete_to: every valid string of up to so many symbols is right (0: not asked). families,
    families_kept: infinite words that were begun, and that went on after SETTLED symbols; beam:
    strings that were kept for each state. least_margin: the narrowest right answer that was met, in
    logits, and of which string. unconfirmed: strings wrong symbol by symbol, and right when read as
    a whole, or not read so for want of time; unconfirmed_from: symbols of the shortest of them.
    out_of_time: what stopped early.
    """

    budget: SearchBudget
    witness: Witness | None = None
    complete_to: int = 0
    families_to: int = 0
    beam_to: int = 0
    strings: int = 0
    least_margin: float = float("inf")
    least_margin_at: Word = ()
    unconfirmed: int = 0
    seconds: float = 0.0
    families: int = 0
    families_kept: int = 0
    beam: int = 0
    unconfirmed_from: int | None = None
    out_of_time: list[str] = field(default_factory=list)


def search(
    model: nn.Module,
    machine: Machine,
    budget: SearchBudget | None = None,
    device: torch.device | str = "cpu",
    known: tuple[Word, str] = ((), ""),
) -> WitnessSearch:
    """Search for the shortest string that `model` gets wrong; the model is left in eval mode.

    known: one that was found before, and by which search. It counts if it is still wrong and
    shorter than what is found now, which does not depend on it: so no search comes out longer than
    one from the start. Raises UserError for a model without a carried state, and for one whose
    answers depend on chance or on other strings.
    """
    began = time.perf_counter()
    seeker = _Seeker(SymbolReader(model, device), machine, budget or SearchBudget())
    found = seeker.found
    searches = (seeker.all_strings, seeker.families, seeker.beam)
    for seek, share in zip(searches, (1 / 3, 1 / 2, 1.0), strict=True):
        seeker.may_take(share, began)
        seek()
        by = found.witness.found_by if found.witness is not None else ""
        if by == COMPLETE and COMPLETE not in found.out_of_time:
            break
    else:
        seeker.may_take(1.0, began)
        seeker.shorten()
    seeker.recall(*known)
    if found.witness is not None:  # it may be shorter than what was read symbol by symbol
        found.complete_to = min(found.complete_to, found.witness.length - 1)
        every_shorter = found.complete_to == found.witness.length - 1
        found.witness = replace(found.witness, shortest=every_shorter)
    found.seconds = time.perf_counter() - began
    return found


@dataclass
class _Front:
    """Strings side by side, one symbol a step: what they are, their states here and in the model.

    margins are of the last position that was asked, or of the next that would be if the string
    ended the shortest way. asked: whether any was. fresh: whether the margin is of this very string
    and not of one that it goes on from.
    """

    words: Spelling
    at: Rows  # states of the machine (B,)
    states: Any
    margins: NDArray[np.float64]
    asked: NDArray[np.bool_]
    fresh: NDArray[np.bool_]


class _Seeker:
    """The three searches over one model, and what they found so far."""

    def __init__(self, reader: SymbolReader, machine: Machine, budget: SearchBudget) -> None:
        self.reader, self.machine, self.budget = reader, machine, budget
        self.table, self.targets = machine.table, machine.targets
        self.endings = machine.shortest_endings()
        self.found = WitnessSearch(budget)
        self.until = math.inf
        reader.check_that_strings_stand_alone(machine)
        numbers = reader.numbers(machine.symbols)
        if getattr(reader.model, "state_size", 0) is None:  # it grows with the string
            numbers *= budget.longest
        numbers += 2 * reader.classes  # logits are copied once, in double
        self.rows = max(1, min(ROWS, FLOATS // (numbers * machine.symbols)))
        self.most = max(16, FLOATS // numbers)

    def may_take(self, share: float, began: float) -> None:
        """Let the next search take a share of the seconds that are left."""
        now = time.perf_counter()
        self.until = now + share * max(0.0, began + self.budget.seconds - now)

    def _late(self, what: str) -> bool:
        """Whether the time for a search is over, which is noted then."""
        late = time.perf_counter() > self.until
        if late and what not in self.found.out_of_time:
            self.found.out_of_time.append(what)
        return late

    def recall(self, known: Word, found_by: str) -> None:
        """Take a string of an earlier search, if it is shorter and still wrong."""
        if known and self._asks(known) and not self._shorter_than(len(known) + 1):
            witness = self._confirmed(known, found_by)
            if witness is not None:
                self.found.witness = witness
                self.shorten()

    # --- every string

    def all_strings(self) -> None:
        """Try every valid string up to the length that the budget allows, shortest first found."""
        counts = self._valid_strings()
        tried = [0] * len(counts)  # of each length
        waiting = [self._empty(1)] if counts else []
        while waiting and not self._late(COMPLETE):
            front = waiting.pop()
            length = front.words.length
            if length == len(counts) or self._shorter_than(length + 2):
                continue
            if len(front.at) > self.rows:
                starts = range(0, len(front.at), self.rows)
                chunks = [np.arange(i, min(i + self.rows, len(front.at))) for i in starts]
                waiting += [_part(front, chunk) for chunk in reversed(chunks)]
                continue
            longer = self._extended(front, COMPLETE)
            tried[length] += len(longer.at)
            waiting.append(longer)
        self._tried_all(counts, tried)

    def _tried_all(self, counts: list[int], tried: list[int]) -> None:
        """Note how far all strings are right; of each length `tried` of `counts` were looked at."""
        found, partly = self.found, [n for n, count in enumerate(counts) if tried[n] < count]
        done = min([len(counts), *partly])
        if found.unconfirmed_from is not None:
            done = min(done, found.unconfirmed_from - 1)
        if found.witness is not None:
            done = min(done, found.witness.length - 1)
        found.complete_to = done

    def _valid_strings(self) -> list[int]:
        """How many valid strings there are of each length, as far as all may be tried."""
        ending = np.zeros(self.machine.states)
        ending[self.machine.start] = 1
        counts: list[int] = []
        while len(counts) < min(LONGEST_COMPLETE, self.budget.longest):
            following = np.zeros_like(ending)
            for symbol in range(self.machine.symbols):
                to = self.table[:, symbol]
                np.add.at(following, to[to != NOWHERE], ending[to != NOWHERE])
            if following.sum() > self.budget.complete or not following.any():
                break
            ending = following
            counts.append(int(following.sum()))
        return counts

    def _empty(self, count: int) -> _Front:
        """The empty string, so many times."""
        at = np.full(count, self.machine.start)
        never = np.zeros(count, bool)
        return _Front(Grown(), at, None, np.full(count, np.inf), never, never)

    # --- families

    def families(self) -> None:
        """Follow prefixes with a pattern for ever, all in step, to the first that is wrong."""
        words = endless_words(self.machine, min(self.budget.families, self.most))
        if not words:
            return
        self.found.families = self.found.families_kept = len(words)
        endless = Endless.of_words(words)
        front = replace(self._empty(len(words)), words=endless)
        for n in range(self._longest()):
            if self._late(FAMILIES):
                return
            rows = np.arange(len(front.at))
            front = self._with(front, rows, endless.following(), FAMILIES)
            self.found.families_to = n + 1
            if self._shorter_than(n + 2):
                return
            if n + 1 == SETTLED and len(front.at) > NARROWEST:
                kept = np.argsort(front.margins, kind="stable")[:NARROWEST]
                front = _part(front, kept)
                self.found.families_kept = len(kept)
            assert isinstance(front.words, Endless)
            endless = front.words

    # --- beam

    def beam(self) -> None:
        """Extend the narrowest strings of each state by every symbol, to the first wrong one."""
        if self.budget.beam == 0:
            return
        width = max(self.budget.beam, -(-FEWEST_IN_BEAM // self.machine.states))
        width = max(1, min(width, self.most // (self.machine.states * self.machine.symbols)))
        self.found.beam = width
        front = self._empty(1)
        for n in range(self._longest()):
            if self._late(BEAM):
                return
            front = self._extended(front, BEAM)
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
        longer = front.words.longer(rows, symbols)
        at = self.table[front.at[rows], symbols]
        picked = torch.from_numpy(np.ascontiguousarray(rows))
        states = None if front.states is None else chosen(front.states, picked)
        logits, states = self.reader.step(torch.from_numpy(np.ascontiguousarray(symbols)), states)
        margins, wrong = self._judged(logits, at)
        self.found.strings += len(rows)
        self._note(longer, at, margins, wrong, how)
        fresh = self.targets[at] >= 0
        kept, asked = np.where(fresh, margins, front.margins[rows]), front.asked[rows] | fresh
        if how != COMPLETE:
            ended = self._ended(longer, at, states, ~asked, how)
            kept, fresh = np.where(np.isnan(ended), kept, ended), fresh | ~np.isnan(ended)
        return _Front(longer, at, states, kept, asked, fresh)

    def _ended(
        self, words: Spelling, at: Rows, states: Any, never: NDArray[np.bool_], how: str
    ) -> NDArray[np.float64]:
        """Ask strings as if they ended the shortest way; return the margins, NaN of the others.

        Those that were never asked: tasks that ask once, at the end, would be searched in vain. And
        those that the next symbol does not ask either, of which older margins tell little.
        """
        found = np.full(len(at), np.nan)
        for state in np.unique(at).tolist():
            ending = self.endings[state]
            if not ending or words.length + len(ending) > self._longest():
                continue
            rows = np.nonzero((at == state) & (never | (len(ending) > 1)))[0]
            if not len(rows):
                continue
            carried = chosen(states, torch.from_numpy(rows))
            for symbol in ending:
                tokens = torch.full((len(rows),), symbol)
                logits, carried = self.reader.step(tokens, carried)
                state = int(self.table[state, symbol])
            reached = np.full(len(rows), state)
            margins, wrong = self._judged(logits, reached)
            self.found.strings += len(rows)
            self._note(WithEnding(words, rows, ending), reached, margins, wrong, how)
            found[rows] = margins
        return found

    def _judged(self, logits: Tensor, at: Rows) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return by how much each right answer leads, in logits, and which answers are wrong.

        Where nothing is asked the lead is infinite. What is not finite is no answer.
        """
        values = logits.detach().cpu().double().numpy()
        right = self.targets[at]
        scored, index = right >= 0, np.arange(len(right))
        answer = np.where(scored, right, 0)
        rivals = values.copy()
        rivals[index, answer] = -np.inf
        margins = values[index, answer] - rivals.max(1)
        finite = np.isfinite(values).all(1)
        wrong = scored & (~finite | (values.argmax(1) != right))
        margins = np.where(finite, margins, -np.inf)
        return np.where(scored, margins, np.inf), wrong

    def _note(
        self,
        words: Spelling | WithEnding,
        at: Rows,
        margins: NDArray[np.float64],
        wrong: NDArray[np.bool_],
        how: str,
    ) -> None:
        """Remember the narrowest right answer and, once confirmed, a string that is wrong."""
        if not len(at):
            return  # no valid string goes on
        right = np.where(wrong, np.inf, margins)
        narrowest = int(right.argmin())
        if right[narrowest] < self.found.least_margin:
            self.found.least_margin = float(right[narrowest])
            self.found.least_margin_at = words.of(narrowest)
        mistaken = np.nonzero(wrong)[0].tolist()
        for place, row in enumerate(mistaken):
            if self._shorter_than(words.length + 1):
                return
            witness = self._confirmed(words.of(row), how)
            if witness is not None:
                self.found.witness = witness
                continue
            late = self._late(how)
            self.found.unconfirmed += len(mistaken) - place if late else 1
            shortest = self.found.unconfirmed_from or words.length
            self.found.unconfirmed_from = min(shortest, words.length)
            if late:
                return

    def _confirmed(self, word: Word, how: str) -> Witness | None:
        """Put one whole string to the model; None if it is right after all, or asks nothing."""
        right = self.machine.answers[self.machine.walk(word)[-1]]
        if right is None:
            return None
        logits = self.reader.at_end(torch.tensor([word]))[0]
        given = int(logits.argmax()) if bool(logits.isfinite().all()) else None
        if given == right:
            return None
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
        while (witness := self.found.witness) is not None and not self._late(SHORTENING):
            if not self._shortened(np.array(witness.tokens, np.int32), witness.found_by):
                return

    def _shortened(self, tokens: NDArray[np.int32], how: str) -> bool:
        """Try to leave out one part; whether the witness became shorter.

        Of long strings not every place is tried: reading all that are left takes n^2 steps.
        """
        sizes = [2**k for k in range(len(tokens).bit_length())]
        for size in sorted({*sizes, 3} & set(range(1, len(tokens))), reverse=True):
            left = len(tokens) - size
            starts = np.unique(
                np.linspace(0, left, min(left + 1, max(16, CUT_SYMBOLS // left))).astype(np.int64)
            )
            cut = [np.delete(tokens, slice(i, i + size)) for i in starts]
            valid = np.array(
                [word for word in np.unique(cut, axis=0) if self._asks(tuple(word.tolist()))]
            )
            for start in range(0, len(valid), self.rows):
                if self._late(SHORTENING):
                    return False
                words = valid[start : start + self.rows]
                at = np.array([self.machine.walk(word)[-1] for word in words.tolist()])
                _, wrong = self._judged(
                    self.reader.at_end(torch.from_numpy(words.astype(np.int64))), at
                )
                for row in np.nonzero(wrong)[0]:
                    witness = self._confirmed(tuple(words[row].tolist()), how)
                    if witness is not None:
                        self.found.witness = witness
                        return True
        return False

    def _asks(self, word: Word) -> bool:
        """Whether a string is valid and asks for an answer at its end."""
        try:
            return self.machine.run(word)[-1] is not None
        except ValueError:
            return False


def rarity(machine: Machine, tokens: Word) -> int:
    """Return how many random strings of its length contain `tokens` once, on average.

    Symbols are taken to be drawn uniformly among those that may come (`Task.uniform_letters`).
    """
    branches = (machine.table != NOWHERE).sum(1).tolist()
    return math.prod(branches[state] for state in [machine.start, *machine.walk(tokens)[:-1]])


def _part(front: _Front, rows: Rows) -> _Front:
    """Return some strings of a front."""
    picked = torch.from_numpy(np.ascontiguousarray(rows))
    states = None if front.states is None else chosen(front.states, picked)
    each = (front.margins[rows], front.asked[rows], front.fresh[rows])
    return _Front(front.words.picked(rows), front.at[rows], states, *each)


def _narrowest(front: _Front, width: int) -> Rows:
    """Return the `width` strings of least margin of each state.

    Of those with the same margin one, unless it is the margin of an earlier symbol: strings that
    were not asked since may differ.
    """
    margins = np.round(front.margins, DIGITS)
    order = np.lexsort((margins, front.at))
    at, sorted_margins = front.at[order], margins[order]
    new = np.ones(len(order), bool)
    new[1:] = (at[1:] != at[:-1]) | (sorted_margins[1:] != sorted_margins[:-1])
    new |= ~front.fresh[order]
    order = order[new]
    _, first, inverse = np.unique(front.at[order], return_index=True, return_inverse=True)
    place = np.arange(len(order)) - first[inverse]
    return order[place < width]
