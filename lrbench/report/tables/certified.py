"""What is known of a cell's runs on all strings: their verdicts, and shortest failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lrbench.report.output.cells import Column, PrintedCell
from lrbench.report.runs.certificates import Answer, Answers

COLUMNS = ("certified", "shortest failure")
NONE = "-"  # of a run that no search found wrong, or that was not searched
EXACT, AGAIN_SAME, AGAIN_OTHER = "=", "\N{DOUBLE DAGGER}", "\N{SECTION SIGN}"
EVERYWHERE = "\N{INFINITY} certified"  # the horizon of a certified run


def of_rule(
    answers: Mapping[str, Answers], folders: Iterable[str], rule: str
) -> list[Answer | None]:
    """Return what is known of each run's checkpoint by a rule, None where it was not searched."""
    return [answers.get(folder, {}).get(rule) for folder in folders]


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
    marks = {_again(answer) for answer in known}
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
    if answer is None or answer.length is None:
        return NONE
    return f"{EXACT if answer.shortest else ''}{answer.length:,}{_again(answer)}"


def _again(answer: Answer) -> str:
    if not answer.again:
        return ""
    return AGAIN_SAME if answer.again.startswith("same") else AGAIN_OTHER
