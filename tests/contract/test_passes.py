"""Finite differences: a second step only where the first does not agree."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.contract.passes import ALLOWED, STEPS, slope_error

DOUBLE = torch.float64


def compared(kink: float, slope: float, size: float = 1.0) -> tuple[float, int]:
    """Return the error of a slope of 3 relu(x - kink) + x at 0, and how often that was read."""
    leaf, read = torch.zeros(1, dtype=DOUBLE), []

    def value() -> Tensor:
        read.append(leaf.clone())
        return (3 * (leaf - kink).relu() + leaf).sum()

    one = torch.ones(1, dtype=DOUBLE)
    error = slope_error(value, leaf, slope * one, one, size)
    assert leaf == 0, "it is put back"
    return error, len(read)


def test_the_first_step_is_enough_where_it_agrees() -> None:
    error, read = compared(kink=1.0, slope=1.0)
    assert error < 1e-6 and read == 2


def test_a_kink_within_the_first_step_is_outside_the_second() -> None:
    error, read = compared(kink=STEPS[0] / 2, slope=1.0)
    assert error < 1e-6 and read == 4


@pytest.mark.parametrize(("slope", "wrong_by"), [(1 + 1e-3, 1e-3), (-1.0, 2.0)])
def test_a_wrong_slope_is_wrong_by_both(slope: float, wrong_by: float) -> None:
    error, read = compared(kink=1.0, slope=slope)
    assert error == pytest.approx(wrong_by, rel=1e-3) and error > ALLOWED and read == 4


def test_an_error_is_in_parts_of_the_size() -> None:
    error, read = compared(kink=1.0, slope=1.001, size=100.0)
    assert error == pytest.approx(1e-5, rel=1e-2) and read == 2
