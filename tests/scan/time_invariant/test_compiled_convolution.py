"""Compiled convolutions and responses to symbols equal torch's, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.scan.time_invariant.convolution import convolve
from lrbench.scan.time_invariant.responses import superpose
from tests.both_ways import both_ways, needs_numba

pytestmark = needs_numba

TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


def draw(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7, 8, 40, 129])  # 129 is not compiled
@pytest.mark.parametrize("width", [16, 48])
def test_convolutions(length: int, width: int, dtype: torch.dtype) -> None:
    leaves = draw(3, length, width, dtype=dtype), draw(width, length, dtype=dtype, seed=1)
    found = both_ways(convolve, leaves)
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(*found, rtol=tolerance, atol=30 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 40])
@pytest.mark.parametrize(
    ("dtype", "width"),
    [*((torch.float32, width) for width in (16, 96, 64)), (torch.float64, 16)],
)
def test_responses(length: int, width: int, dtype: torch.dtype) -> None:
    index = torch.randint(5, (3, length), generator=torch.Generator().manual_seed(2))
    found = both_ways(
        lambda kernel: superpose(kernel, index), (draw(5, length, width, dtype=dtype),)
    )
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(*found, rtol=tolerance, atol=10 * tolerance)


def test_a_symbol_outside_the_table_is_refused() -> None:
    with pytest.raises(IndexError):
        superpose(draw(2, 3, 16, dtype=torch.float32), torch.tensor([[0, 1, 2]]))
