"""Intervals, spreads, comparisons and the optimism of a rule: pure functions of numbers."""

from lrbench.statistics.bootstrap import bootstrap_mean
from lrbench.statistics.comparison import difference_of_means, probability_of_improvement
from lrbench.statistics.guessing import (
    at_chance,
    guessing_best_of,
    guessing_upper,
    runs_at_chance,
    runs_upper,
)
from lrbench.statistics.horizon import FEWEST_STRINGS, horizon, passes
from lrbench.statistics.proportion import SOLVED, Share, solve_rate, wilson
from lrbench.statistics.spread import mean, median, sample_std, t_interval

__all__ = [
    "FEWEST_STRINGS",
    "SOLVED",
    "Share",
    "at_chance",
    "bootstrap_mean",
    "difference_of_means",
    "guessing_best_of",
    "guessing_upper",
    "horizon",
    "mean",
    "median",
    "passes",
    "probability_of_improvement",
    "runs_at_chance",
    "runs_upper",
    "sample_std",
    "solve_rate",
    "t_interval",
    "wilson",
]
