"""Constraints on a table of blocks equal those on blocks with the batch last."""

from __future__ import annotations

from math import inf

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from lrbench.scan.blocks.constraints import CONSTRAINTS, constrain, constrain_few
from tests.both_ways import both_ways, close, draw, needs_numba

pytestmark = needs_numba

COMPILED = {"column_clip": (1, 3, 8), "column_unit": (1, 3), "max_column_centred": (1, 3)}
CASES = [(size, name) for name, sizes in COMPILED.items() for size in (*sizes, 33)]  # 33: by torch


def wide(blocks: Tensor, constraint: str, p: float) -> Tensor:
    return constrain(blocks.permute(1, 2, 0), constraint, p).permute(2, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1.0, 1.2, 2.0, inf])
@pytest.mark.parametrize(("size", "constraint"), CASES)
def test_equals_the_batched_constraint(size: int, constraint: str, p: float) -> None:
    leaf = draw(4, size, size)
    few, _ = both_ways(lambda v: constrain_few(v, constraint, p), [leaf])
    many, _ = both_ways(lambda v: wide(v, constraint, p), [leaf])
    close(few, many)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_gradients_are_derivatives(constraint: str) -> None:
    leaf = draw(2, 3, 3).requires_grad_()
    assert gradcheck(lambda v: constrain_few(v, constraint, 1.2), leaf)


@pytest.mark.slow
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize(("size", "dtype"), [(8, torch.float32), (3, torch.float64)])
def test_zero_columns_and_equal_ones_are_treated_alike(
    constraint: str, size: int, dtype: torch.dtype
) -> None:
    leaf = draw(3, size, size, dtype=dtype)
    leaf[0, :, 1] = 0
    leaf[1] = 0
    leaf[2, :, 2] = leaf[2, :, 0]
    ours, theirs = both_ways(lambda v: constrain_few(v, constraint, 1.2), [leaf])
    assert all(tensor.isfinite().all() for tensor in ours)
    close(ours, theirs)


def test_zero_one_columns_are_kept_exactly() -> None:
    permutation = torch.eye(8)[torch.randperm(8, generator=torch.Generator().manual_seed(0))]
    for p in (1.0, 1.2, 2.0):
        assert torch.equal(constrain_few(permutation[None], "column_clip", p)[0], permutation)


@pytest.mark.parametrize("constraint", CONSTRAINTS[:3])
@pytest.mark.parametrize("scale", [1e-40, 1e-30, 1e-10, 1e10, 1e30])
def test_extreme_columns_stay_finite_in_float32(constraint: str, scale: float) -> None:
    leaf = (draw(4, 8, 8) * scale).float()
    ours, theirs = both_ways(lambda v: constrain_few(v, constraint, 1.2), [leaf])
    assert ours[0].isfinite().all()
    if scale >= 1e-10:  # powers that are no normal numbers count as zero
        torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=1e-5)
