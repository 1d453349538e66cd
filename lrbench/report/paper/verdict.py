"""Verdicts on cells against the paper's numbers: one of a few words, by fixed rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum

from lrbench.metrics import ACCURACY, Metric
from lrbench.report.paper.reference import Reference
from lrbench.statistics import at_chance, mean, median, runs_at_chance, t_interval

FEWEST = 3  # runs below which there is no verdict
LEARNED = 0.95  # "near 1": the median run's accuracy at the training length
TOLERANCE = Decimal("0.02")
RELATIVE_TOLERANCE = Decimal("0.1")  # of an error: it has no range that 0.02 would be a share of
REACHED = "reached by another recipe = the same, by other settings than the paper's"
BETWEEN = (
    "above, below = all of it on that side; inconclusive = too wide to tell, or as good only"
    " without the runs that diverged"
)


class Verdict(StrEnum):
    """The words, as they are printed."""

    REPRODUCED = "reproduced"
    REACHED = "reached by another recipe"
    ABOVE = "above"
    BELOW = "below"
    INCONCLUSIVE = "inconclusive"
    NOT_LEARNED = "not learned"
    AT_CHANCE = "at chance"
    BELOW_CHANCE = "below chance"
    NOT_COMPARABLE = "not comparable"
    MISSING = "-"
    FAILED = "failed"


@dataclass(frozen=True)
class Guesser:
    """Who knows nothing: right with probability `p`, by the best of `looks` at `strings` each."""

    p: float
    strings: int
    looks: int


@dataclass(frozen=True)
class Evidence:
    """One cell of ours under one rule.

    `values` are the runs' accuracies at the test length, `trained` those at the training length, of
    checkpoints chosen there; `diverged` and `failed` count the runs without a value. Where `metric`
    is an error there is no guesser, and `chance` is the error of the best baseline. best_run: the
    paper's number is of the best of as many runs, so that ours is, too, and has no interval.
    own_recipe: the settings are ours where the paper tells its own, so that its number can be
    reached but not reproduced.
    """

    values: Sequence[float]
    trained: Sequence[float] = ()
    guesser: Guesser | None = None
    diverged: int = 0
    failed: int = 0
    metric: Metric = ACCURACY
    chance: float | None = None
    best_run: bool = False
    own_recipe: bool = False


def judge(
    evidence: Evidence, reference: Reference | None, comparable: bool = True
) -> Verdict | None:
    """Return the verdict on a cell against `reference`, None for fewer than three runs.

    The first that holds, in this order: failed and missing (no number of ours), not learned, at or
    below chance, missing (none of the paper's), not comparable, and then what the interval says.
    A run that diverged has learnt nothing, and a mean without it is not as good as the paper's.
    """
    if not evidence.values:
        return _without_values(evidence)
    if len(evidence.values) + evidence.diverged >= FEWEST and not _learned(evidence):
        return Verdict.NOT_LEARNED
    if len(evidence.values) < FEWEST:
        return None
    if (guessed := beside_chance(evidence)) is not None:
        return guessed
    if reference is None:
        return Verdict.MISSING
    if not comparable:
        return Verdict.NOT_COMPARABLE
    metric = evidence.metric
    best = max(evidence.values, key=metric.merit)
    interval = (best, best) if evidence.best_run else mean_interval(evidence.values, metric)
    verdict = against(interval, reference.text, metric)
    if evidence.diverged and not evidence.best_run and verdict is not _worse(metric):
        return Verdict.INCONCLUSIVE
    reached = evidence.own_recipe and verdict is Verdict.REPRODUCED
    return Verdict.REACHED if reached else verdict


def guesses(evidence: Evidence) -> bool:
    """Tell whether guessing under the rule explains every run and their mean.

    Of an error: whether the mean is no better than the best baseline's.
    """
    if not evidence.metric.counts and evidence.values and evidence.chance is not None:
        merit = evidence.metric.merit
        return merit(mean(evidence.values)) <= merit(evidence.chance)
    guesser = evidence.guesser
    if guesser is None or not evidence.values:
        return False
    return runs_at_chance(evidence.values, guesser.p, guesser.strings, guesser.looks)


def beside_chance(evidence: Evidence) -> Verdict | None:
    """Return at chance or below it of runs that are no better than guessing, else None.

    Below it: the mean is less than half of chance, and no run reaches it, as a state that has
    drifted answers every string wrongly.
    """
    if not guesses(evidence):
        return None
    guesser, values = evidence.guesser, evidence.values
    if not evidence.metric.counts or guesser is None:
        return Verdict.AT_CHANCE
    below = mean(values) < guesser.p / 2 and max(values) < guesser.p
    return Verdict.BELOW_CHANCE if below else Verdict.AT_CHANCE


def printed_at_chance(reference: Reference, guesser: Guesser) -> bool:
    """Tell whether guessing under the paper's rule explains its number, as it was rounded."""
    half = 0.5 * 10.0 ** -digits(reference.text)
    trials = reference.trials or 1
    return at_chance(
        reference.value, guesser.p, guesser.strings, guesser.looks, trials, rounding=half
    )


def mean_interval(values: Sequence[float], metric: Metric = ACCURACY) -> tuple[float, float]:
    """Return the 95 % t interval of a mean, cut at 0 and of accuracies at 1; needs two values."""
    low, high = t_interval(values)
    return max(0.0, low), min(1.0, high) if metric.counts else high


def against(interval: tuple[float, float], printed: str, metric: Metric = ACCURACY) -> Verdict:
    """Return what a 95 % interval says about a printed number, both at its printed precision.

    Reproduced: both ends within 0.02 of it, or of an error within a tenth of it. Above, below: the
    whole interval is on that side, whichever is the better one.
    """
    number = Decimal(printed)
    unit = Decimal(1).scaleb(-digits(printed))
    low, high = (Decimal(repr(float(end))).quantize(unit, ROUND_HALF_UP) for end in interval)
    tolerance = TOLERANCE if metric.counts else RELATIVE_TOLERANCE * number
    if abs(low - number) <= tolerance and abs(high - number) <= tolerance:
        return Verdict.REPRODUCED
    if low > number:
        return Verdict.ABOVE
    if high < number:
        return Verdict.BELOW
    return Verdict.INCONCLUSIVE


def digits(printed: str) -> int:
    """Return how many digits a number was printed with behind its point."""
    return len(printed.partition(".")[2])


def _learned(evidence: Evidence) -> bool:
    """Tell whether the median run is near 1 at the training length; one that diverged is not."""
    if not (evidence.metric.counts and evidence.trained):
        return True
    return median([*evidence.trained, *[0.0] * evidence.diverged]) >= LEARNED


def _worse(metric: Metric) -> Verdict:
    return Verdict.BELOW if metric.higher_is_better else Verdict.ABOVE


def _without_values(evidence: Evidence) -> Verdict | None:
    if evidence.diverged:
        return Verdict.NOT_LEARNED if evidence.diverged >= FEWEST else None
    return Verdict.FAILED if evidence.failed else Verdict.MISSING
