"""The table scan: any table size, memory that does not grow with batch x length x blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lrbench.scan import BlockDiagonal, Indexed, scan
from lrbench.scan.blocks.indexed import LARGEST_TABLE, table_scan

Make = Callable[..., Any]


@pytest.mark.parametrize("symbols", [1, LARGEST_TABLE, LARGEST_TABLE + 1])
def test_tables_of_any_size(recurrence: Make, symbols: int) -> None:
    case = recurrence("indexed blocks", 6, batch=20, symbols=symbols)
    torch.testing.assert_close(
        (case.states("sequential"), *case.gradients("sequential")),
        (case.states("reference"), *case.gradients("reference")),
        rtol=1e-9,
        atol=1e-9,
    )


def test_unused_symbols_have_no_gradient(recurrence: Make) -> None:
    a, b, x = recurrence("indexed blocks", 6).leaves
    index = torch.tensor([[0, 2, 2, 0, 2, 0]]).expand(len(x), -1)
    states = scan(Indexed(BlockDiagonal(a), index), b, x)
    da, db = torch.autograd.grad(states.square().sum(), (a, b))
    used = [0, 2]
    assert (da[0].abs().amax((1, 2, 3)) > 0).nonzero().flatten().tolist() == used
    assert (db[0].abs().amax((1, 2)) > 0).nonzero().flatten().tolist() == used


def test_blocks_are_never_written_out(recurrence: Make) -> None:
    a, b, x = recurrence("indexed blocks", 1, batch=16).leaves
    length = 300
    index = torch.zeros(len(x), length, dtype=torch.int64)
    dense = len(x) * length * a[0, 0].numel()

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        numbers = 0

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple) else (result,):
                if isinstance(tensor, torch.Tensor):
                    self.numbers = max(self.numbers, tensor.numel())
            return result

    with Largest() as largest:
        scan(Indexed(BlockDiagonal(a), index), b, x).sum().backward()
    assert dense / 16 < largest.numbers < dense / 2


def test_shapes_and_symbols_that_do_not_go_together_are_refused(recurrence: Make) -> None:
    """The compiled loop reads as many numbers as the inputs say, without looking."""
    a, b, x = recurrence("indexed blocks", 6).leaves
    index = torch.zeros(len(x), 6, dtype=torch.int64)
    for table, inputs, start in (
        (a[0, :, :1], b[0], x),
        (a[0, :-1], b[0], x),
        (a[0], b[0, :, :1], x),
        (a[0], b[0], x[:, :1]),
        (a[0], b[0], x[:-1]),
    ):
        with pytest.raises(ValueError, match="do not go together"):
            table_scan(table, inputs, index, start)
    for symbol in (-1, a.shape[1]):
        with pytest.raises((IndexError, RuntimeError), match=r"not in the table|out of bounds"):
            table_scan(a[0], b[0], index + symbol, x)
