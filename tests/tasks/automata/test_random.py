"""Random automata are what their kind says: monoids, words and groups by slow obvious code."""

from __future__ import annotations

from collections import deque
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from lrbench.tasks import make_task
from lrbench.tasks.automata.dfa import DfaConfig
from lrbench.tasks.automata.random import RandomAutomaton, automaton, is_aperiodic, is_synchronising
from lrbench.tasks.stream import Stream

SEEDS = range(12)


def drawn(
    states: int, letters: int, kind: str, seed: int, target: str = "state"
) -> RandomAutomaton:
    return automaton(states, letters, kind, seed, target, 0.1)


def monoid(table: Any) -> set[tuple[int, ...]]:
    """The maps of all words, shortest words first."""
    letters = [tuple(column) for column in np.asarray(table).T.tolist()]
    found, waiting = set(letters), deque(letters)
    while waiting:
        word = waiting.popleft()
        for letter in letters:
            longer = tuple(letter[state] for state in word)
            if longer not in found:
                found.add(longer)
                waiting.append(longer)
    return found


def has_cycle(word: tuple[int, ...]) -> bool:
    """Whether following a map from some state comes back to it only after more than one step."""
    for start in range(len(word)):
        state = word[start]
        for _ in word:
            if state == start:
                break
            state = word[state]
        if state == start and word[start] != start:
            return True
    return False


def accepted_after(table: Any, state: int, accepting: Any, longest: int) -> list[bool]:
    """Whether each word of up to `longest` letters is accepted from `state`."""
    reported = []
    for length in range(longest + 1):
        for word in product(range(len(table[0])), repeat=length):
            at = state
            for letter in word:
                at = table[at][letter]
            reported.append(bool(accepting[at]))
    return reported


@pytest.mark.parametrize(
    ("states", "letters", "kind"),
    [(3, 2, "uniform"), (5, 2, "permutation"), (5, 3, "reset"), (4, 2, "aperiodic")],
)
def test_automata_are_whole_minimal_and_balanced(states: int, letters: int, kind: str) -> None:
    for seed in SEEDS:
        found = drawn(states, letters, kind, seed, "accept")
        table = found.table.tolist()
        reached = {0} | {word[0] for word in monoid(table)}
        assert reached == set(range(states))
        reported = [accepted_after(table, q, found.accepting, states - 1) for q in range(states)]
        assert all(reported[p] != reported[q] for p in range(states) for q in range(p))
        share = np.zeros(states)
        share[0] = 1
        for _ in range(40):
            after = np.zeros(states)
            for state, letter in product(range(states), range(letters)):
                after[table[state][letter]] += share[state] * found.chances[letter]
            share = after
        assert 0.3 <= share[list(found.accepting)].sum() <= 0.7


def test_kinds() -> None:
    for seed in SEEDS:
        letters = drawn(6, 3, "permutation", seed).table.T
        assert (np.sort(letters, 1) == np.arange(6)).all()
        *others, reset = drawn(6, 3, "reset", seed).table.T
        assert all(sorted(letter) == list(range(6)) for letter in others)
        assert len(set(reset.tolist())) == 1
        for n, k in ((3, 2), (5, 3)):
            assert not any(map(has_cycle, monoid(drawn(n, k, "aperiodic", seed).table)))


def test_most_permutation_automata_generate_a_group_that_cannot_be_solved() -> None:
    orders = [len(monoid(drawn(5, 2, "permutation", seed).table)) for seed in range(40)]
    assert sum(order in (60, 120) for order in orders) > 20


def test_aperiodic_and_synchronising_by_their_definitions() -> None:
    """Of uniform tables of every sort; both must come, or the test says nothing."""
    generator, seen = np.random.default_rng(0), set()
    for _ in range(200):
        table = generator.integers(0, 4, (4, 2))
        words = monoid(table)
        aperiodic = not any(map(has_cycle, words))
        synchronising = any(len(set(word)) == 1 for word in words)
        assert (is_aperiodic(table), is_synchronising(table)) == (aperiodic, synchronising)
        seen.add((aperiodic, synchronising))
    assert len(seen) >= 3


@pytest.mark.slow
def test_rates_are_those_that_were_measured_elsewhere() -> None:
    """Uniform tables of 3 states and 2 letters: about 0.38 are reachable and minimal."""
    tables = [drawn(3, 2, "uniform", seed).tables for seed in range(300)]
    # an automaton has twenty sets of accepting states to be minimal by, not one: 0.38 to 0.60
    assert 1 / 0.62 < np.mean(tables) < 1 / 0.36
    minimal = [drawn(3, 2, "uniform", seed) for seed in range(300)]
    assert 0.05 < np.mean([is_aperiodic(one.table) for one in minimal]) < 0.3
    assert 0.78 < np.mean([one.synchronisation is not None for one in minimal]) < 0.94


def test_synchronisation_is_the_mean_time_until_all_states_are_one() -> None:
    """Where one letter of two resets and the other permutes, the mean is 1 / (1 - p) letters."""
    found = automaton(5, 2, "reset", 0, "state", 0.25)
    assert found.synchronisation == pytest.approx(4, abs=1)
    assert drawn(5, 2, "permutation", 0).synchronisation is None


def test_an_automaton_depends_on_its_seed_and_not_on_the_data_seed() -> None:
    task = make_task(DfaConfig(states=8, letters=3, automaton=4))
    table = task.drawn()["table"]
    assert make_task(DfaConfig(states=8, letters=3, automaton=4)).drawn()["table"] == table
    assert make_task(DfaConfig(states=8, letters=3, automaton=5)).drawn()["table"] != table
    assert task.machine().table.tolist() == table


def test_resets_come_as_often_as_asked() -> None:
    task = make_task(DfaConfig(states=8, letters=3, kind="reset", reset_p=0.3))
    tokens = task.sample(Stream.named(0, "test"), 0, 1000, 40, "cpu").tokens
    rates = torch.bincount(tokens.flatten(), minlength=3) / tokens.numel()
    assert rates.tolist() == pytest.approx([0.35, 0.35, 0.3], abs=0.01)
    assert task.drawn()["letter_chances"] == pytest.approx([0.35, 0.35, 0.3])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"states": 2, "letters": 1, "kind": "aperiodic", "target": "accept"}, "no aperiodic aut"),
        ({"states": 2, "letters": 1, "kind": "permutation", "target": "accept"}, "and balanced"),
        ({"states": 6, "kind": "aperiodic"}, "at most 5 states and 3 letters, not 6 and 2"),
        ({"letters": 1, "kind": "reset"}, "one of them resets"),
        ({"reset_p": 0.2}, "task.reset_p is for task.kind=reset"),
        ({"kind": "reset", "reset_p": 1.0}, "must lie between 0 and 1"),
        ({"states": 1}, "task.states must be at least 2"),
        ({"states": 101}, "task.states must be at most 100"),
        ({"kind": "random"}, "task.kind must be one of uniform"),
        ({"target": "states"}, "Did you mean 'state'"),
    ],
)
def test_what_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as error:
        DfaConfig(**settings)
    assert len(str(error.value).splitlines()) <= 3


def test_two_states_can_be_aperiodic_and_accept() -> None:
    """Two letters that each lead to a state of their own: words that end in one of them."""
    found = drawn(2, 2, "aperiodic", 0, "accept")
    assert sorted(found.table.T.tolist()) == [[0, 0], [1, 1]]
