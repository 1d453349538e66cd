"""Column constraints: against torch's norms by autograd, at zero, and the range they promise."""

from __future__ import annotations

from math import inf

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import grad, vmap

from lrbench.scan.blocks.constraints import CONSTRAINTS, PIECE, constrain

POWERS = [1.0, 1.2, 2.0, inf]
ACTIVE = [name for name in CONSTRAINTS if name != "none"]
every_pair = [
    pytest.mark.parametrize("p", POWERS),
    pytest.mark.parametrize("constraint", CONSTRAINTS),
]


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def by_torch(blocks: Tensor, constraint: str, p: float) -> Tensor:
    """The same constraint in torch's own operations."""
    if constraint == "none":
        return blocks
    if constraint == "max_column_centred":
        blocks = blocks - blocks.mean(-3, keepdim=True)
    norms = torch.linalg.vector_norm(blocks, p, dim=-3, keepdim=True)
    if constraint == "column_clip":
        return blocks / norms.clamp(min=1)
    return blocks / (norms.amax(-2, keepdim=True) if "max" in constraint else norms)


@pytest.mark.slow
@every_pair[0]
@every_pair[1]
@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_equals_torch(constraint: str, p: float, scale: float) -> None:
    blocks = draw(3, 2, 4, 4, 5, scale=scale).requires_grad_()
    ours, theirs = constrain(blocks, constraint, p), by_torch(blocks, constraint, p)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
    weight = draw(*blocks.shape, seed=1)
    gradients = [torch.autograd.grad((y * weight).sum(), blocks)[0] for y in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-11)


@every_pair[0]
@pytest.mark.parametrize("constraint", ACTIVE)
def test_gradient_is_the_derivative(constraint: str, p: float) -> None:
    blocks = draw(2, 3, 3, 2, seed=3).requires_grad_()
    assert gradcheck(lambda v: constrain(v, constraint, p), blocks)


@every_pair[0]
@every_pair[1]
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_zero_columns_have_finite_gradients(constraint: str, p: float, dtype: torch.dtype) -> None:
    blocks = draw(2, 4, 4, 3).to(dtype)
    blocks[0, :, 1] = 0  # a zero column
    blocks[1, :, :, 2] = 0  # a zero block
    blocks.requires_grad_()
    scaled = constrain(blocks, constraint, p)
    scaled.square().sum().backward()
    assert scaled.isfinite().all() and blocks.grad is not None and blocks.grad.isfinite().all()


@every_pair[0]
@pytest.mark.parametrize("constraint", ACTIVE)
@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-10, 1e10, 1e30])
def test_extreme_columns_stay_finite_in_float32(constraint: str, p: float, scale: float) -> None:
    blocks = (draw(1, 4, 4, 3) * scale).float().requires_grad_()
    scaled = constrain(blocks, constraint, p)
    assert scaled.isfinite().all()
    if p <= 1.2 and scale >= 1e-30:
        torch.testing.assert_close(
            scaled.double(), by_torch(blocks.double(), constraint, p), rtol=1e-4, atol=1e-5
        )


@every_pair[0]
@pytest.mark.parametrize("constraint", ACTIVE)
def test_columns_lie_in_the_unit_ball(constraint: str, p: float) -> None:
    norms = torch.linalg.vector_norm(
        constrain(draw(50, 8, 8, 4), constraint, p), p, dim=-3
    )  # (50, 8 columns, 4)
    assert norms.max() <= 1 + 1e-12
    if constraint == "column_unit":
        torch.testing.assert_close(norms, torch.ones_like(norms))


def test_clipping_leaves_short_columns_alone() -> None:
    blocks = draw(4, 3, 3, 2, scale=0.1)
    assert torch.equal(constrain(blocks, "column_clip", 2.0), blocks)


def test_zero_one_columns_are_kept_exactly() -> None:
    """Every automaton of at most b states has such blocks: a column of norm one is not touched."""
    permutation = torch.eye(8)[torch.randperm(8, generator=torch.Generator().manual_seed(0))]
    for p in POWERS:
        assert torch.equal(constrain(permutation[..., None], "column_clip", p)[..., 0], permutation)


@every_pair[0]
def test_released_blocks_have_zero_sums_and_a_largest_column_of_one(p: float) -> None:
    blocks = constrain(draw(50, 8, 8, 4), "max_column_centred", p)
    torch.testing.assert_close(blocks.sum(-3), torch.zeros(50, 8, 4).double())
    largest = torch.linalg.vector_norm(blocks, p, dim=-3).amax(-2)
    torch.testing.assert_close(largest, torch.ones_like(largest))


def test_a_block_of_constant_columns_becomes_zero() -> None:
    blocks = torch.ones(1, 4, 4, 2)
    assert torch.equal(constrain(blocks, "max_column_centred", 1.2), torch.zeros(1, 4, 4, 2))


def test_spectral_bound_is_attained() -> None:
    """Columns of p-norm one allow a radius of b^(1 - 1/p): p = 1.2 is no contraction."""
    ones = torch.ones(8, 8, dtype=torch.float64)
    block = constrain(ones[..., None], "column_clip", 1.2)[..., 0]
    radius = torch.linalg.eigvals(block).abs().max()
    torch.testing.assert_close(radius.item(), 8 ** (1 - 1 / 1.2))


def test_pieces_do_not_show() -> None:
    """More numbers than one piece holds, with a last piece that is smaller."""
    rows = PIECE // 64 + 3
    blocks = draw(rows, 2, 2, 16)
    whole = constrain(blocks, "column_unit", 1.2)
    apart = torch.cat([constrain(part, "column_unit", 1.2) for part in blocks.split(100)])
    assert torch.equal(whole, apart)


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ACTIVE)
def test_groups_equal_a_loop(constraint: str) -> None:
    blocks = draw(3, 2, 4, 4, 5)
    slope = grad(lambda v: constrain(v, constraint, 1.2).sin().sum())
    torch.testing.assert_close(vmap(slope)(blocks), torch.stack([slope(v) for v in blocks]))
