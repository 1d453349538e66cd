"""What every task promises, of those with slots; and the automata with a query."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.automata.moore import MooreTask
from lrbench.tasks.base import IGNORE, WholeTask
from lrbench.tasks.chomsky.regular import QueriedTask
from lrbench.tasks.stream import Stream

NAMES = [name for name in TASKS.names() if name.startswith("nnch_")]
REGULAR = [name for name in NAMES if issubclass(TASKS.get(name).cls, QueriedTask)]
STREAM = Stream.named(0, "test")
FIELDS = ("tokens", "targets", "counted")


@pytest.fixture(params=NAMES)
def task(request: pytest.FixtureRequest) -> Any:
    return make_task(TASKS.get(request.param).config())


@pytest.mark.parametrize("segment", [1, 7, 40, 1000])
def test_segments_joined_equal_the_sample(task: Any, segment: int) -> None:
    length = task.nearest_length(20)
    whole = task.sample(STREAM, 4, 3, length, "cpu")
    pieces = list(task.segments(STREAM, 3, length, segment, "cpu", step=4))
    for field in FIELDS:
        joined = torch.cat([getattr(piece, field) for piece in pieces], 1)
        assert torch.equal(joined, getattr(whole, field))
    assert sum(int(piece.lengths[0]) for piece in pieces) == task.positions(length)


def test_rows_and_steps_depend_on_their_number_alone(task: Any) -> None:
    length = task.nearest_length(14)
    whole = task.sample(STREAM, 5, 9, length, "cpu")
    part = task.sample(STREAM.from_row(4), 5, 5, length, "cpu")
    some = task.sample(STREAM.only([7, 0, 3]), 5, 3, length, "cpu")
    together = task.samples(STREAM, range(3, 7), 9, length, "cpu")
    for field in FIELDS:
        assert torch.equal(getattr(part, field), getattr(whole, field)[4:])
        assert torch.equal(getattr(some, field), getattr(whole, field)[[7, 0, 3]])
        assert torch.equal(getattr(together[2], field), getattr(whole, field))
    other = task.sample(STREAM, 6, 9, length, "cpu")
    assert not torch.equal(other.tokens, whole.tokens)


def test_names(task: Any) -> None:
    assert len(set(task.vocabulary)) == len(task.vocabulary) == len(task.symbols) + 1
    assert len(set(task.class_names)) == task.num_classes
    assert task.version == 1
    assert task.whole == isinstance(task, WholeTask) != isinstance(task, MooreTask)


@pytest.mark.parametrize("name", REGULAR)
@pytest.mark.parametrize("query", [True, False])
def test_machines_answer_what_the_oracle_says(name: str, query: bool) -> None:
    """Of every string of up to five symbols; what cannot be one is no path of the machine."""
    task = make_task(TASKS.get(name).config(query=query))
    machine = task.machine()
    assert machine.symbols == len(task.vocabulary)
    for length in range(1, 6):
        drawn = task.sample(STREAM, 0, 400, length, "cpu") if task.valid_length(length) else None
        strings = [] if drawn is None else drawn.tokens.tolist()
        for tokens in strings:
            answer = machine.run(tokens)[-1]
            assert answer == task.oracle(tokens)[-1] != IGNORE
            if query:
                assert set(machine.run(tokens[:-1])) == {None}
                assert all(machine.delta[machine.walk(tokens)[-1]][s] is None for s in tokens)
    if query:
        assert machine.delta[machine.start][len(task.symbols)] is None


def test_a_machine_of_expressions_has_no_others() -> None:
    task = make_task(TASKS.get("nnch_modular_arithmetic").config())
    machine, found = task.machine(), 0
    for tokens in itertools.product(range(len(task.vocabulary)), repeat=3):
        digits = [token < 5 for token in tokens]
        try:
            machine.walk(tokens)
        except ValueError:
            continue
        found += 1
        valid = tokens[0] < 5 and 5 <= tokens[1] < 8 and digits[2]
        assert valid, tokens
    assert found == 5 * 3 * 5


@pytest.mark.parametrize("name", REGULAR)
def test_long_strings_of_regular_tasks_come_in_pieces(name: str) -> None:
    """Nothing longer than a piece is ever drawn: memory does not grow with the length."""
    task, asked = make_task(TASKS.get(name).config()), []
    symbols = task._symbols

    def noted(stream: Stream, step: int, rows: int, start: int, stop: int, device: str) -> Any:
        asked.append(stop - start)
        return symbols(stream, step, rows, start, stop, device)

    task._symbols = noted
    last = None
    for last in task.segments(STREAM, 4, 4999, 64, "cpu"):
        assert last.tokens.shape[1] <= 64
    assert max(asked) == 64
    assert sum(asked) == 4999
    whole = task.sample(STREAM, 0, 4, 4999, "cpu")
    assert last is not None
    assert torch.equal(last.targets[:, -1], whole.targets[:, -1])
    assert task.oracle(whole.tokens[0].tolist())[-1] == int(whole.targets[0, -1])
