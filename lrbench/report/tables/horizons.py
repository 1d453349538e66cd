"""How far runs got, as a report tells it: each run's horizon, and the median run's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lrbench.report.output.cells import PrintedCell
from lrbench.statistics import FEWEST_STRINGS, horizon


class Reached(NamedTuple):
    """A run's horizon: the length it reached, whether it failed nowhere, and how that is said.

    Sorted, a run that failed nowhere comes after one that was seen to fail.
    """

    length: int
    everywhere: bool
    text: str


UNKNOWN = Reached(0, False, "?")
ONE_WRONG = "†"  # behind a horizon that a single wrong string ended, so few were scored there


def reached(scores: Iterable[tuple[int, float, int]]) -> Reached:
    """Return the horizon of (length, accuracy, strings); too few strings decide nothing.

    One that ended at a length with a single wrong string has ONE_WRONG behind it.
    """
    counted = [(x, round(value * n), n) for x, value, n in scores if n >= FEWEST_STRINGS]
    if not counted:
        return UNKNOWN
    found = horizon(counted)
    lower, upper = found["lower"], found["upper"]
    if upper is None:
        return Reached(lower, True, f">= {lower:,}")
    errors = max(n - right for x, right, n in counted if x == upper)
    mark = ONE_WRONG if errors == 1 else ""
    if lower is None:
        return Reached(0, False, f"< {upper:,}{mark}")
    return Reached(lower, False, f"{lower:,}{mark}")


def median_of(runs: Sequence[Reached]) -> Reached:
    """Return the median run's, of an even number the lower of the two: never a length between."""
    return sorted(runs)[(len(runs) - 1) // 2]


def horizon_cells(runs: Sequence[Reached]) -> tuple[PrintedCell, PrintedCell]:
    """Return every run's horizon, and the median."""
    if not runs:
        return PrintedCell(), PrintedCell()
    median = median_of(runs)
    values = tuple(float(run.length) for run in runs)
    return PrintedCell("; ".join(run.text for run in runs), values), PrintedCell(
        median.text, (median.length,)
    )
