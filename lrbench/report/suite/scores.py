"""Scores over many tasks: chance at zero, the middle half's mean, intervals by strata.

Aggregates as in Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (arXiv:2108.13264): the interquartile mean over all runs of all tasks, with intervals by
a bootstrap that resamples runs within a task and keeps the tasks; the probability of improvement,
averaged over tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lrbench.statistics import FEWEST, SEED, percentiles, probability_of_improvement

Array = npt.NDArray[Any]

RESAMPLES = 10_000
LEVEL = 0.95


def scaled_score(accuracy: float, chance: float) -> float:
    """Return (accuracy - chance) / (1 - chance), not below 0 and not above 1.

    Nothing is above a chance of 1: the score is 0.
    """
    if chance >= 1:
        return 0.0
    return float(np.clip((accuracy - chance) / (1 - chance), 0.0, 1.0))


def interquartile_mean(scores: Array) -> float:
    """Return the mean of the middle half of all scores; a quarter, rounded down, goes at each end.

    scores: any shape, here (runs, tasks). Raises ValueError where there is none.
    """
    if not scores.size:
        raise ValueError("interquartile_mean of no scores")
    ordered = np.sort(scores, axis=None)
    cut = int(0.25 * ordered.size)
    return float(ordered[cut : ordered.size - cut].mean())


def stratified_interval(scores: Array) -> tuple[float, float] | None:
    """Return the 95 % interval of the interquartile mean; None of fewer than three runs.

    scores: (runs, tasks). Each resample draws as many runs of each task as there are, with
    replacement; the tasks stay.
    """
    runs, tasks = scores.shape
    if runs < FEWEST:
        return None
    generator = np.random.default_rng([SEED, runs, tasks])
    drawn = generator.integers(runs, size=(RESAMPLES, runs, tasks))
    resampled = np.take_along_axis(scores[None], drawn, axis=1).reshape(RESAMPLES, -1)
    resampled.sort(axis=1)
    cut = int(0.25 * resampled.shape[1])
    return percentiles(resampled[:, cut : resampled.shape[1] - cut].mean(axis=1), LEVEL)


def mean_ranks(scores: Sequence[Sequence[float]]) -> list[float]:
    """Return each model's rank averaged over tasks, 1 the best; equal scores share their ranks.

    scores: a row a model, a column a task, means over runs.
    """
    table = np.asarray(scores, dtype=float)
    above = (table[None] > table[:, None]).sum(axis=1)
    equal = (table[None] == table[:, None]).sum(axis=1)
    ranks = above + (equal + 1) / 2
    return [float(rank) for rank in ranks.mean(axis=1)]


def improvement(first: Array, second: Array) -> float:
    """Return P(a run of `first` scores above one of `second`), averaged over tasks; ties are half.

    first, second: (runs, tasks), of the same tasks.
    """
    over = [
        probability_of_improvement(first[:, task].tolist(), second[:, task].tolist())[0]
        for task in range(first.shape[1])
    ]
    return float(np.mean(over))
