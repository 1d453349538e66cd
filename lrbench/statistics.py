"""Intervals, spreads, comparisons and the optimism of a rule: pure functions of numbers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

# --- the centre and the spread of a few numbers


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean, correctly rounded; raises ValueError where there is no value.

    So the mean of equal values is that value, to the last bit, and prints as it does.
    """
    if not values:
        raise ValueError("mean of no values")
    floats = [*map(float, values)]
    if not all(map(math.isfinite, floats)):
        return float(statistics.mean(floats))
    # The exact sum over the largest denominator, a power of two: a tenth of statistics.mean's time.
    ratios = [value.as_integer_ratio() for value in floats]
    below = max(denominator for _, denominator in ratios)
    return sum(above * (below // denominator) for above, denominator in ratios) / (
        below * len(ratios)
    )


def median(values: Sequence[float]) -> float:
    """Return the middle value, or the mean of the middle two; raises ValueError for none."""
    if not values:
        raise ValueError("median of no values")
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else mean(ordered[middle - 1 : middle + 1])


def sample_std(values: Sequence[float], centre: float | None = None) -> float:
    """Return the sample standard deviation (n - 1 below); raises ValueError for fewer than two.

    centre: their mean, where it is known.
    """
    if len(values) < 2:
        raise ValueError(f"sample standard deviation of {len(values)} value(s)")
    centre = mean(values) if centre is None else centre
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


# --- shares: of strings answered rightly, of runs that solved their task

SOLVED = 0.99  # a run has solved a length at this accuracy; the horizon uses the same


@dataclass(frozen=True)
class Share:
    """`count` of `n`, with its 95 % Wilson interval."""

    count: int
    n: int
    low: float
    high: float


def correct_of(value: float, n: int) -> int:
    """Return how many of n strings are right at an accuracy of `value`.

    Of `averaged` tasks the accuracy is a share of positions. It is rounded down, as a run's own
    interval and horizon are: a model with wrong answers is never counted as one without.
    """
    return math.floor(value * n + 1e-6)


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


# --- percentile bootstrap intervals (Efron 1979), the same at every call

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


# --- two models compared by their runs: an effect and its interval, never a winner alone

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


# --- the optimism of a rule: what the best of many looks gives to one who only guesses

Floats = npt.NDArray[np.float64]

LEVEL = 0.95  # of the one-sided test
HALF = 1 - (1 - LEVEL) / 2  # of each of the two tests of runs
NEGLIGIBLE = 1e-18  # what is less likely than that is left out


def guessing_best_of(p: float, strings: int, looks: int) -> float:
    """Return the mean best accuracy over `looks` of a guesser that is right with probability `p`.

    Each look is at `strings` strings of its own: 128 strings and 40 looks turn a chance of 0.2 into
    0.279. Exact: E[max] = sum over k of P(max > k).
    """
    return float((1 - _at_most(p, strings, looks)[:-1]).sum() / strings)


@lru_cache(maxsize=64)
def expected_maximum(n: int) -> float:
    """Return the mean of the largest of `n` standard normal numbers: 0.85 of 3, 2.04 of 30.

    What the best of n runs is above their mean, in standard deviations over runs: the integral of
    x dPhi(x)^n, by parts and by the trapezoid rule, to more digits than anybody needs.
    """
    x = np.linspace(-10.0, 10.0, 20_001)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x]) ** n
    return float(x[-1] - np.sum((below[1:] + below[:-1]) / 2) * (x[1] - x[0]))


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


def _at_most(p: float, strings: int, looks: int) -> Floats:
    """Return P(best of `looks` <= k), k = 0 .. strings: that of one look to the power `looks`."""
    from scipy.special import bdtr  # P(at most k of n); scipy.stats takes a second to import

    at_most: Floats = bdtr(np.arange(strings + 1, dtype=float), strings, p) ** looks
    return at_most


@lru_cache(maxsize=256)
def _totals(p: float, strings: int, looks: int, trials: int) -> tuple[int, Floats]:
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


# --- the horizon: up to which tested length a model still knows the rule

FEWEST_STRINGS = 381  # of fewer, even answers that are all right leave the lower bound below 0.99


def passes(correct: int, n: int) -> bool:
    """Whether the Wilson lower bound of an accuracy, `correct` of `n`, reaches 0.99."""
    return wilson(correct, n)[0] >= SOLVED


def horizon(scores: Iterable[tuple[int, int, int]]) -> dict[str, Any]:
    """Return {lower, upper, text} of (length, correct, n): up to where every tested length passes.

    `lower` is None where even the shortest fails, `upper` None where all pass.
    """
    lower: int | None = None
    for length, correct, n in sorted(scores):
        if not passes(correct, n):
            text = f"< {length:,}" if lower is None else f"{lower:,} < h <= {length:,}"
            return {"lower": lower, "upper": length, "text": text}
        lower = length
    return {"lower": lower, "upper": None, "text": f"> {lower:,}"}
