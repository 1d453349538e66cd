"""L* against machines that are known, and shortest strings against exhaustive search."""

from __future__ import annotations

import contextlib
import dataclasses
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from lrbench.certificates.witness import SearchBudget, search
from lrbench.diagnosis.extraction import (
    Word,
    apart,
    distinguishing,
    extract,
    random_words,
)
from lrbench.diagnosis.findings import _extracted
from lrbench.tasks.machine import Machine

from ..certificates.exact import exact_rnn
from .automata import Automaton, canonical, machine_of, random_machine


def exhaustive(one: Machine, task: Machine, longest: int) -> Word | None:
    """The first string, shortest first, that `task` asks about and `one` answers otherwise."""
    for length in range(1, longest + 1):
        for word in product(range(task.symbols), repeat=length):
            try:
                right = task.run(word)[-1]
            except ValueError:
                continue
            try:
                given = one.run(word)[-1]
            except ValueError:
                return word
            if right is not None and given != right:
                return word
    return None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_machines_come_out_minimal(seed: int) -> None:
    machine = random_machine(seed, states=3 + seed % 9, symbols=2 + seed % 2, classes=2)
    found = extract(Automaton(machine), machine)
    assert found.machine is not None and found.stopped == ""
    expected = canonical(apart(machine))
    assert canonical(found.machine) == expected
    assert found.machine.states == expected.states == found.needed
    assert found.distinguishing is None
    # what is said of the empty string's own state: it is asked nothing, whatever stands there
    assert found.machine.answers[found.machine.start] is None


@pytest.mark.parametrize(
    ("task", "modulus", "states"),
    [("sum", 5, 6), ("parity", 2, 3), ("even_pair", 5, 11), ("sum", 11, 12)],
)
def test_networks_that_are_right_by_construction(task: str, modulus: int, states: int) -> None:
    machine = machine_of(task, modulus)
    if task == "even_pair":  # no edge may lead back to a start of its own
        assert canonical(machine) == canonical(apart(machine))
    model, _ = exact_rnn(machine, 3.0)
    found = extract(model, machine)
    assert found.machine is not None
    assert (found.machine.states, found.needed) == (states, states)
    assert (found.distinguishing, found.stopped) == (None, "")
    assert canonical(found.machine) == canonical(apart(machine))
    assert 0 < found.questions < 5000


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_shortest_string_of_a_planted_mistake(seed: int) -> None:
    """One edge of a model's machine leads elsewhere; every string is tried, shortest first."""
    task = machine_of("sum", 3) if seed % 2 else machine_of("even_pair", 3)
    counted = tuple((q, n) for q in range(task.states) for n in range(4))

    def wrong(state: tuple[int, int], symbol: int) -> tuple[int, int]:
        """The machine, but for a symbol that is taken for another after its fourth time."""
        q, seen = state
        seen = min(3, seen + (symbol == seed % 3))
        read = (symbol + 1) % 3 if seen == 3 and symbol == seed % 3 else symbol
        to = task.delta[q][read]
        assert to is not None
        return to, seen

    delta = tuple(tuple(counted.index(wrong(at, s)) for s in range(3)) for at in counted)
    planted = Machine(
        tuple(map(str, counted)),
        counted.index((task.start, 0)),
        delta,
        tuple(task.answers[q] for q, _ in counted),
    )
    found = extract(Automaton(planted), task)
    assert found.machine is not None
    assert canonical(found.machine) == canonical(apart(planted))
    shortest = exhaustive(planted, task, 6)
    assert shortest is not None and found.distinguishing is not None
    assert len(found.distinguishing) == len(shortest)
    assert found.given == planted.run(found.distinguishing)[-1]
    assert found.right == task.run(found.distinguishing)[-1] != found.given


class Ties(nn.Module):
    """Parity of bits, but of three ones and more both answers are equal, and rounded by row."""

    def forward(
        self, tokens: torch.Tensor, state: Any = None, read: str = ""
    ) -> tuple[torch.Tensor, Any]:
        ones = tokens.sum(1) + (0 if state is None else state[0])
        odd = torch.stack([1 - ones % 2, ones % 2], 1).float()
        rounded = 1e-7 * torch.arange(len(ones)).fmod(2)
        tie = torch.stack([rounded, torch.full_like(rounded, 5e-8)], 1)
        return torch.where(ones[:, None] < 3, odd, tie), [ones]


def test_a_string_has_one_answer_even_if_rows_round_otherwise() -> None:
    found = extract(Ties(), machine_of("parity", 2), most_states=20)
    assert found.machine is not None or found.stopped


