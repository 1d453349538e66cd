"""Elementary functions in lanes, against those of numpy's widest numbers and of scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ULP = {np.float32: 2**-23, np.float64: 2**-52}


@pytest.fixture(scope="module")
def loops() -> Any:
    numba = pytest.importorskip("numba")
    from lrbench.kernels.elementary import exp2, log2
    from lrbench.kernels.lanes import every, load, magnitude, mul, signed, store

    @numba.njit
    def powers(x: Any, p: float, y: Any) -> None:
        for at in range(0, x.shape[0], 16):
            one = load(x, at, 16)
            store(y, at, signed(exp2(mul(every(p, one), log2(magnitude(one)))), one))

    @numba.njit
    def logarithms(x: Any, y: Any) -> None:
        for at in range(0, x.shape[0], 16):
            store(y, at, log2(load(x, at, 16)))

    return powers, logarithms


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [0.2, 1.0, 1.2, 2.0])
def test_powers_are_right_to_a_few_units_in_the_last_place(
    loops: Any, dtype: Any, p: float
) -> None:
    x = np.random.default_rng(0).standard_normal(4096).astype(dtype)
    y = np.empty_like(x)
    loops[0](x, p, y)
    exact = np.sign(x) * np.abs(x.astype(np.longdouble)) ** np.longdouble(dtype(p))
    assert np.max(np.abs(y - exact) / np.abs(exact)) < 8 * ULP[dtype]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_keep_their_digits_near_one(loops: Any, dtype: Any) -> None:
    x = (1 + np.linspace(-0.4, 0.4, 4096)).astype(dtype)
    x = x[x != 1][:4080]
    y = np.empty_like(x)
    loops[1](x, y)
    exact = np.log2(x.astype(np.longdouble))
    assert np.max(np.abs(y - exact) / np.abs(exact)) < 4 * ULP[dtype]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_one_and_what_is_not_normal(loops: Any, dtype: Any) -> None:
    tiny = np.finfo(dtype).tiny
    x = np.array([0, -0.0, 1, -1, tiny / 2, -tiny / 4, 4, -0.25] * 2, dtype)
    y = np.empty_like(x)
    loops[0](x, 0.5, y)
    assert y[:8].tolist() == [0, 0, 1, -1, 0, 0, 2, -0.5]


@pytest.fixture(scope="module")
def of_normal() -> Any:
    numba = pytest.importorskip("numba")
    from lrbench.kernels.elementary import bell, distribution, sigmoid
    from lrbench.kernels.lanes import load, store

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
def test_the_distribution_is_right_in_its_tails_too(of_normal: Any, dtype: Any) -> None:
    special = pytest.importorskip("scipy.special")
    x = points(dtype, 8)
    y = np.empty_like(x)
    of_normal[0](x, y)
    exact = special.ndtr(x.astype(np.float64))
    rounding = 4 + 3 * x.astype(np.float64) ** 2  # of the exponent
    assert np.all(np.abs(y - exact) <= rounding * ULP[dtype] * exact)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_logistic_function_is_right(of_normal: Any, dtype: Any) -> None:
    x = points(dtype, 60)
    y = np.empty_like(x)
    of_normal[1](x, y)
    exact = 1 / (1 + np.exp(-x.astype(np.longdouble)))
    rounding = 4 + 2 * np.abs(x.astype(np.longdouble))
    assert np.all(np.abs(y - exact) <= rounding * ULP[dtype] * exact)


def test_far_values_are_the_limits(of_normal: Any) -> None:
    for loop in of_normal:
        x = np.repeat(np.array([-np.inf, -1e30, 1e30, np.inf], np.float32), 4)
        y = np.empty_like(x)
        loop(x, y)
        assert np.array_equal(y, np.repeat(np.array([0, 0, 1, 1], np.float32), 4))
