"""Differences are relative, are placed, and never lose a NaN or a wrong shape."""

from __future__ import annotations

import math

import pytest
import torch

from lrbench.contract.finding import Comparison, tensors_of


def compare(
    ours: object, theirs: object, tolerance: float = 1e-9, floor: float = 1e-30
) -> Comparison:
    comparison = Comparison(tolerance, floor)
    comparison.add("here", ours, theirs)
    return comparison


def test_relative_to_the_largest_number_of_the_reference() -> None:
    expected = torch.tensor([1e-3, 2e-3], dtype=torch.float64)
    assert compare(expected * (1 + 1e-6), expected).worst == pytest.approx(1e-6)
    assert compare(expected * (1 + 1e-6), expected, floor=1.0).worst == pytest.approx(2e-9)


def test_rounding_in_a_tensor_of_zeros_is_seen_beside_the_others() -> None:
    large, zero = torch.full((3,), 10.0), torch.zeros(3)
    assert compare((large, zero + 1e-14), (large, zero)).worst == pytest.approx(1e-12)
    assert compare((large, zero + 1e-4), (large, zero)).worst == pytest.approx(1e-2)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("side", [0, 1])
def test_not_finite_fails(bad: float, side: int) -> None:
    pair = [torch.ones(2), torch.ones(2)]
    pair[side] = torch.tensor([1.0, bad])
    finding = compare(*pair, tolerance=1e9).finding("x", "y")
    assert finding.passed is False
    assert "not finite (here)" in finding.detail


def test_shapes_and_imaginary_parts_count() -> None:
    comparison = compare(torch.ones(2), torch.ones(2, 1))
    assert comparison.worst == math.inf
    assert comparison.finding("x", "what").detail == "what: here: shapes (2,), expected (2, 1)"
    assert compare((torch.ones(2),), (torch.ones(2), torch.ones(2))).worst == math.inf
    assert compare(torch.tensor([1 + 1j]), torch.tensor([1 + 0j])).worst == pytest.approx(1)


def test_the_worst_place_is_kept() -> None:
    comparison = compare(torch.ones(1), torch.ones(1))
    comparison.add("there", torch.ones(1) * 1.5, torch.ones(1))
    comparison.add("elsewhere", torch.ones(1) * 1.25, torch.ones(1))
    detail = comparison.finding("x", "what").detail
    assert detail == "what: largest difference 5.0e-01 (there); allowed 1e-09"


def test_states_may_nest() -> None:
    a, b, c = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    assert [len(t) for t in tensors_of((a, [b, {"k": c}]))] == [1, 2, 3]
    with pytest.raises(TypeError, match="not NoneType"):
        tensors_of((a, None))
