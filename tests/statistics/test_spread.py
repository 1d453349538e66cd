from __future__ import annotations

import statistics as standard

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lrbench.statistics import mean, median, sample_std, t_interval

VALUES = st.lists(st.floats(0, 1), min_size=2, max_size=12)


def test_mean_and_sample_std_by_hand() -> None:
    assert mean([1.0, 2.0, 6.0]) == 3.0
    assert sample_std([1.0, 2.0, 6.0]) == pytest.approx((14 / 2) ** 0.5)
    assert sample_std([0.3, 0.3]) == 0.0


@given(st.floats(0, 1), st.integers(1, 30))
def test_the_mean_of_equal_values_is_that_value(value: float, times: int) -> None:
    assert mean([value] * times) == value


def test_a_spread_needs_two_values() -> None:
    with pytest.raises(ValueError, match="1 value"):
        sample_std([1.0])
    with pytest.raises(ValueError, match="1 value"):
        t_interval([1.0])
    with pytest.raises(ValueError, match="no values"):
        mean([])
    with pytest.raises(ValueError, match="no values"):
        median([])


def test_median_by_hand() -> None:
    assert median([3.0, 1.0, 9.0]) == 3.0
    assert median([4.0, 1.0, 9.0, 2.0]) == 3.0


@given(VALUES)
def test_median_is_the_standard_librarys(values: list[float]) -> None:
    assert median(values) == pytest.approx(standard.median(values), abs=1e-15)


def test_t_interval_by_hand() -> None:
    # mean 3, s = sqrt(7), n = 3, t(2 degrees, 97.5 %) = 4.3027
    half = 4.302652729911275 * (7 / 3) ** 0.5
    assert t_interval([1.0, 2.0, 6.0]) == pytest.approx((3 - half, 3 + half))
    assert t_interval([0.5, 0.5, 0.5]) == (0.5, 0.5)


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=9, unique=True), st.floats(0.5, 0.99))
def test_t_interval_is_scipys(values: list[int], level: float) -> None:
    expected = stats.t.interval(level, len(values) - 1, mean(values), stats.sem(values))
    assert t_interval(values, level) == pytest.approx(expected, rel=1e-6)
