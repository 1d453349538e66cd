"""The normal distribution and the logistic function in lanes, against wider numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ULP = {np.float32: 2**-23, np.float64: 2**-52}


@pytest.fixture(scope="module")
def loops() -> Any:
    numba = pytest.importorskip("numba")
    from lrbench.scan.compiled.lanes import load, store
    from lrbench.scan.compiled.normal import bell, distribution
    from lrbench.scan.compiled.sigmoid import sigmoid

    @numba.njit
    def normal(x: Any, y: Any) -> None:
        for at in range(0, x.shape[0], 16):
            one = load(x, at, 16)
            store(y, at, distribution(one, bell(one)))

    @numba.njit
    def logistic(x: Any, y: Any) -> None:
        for at in range(0, x.shape[0], 16):
            store(y, at, sigmoid(load(x, at, 16)))

    return normal, logistic


def points(dtype: Any, limit: float) -> Any:
    return np.linspace(-limit, limit, 4096).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_distribution_is_right_in_its_tails_too(loops: Any, dtype: Any) -> None:
    special = pytest.importorskip("scipy.special")
    x = points(dtype, 8)
    y = np.empty_like(x)
    loops[0](x, y)
    exact = special.ndtr(x.astype(np.float64))
    rounding = 4 + 3 * x.astype(np.float64) ** 2  # of the exponent
    assert np.all(np.abs(y - exact) <= rounding * ULP[dtype] * exact)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_logistic_function_is_right(loops: Any, dtype: Any) -> None:
    x = points(dtype, 60)
    y = np.empty_like(x)
    loops[1](x, y)
    exact = 1 / (1 + np.exp(-x.astype(np.longdouble)))
    rounding = 4 + 2 * np.abs(x.astype(np.longdouble))
    assert np.all(np.abs(y - exact) <= rounding * ULP[dtype] * exact)


def test_far_values_are_the_limits(loops: Any) -> None:
    for loop in loops:
        x = np.repeat(np.array([-np.inf, -1e30, 1e30, np.inf], np.float32), 4)
        y = np.empty_like(x)
        loop(x, y)
        assert np.array_equal(y, np.repeat(np.array([0, 0, 1, 1], np.float32), 4))
