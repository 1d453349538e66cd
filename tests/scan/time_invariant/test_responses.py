"""Superposed responses are the convolution that they stand for."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import grad, vmap

from lrbench.scan.time_invariant.responses import superpose, superpose_last

BATCH, SYMBOLS, WIDTH = 3, 4, 5


def draw(length: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return a kernel (S, T, D) and symbols (B, T)."""
    generator = torch.Generator().manual_seed(seed)
    kernel = torch.randn(SYMBOLS, length, WIDTH, generator=generator, dtype=torch.float64)
    return kernel, torch.randint(SYMBOLS, (BATCH, length), generator=generator)


def by_hand(kernel: Tensor, index: Tensor) -> Tensor:
    y = torch.zeros(*index.shape, WIDTH, dtype=kernel.dtype)
    for b, symbols in enumerate(index.tolist()):
        for j, symbol in enumerate(symbols):
            y[b, j:] += kernel[symbol, : len(symbols) - j]
    return y


@pytest.mark.parametrize("length", [1, 2, 9])
def test_is_the_sum_over_symbols(length: int) -> None:
    kernel, index = draw(length)
    y = by_hand(kernel, index)
    torch.testing.assert_close(superpose(kernel, index), y)
    torch.testing.assert_close(superpose_last(kernel, index), y[:, -1])


@pytest.mark.parametrize("length", [1, 4])
def test_gradients_are_derivatives(length: int) -> None:
    kernel, index = draw(length)
    assert gradcheck(lambda k: superpose(k, index), kernel.requires_grad_())


def test_groups_equal_a_loop() -> None:
    kernels, indices = (
        torch.stack(parts) for parts in zip(*map(draw, [9] * 3, range(3)), strict=True)
    )

    def loss(kernel: Tensor, index: Tensor) -> Tensor:
        return superpose(kernel, index).square().sum()

    together = vmap(grad(loss))(kernels, indices)
    for k in range(3):
        torch.testing.assert_close(together[k], grad(loss)(kernels[k], indices[k]))
