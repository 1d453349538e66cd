from __future__ import annotations

import inspect
import math
import statistics as standard
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binom, binomtest, mannwhitneyu

from lrbench.statistics import (
    Share,
    at_chance,
    bootstrap_mean,
    correct_of,
    difference_of_means,
    expected_maximum,
    guessing_best_of,
    guessing_upper,
    mean,
    median,
    probability_of_improvement,
    runs_at_chance,
    runs_upper,
    sample_std,
    solve_rate,
    t_interval,
    wilson,
)

VALUES = st.lists(st.floats(0, 1), min_size=2, max_size=12)


def test_mean_and_sample_std_by_hand() -> None:
    assert mean([1.0, 2.0, 6.0]) == 3.0
    assert sample_std([1.0, 2.0, 6.0]) == pytest.approx((14 / 2) ** 0.5)
    assert sample_std([0.3, 0.3]) == 0.0


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=9))
def test_the_mean_is_the_exact_one_rounded_once(values: list[float]) -> None:
    assert mean(values) == float(sum(map(Fraction, values)) / len(values))


def test_a_mean_with_what_is_no_number() -> None:
    assert mean([1.0, math.inf]) == math.inf
    assert math.isnan(mean([1.0, math.nan]))


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


@given(st.integers(1, 10**7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_right_strings_are_told_from_their_share(counts: tuple[int, int]) -> None:
    right, n = counts
    assert correct_of(right / n, n) == right
    if right < n:
        assert correct_of((right + 0.9) / n, n) == right, "a share of positions is rounded down"


def test_wilson_by_hand() -> None:
    # p = 1/2, n = 4, z = 2: (1/2 + 4/8) / (1 + 4/4) = 1/2, half = 2 sqrt(1/16 + 1/16) / 2
    low, high = wilson(2, 4, z=2)
    assert low == pytest.approx(0.5 - 0.125**0.5)
    assert high == pytest.approx(0.5 + 0.125**0.5)


def test_wilson_of_a_perfect_score() -> None:
    low, high = wilson(10_000, 10_000)
    assert f"[{low:.4f}, {high:.4f}]" == "[0.9996, 1.0000]"
    assert high == 1.0
    assert all(wilson(0, n)[0] == 0.0 for n in range(1, 10_000))


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


def test_it_is_scipys_percentile_interval() -> None:
    values = np.random.default_rng(3).random(20)
    # scipy 1.15 renamed the generator's argument
    name = "rng" if "rng" in inspect.signature(stats.bootstrap).parameters else "random_state"
    generator = {name: np.random.default_rng(1)}
    expected = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", **generator
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


def test_the_best_of_forty_looks_by_the_sum_over_its_distribution() -> None:
    below = binom.cdf(np.arange(128), 128, 0.2) ** 40
    expected = (1 - below).sum() / 128  # E[K] = sum of P(K > k)
    assert guessing_best_of(0.2, 128, 40) == pytest.approx(expected, abs=1e-12)
    assert f"{expected:.3f}" == "0.279"


def test_it_is_what_looking_gives() -> None:
    looks = np.random.default_rng(5).binomial(128, 0.8, size=(2_000, 5, 40))
    means = np.sort(looks.max(axis=2).mean(axis=1) / 128)
    assert guessing_best_of(0.8, 128, 40) == pytest.approx(means.mean(), abs=1e-3)
    for level in (0.05, 0.5, 0.95):
        found = guessing_upper(0.8, 128, 40, 5, level)
        assert found == pytest.approx(float(np.quantile(means, level)), abs=2e-3)


def test_one_look_of_one_trial_is_a_binomial() -> None:
    for trials in (1, 4):  # whose looks together are one at as many strings
        of = 10_000 * trials
        assert guessing_upper(0.2, 10_000, 1, trials) == binom.ppf(0.95, of, 0.2) / of


def test_more_looks_help_and_more_trials_narrow() -> None:
    assert guessing_upper(0.2, 128, 40, 5) > guessing_upper(0.2, 128, 10, 5)
    assert guessing_upper(0.2, 128, 40, 1) > guessing_upper(0.2, 128, 40, 5)


def test_two_trials_by_every_pair_of_their_best_looks() -> None:
    one = np.diff(binom.cdf(np.arange(-1, 7), 6, 0.3) ** 3)
    chances = np.outer(one, one)
    totals = np.add.outer(np.arange(7), np.arange(7))
    for level in (0.05, 0.5, 0.95, 0.999):
        least = min(k for k in range(13) if chances[totals <= k].sum() >= level)
        assert guessing_upper(0.3, 6, 3, 2, level) == least / 12


def test_runs_have_two_limits_at_half_the_error_each() -> None:
    limit, highest = runs_upper(0.2, 128, 40, 5)
    assert limit == guessing_upper(0.2, 128, 40, 5, 0.975)
    below = binom.cdf(np.arange(129), 128, 0.2) ** (40 * 5)
    assert highest == np.searchsorted(below, 0.975) / 128


@pytest.mark.parametrize(("p", "expected"), [(0.0, 0.0), (1.0, 1.0)])
def test_certain_guessers(p: float, expected: float) -> None:
    assert guessing_upper(p, 128, 40, 5) == expected
    assert at_chance(expected, p, 128, 40, 5)


def test_at_chance_at_its_boundary() -> None:
    upper = guessing_upper(0.2, 128, 40, 5)
    assert at_chance(upper, 0.2, 128, 40, 5)
    assert not at_chance(upper + 0.004, 0.2, 128, 40, 5)
    assert at_chance(upper + 0.004, 0.2, 128, 40, 5, rounding=0.005)


def test_at_chance_is_one_sided() -> None:
    assert at_chance(0.0, 0.2, 128, 40, 5)
    assert not at_chance(1.0, 0.2, 128, 40, 5)


def test_it_errs_in_one_case_of_twenty() -> None:
    generator = np.random.default_rng(8)
    looks = generator.binomial(128, 0.2, size=(2_000, 5, 10)).max(axis=2) / 128
    one = np.mean([not at_chance(float(runs.mean()), 0.2, 128, 10, 5) for runs in looks])
    both = np.mean([not runs_at_chance(list(runs), 0.2, 128, 10) for runs in looks])
    assert 0.02 < one < 0.07
    assert 0.02 < both < 0.07


def test_one_run_that_solved_the_task_is_no_guesser() -> None:
    runs = [0.1, 0.1, 0.1, 0.1, 0.9]
    assert at_chance(sum(runs) / 5, 0.2, 128, 40, 5)
    assert not runs_at_chance(runs, 0.2, 128, 40)
    assert runs_at_chance([0.27, 0.28, 0.27, 0.29, 0.26], 0.2, 128, 40)


def test_no_runs_are_no_guesser() -> None:
    with pytest.raises(ValueError, match="no values"):
        runs_at_chance([], 0.2, 128, 40)


@pytest.mark.parametrize(
    ("runs", "above"), [(1, 0.0), (3, 0.85), (5, 1.16), (10, 1.54), (30, 2.04)]
)
def test_the_best_of_several_runs_is_above_their_mean(runs: int, above: float) -> None:
    assert expected_maximum(runs) == pytest.approx(above, abs=0.006)
    drawn = np.random.default_rng(runs).standard_normal((20_000, runs)).max(1).mean()
    assert expected_maximum(runs) == pytest.approx(drawn, abs=0.03)
    assert expected_maximum(2) == pytest.approx(1 / math.sqrt(math.pi), abs=1e-6)
