"""Causal convolutions: Toeplitz products and transforms give the sum as it is written."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from lrbench.scan.time_invariant.convolution import (
    LONGEST_TOEPLITZ,
    causal_convolution,
    channels_first,
    channels_last,
    delayed,
    fft_convolution,
    reference_convolution,
    toeplitz,
)


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(1, 20))
def test_both_ways_are_the_sum(channels: int, batch: int, length: int) -> None:
    u, kernel = draw(channels, batch, length), draw(channels, length, seed=1)
    expected = reference_convolution(u, kernel)
    torch.testing.assert_close(u @ toeplitz(kernel), expected)
    torch.testing.assert_close(fft_convolution(u, kernel), expected)


@pytest.mark.parametrize("length", [LONGEST_TOEPLITZ, LONGEST_TOEPLITZ + 1])
def test_either_side_of_the_change_of_method(length: int) -> None:
    u, kernel = draw(2, 3, length), draw(2, length, seed=1)
    y = causal_convolution(u, kernel)
    torch.testing.assert_close(y, reference_convolution(u, kernel), rtol=1e-8, atol=1e-8)


def test_transforms_do_not_wrap_the_future_into_the_past() -> None:
    u, kernel = draw(2, 1, 300), draw(2, 300, seed=1)
    pushed = u.clone()
    pushed[..., 200:] += 10
    before, after = fft_convolution(u, kernel), fft_convolution(pushed, kernel)
    assert (before - after)[..., :200].abs().max() < 1e-11
    assert (before - after)[..., 200].abs().max() > 1e-2


def test_toeplitz_entries() -> None:
    matrix = toeplitz(torch.tensor([[1.0, 2.0, 3.0]]))[0]
    assert matrix.tolist() == [[1, 2, 3], [0, 1, 2], [0, 0, 1]]
    assert delayed(torch.tensor([[1.0, 2.0, 3.0]])).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1, 4), (2, 3, 1), (1, 1, 1)])
def test_order_of_axes_and_back(shape: tuple[int, int, int]) -> None:
    u = draw(*shape).requires_grad_()
    first = channels_first(u)
    torch.testing.assert_close(first, u.permute(2, 0, 1))
    torch.testing.assert_close(channels_last(first), u)
    assert torch.autograd.gradcheck(channels_first, u)
    assert torch.autograd.gradcheck(channels_last, u)
