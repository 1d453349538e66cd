"""The optimism of a rule: what taking the best of many looks gives to one who only guesses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lrbench.statistics.spread import mean

Array = npt.NDArray[np.float64]

LEVEL = 0.95  # of the one-sided test
HALF = 1 - (1 - LEVEL) / 2  # of each of the two tests of runs
NEGLIGIBLE = 1e-18  # what is less likely than that is left out


def guessing_best_of(p: float, strings: int, looks: int) -> float:
    """Return the mean best accuracy over `looks` of a guesser that is right with probability `p`.

    Each look is at `strings` strings of its own: 128 strings and 40 looks turn a chance of 0.2 into
    0.279. Exact: E[max] = sum over k of P(max > k).
    """
    return float((1 - _at_most(p, strings, looks)[:-1]).sum() / strings)


def guessing_upper(p: float, strings: int, looks: int, trials: int, level: float = LEVEL) -> float:
    """Return what a guesser's mean over `trials` stays at or below with probability `level`.

    A trial looks `looks` times at `strings` strings of its own and keeps its best accuracy.
    """
    first, below = _totals(p, strings, looks, trials)
    return (first + int(np.searchsorted(below, level))) / (strings * trials)


def runs_upper(p: float, strings: int, looks: int, trials: int) -> tuple[float, float]:
    """Return what 97.5 % of a guesser's means over `trials` stay up to, and of its best trials."""
    highest = guessing_upper(p, strings, looks, 1, HALF ** (1 / trials))
    return guessing_upper(p, strings, looks, trials, HALF), highest


def _at_most(p: float, strings: int, looks: int) -> Array:
    """Return P(best of `looks` <= k), k = 0 .. strings: that of one look to the power `looks`."""
    from scipy.special import bdtr  # P(at most k of n); scipy.stats takes a second to import

    at_most: Array = bdtr(np.arange(strings + 1, dtype=float), strings, p) ** looks
    return at_most


@lru_cache(maxsize=256)
def _totals(p: float, strings: int, looks: int, trials: int) -> tuple[int, Array]:
    """Return (first, below): how probably the right answers of all trials are <= first, + 1, .."""
    each = np.diff(_at_most(p, strings, looks), prepend=0.0)
    likely = np.flatnonzero(each > NEGLIGIBLE)
    each = total = each[likely[0] : likely[-1] + 1]
    for _ in range(trials - 1):
        total = np.convolve(total, each)
    return int(likely[0]) * trials, np.minimum(np.cumsum(total), 1.0)


def at_chance(
    value: float, p: float, strings: int, looks: int, trials: int, rounding: float = 0.0
) -> bool:
    """Tell a mean over `trials`, taken by a rule, that guessing under that rule explains.

    One-sided: True unless `value` is above 95 % of the means that a guesser who is right with
    probability `p` gets by the best of `looks` looks at `strings` strings each. `rounding` is half
    a unit of the last printed digit: a printed 0.27 may have been 0.265.
    """
    return value - rounding <= guessing_upper(p, strings, looks, trials) + 1e-12


def runs_at_chance(values: Sequence[float], p: float, strings: int, looks: int) -> bool:
    """Tell runs whose mean and whose every single value guessing under the rule explains.

    A mean alone would call four failures beside one run that solved the task a guesser. Each of the
    two tests is one-sided at half of 5 %; raises ValueError where there is no value.
    """
    average = mean(values)
    limit, highest = runs_upper(p, strings, looks, len(values))
    return average <= limit + 1e-12 and max(values) <= highest + 1e-12
