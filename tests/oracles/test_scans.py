"""Our scans against other people's: torch's prototype and accelerated-scan, where installed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.scan import ALGORITHMS, BlockDiagonal, Diagonal, scan


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=dtype)


def associative_scan(real: bool = True) -> Any:
    """Torch's own; that of 2.6 cannot compile complex numbers or products of matrices."""
    if not real and torch.__version__.startswith("2.6."):
        pytest.skip("torch 2.6 cannot compile this")
    return pytest.importorskip("torch._higher_order_ops.associative_scan")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_diagonal_equals_torch(algorithm: str, dtype: torch.dtype) -> None:
    module = associative_scan(real=dtype == torch.float64)
    a, b = (draw(2, 13, 4, dtype=dtype, seed=seed) for seed in (0, 1))

    def joined(
        first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    _, theirs = module.associative_scan(joined, (a, b), dim=1, combine_mode="generic")
    ours = scan(Diagonal(a), b, torch.zeros(2, 4, dtype=dtype), algorithm)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_blocks_equal_torch(algorithm: str) -> None:
    module = associative_scan(real=False)
    a, b = draw(2, 13, 3, 4, 4) / 2, draw(2, 13, 3, 4)

    def joined(
        first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        return second[0] @ first[0], (second[0] @ first[1][..., None])[..., 0] + second[1]

    _, theirs = module.associative_scan(joined, (a, b), dim=1, combine_mode="generic")
    ours = scan(BlockDiagonal(a), b, torch.zeros(2, 3, 4, dtype=torch.float64), algorithm)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_diagonal_equals_accelerated_scan(algorithm: str) -> None:
    module = pytest.importorskip("accelerated_scan.ref")
    a, b = draw(2, 4, 16), draw(2, 4, 16, seed=1)  # theirs is (B, C, T)
    ours = scan(Diagonal(a.mT), b.mT, torch.zeros(2, 4, dtype=torch.float64), algorithm)
    torch.testing.assert_close(ours, module.scan(a, b).mT, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("length", [16, 13])
def test_diagonal_equals_mambapy(algorithm: str, length: int) -> None:
    """Its scan has a backward of its own: gradients are compared as well."""
    module = pytest.importorskip("mambapy.pscan")
    a = draw(2, length, 3, 4).requires_grad_()  # theirs is (B, T, D, N)
    b = draw(2, length, 3, 4, seed=1).requires_grad_()
    theirs = module.pscan(a, b)
    expected = torch.autograd.grad(theirs.cos().sum(), (a, b))
    zero = torch.zeros(2, 12, dtype=torch.float64)
    ours = scan(Diagonal(a.flatten(2)), b.flatten(2), zero, algorithm).unflatten(2, (3, 4))
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    found = torch.autograd.grad(ours.cos().sum(), (a, b))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
