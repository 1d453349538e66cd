"""Compiled loops against torch's, by turning them off."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.kernels.choice import SWITCH, installed
from lrbench.scan.blocks.column import RULES

CONSTRAINTS = tuple(RULES)


needs_numba = pytest.mark.skipif(not installed(), reason="needs numba: the extra `fast`")


def both_ways(
    function: Callable[..., Tensor], leaves: Sequence[Tensor], seed: int = 0
) -> tuple[Any, Any]:
    """Return result and gradients of a function of tensors, compiled and not."""
    found = []
    before = os.environ.pop(SWITCH, None)
    try:
        for switch in ("1", "0"):
            os.environ[SWITCH] = switch
            copies = [leaf.detach().clone().requires_grad_() for leaf in leaves]
            result = function(*copies)
            generator = torch.Generator().manual_seed(seed)
            weight = torch.randn(result.shape, generator=generator, dtype=result.dtype)
            found.append((result.detach(), *torch.autograd.grad(result, copies, weight)))
    finally:
        os.environ.pop(SWITCH)
        if before is not None:
            os.environ[SWITCH] = before
    return tuple(found)


def close(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> None:
    """Compare to within some units in the last place of the largest number."""
    for one, other in zip(ours, theirs, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        epsilon = torch.finfo(one.dtype).eps * (1 + one.numel() ** 0.5)
        bound = 30 * epsilon * max(1.0, float(other.abs().max()) if other.numel() else 0.0)
        torch.testing.assert_close(one, other, rtol=0, atol=bound)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype)


def group_is_each_alone(function: Callable[..., Tensor], leaves: Sequence[Tensor]) -> None:
    """Compare the gradients of two runs at once, under vmap(grad(..)), with those of each alone."""
    made = [torch.stack([leaf, 0.5 * leaf]) for leaf in leaves]

    def loss(*parts: Tensor) -> Tensor:
        return function(*parts).square().sum()

    places = tuple(range(len(made)))
    together = torch.func.vmap(torch.func.grad(loss, argnums=places))(*made)
    for member in range(2):
        parts = [leaf[member].clone().requires_grad_() for leaf in made]
        alone = torch.autograd.grad(loss(*parts), parts)
        close([slope[member] for slope in together], alone)
