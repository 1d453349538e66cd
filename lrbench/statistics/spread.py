"""The centre and the spread of a few numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, correctly rounded; raises ValueError where there is no value.

    So the mean of equal values is that value, to the last bit, and prints as it does.
    """
    if not values:
        raise ValueError("mean of no values")
    return float(statistics.mean(map(float, values)))


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the middle two; raises ValueError for none."""
    if not values:
        raise ValueError("median of no values")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else mean(ordered[middle - 1 : middle + 1])


def sample_std(values: Sequence[float]) -> float:
    """Return the sample standard deviation (n - 1 below); raises ValueError for fewer than two."""
    if len(values) < 2:
        raise ValueError(f"sample standard deviation of {len(values)} value(s)")
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def t_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Return Student's t interval of the mean; equal values give an interval without width.

    For a handful of runs it is wider than a bootstrap, and nearer its level. Raises ValueError for
    fewer than two values.
    """
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    half = (
        float(stdtrit(len(values) - 1, 0.5 + level / 2))
        * sample_std(values)
        / math.sqrt(len(values))
    )
    return mean(values) - half, mean(values) + half
