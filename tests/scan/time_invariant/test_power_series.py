"""Kernels from powers, against the sum as it is written, and their gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from lrbench.scan.time_invariant.power_series import power_series


def drawn(*shape: int) -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(0)
    base, weights = torch.randn(2, *shape, generator=source, dtype=torch.complex128)
    return base / 2, weights


@pytest.mark.parametrize("count", [1, 2, 3, 8, 13])
def test_entries_and_gradient(count: int) -> None:
    base, weights = drawn(2, 3)
    kernel = power_series(base, weights, count)
    for n in range(count):
        torch.testing.assert_close(kernel[:, n], 2 * (weights * base**n).sum(-1).real)
    leaves = base.requires_grad_(), weights.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, w: power_series(a, w, count), leaves)


def test_groups() -> None:
    base, weights = drawn(4, 2, 3)
    together = vmap(lambda a, w: power_series(a, w, 5))(base, weights)
    one_by_one = [power_series(a, w, 5) for a, w in zip(base, weights, strict=True)]
    torch.testing.assert_close(together, torch.stack(one_by_one))
