"""Powers in lanes against those of numpy's widest numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

ULP = {np.float32: 2**-23, np.float64: 2**-52}


@pytest.fixture(scope="module")
def loops() -> Any:
    numba = pytest.importorskip("numba")
    from lrbench.scan.compiled.lanes import every, load, magnitude, mul, signed, store
    from lrbench.scan.compiled.power import exp2, log2

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
