"""Disagreements with the paper: each cell, its verdict, and two sentences from the notes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lrbench.publish.layout import NOTES
from lrbench.publish.notes import Disagreement, Notes
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.output.cells import MISSING, escape, interval, spread
from lrbench.report.output.display import plural
from lrbench.report.paper.verdict import (
    FEWEST,
    Evidence,
    Verdict,
    against,
    guesses,
    judge,
    mean_interval,
)
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.matrix import grids_of
from lrbench.statistics import mean
from lrbench.tables import TableSpec

DIGITS = 4
DISAGREE = (
    *(Verdict.ABOVE, Verdict.BELOW, Verdict.NOT_LEARNED, Verdict.AT_CHANCE),
    *(Verdict.BELOW_CHANCE, Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE),
)


@dataclass(frozen=True)
class Judged:
    """One cell: its runs, the verdict, and what the paper prints, marked where that is guessing."""

    filled: FilledCell
    evidence: Evidence
    verdict: Verdict | None
    paper: str

    @property
    def name(self) -> str:
        """Its column and row, as notes.yaml names it."""
        return f"{self.filled.column} x {self.filled.label}"

    @property
    def disagrees(self) -> bool:
        """Whether the paper prints a number that ours has not reproduced."""
        return self.filled.reference is not None and self.verdict in DISAGREE

    @property
    def undecided(self) -> bool:
        """Whether there are runs, too few for a verdict, whose mean is not the printed number."""
        reference, values = self.filled.reference, self.evidence.values
        if reference is None or not values or self.verdict:
            return False
        if guesses(self.evidence):  # alike are then only two guessers
            return True
        alone = (mean(values), mean(values))  # as an interval without width
        return against(alone, reference.text, self.evidence.metric) is not Verdict.REPRODUCED

    @property
    def numbers(self) -> str:
        """Ours with its interval, the paper's, and the verdict."""
        values = self.evidence.values
        parts = [f"ours {spread(values, DIGITS, missing=self.missing).text}"]
        if len(values) >= FEWEST:
            ends = interval(mean_interval(values, self.evidence.metric), DIGITS)
            parts.append(f"95 % interval {ends}")
        model = self.filled.reference.model if self.filled.reference else ""
        verdict = self.verdict or "too few runs for a verdict"
        return f"{', '.join(parts)}; paper {self.paper} ({model}); {verdict}"

    @property
    def missing(self) -> str:
        diverged = self.evidence.diverged
        return f"{MISSING} ({diverged} diverged)" if diverged else MISSING


def judged(collection: Collection, spec: TableSpec) -> list[Judged]:
    """Return every cell of a table, one for each split over a corpus, in the table's order."""
    found = []
    for grid in grids_of(collection, spec, spec.rule, digits=DIGITS):
        for filled in grid.filled_cells:
            evidence, model = grid.evidence(filled), filled.reference and filled.reference.model
            paper = grid.column_of(filled).paper(model).text if model else MISSING
            verdict = judge(evidence, filled.reference, filled.comparable(spec.rule))
            found.append(Judged(filled, evidence, None if filled.contested else verdict, paper))
    return found


NOT_YET = "Not looked into yet."
NO_VERDICT = f"without a verdict (fewer than {FEWEST} runs)"


def disagreements(cells: Sequence[Judged], notes: Notes) -> Iterator[str]:
    """Yield markdown lines: an item for each cell that disagrees, below each note what it says.

    Cells of one note stand together, in the order in which the table has the first of them. Cells
    with too few runs for a verdict are there if a note speaks of them and their mean is elsewhere.
    """
    yield f"{_count(cells)}\n"
    groups: dict[Disagreement | None, list[Judged]] = {}
    for cell in cells:
        if cell.disagrees or (cell.undecided and notes.on(cell.name)):
            groups.setdefault(notes.on(cell.name), []).append(cell)
    without = groups.pop(None, [])
    for note, group in groups.items():
        if note is not None:
            yield from _items(group)
            yield f"\n  Checked: {_one_line(note.checked)} Believed: {_one_line(note.believed)}\n"
    if without:
        yield from _items(without)
        yield f"\n  {NOT_YET}\n"


def _count(cells: Sequence[Judged]) -> str:
    """How many cells have each verdict, of those that the paper prints a number for."""
    verdicts = Counter(
        NO_VERDICT if cell.verdict in (None, Verdict.MISSING) else str(cell.verdict)
        for cell in cells
        if cell.filled.reference
    )
    if not verdicts:
        return "The paper prints no number for these cells."
    counts = ", ".join(
        f"{verdicts[name]} {name}" for name in sorted(verdicts, key=lambda n: (-verdicts[n], n))
    )
    return f"Of {plural(verdicts.total(), 'cell')} with a number of the paper's: {counts}."


def warnings(cells: Sequence[Judged], notes: Notes) -> Iterator[str]:
    """Yield which cells disagree though nobody has written about them, and which notes are idle."""
    for cell in cells:
        if cell.disagrees and notes.on(cell.name) is None:
            yield f"{cell.name} disagrees with the paper, and {NOTES} says nothing about it"
    used = {notes.on(cell.name) for cell in cells if cell.disagrees or cell.undecided}
    for note in notes.disagreements:
        if note not in used:
            yield f"the note on {', '.join(note.cells)} is about nothing that disagrees"


def _items(group: Sequence[Judged]) -> Iterator[str]:
    for cell in group:
        yield f"- **{escape(cell.name)}**: {escape(cell.numbers)}"


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith((".", "?", "!", ":")) else f"{line}."
