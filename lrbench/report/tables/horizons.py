"""Table cells for horizons, verdicts on all strings, and shortest failures of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low
from typing import NamedTuple

from lrbench.report.output.cells import Column, PrintedCell
from lrbench.report.runs.columns import Answer, Answers
from lrbench.statistics import FEWEST_STRINGS, correct_of, horizon


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
    counted = [(x, correct_of(value, n), n) for x, value, n in scores if n >= FEWEST_STRINGS]
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
    return median_low(runs)


def horizon_cells(runs: Sequence[Reached]) -> tuple[PrintedCell, PrintedCell]:
    """Return every run's horizon, and the median."""
    if not runs:
        return PrintedCell(), PrintedCell()
    median = median_of(runs)
    values = tuple(float(run.length) for run in runs)
    return PrintedCell("; ".join(run.text for run in runs), values), PrintedCell(
        median.text, (median.length,)
    )


OTHER = "last"  # the rule that is shown beside the table's own: it never looked at a length
COLUMNS = ("certified", "shortest failure")
NONE = "-"  # of a run that no search found wrong, or that was not searched
EXACT, AGAIN_SAME, AGAIN_OTHER = "=", "\N{DOUBLE DAGGER}", "\N{SECTION SIGN}"
NEVER = "\N{INFINITY}"  # the shortest failure of a certified run
EVERYWHERE = f"{NEVER} certified"  # its horizon


def of_rule(
    answers: Mapping[str, Answers], folders: Iterable[str], rule: str
) -> list[Answer | None]:
    """Return what is known of each run's checkpoint by a rule, None where it was not searched."""
    return [answers.get(folder, {}).get(rule) for folder in folders]


def of_other_weights(answer: Answer) -> bool:
    """Whether an answer is of other weights than those that the table's scores are of."""
    return again_mark(answer) == AGAIN_OTHER


def certified_columns(rule: str = "") -> tuple[Column, ...]:
    """Return the two columns; of a table with several rules, `rule` stands behind their titles."""
    behind = f": {rule}" if rule else ""
    return tuple(Column(f"{title}{behind}") for title in COLUMNS)


def certified_cells(found: Sequence[Answer | None]) -> tuple[PrintedCell, PrintedCell]:
    """Return (certified / wrong / open runs, each run's shortest failure in symbols)."""
    if not any(found):
        return PrintedCell(), PrintedCell()
    verdicts = [answer.verdict for answer in found if answer is not None]
    counts = tuple(float(verdicts.count(name)) for name in ("certified", "wrong", "open"))
    lengths = tuple(float(a.length) for a in found if a is not None and a.length is not None)
    return (
        PrintedCell(" / ".join(f"{count:.0f}" for count in counts), counts),
        PrintedCell("; ".join(map(_failure, found)), lengths),
    )


def certified_legend(found: Iterable[Answer | None]) -> list[str]:
    """Return what the columns say, and the marks that are used; nothing where nothing is known."""
    known = [answer for answer in found if answer is not None]
    if not known:
        return []
    text = (
        "certified: runs proved right on every string / found wrong on one / neither"
        " (lrbench certify); shortest failure: symbols of the shortest string that is known to be"
        " answered wrongly, a run each"
    )
    if any(answer.shortest for answer in known):
        text += f"; {EXACT} that no shorter one is"
    if any(answer.verdict == "certified" for answer in known):
        text += f"; {EVERYWHERE}: right on every string, so at every length"
    lines = [text]
    marks = {again_mark(answer) for answer in known}
    if AGAIN_SAME in marks:
        lines.append(
            f"{AGAIN_SAME} of the same run trained again, with the same scores as those here"
        )
    if AGAIN_OTHER in marks:
        lines.append(
            f"{AGAIN_OTHER} of the same configuration and seed trained again: rounding on another"
            " machine made other weights, and other scores than those here"
        )
    return lines


def _failure(answer: Answer | None) -> str:
    if answer is not None and answer.verdict == "certified":
        return f"{NEVER}{again_mark(answer)}"
    if answer is None or answer.length is None:
        return NONE
    return f"{EXACT if answer.shortest else ''}{answer.length:,}{again_mark(answer)}"


def again_mark(answer: Answer) -> str:
    """Return the mark of an answer on weights that were trained again; nothing of another."""
    if not answer.again:
        return ""
    return AGAIN_SAME if answer.again.startswith("same") else AGAIN_OTHER
