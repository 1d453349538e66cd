"""Answers of the fifteen tasks: released strings, strings of our own, and what is special."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE
from lrbench.tasks.chomsky.expressions import value_of
from lrbench.tasks.stream import Stream

NAMES = [name for name in TASKS.names() if name.startswith("nnch_")]
STREAM = Stream.named(0, "test")
MINE = Path(__file__).with_name("strings.jsonl")  # drawn by these tasks, answered by their oracles
SINGLE = {
    "nnch_parity_check",
    "nnch_even_pairs",
    "nnch_cycle_navigation",
    "nnch_modular_arithmetic",
    "nnch_modular_arithmetic_brackets",
    "nnch_solve_equation",
    "nnch_missing_duplicate_string",
}


def task_of(name: str, **settings: Any) -> Any:
    return make_task(TASKS.get(name).config(**settings))


def check(task: Any, symbols: list[int], target: list[int], mask: list[int]) -> None:
    """Compare a line with the task's answers, slots, scores and oracle."""
    length = len(symbols)
    tokens = symbols + [len(task.symbols)] * (task.positions(length) - length)
    batch = task._labelled(torch.tensor([tokens]))
    assert batch.targets[0].tolist() == [IGNORE] * length + target
    assert batch.counted[0].long().tolist() == [0] * length + mask
    assert task.oracle(tokens) == [IGNORE] * length + target


def test_there_are_fifteen() -> None:
    assert len(NAMES) == 15
    levels = [TASKS.get(name).cls.level for name in NAMES]
    assert [levels.count(level) for level in ("regular", "dcf", "cs")] == [4, 4, 7]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_released_strings(name: str, shared: Path) -> None:
    file = shared / "data" / "chomsky" / f"{name.removeprefix('nnch_')}.jsonl"
    if not file.is_file():
        pytest.skip(f"no {file.name} among the released data")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == 208
    task = task_of(name)
    for line in lines:
        check(task, line["input"], line["target"], line["mask"])
        assert len(line["input"]) == task.nearest_length(line["length"])


def own_lines(name: str) -> Iterator[dict[str, str]]:
    for text in MINE.read_text().splitlines():
        if (line := json.loads(text))["task"] == name:
            yield line


@pytest.mark.parametrize("name", NAMES)
def test_strings_of_our_own(name: str) -> None:
    task, lines = task_of(name), list(own_lines(name))
    assert len(lines) >= 10
    for line in lines:
        symbols = [ord(symbol) - ord("0") for symbol in line["input"]]
        check(task, symbols, *(list(map(int, line[key])) for key in ("target", "mask")))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 41, 62, 63, 64, 131])
def test_drawn_strings_have_the_oracle_s_answers(name: str, length: int) -> None:
    task = task_of(name)
    length = task.nearest_length(length)
    batch = task.sample(STREAM, 3, 12, length, "cpu")
    assert batch.tokens.shape == batch.targets.shape == (12, task.positions(length))
    assert set(batch.lengths.tolist()) == {task.positions(length)}
    empty = len(task.symbols)
    assert (batch.tokens[:, length:] == empty).all()
    assert (batch.tokens[:, :length] < empty).all()
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        assert task.oracle(tokens) == targets


@pytest.mark.parametrize("name", ["nnch_modular_arithmetic_brackets", "nnch_modular_arithmetic"])
def test_expressions_are_those_of_python(name: str) -> None:
    task = task_of(name)
    for length in (1, 2, 3, 4, 5, 9, 40, 200):
        batch = task.sample(STREAM, 0, 8, task.nearest_length(length), "cpu")
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
            text = " ".join(task.vocabulary[token] for token in tokens[:-1])
            value = eval(text.replace("\N{MULTIPLICATION SIGN}", "*"))
            assert targets[-1] == value % 5


def test_equations_have_one_solution() -> None:
    task = task_of("nnch_solve_equation")
    batch = task.sample(STREAM, 0, 40, 30, "cpu")
    for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True):
        left, right = " ".join(task.vocabulary[token] for token in tokens[:-1]).split("=")
        right_digits = [d for d in range(5) if eval(left.replace("x", str(d))) % 5 == int(right)]
        assert right_digits == [targets[-1]]


def test_an_expression_that_goes_on_is_refused() -> None:
    with pytest.raises(ValueError, match="goes on behind"):
        value_of([1, 5, 2])


@pytest.mark.parametrize("name", sorted(SINGLE))
@pytest.mark.parametrize("length", [1, 7, 40])
def test_one_answer_may_be_asked_without_a_query(name: str, length: int) -> None:
    asked, plain = task_of(name), task_of(name, query=False)
    length = asked.nearest_length(length)
    assert plain.vocabulary == asked.vocabulary[:-1]
    with_query, without = (task.sample(STREAM, 1, 9, length, "cpu") for task in (asked, plain))
    assert torch.equal(without.tokens, with_query.tokens[:, :-1])
    assert torch.equal(without.targets[:, -1], with_query.targets[:, -1])
    assert (without.targets[:, :-1] == IGNORE).all()
    assert plain.oracle(without.tokens[0].tolist()) == without.targets[0].tolist()
    assert plain.config.title == f"{name} (no query)"


def test_only_one_answer_can_be_without_a_query() -> None:
    assert {name for name in NAMES if not TASKS.get(name).cls.averaged} == SINGLE
    for name in set(NAMES) - SINGLE:
        with pytest.raises(TypeError, match="query"):
            task_of(name, query=False)


@pytest.mark.parametrize(
    ("name", "length", "strings"),
    [
        ("nnch_binary_addition", 1, {"0": "02"}),
        ("nnch_binary_addition", 2, {"00": "020", "10": "120", "01": "012"}),
        ("nnch_binary_multiplication", 1, {"0": "2"}),
        ("nnch_binary_multiplication", 2, {"00": "02", "10": "02", "01": "02"}),
        ("nnch_solve_equation", 2, {"00": "0"}),
        ("nnch_missing_duplicate_string", 1, {"1": "1"}),
        ("nnch_stack_manipulation", 1, {"0": "02", "1": "12"}),
        ("nnch_compute_sqrt", 1, {"1": "1"}),
        ("nnch_even_pairs", 1, {"0": "0", "1": "0"}),
    ],
)
def test_the_shortest_strings(name: str, length: int, strings: dict[str, str]) -> None:
    task = task_of(name)
    batch = task.sample(STREAM, 0, 200, length, "cpu")
    found = {
        "".join(map(str, tokens[:length])): "".join(map(str, targets[length:]))
        for tokens, targets in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)
    }
    assert found == strings


def test_even_lengths_of_modular_arithmetic_are_refused_and_shortened() -> None:
    task = task_of("nnch_modular_arithmetic")
    assert task.nearest_length(40) == 39
    with pytest.raises(UserError, match=r"no strings of length 40; it has odd lengths") as error:
        task.sample(STREAM, 0, 1, 40, "cpu")
    assert str(error.value).endswith("use 39, the nearest below")
