"""Extraction of an automaton from a model: Angluin's L*, with membership queries to the model.

The row of a string is the model's answers after the string followed by each of a set of suffixes.
Strings with different rows are in different states. An automaton of these states is compared with
the model on random strings. A string on which they differ gives a suffix that separates two strings
of one state (Rivest & Schapire 1993, Information and Computation 103(2)). This is repeated until no
difference is found.

The automaton equals the model on the strings that were asked, and on nothing else: models that err
on a string of 12 symbols give an automaton without a mistake. A string on which the automaton
differs from the task's is put to the model itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lrbench.certificates.reader import SymbolReader
from lrbench.tasks.machine import NOWHERE, Machine, explored, minimised

Word = tuple[int, ...]

MOST_STATES, MOST_QUESTIONS = 400, 50_000
STRINGS, LENGTH = 500, 60  # random strings that an automaton is compared on
FEW_SYMBOLS = 16  # of an alphabet all of whose symbols are suffixes from the start
UNASKED, INVALID, NOT_FINITE = -1, -2, -3  # beside classes
ROWS = 4096  # strings read side by side


@dataclass(frozen=True)
class Extracted:
    """What L* found of a model.

    machine: the automaton, None where `stopped` says why there is none. needed: how many states the
    task needs, the empty string's own among them. questions: strings asked for one answer each.
    strings: random strings of `length` asked at each position. distinguishing: the shortest string
    on which the automaton and the task differ, None where they are equal; given, right: answers of
    the model itself and of the task there, None where nothing is asked.
    """

    machine: Machine | None
    needed: int
    questions: int
    strings: int
    length: int
    stopped: str = ""
    distinguishing: Word | None = None
    given: int | None = None
    right: int | None = None


def extract(
    model: nn.Module,
    machine: Machine,
    device: torch.device | str = "cpu",
    most_states: int = MOST_STATES,
    most_questions: int = MOST_QUESTIONS,
) -> Extracted:
    """Learn the automaton that a model of a task with this `machine` seems to be.

    The task says which strings are valid and where something is asked, the model what is answered.
    Deterministic: random strings are drawn from a seed of their own.
    """
    oracle = _Oracle(SymbolReader(model, device), machine)
    strings = random_words(machine, STRINGS, LENGTH, seed=0)
    answers = oracle.at_each(strings)
    learner = _Learner(oracle, machine, most_states, most_questions)
    needed = minimised(apart(machine)).states

    while True:
        if stopped := learner.close():
            return Extracted(None, needed, len(oracle.queried), len(strings), LENGTH, stopped)
        hypothesis = learner.hypothesis()
        differing = _first_difference(hypothesis, strings, answers)
        if differing is None:
            break
        learner.split(differing)
    word = distinguishing(hypothesis, machine)
    given = right = None
    if word is not None:
        right = machine.answers[machine.walk(word)[-1]]
        given = None if right is None else oracle.answers([word])[0]
    queries = len(oracle.queried)
    return Extracted(hypothesis, needed, queries, len(strings), LENGTH, "", word, given, right)


def apart(machine: Machine) -> Machine:
    """Return a machine with a start of its own, where nothing is asked and nothing leads."""

    def step(state: int | None, symbol: int) -> int | None:
        return machine.delta[machine.start if state is None else state][symbol]

    return explored(
        None,
        machine.symbols,
        step,
        lambda state: None if state is None else machine.answers[state],
        lambda state: "empty" if state is None else machine.names[state],
    )


def distinguishing(one: Machine, task: Machine) -> Word | None:
    """Return the shortest string that `task` asks about and `one` answers otherwise, or None.

    Pairs of states breadth first: what comes first is as short as can be. A string that `one` does
    not go along counts as answered otherwise.
    """
    start = one.start, task.start
    seen = {start}
    waiting: deque[tuple[tuple[int, int], Word]] = deque([(start, ())])
    while waiting:
        (mine, theirs), word = waiting.popleft()
        for symbol, to in enumerate(task.delta[theirs]):
            if to is None:
                continue
            longer: Word = (*word, symbol)
            reached = one.delta[mine][symbol]
            right = task.answers[to]
            if reached is None or (right is not None and one.answers[reached] != right):
                return longer
            if (reached, to) not in seen:
                seen.add((reached, to))
                waiting.append(((reached, to), longer))
    return None


def random_words(machine: Machine, count: int, length: int, seed: int) -> list[Word]:
    """Draw valid strings of up to `length`, symbols uniform among those that may come.

    They are shorter only where no valid string goes on.
    """
    rng = np.random.default_rng(seed)
    edges = [[s for s, to in enumerate(row) if to is not None] for row in machine.delta]
    words: list[Word] = []
    for drawn in rng.random((count, length)):
        state, word = machine.start, []
        for number in drawn:
            if not edges[state]:
                break
            symbol = edges[state][int(number * len(edges[state]))]
            word.append(symbol)
            state = machine.delta[state][symbol]  # type: ignore[assignment]
        words.append(tuple(word))
    return words


class _Oracle:
    """The model's answers, each asked once. `queried` are the words asked for alone."""

    def __init__(self, reader: SymbolReader, machine: Machine) -> None:
        self.reader, self.machine = reader, machine
        self.known: dict[Word, int] = {}
        self.queried: set[Word] = set()

    def answers(self, words: Sequence[Word]) -> list[int]:
        """Return the class after each word, or that nothing is asked, valid or finite there."""
        known = [self._without_the_model(word) for word in words]
        queried = {word for word, one in zip(words, known, strict=True) if one is None}
        self.queried |= queried
        by_length: dict[int, list[Word]] = {}
        for word in sorted(queried - self.known.keys()):
            by_length.setdefault(len(word), []).append(word)
        for some in by_length.values():
            for start in range(0, len(some), ROWS):
                part = some[start : start + ROWS]
                self.known.update(zip(part, self._read(part), strict=True))
        return [self.known[w] if one is None else one for w, one in zip(words, known, strict=True)]

    def at_each(self, words: Sequence[Word]) -> list[list[int]]:
        """Return the answers at each position of some strings, read symbol by symbol.

        They stay the answers of the beginnings of these strings: read as a whole, rounding differs.
        """
        found: list[list[int]] = [[] for _ in words]
        for length in sorted({len(word) for word in words} - {0}):
            rows = [row for row, word in enumerate(words) if len(word) == length]
            tokens, state = torch.tensor([words[row] for row in rows]), None
            table, targets = self.machine.table, self.machine.targets
            at = np.full(len(rows), self.machine.start)
            for place in range(length):
                logits, state = self.reader.step(tokens[:, place], state)
                at = table[at, tokens[:, place].numpy()]
                here = np.where(targets[at] >= 0, _classes(logits), UNASKED)
                for row, answer in zip(rows, here.tolist(), strict=True):
                    if answer != UNASKED:  # of one beginning, equal logits may round otherwise
                        answer = self.known.setdefault(words[row][: place + 1], answer)
                    found[row].append(answer)
        return found

    def _without_the_model(self, word: Word) -> int | None:
        """What the task alone says of a word: None where the model is to be asked."""
        if not word:
            return UNASKED
        state: int | None = self.machine.start
        for symbol in word:
            if state is None:
                return INVALID
            state = self.machine.delta[state][symbol]
        if state is None:
            return INVALID
        return UNASKED if self.machine.answers[state] is None else None

    def _read(self, words: Sequence[Word]) -> list[int]:
        found: list[int] = _classes(self.reader.at_end(torch.tensor(words))).tolist()
        return found


