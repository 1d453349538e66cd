"""The automatic choice: trees for little work a position, loops otherwise."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import Tensor

from lrbench.scan import ConstantBlocks, ConstantDiagonal, Diagonal, Indexed, Transition, scan

STATE = 64


@pytest.mark.parametrize(
    ("form", "batch", "length", "expected"),
    [
        ("diagonal", 1, 500, "tree"),
        ("diagonal", 128, 500, "sequential"),
        ("diagonal", 1, 1, "sequential"),  # a step
        ("constant", 1, 500, "tree"),
        ("constant", 128, 500, "sequential"),
        ("indexed", 1, 500, "tree"),
        ("indexed", 128, 40, "sequential"),
        ("dense", 128, 40, "sequential"),
        ("dense", 16, 500, "tree"),
    ],
)
def test_choice(
    form: str, batch: int, length: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = import_module("lrbench.scan.automatic")
    made: list[str] = []
    for name in ("tree", "sequential"):

        def called(
            transition: Transition, inputs: Tensor, initial: Tensor, name: str = name
        ) -> Tensor:
            made.append(name)
            return inputs

        monkeypatch.setattr(module, name, called)
    inputs, initial = torch.zeros(batch, length, STATE), torch.zeros(batch, STATE)
    index = torch.zeros(batch, length, dtype=torch.int64)
    transitions: dict[str, Transition] = {
        "diagonal": Diagonal(inputs),
        "constant": ConstantDiagonal(initial[0]),
        "indexed": Indexed(Diagonal(inputs[:1, :1]), index),
        "dense": ConstantBlocks(torch.zeros(1, STATE, STATE)),
    }
    scan(transitions[form], inputs[:1, :1] if form == "indexed" else inputs, initial, "auto")
    assert made == [expected]
