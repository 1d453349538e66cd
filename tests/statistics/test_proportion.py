from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from lrbench.statistics import Share, solve_rate, wilson


def test_wilson_by_hand() -> None:
    # p = 1/2, n = 4, z = 2: (1/2 + 4/8) / (1 + 4/4) = 1/2, half = 2 sqrt(1/16 + 1/16) / 2
    low, high = wilson(2, 4, z=2)
    assert low == pytest.approx(0.5 - 0.125**0.5)
    assert high == pytest.approx(0.5 + 0.125**0.5)


def test_wilson_of_a_perfect_score() -> None:
    low, high = wilson(10_000, 10_000)
    assert f"[{low:.4f}, {high:.4f}]" == "[0.9996, 1.0000]"
    assert high == 1.0
    assert wilson(0, 10_000)[0] == 0.0


@given(st.integers(1, 20_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_scipys(counts: tuple[int, int]) -> None:
    successes, n = counts
    expected = binomtest(successes, n).proportion_ci(0.95, method="wilson")
    found = wilson(successes, n, z=1.959963984540054)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= found[0] <= successes / n <= found[1] <= 1


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_wilson_refuses_impossible_counts(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="wilson"):
        wilson(successes, n)


def test_solve_rate_counts_runs_at_the_threshold() -> None:
    assert solve_rate([1.0, 0.99, 0.9899, 0.2]) == Share(2, 4, *wilson(2, 4))
    assert solve_rate([1.0, 0.5], threshold=0.5) == Share(2, 2, *wilson(2, 2))


def test_a_lost_run_has_not_solved() -> None:
    assert solve_rate([1.0, 1.0], lost=3) == Share(2, 5, *wilson(2, 5))
    assert solve_rate([], lost=1) == Share(0, 1, *wilson(0, 1))
    with pytest.raises(ValueError, match="0 successes of 0"):
        solve_rate([])
