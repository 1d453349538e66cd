"""The compiled scan over a table equals torch's loop, at every shape, and refuses bad symbols."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from lrbench.scan.blocks.indexed import table_scan
from tests.both_ways import both_ways, close, draw, needs_numba

pytestmark = needs_numba


def case(
    size: int, heads: int, symbols: int, length: int, batch: int, dtype: Any = torch.float64
) -> tuple[Tensor, list[Tensor]]:
    index = torch.randint(
        symbols, (batch, length), generator=torch.Generator().manual_seed(size + length)
    )
    leaves = [
        draw(symbols, heads, size, size, dtype=dtype) / size,
        draw(symbols, heads, size, seed=1, dtype=dtype),
        draw(batch, heads, size, seed=2, dtype=dtype),
    ]
    return index, leaves


@settings(max_examples=25)
@given(
    size=st.sampled_from([1, 3]),  # larger ones below
    heads=st.integers(1, 4),
    symbols=st.integers(1, 7),
    length=st.integers(1, 9),
    batch=st.integers(1, 7),
)
def test_equals_the_loop(size: int, heads: int, symbols: int, length: int, batch: int) -> None:
    index, leaves = case(size, heads, symbols, length, batch)
    close(*both_ways(lambda a, b, x: table_scan(a, b, index, x), leaves))


def test_equals_the_loop_in_single_precision() -> None:
    index, leaves = case(8, 8, 5, 40, 12, torch.float32)
    close(*both_ways(lambda a, b, x: table_scan(a, b, index, x), leaves))


def test_gradients_are_derivatives() -> None:
    index, leaves = case(3, 2, 3, 4, 2)
    leaves = [leaf.requires_grad_() for leaf in leaves]
    assert gradcheck(lambda a, b, x: table_scan(a, b, index, x), leaves)


def test_tensors_may_lie_in_memory_in_any_way() -> None:
    index, leaves = case(8, 2, 5, 6, 4, torch.float32)
    odd = [leaf.mT.contiguous().mT for leaf in leaves[:2]]
    start = leaves[2][:1].expand(4, -1, -1)
    sideways = index.T.contiguous().T
    close(
        [table_scan(*odd, sideways, start)],
        [table_scan(*leaves[:2], index, start.contiguous())],
    )


def test_the_same_bits_every_time() -> None:
    index, leaves = case(8, 8, 5, 40, 16, torch.float32)
    first, _ = both_ways(lambda a, b, x: table_scan(a, b, index, x), leaves)
    second, _ = both_ways(lambda a, b, x: table_scan(a, b, index, x), leaves)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("symbol", [-1, 5, 10**9])
def test_a_symbol_that_is_not_in_the_table_is_refused(symbol: int) -> None:
    index, leaves = case(8, 2, 5, 6, 4, torch.float32)
    index[2, 3] = symbol
    with pytest.raises(IndexError, match="not in the table"):
        table_scan(*leaves[:2], index, leaves[2])
