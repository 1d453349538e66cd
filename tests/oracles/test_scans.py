"""Our scans against other people's: torch's prototype and accelerated-scan, where installed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.scan import ALGORITHMS, BlockDiagonal, Diagonal, scan


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=dtype)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_diagonal_equals_torch(algorithm: str, dtype: torch.dtype) -> None:
    module = pytest.importorskip("torch._higher_order_ops.associative_scan")
    a, b = draw(2, 13, 4, dtype=dtype), draw(2, 13, 4, dtype=dtype)

    def joined(
        first: tuple[Tensor, Tensor], second: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        return first[0] * second[0], second[0] * first[1] + second[1]

    _, theirs = module.associative_scan(joined, (a, b), dim=1, combine_mode="generic")
    ours = scan(Diagonal(a), b, torch.zeros(2, 4, dtype=dtype), algorithm)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_blocks_equal_torch(algorithm: str) -> None:
    module = pytest.importorskip("torch._higher_order_ops.associative_scan")
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
    a, b = draw(2, 4, 16), draw(2, 4, 16)  # theirs is (B, C, T)
    ours = scan(Diagonal(a.mT), b.mT, torch.zeros(2, 4, dtype=torch.float64), algorithm)
    torch.testing.assert_close(ours, module.scan(a, b).mT, rtol=1e-9, atol=1e-9)
