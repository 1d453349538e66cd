"""The compiled half of a perceptron with few outputs equals torch's operations."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck

from lrbench.mixers import perceptron as module
from lrbench.mixers.perceptron import COMPILED_TWO_LAYERS, TWO_LAYERS

from ..conftest import both_ways, close, draw


def case(hidden: int, outputs: int, rows: int, dtype: torch.dtype) -> list[Tensor]:
    shapes = [(hidden, 6), (hidden,), (outputs, hidden), (outputs,), (rows, 2, 6)]
    return [draw(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_plain_loop(
    rows: int, outputs: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", 16 * 9)  # pieces of nine rows, and a smaller last one
    leaves = case(16, outputs, rows, dtype)
    ours, _ = both_ways(COMPILED_TWO_LAYERS, leaves)
    theirs, _ = both_ways(TWO_LAYERS, leaves)
    close(ours, theirs)


def test_gradients_are_derivatives() -> None:
    leaves = [leaf.requires_grad_() for leaf in case(16, 3, 2, torch.float64)]
    assert gradcheck(COMPILED_TWO_LAYERS, leaves, fast_mode=True)


def test_which_perceptrons_are_compiled() -> None:
    x = torch.ones(2, 3, 8)
    layers = nn.Linear(8, 32), nn.Linear(32, 5)
    assert module._compiles(*layers, x)
    assert not module._compiles(nn.Linear(8, 30), nn.Linear(30, 5), x)
    assert not module._compiles(nn.Linear(8, 32), nn.Linear(32, 17), x)
