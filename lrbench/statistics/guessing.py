"""The optimism of a rule: what taking the best of many looks gives to one who only guesses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from lrbench.statistics.spread import mean

SEED = 20_241
SIMULATIONS = 20_000
LEVEL = 0.95  # of the one-sided test


def guessing_best_of(
    p: float, strings: int, looks: int, simulations: int = 10_000, seed: int = 0
) -> float:
    """Return the mean best accuracy over `looks` of a guesser that is right with probability `p`.

    Each look is at `strings` strings of its own. By simulation, with a standard error below
    0.001 at the defaults: 128 strings and 40 looks turn a chance of 0.2 into 0.279.
    """
    right = np.random.default_rng(seed).binomial(strings, p, size=(simulations, looks))
    return float(right.max(axis=1).mean() / strings)


@lru_cache(maxsize=256)
def guessing_means(
    p: float, strings: int, looks: int, trials: int, simulations: int = SIMULATIONS
) -> npt.NDArray[np.float64]:
    """Simulate what a table prints for a guesser: sorted means over `trials` of the best look.

    A trial looks `looks` times at `strings` strings of its own and keeps its best accuracy, which
    is drawn by inverting its distribution: that of one look to the power `looks`. The array
    (simulations,) is shared between calls and read-only.
    """
    from scipy.special import bdtr  # P(at most k of n); scipy.stats takes a second to import

    below = bdtr(np.arange(strings, dtype=float), strings, p) ** looks
    drawn = np.random.default_rng(SEED).random((simulations, trials))
    right = np.searchsorted(below, drawn)
    means: npt.NDArray[np.float64] = np.sort(right.mean(axis=1) / strings)
    means.flags.writeable = False
    return means


def guessing_upper(p: float, strings: int, looks: int, trials: int, level: float = LEVEL) -> float:
    """Return what a guesser's mean over `trials` stays at or below with probability `level`."""
    return float(np.quantile(guessing_means(p, strings, looks, trials), level, method="higher"))


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
    level = 1 - (1 - LEVEL) / 2
    trials = len(values)
    highest = guessing_upper(p, strings, looks, 1, level ** (1 / trials) if trials else level)
    within = mean(values) <= guessing_upper(p, strings, looks, trials, level) + 1e-12
    return within and max(values) <= highest + 1e-12
