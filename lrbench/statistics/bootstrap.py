"""Percentile bootstrap intervals (Efron 1979), the same at every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

RESAMPLES = 5_000
SEED = 20_240
FEWEST = 3  # of one or two runs a resample says nothing

Array = npt.NDArray[Any]


def bootstrap_mean(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Return the bootstrap interval of the mean, None for fewer than three values.

    Equal values give an interval without width: no resample of them can tell more.
    """
    if len(values) < FEWEST:
        return None
    return percentiles(resample(np.asarray(values, dtype=float)).mean(axis=1), level)


def resample(values: Array, stream: int = 0) -> Array:
    """Draw `values` with replacement, as (RESAMPLES, len(values)); samples differ by `stream`."""
    generator = np.random.default_rng([SEED, stream])
    return np.asarray(values[generator.integers(len(values), size=(RESAMPLES, len(values)))])


def percentiles(estimates: Array, level: float) -> tuple[float, float]:
    """Return the ends between which `level` of the estimates lie."""
    low, high = np.quantile(estimates, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)
