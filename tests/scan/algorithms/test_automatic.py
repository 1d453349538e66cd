"""The automatic choice: what the table says, a loop for steps and for blocks that are generated."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import Tensor

from lrbench.scan import ConstantBlocks, ConstantDiagonal, Diagonal, Indexed, Transition, scan
from lrbench.scan.algorithms.fastest import TABLE, Size, _table, fastest, size_of
from lrbench.scan.transitions import GeneratedBlocks

STATE = 64
module = import_module("lrbench.scan.algorithms.automatic")


def recurrence(form: str, batch: int, length: int) -> tuple[Transition, Tensor, Tensor]:
    inputs, initial = torch.zeros(batch, length, STATE), torch.zeros(batch, STATE)
    index = torch.zeros(batch, length, dtype=torch.int64)
    transitions: dict[str, Transition] = {
        "diagonal": Diagonal(inputs),
        "constant": ConstantDiagonal(initial[0]),
        "indexed": Indexed(Diagonal(inputs[:1, :1]), index),
        "dense": ConstantBlocks(torch.zeros(1, STATE, STATE)),
    }
    blocked = inputs.unflatten(2, (1, STATE)), initial.unflatten(1, (1, STATE))
    inputs, initial = blocked if form == "dense" else (inputs, initial)
    return transitions[form], inputs[:1, :1] if form == "indexed" else inputs, initial


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which algorithms are called, in place of the real ones."""
    calls: list[str] = []

    def instead(name: str) -> object:
        def called(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
            calls.append(name)
            return inputs

        return called

    for name in module.CHOICES:
        monkeypatch.setitem(module.CHOICES, name, instead(name))
    monkeypatch.setattr(module, "sequential", instead("sequential"))
    return calls


@pytest.mark.parametrize("reported", ["sequential", "tree", "chunked"])
@pytest.mark.parametrize("form", ["diagonal", "constant", "indexed", "dense"])
def test_it_does_what_the_table_says(
    form: str, reported: str, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Size] = []
    monkeypatch.setattr(module, "fastest", lambda size: asked.append(size) or reported)
    scan(*recurrence(form, 3, 40), "auto")
    assert made == [reported]
    assert (asked[0].length, asked[0].numbers) == (40, 3 * STATE)


def test_what_was_not_measured_takes_few_calls(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "fastest", lambda size: None)
    scan(*recurrence("diagonal", 3, 40), "auto")
    scan(*recurrence("dense", 3, 40), "auto")
    assert made == ["tree", "sequential"]


def test_a_step_is_a_loop(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fastest", lambda size: "tree")
    scan(*recurrence("diagonal", 3, 1), "auto")
    assert made == ["sequential"]


def test_generated_blocks_are_made_in_the_loop(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "fastest", lambda size: "tree")
    blocks = GeneratedBlocks(torch.zeros(2, 4, 4, 5), torch.zeros(3, 40, 5), "column_p", 1.2)
    scan(blocks, torch.zeros(3, 40, 2, 4), torch.zeros(3, 2, 4), "auto")
    assert made == ["sequential"]


def test_the_shipped_table_is_whole() -> None:
    assert TABLE.is_file()
    sizes = [size for size, _ in _table()]
    assert len(set(sizes)) == len(sizes) > 50
    assert {algorithm for _, algorithm in _table()} <= set(module.CHOICES)
    kinds = {(size.structure, size.indexed) for size in sizes if size.device == "cpu"}
    assert kinds == {
        *(
            (name, indexed)
            for name in ("diagonal", "diagonal_complex", "blocks")
            for indexed in (0, 1)
        ),
        *((f"constant_{name}", 0) for name in ("diagonal", "diagonal_complex", "blocks")),
    }


@pytest.mark.parametrize(
    ("form", "batch", "length", "expected"),
    [
        ("diagonal", 1, 500, "tree"),
        ("indexed", 128, 40, "sequential"),
        ("dense", 128, 40, "sequential"),
    ],
)
def test_clear_cases_of_the_shipped_table(
    form: str, batch: int, length: int, expected: str
) -> None:
    assert fastest(size_of(*recurrence(form, batch, length))) == expected
