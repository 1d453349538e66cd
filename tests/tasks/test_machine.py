"""Machines say what the oracle says, on every string, and are as small as can be."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE, Task
from lrbench.tasks.machine import Machine, explored, minimised

# (task, modulus, states, longest string of all that are tried)
FINITE = (
    ("sum", 2, 2, 12),
    ("sum", 5, 5, 7),
    ("sum", 7, 7, 5),
    ("parity", 2, 2, 12),
    ("even_pair", 2, 5, 12),
    ("even_pair", 5, 11, 7),
    ("mod_arith", 2, 8, 9),
    ("mod_arith", 5, 50, 7),
    ("mod_arith_ltr", 2, 5, 9),
    ("mod_arith_ltr", 5, 18, 7),
)


def task_of(name: str, modulus: int) -> Task:
    return make_task(TASKS.get(name).config(modulus=modulus))


def valid_strings(task: Task, longest: int) -> Iterator[tuple[int, ...]]:
    """All strings that the task can draw: of ModArith, a number and an operator in turn."""
    symbols = range(len(task.vocabulary))
    choices: list[Any] = [symbols] * longest
    if task.name.startswith("mod_arith"):
        numbers = range(task.num_classes)
        choices = [numbers, range(task.num_classes, len(symbols))] * longest
    for length in range(1, longest + 1):
        if task.valid_length(length):
            yield from product(*choices[:length])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "modulus", "states", "longest"), FINITE)
def test_a_machine_answers_as_the_oracle(
    name: str, modulus: int, states: int, longest: int
) -> None:
    task = task_of(name, modulus)
    machine = task.machine()
    assert machine is not None
    assert (machine.states, machine.symbols) == (states, len(task.vocabulary))
    tried = 0
    for tokens in valid_strings(task, longest):
        expected = [None if answer == IGNORE else answer for answer in task.oracle(tokens)]
        assert machine.run(tokens) == expected, tokens
        tried += 1
    assert tried > 500
    assert minimised(machine).states == states


def test_other_strings_are_not_valid() -> None:
    machine = task_of("mod_arith", 5).machine()
    assert machine is not None
    for tokens in ([0, 0], [5], [0, 5, 6], [0, 5, 0, 1], [8], [-1]):
        with pytest.raises(ValueError, match="cannot be"):
            machine.run(tokens)
    with pytest.raises(ValueError, match="symbol 3 cannot be 6 in a valid string"):
        machine.walk([0, 5, 6])
    assert (machine.table < 0).sum() == 25 * 5 + 25 * 3


def test_series_and_corpora_have_none() -> None:
    for name in ("mackey_glass", "listops", "logic"):
        assert make_task(TASKS.get(name).config()).machine() is None


def test_minimised_merges_what_no_string_tells_apart() -> None:
    """Sums mod 6 asked mod 2 are parity; with one answer changed all six states are needed."""
    six = tuple(tuple((q + s) % 6 for s in range(6)) for q in range(6))
    names = tuple(map(str, range(6)))
    by_two = minimised(Machine(names, 0, six, tuple(q % 2 for q in range(6))))
    assert by_two.names == ("0", "1")
    assert by_two.delta == ((0, 1, 0, 1, 0, 1), (1, 0, 1, 0, 1, 0))
    odd_one = minimised(Machine(names, 0, six, (0, 1, 0, 1, 0, 2)))
    assert odd_one.states == 6


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 100 states"):
        explored(0, 1, lambda state, _: state + 1, lambda state: 0, most=100)


def test_a_machine_is_whole() -> None:
    with pytest.raises(ValueError, match="an edge, or None"):
        Machine(("a", "b"), 0, ((0, 1), (1,)), (0, 1))
    with pytest.raises(ValueError, match="states 0 to 1"):
        Machine(("a", "b"), 0, ((0, 2), (1, 0)), (0, 1))
    with pytest.raises(ValueError, match="2 names"):
        Machine(("a", "b"), 0, ((0, 1), (1, 0)), (0,))
