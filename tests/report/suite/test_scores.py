"""Scores over tasks, held against scipy and against values worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, rankdata, trim_mean

from lrbench.report.suite.scores import (
    improvement,
    interquartile_mean,
    mean_ranks,
    scaled_score,
    stratified_interval,
)


def scores(runs: int, tasks: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).beta(0.5, 0.5, (runs, tasks)).round(2)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 10), (5, 7)])
def test_the_interquartile_mean_is_scipys_trimmed_one(shape: tuple[int, int]) -> None:
    table = scores(*shape)
    assert interquartile_mean(table) == pytest.approx(trim_mean(table.ravel(), 0.25))


def test_no_scores_have_no_mean() -> None:
    with pytest.raises(ValueError, match="no scores"):
        interquartile_mean(np.empty((0, 3)))


def test_a_score_has_chance_at_zero_and_stays_within_its_ends() -> None:
    found = [scaled_score(accuracy, 0.2) for accuracy in (0.0, 0.2, 0.6, 1.0)]
    assert found == pytest.approx([0.0, 0.0, 0.5, 1.0])


def test_an_interval_resamples_seeds_within_tasks_alone() -> None:
    """Seeds that agree on every task leave nothing to resample, however much tasks differ."""
    agreeing = np.repeat(scores(1, 10), 3, axis=0)
    middle = interquartile_mean(agreeing)
    assert stratified_interval(agreeing) == pytest.approx((middle, middle))
    low, high = stratified_interval(scores(3, 10)) or (1.0, 0.0)
    assert low < interquartile_mean(scores(3, 10)) < high
    assert stratified_interval(scores(2, 10)) is None


def test_an_interval_is_that_of_every_resample_there_is() -> None:
    """Of three seeds and two tasks all 3^6 resamples can be listed."""
    table = scores(3, 2, 4)
    every = np.stack(np.meshgrid(*[range(3)] * 6, indexing="ij"), -1).reshape(-1, 3, 2)
    means = [trim_mean(np.take_along_axis(table, one, 0).ravel(), 0.25) for one in every]
    wanted = np.quantile(means, [0.025, 0.975])
    assert stratified_interval(table) == pytest.approx(wanted, abs=0.02)


def test_ranks_are_scipys_and_ties_share_theirs() -> None:
    table = scores(6, 9, 2).round(1)
    wanted = np.mean([rankdata(-column) for column in table.T], axis=0)
    assert mean_ranks(table.tolist()) == pytest.approx(wanted)


def test_an_improvement_is_mann_whitneys_u_averaged_over_tasks() -> None:
    first, second = scores(5, 4, 3).round(1), scores(3, 4, 5).round(1)
    wanted = [mannwhitneyu(x, y).statistic / 15 for x, y in zip(first.T, second.T, strict=True)]
    assert improvement(first, second) == pytest.approx(np.mean(wanted))
    assert improvement(second, first) == pytest.approx(1 - np.mean(wanted))
