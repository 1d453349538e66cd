"""Blocks made together with their hidden layer equal blocks made after it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from lrbench.scan import scan
from lrbench.scan.blocks.generated import WIDE
from lrbench.scan.blocks.perceptron_blocks import by_heads, by_rows
from lrbench.scan.transitions import PerceptronBlocks
from tests.both_ways import CONSTRAINTS, both_ways, close, draw, needs_numba

pytestmark = needs_numba

EVERY_RULE = [*CONSTRAINTS, "none"]


def case(
    size: int, heads: int, length: int, batch: int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    shapes = [(heads, size, size, 6), (5, 4), (5,), (batch, length, 4)]
    shapes += [(batch, length, heads, size), (batch, heads, size)]
    return [draw(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


def run(constraint: str, p: float = 1.2, algorithm: str = "sequential") -> Callable[..., Tensor]:
    return lambda w, w1, c1, u, b, x: scan(
        PerceptronBlocks(w, w1, c1, u, constraint, p), b, x, algorithm
    )


@pytest.mark.parametrize("constraint", EVERY_RULE)
@settings(max_examples=6)
@given(
    heads=st.integers(1, 3),
    length=st.integers(1, 10),
    batch=st.sampled_from([1, 3, WIDE, 2 * WIDE]),
)
def test_equals_the_loop(constraint: str, heads: int, length: int, batch: int) -> None:
    """The loops are those of generated blocks, whose test has other sizes."""
    close(*both_ways(run(constraint), case(3, heads, length, batch)))


@pytest.mark.parametrize("constraint", EVERY_RULE)
def test_equals_the_reference(constraint: str) -> None:
    leaves = case(3, 2, 5, WIDE)
    ours, _ = both_ways(run(constraint), leaves)
    theirs, _ = both_ways(run(constraint, algorithm="reference"), leaves)
    close(ours, theirs)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_gradients_are_derivatives(constraint: str) -> None:
    leaves = [leaf.requires_grad_() for leaf in case(3, 1, 2, WIDE)]
    assert gradcheck(run(constraint), leaves, fast_mode=True)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_nothing_kept_changes_nothing(constraint: str) -> None:
    leaves = case(8, 2, 9, WIDE, torch.float32)
    with torch.no_grad():
        short = run(constraint)(*leaves)
    leaves[0].requires_grad_()
    assert torch.equal(run(constraint)(*leaves), short)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_gradient_of_the_rearranged_weight(constraint: str) -> None:
    weight = draw(2, 3, 3, 5).requires_grad_()
    rows = by_rows(weight.detach(), constraint)
    upstream = draw(*rows.shape, seed=1)
    centred = weight - weight.mean(1, keepdim=True) if "centred" in constraint else weight
    plain = centred.transpose(0, 1)[: len(rows)]
    torch.testing.assert_close(rows, plain.detach())
    (slope,) = torch.autograd.grad(plain, weight, upstream)
    torch.testing.assert_close(by_heads(upstream, constraint), slope)
