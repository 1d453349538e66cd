from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from lrbench.statistics import difference_of_means, probability_of_improvement

RUNS = st.lists(st.integers(0, 5).map(lambda n: n / 5), min_size=1, max_size=6)


def test_by_hand() -> None:
    # pairs of (0.5, 1.0) and (0.5, 0.7): one tie, one below, two above: (2 + 1/2) / 4
    assert probability_of_improvement([0.5, 1.0], [0.5, 0.7]) == (0.625, None)
    assert difference_of_means([0.5, 1.0], [0.5, 0.7]) == (pytest.approx(0.15), None)


@given(RUNS, RUNS)
def test_it_is_the_mann_whitney_u(first: list[float], second: list[float]) -> None:
    found, _ = probability_of_improvement(first, second)
    expected = mannwhitneyu(first, second, method="asymptotic" if len(first) > 1 else "exact")
    assert found * len(first) * len(second) == pytest.approx(expected.statistic)


@given(RUNS, RUNS)
def test_the_two_sides_add_to_one(first: list[float], second: list[float]) -> None:
    found, _ = probability_of_improvement(first, second)
    assert found + probability_of_improvement(second, first)[0] == pytest.approx(1)


def test_the_interval_of_a_clear_and_of_an_unclear_case() -> None:
    high, low = [0.9, 0.95, 1.0], [0.1, 0.2, 0.3]
    assert probability_of_improvement(high, low) == (1.0, (1.0, 1.0))
    estimate, ends = probability_of_improvement([0.2, 0.9, 0.8, 0.3], [0.25, 0.85, 0.6, 0.5])
    assert ends is not None
    assert 0 <= ends[0] < 0.3 < estimate < 0.7 < ends[1] <= 1


def test_three_runs_each_by_hand() -> None:
    # X in (0, 0, 1), Y = 0.5 always: a resample's estimate is its share of ones, k/3
    assert probability_of_improvement([0.0, 0.0, 1.0], [0.5] * 3) == (
        pytest.approx(1 / 3),
        (0.0, 1.0),
    )
    value, ends = difference_of_means([0.0, 0.0, 1.0], [0.5] * 3)
    assert value == pytest.approx(-1 / 6)
    assert ends == pytest.approx((-0.5, 0.5))


def test_equal_runs_are_half_and_half() -> None:
    assert probability_of_improvement([1.0] * 5, [1.0] * 5) == (0.5, (0.5, 0.5))
    assert difference_of_means([1.0] * 5, [1.0] * 5) == (0.0, (0.0, 0.0))


def test_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="2 with 0"):
        probability_of_improvement([1.0, 1.0], [])
