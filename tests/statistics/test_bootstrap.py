from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lrbench.statistics import bootstrap_mean


def test_it_is_scipys_percentile_interval() -> None:
    values = np.random.default_rng(3).random(20)
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    assert bootstrap_mean(list(values)) == pytest.approx(tuple(expected), abs=0.005)


def test_three_values_by_hand() -> None:
    # (0, 0, 1): the mean of a resample is k/3 for a binomial k of 3 with p = 1/3, so
    # P(k = 0) = 8/27 and P(k = 3) = 1/27: both ends of the 95 % interval are the extremes.
    assert bootstrap_mean([0.0, 0.0, 1.0]) == (0.0, 1.0)
    # At 90 % the upper 5 % begin below k = 3 (1/27 = 3.7 %).
    assert bootstrap_mean([0.0, 0.0, 1.0], level=0.9) == pytest.approx((0.0, 2 / 3))


def test_it_is_the_same_at_every_call() -> None:
    assert bootstrap_mean([0.1, 0.5, 0.7, 0.9]) == bootstrap_mean([0.1, 0.5, 0.7, 0.9])


def test_equal_values_have_no_width() -> None:
    assert bootstrap_mean([0.25] * 5) == (0.25, 0.25)


@pytest.mark.parametrize("values", [[], [0.5], [0.5, 0.6]])
def test_fewer_than_three_have_none(values: list[float]) -> None:
    assert bootstrap_mean(values) is None