def test_a_string_that_asks_nothing_has_no_answers() -> None:
    """After four times the first of forty symbols another may come, which no random string meets.

    The automaton has one state for what the task has five for, and no edge by that symbol.
    """
    rows = [[min(q + 1, 4), *([0] * 4), None, *([0] * 34)] for q in range(5)]
    rows[4][5] = 5
    delta = tuple(map(tuple, [*rows, [0] * 40]))
    machine = Machine(tuple("abcdef"), 0, delta, (0, 0, 0, 0, 0, None))
    found = extract(Automaton(machine), machine)
    assert found.machine is not None and found.machine.states == 2
    assert (found.distinguishing, found.given, found.right) == ((0, 0, 0, 0, 5), None, None)
    said = _extracted(
        SimpleNamespace(extracted=found, symbols=[*map(str, range(40))], classes=("yes",))
    )
    assert said.endswith("the automaton takes for no valid string; nothing is asked there")
    assert "yes" not in said


@pytest.mark.parametrize("seed", range(20))
def test_distinguishing_strings_are_the_shortest(seed: int) -> None:
    """Of two unrelated machines; strings that the second one does not go along count as well."""
    task = random_machine(seed, 5, 2, 2)
    one = random_machine(seed + 1000, 6, 2, 2)
    found, tried = distinguishing(one, task), exhaustive(one, task, 9)
    assert (found is None) == (tried is None)
    if found is not None and tried is not None:
        assert len(found) == len(tried)
        with contextlib.suppress(ValueError):
            assert one.run(found)[-1] != task.run(found)[-1]
    assert distinguishing(task, task) is None


def test_equal_on_what_was_asked_is_not_right() -> None:
    """A model that is wrong after one string of eight symbols alone comes out as the task's own."""
    machine = machine_of("sum", 5)
    secret = (4, 0, 4, 1, 1, 3, 4, 1, 1)

    def step(state: tuple[int, int], symbol: int) -> tuple[int, int]:
        at, matched = state
        matched = matched + 1 if matched >= 0 and secret[matched] == symbol else -1
        return machine.delta[at][symbol], matched if matched < len(secret) else -2

    states = [(q, n) for q in range(5) for n in (-1, -2, *range(len(secret)))]
    delta = tuple(tuple(states.index(step(at, s)) for s in range(5)) for at in states)
    answers = tuple((q + (n == -2)) % 5 for q, n in states)
    model = Automaton(
        Machine(tuple(map(str, states)), states.index((machine.start, 0)), delta, answers)
    )
    found = extract(model, machine)
    assert found.machine is not None and found.machine.states == 6
    assert found.distinguishing is None
    wrong = search(model, machine, SearchBudget(complete=0, beam=0, families=0))
    assert wrong.witness is None
    assert model.machine.run(secret)[-1] != machine.run(secret)[-1]


class Counter(nn.Module):
    """Answers parity until it has counted to `most` ones: a state for each number of ones."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(
        self, tokens: torch.Tensor, state: list[torch.Tensor] | None = None, read: str = "all"
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:
        count = torch.zeros(len(tokens)) if state is None else state[0]
        count = count + tokens.sum(1)
        right = torch.where(count < self.most, count % 2, torch.zeros_like(count))
        return torch.stack([1 - right, right], 1), [count]


def test_many_symbols_are_asked_little() -> None:
    """41 symbols: one suffix at a time, and as many states as the task needs all the same."""
    machine = machine_of("sum", 41)
    found = extract(Automaton(machine), machine)
    assert found.machine is not None
    assert canonical(found.machine) == canonical(apart(machine))
    assert (found.machine.states, found.distinguishing) == (42, None)
    assert found.questions < 4000


@pytest.mark.slow
def test_a_model_that_counts_ends_at_a_cap() -> None:
    machine = machine_of("parity", 2)
    found = extract(Counter(20), machine, most_states=10)
    assert found.machine is None and found.stopped == "more than 10 states"
    assert found.distinguishing is None
    found = extract(Counter(20), machine, most_questions=50)
    assert found.stopped == "more than 50 questions"
    found = extract(Counter(8), machine)
    assert found.machine is not None
    assert found.distinguishing == (1,) * 9


def test_what_is_not_finite_is_an_answer_of_its_own() -> None:
    machine = machine_of("parity", 2)

    class Breaks(Counter):
        def forward(self, tokens, state=None, read="all"):  # type: ignore[no-untyped-def]
            logits, after = super().forward(tokens, state, read)
            return torch.where(after[0][:, None] >= 4, torch.nan, logits), after

    found = extract(Breaks(10), machine)
    assert found.machine is not None
    assert found.distinguishing == (1,) * 4
    assert (found.given, found.right) == (-3, 0)


def test_random_strings_are_valid_and_always_the_same() -> None:
    machine = machine_of("mod_arith", 3)
    words = random_words(machine, 20, 9, seed=3)
    assert words == random_words(machine, 20, 9, seed=3) != random_words(machine, 20, 9, seed=4)
    for word in words:
        assert len(word) == 9 and len(machine.walk(word)) == 9
    short = dataclasses.replace(machine_of("parity", 2), delta=((1, 1), (None, None)))
    assert {len(word) for word in random_words(short, 5, 9, seed=0)} == {1}