def _classes(logits: torch.Tensor) -> NDArray[np.int64]:
    """Return the class of the largest logit (B,), `NOT_FINITE` where one of them is not."""
    values = logits.detach().cpu().double().numpy()
    return np.where(np.isfinite(values).all(1), values.argmax(1), NOT_FINITE)


class _Learner:
    """Access words of unlike rows, and the suffixes that tell them apart."""

    def __init__(
        self, oracle: _Oracle, machine: Machine, most_states: int, most_questions: int
    ) -> None:
        self.oracle, self.machine = oracle, machine
        self.most_states, self.most_questions = most_states, most_questions
        single = range(machine.symbols if machine.symbols <= FEW_SYMBOLS else 0)
        self.suffixes: list[Word] = [(), *((symbol,) for symbol in single)]
        self.access: list[Word] = []
        self.delta: list[list[int | None]] = []

    def close(self) -> str:
        """Find the states and edges that the suffixes tell; return why not, where they are many."""
        self.access, self.delta = [()], []
        number = {self._rows([()])[0]: 0}
        done = 0
        while done < len(self.access):
            front = self.access[done:]
            longer = [(*word, s) for word in front for s in range(self.machine.symbols)]
            if len(self.oracle.queried) + len(longer) > self.most_questions:
                return f"more than {self.most_questions:,} questions"
            rows = iter(self._rows(longer))
            for word in front:
                edges: list[int | None] = []
                for symbol in range(self.machine.symbols):
                    row = next(rows)
                    if row[0] == INVALID:  # the suffix () comes first
                        edges.append(None)
                        continue
                    if row not in number:
                        number[row] = len(self.access)
                        self.access.append((*word, symbol))
                    edges.append(number[row])
                self.delta.append(edges)
            done += len(front)
            if len(self.access) > self.most_states:
                return f"more than {self.most_states:,} states"
            if len(self.oracle.queried) > self.most_questions:
                return f"more than {self.most_questions:,} questions"
        return ""

    def hypothesis(self) -> Machine:
        """Return the automaton of what `close` found; a state is named by its access word."""
        answers = self.oracle.answers(self.access)
        return Machine(
            tuple(" ".join(map(str, word)) for word in self.access),
            0,
            tuple(map(tuple, self.delta)),
            tuple(None if answer == UNASKED else answer for answer in answers),
        )

    def split(self, word: Word) -> None:
        """Add a suffix of a word that the automaton is wrong on, which tells two of its states.

        Of the word, ever more is replaced by the access word of the state reached; somewhere the
        model's answer changes.
        """
        before: list[Word] = [()]
        state = 0
        for symbol in word:
            to = self.delta[state][symbol]
            if to is None:
                break
            state = to
            before.append(self.access[state])
        tried = [(*access, *word[place:]) for place, access in enumerate(before)]
        answers = self.oracle.answers(tried)
        place = next(n for n in range(1, len(answers)) if answers[n] != answers[0])
        self.suffixes.append(word[place:])

    def _rows(self, words: Sequence[Word]) -> list[tuple[int, ...]]:
        queries = [(*word, *suffix) for word in words for suffix in self.suffixes]
        answers = iter(self.oracle.answers(queries))
        return [tuple(next(answers) for _ in self.suffixes) for _ in words]


def _first_difference(
    hypothesis: Machine, words: Iterable[Word], answers: Iterable[Sequence[int]]
) -> Word | None:
    """Return the shortest beginning of a word that an automaton answers otherwise, or None."""
    table, targets = hypothesis.table, hypothesis.targets
    shortest: Word | None = None
    for word, outputs in zip(words, answers, strict=True):
        state = hypothesis.start
        for place, answer in enumerate(outputs, 1):
            if shortest is not None and place >= len(shortest):
                break
            state = int(table[state, word[place - 1]])
            if state == NOWHERE or targets[state] != answer:
                shortest = word[:place]
                break
    return shortest
