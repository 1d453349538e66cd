"""Strings of many lengths in one batch, and the lengths themselves."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE, LabelledTask
from lrbench.tasks.lengths import drawn_lengths, mixed_batch
from lrbench.tasks.stream import Stream

STREAM = Stream.named(0, "train")
WITHOUT_QUERY = ("nnch_parity_check", "nnch_modular_arithmetic", "nnch_solve_equation")
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in TASKS.names() if issubclass(TASKS.get(name).cls, LabelledTask)),
    ("group", {"ask": "last"}),
    ("regular", {"language": "tomita_1"}),
    *((name, {"query": False}) for name in WITHOUT_QUERY),
]


def task_of(name: str, **settings: Any) -> Any:
    return make_task(TASKS.get(name).config(**settings))


@pytest.mark.parametrize(("name", "settings"), SETTINGS, ids=str)
def test_rows_are_those_of_strings_of_their_length(name: str, settings: dict[str, Any]) -> None:
    """Row r has the answers of row r of `sample` at its length, and is asked nothing behind."""
    task = task_of(name, **settings)
    batch = mixed_batch(task, STREAM, 7, 12, (5, 20), "row", "cpu")
    lengths = drawn_lengths(task, STREAM, 7, 12, (5, 20), "row")
    assert len(set(lengths)) > 4
    assert batch.tokens.shape[1] == max(map(task.positions, lengths))
    assert batch.lengths.tolist() == [task.positions(length) for length in lengths]
    for row, length in enumerate(lengths):
        alone = task.sample(STREAM.from_row(row), 7, 1, length, "cpu")
        end = task.positions(length)
        assert torch.equal(batch.tokens[row, :end], alone.tokens[0])
        assert torch.equal(batch.targets[row, :end], alone.targets[0])
        assert torch.equal(batch.counted[row, :end], alone.counted[0])
        assert (batch.targets[row, end:] == IGNORE).all()
        assert not batch.counted[row, end:].any()


@pytest.mark.parametrize("name", ["sum", "nnch_reverse_string"])
def test_one_length_an_update(name: str) -> None:
    task, found = task_of(name), set()
    for step in range(200):
        batch = mixed_batch(task, STREAM, step, 2, (1, 6), "step", "cpu")
        (length,) = set(drawn_lengths(task, STREAM, step, 2, (1, 6), "step"))
        assert torch.equal(batch.tokens, task.sample(STREAM, step, 2, length, "cpu").tokens)
        found.add(length)
    assert found == set(range(1, 7))


@pytest.mark.parametrize("mix", ["step", "row"])
def test_lengths_are_a_function_of_stream_step_and_row(mix: str) -> None:
    task = task_of("sum")
    whole = drawn_lengths(task, STREAM, 3, 10, (1, 50), mix)
    assert drawn_lengths(task, STREAM.from_row(4), 3, 6, (1, 50), mix) == whole[4:]
    steps = {tuple(drawn_lengths(task, STREAM, step, 10, (1, 50), mix)) for step in range(9)}
    assert len(steps) > 5
    assert drawn_lengths(task, Stream.named(1, "train"), 3, 10, (1, 50), mix) != whole


def test_lengths_are_uniform_and_shortened_to_those_there_are() -> None:
    drawn = drawn_lengths(task_of("sum"), STREAM, 0, 20_000, (3, 12), "row")
    counts = torch.bincount(torch.tensor(drawn))[3:].double()
    assert len(counts) == 10
    assert ((counts - 2000) ** 2 / 2000).sum() < 33.7  # chi-square, 9 degrees, p = 1e-4
    odd = drawn_lengths(task_of("nnch_modular_arithmetic"), STREAM, 0, 500, (3, 40), "row")
    assert set(odd) == set(range(3, 40, 2))


@pytest.mark.parametrize(
    ("span", "mix", "complaint"),
    [
        ((3, 2), "row", "not [3, 2]"),
        ((0, 2), "row", "not [0, 2]"),
        ((1, 2), "rows", "mix must be one of step, row, not 'rows'. Did you mean 'row'?"),
    ],
)
def test_what_cannot_be_drawn(span: tuple[int, int], mix: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        drawn_lengths(task_of("sum"), STREAM, 0, 4, span, mix)


def test_lengths_of_which_there_is_none() -> None:
    with pytest.raises(UserError, match="no strings of length"):
        task_of("mod_arith").of_lengths(STREAM, 0, [3, 4], "cpu")
