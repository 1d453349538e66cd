"""Elementwise transitions by symbol: tables of any size, and no copy of them per position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lrbench.kernels.rows import LARGEST_PRODUCT
from lrbench.scan import Diagonal, Indexed, scan

Make = Callable[..., Any]
KINDS = [
    "indexed diagonal",
    "indexed complex",
    "indexed constant diagonal",
    "indexed constant complex",
    "indexed constant blocks",
]


@pytest.mark.parametrize("symbols", [1, LARGEST_PRODUCT, LARGEST_PRODUCT + 1])
@pytest.mark.parametrize("kind", KINDS)
def test_tables_of_any_size(recurrence: Make, kind: str, symbols: int) -> None:
    case = recurrence(kind, 6, batch=20, symbols=symbols)
    torch.testing.assert_close(
        (case.states("sequential"), *case.gradients("sequential")),
        (case.states("reference"), *case.gradients("reference")),
        rtol=1e-9,
        atol=1e-9,
    )


class Largest(TorchDispatchMode):
    """Keeps the tensors that are made and as large as `numbers`."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.numbers, self.met = numbers, {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, torch.Tensor) and tensor.numel() >= self.numbers:
                self.met[tensor.untyped_storage().data_ptr()] = tensor
        return result


def test_only_the_states_are_as_long_as_strings(recurrence: Make) -> None:
    a, b, x = recurrence("indexed diagonal", 1, batch=16, symbols=2).leaves
    index = torch.zeros(len(x), 300, dtype=torch.int64)
    upstream = torch.ones(len(x), 300, x.shape[1], dtype=x.dtype)
    with Largest(upstream.numel()) as largest:
        states = scan(Indexed(Diagonal(a), index), b, x)
        torch.autograd.grad(states, (a, b, x), upstream)
    made = {place for place, tensor in largest.met.items() if tensor.is_floating_point()}
    assert made == {states.untyped_storage().data_ptr()}
