"""Walks over carried states of every kind."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.states import changed, leaves
from tests.mixers.kinds_of_state import Named


def numbers(*values: float) -> Tensor:
    return torch.tensor(values)


@pytest.mark.parametrize(
    "state",
    [
        numbers(1, 2),
        (numbers(1), [numbers(2)]),
        Named(numbers(1), numbers(2)),
        {"b": numbers(2), "a": numbers(1)},
        [{"a": Named(numbers(1), numbers(2))}],
    ],
)
def test_every_kind_is_walked_in_order_and_stays_what_it_was(state: Any) -> None:
    assert torch.cat(leaves(state)).tolist() == [1, 2]
    seen: list[Tensor] = []
    again = changed(lambda leaf, other: seen.append(leaf) or leaf + other, state, state)
    assert torch.cat(seen).tolist() == [1, 2]
    assert torch.cat(leaves(again)).tolist() == [2, 4]
    assert type(again) is type(state)
    if isinstance(state, dict):
        assert list(again) == list(state)


def test_what_is_no_tensor_stays() -> None:
    assert changed(lambda leaf: leaf + 1, (numbers(1), None, "x"))[1:] == (None, "x")
    assert leaves((None, "x")) == []
