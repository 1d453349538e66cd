"""What a cell says against the paper's number: a word by fixed rules, from numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum

from lrbench.report.reference import Reference
from lrbench.statistics import at_chance, median, runs_at_chance, t_interval

FEWEST = 3  # runs below which there is no verdict
LEARNED = 0.95  # "near 1": the median run's accuracy at the training length
TOLERANCE = Decimal("0.02")


class Verdict(StrEnum):
    """The words, as they are printed."""

    REPRODUCED = "reproduced"
    ABOVE = "above"
    BELOW = "below"
    INCONCLUSIVE = "inconclusive"
    NOT_LEARNED = "not learned"
    AT_CHANCE = "at chance"
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

    `values` are the runs' accuracies at the test length, `trained` those at the training length;
    `diverged` and `failed` count the runs without a value.
    """

    values: Sequence[float]
    trained: Sequence[float] = ()
    guesser: Guesser | None = None
    diverged: int = 0
    failed: int = 0


def judge(
    evidence: Evidence, reference: Reference | None, comparable: bool = True
) -> Verdict | None:
    """Return the verdict on a cell against `reference`, None for fewer than three runs.

    The first that holds, in this order: failed and missing (no number of ours), not learned, at
    chance, missing (none of the paper's), not comparable, and then what the interval says.
    """
    if not evidence.values:
        return _without_values(evidence)
    if len(evidence.values) < FEWEST:
        return None
    if evidence.trained and median(evidence.trained) < LEARNED:
        return Verdict.NOT_LEARNED
    if guesses(evidence):
        return Verdict.AT_CHANCE
    if reference is None:
        return Verdict.MISSING
    if not comparable:
        return Verdict.NOT_COMPARABLE
    return against(mean_interval(evidence.values), reference.text)


def guesses(evidence: Evidence) -> bool:
    """Tell whether guessing under the rule explains every run and their mean."""
    guesser = evidence.guesser
    if guesser is None or not evidence.values:
        return False
    return runs_at_chance(evidence.values, guesser.p, guesser.strings, guesser.looks)


def printed_at_chance(reference: Reference, guesser: Guesser) -> bool:
    """Tell whether guessing under the paper's rule explains its number, as it was rounded."""
    half = 0.5 * 10.0 ** -digits(reference.text)
    trials = reference.trials or 1
    return at_chance(
        reference.value, guesser.p, guesser.strings, guesser.looks, trials, rounding=half
    )


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % t interval of a mean accuracy, cut at 0 and 1; needs two values."""
    low, high = t_interval(values)
    return max(0.0, low), min(1.0, high)


def against(interval: tuple[float, float], printed: str) -> Verdict:
    """Return what a 95 % interval says about a printed number, both at its printed precision.

    Reproduced: both ends within 0.02 of it. Above, below: the whole interval is on that side.
    """
    number = Decimal(printed)
    unit = Decimal(1).scaleb(-digits(printed))
    low, high = (Decimal(repr(float(end))).quantize(unit, ROUND_HALF_UP) for end in interval)
    if abs(low - number) <= TOLERANCE and abs(high - number) <= TOLERANCE:
        return Verdict.REPRODUCED
    if low > number:
        return Verdict.ABOVE
    if high < number:
        return Verdict.BELOW
    return Verdict.INCONCLUSIVE


def digits(printed: str) -> int:
    """Return how many digits a number was printed with behind its point."""
    return len(printed.partition(".")[2])


def _without_values(evidence: Evidence) -> Verdict | None:
    if evidence.diverged:
        return Verdict.NOT_LEARNED if evidence.diverged >= FEWEST else None
    return Verdict.FAILED if evidence.failed else Verdict.MISSING
