"""Two models compared by their runs: an effect and its interval, never a winner alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lrbench.statistics.bootstrap import FEWEST, Array, percentiles, resample
from lrbench.statistics.spread import mean

Effect = tuple[float, tuple[float, float] | None]  # the estimate and its interval


def probability_of_improvement(
    first: Sequence[float], second: Sequence[float], level: float = 0.95
) -> Effect:
    """Return P(X > Y) + P(X = Y) / 2 for a run X of `first` and Y of `second`, and its interval.

    That is the Mann-Whitney U of `first` over the number of pairs (Agarwal et al. 2021 report it
    for reinforcement learning). The interval is a bootstrap over runs, each model resampled by
    itself, and None where either has fewer than three. It has no width where every run of one
    beats every run of the other, however few they are. Raises ValueError where one has no run.
    """
    x, y = _arrays(first, second)
    estimate = float(_improvement(x[None], y[None])[0])
    if min(len(x), len(y)) < FEWEST:
        return estimate, None
    return estimate, percentiles(_improvement(resample(x, 1), resample(y, 2)), level)


def difference_of_means(
    first: Sequence[float], second: Sequence[float], level: float = 0.95
) -> Effect:
    """Return mean(first) - mean(second) and its bootstrap interval, as above."""
    x, y = _arrays(first, second)
    estimate = mean(first) - mean(second)
    if min(len(x), len(y)) < FEWEST:
        return estimate, None
    differences = resample(x, 1).mean(axis=1) - resample(y, 2).mean(axis=1)
    return estimate, percentiles(differences, level)


def _arrays(first: Sequence[float], second: Sequence[float]) -> tuple[Array, Array]:
    if not len(first) or not len(second):
        raise ValueError(f"a comparison of {len(first)} with {len(second)} values")
    return np.asarray(first, dtype=float), np.asarray(second, dtype=float)


def _improvement(x: Array, y: Array) -> Array:
    """The estimate in each row of x (R, n) and y (R, m)."""
    above = (x[:, :, None] > y[:, None, :]).mean(axis=(1, 2))
    equal = (x[:, :, None] == y[:, None, :]).mean(axis=(1, 2))
    return np.asarray(above + equal / 2)
