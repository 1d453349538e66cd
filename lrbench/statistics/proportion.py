"""Shares: of strings answered rightly, of runs that solved their task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SOLVED = 0.99  # a run has solved a length at this accuracy; the horizon uses the same


@dataclass(frozen=True)
class Share:
    """`count` of `n`, with its 95 % Wilson interval."""

    count: int
    n: int
    low: float
    high: float


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Return the Wilson score interval of a proportion, `successes` of `n` (Wilson 1927).

    Unlike the normal interval it stays in 0..1 and has width at 0 and n successes; z = 1.96 gives
    95 %. Raises ValueError unless 0 <= successes <= n and n >= 1.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"wilson: {successes} successes of {n}")
    share = successes / n
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / scale
    # The ends are exact by algebra; rounding must not print 1.0000000000000002.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def solve_rate(accuracies: Sequence[float], threshold: float = SOLVED, lost: int = 0) -> Share:
    """Return the share of runs with an accuracy of at least `threshold`.

    `lost` runs ended without an accuracy (diverged) and count as not solved. Raises ValueError
    where there is no run at all.
    """
    solved = sum(accuracy >= threshold for accuracy in accuracies)
    runs = len(accuracies) + lost
    return Share(solved, runs, *wilson(solved, runs))
