from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from lrbench.statistics import (
    at_chance,
    guessing_best_of,
    guessing_upper,
    runs_at_chance,
    runs_upper,
)


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
