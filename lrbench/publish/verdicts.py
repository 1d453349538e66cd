"""Where a table and its paper meet: each cell with the verdict on it, as the tables give it."""

from __future__ import annotations

from dataclasses import dataclass

from lrbench.report.output.cells import MISSING, interval, spread
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
from lrbench.report.tables.filled_cell import FilledCell
from lrbench.report.tables.matrix import grids_of
from lrbench.statistics import mean
from lrbench.tables import TableSpec

DIGITS = 4
DISAGREE = (
    *(Verdict.ABOVE, Verdict.BELOW, Verdict.NOT_LEARNED, Verdict.AT_CHANCE),
    *(Verdict.INCONCLUSIVE, Verdict.NOT_COMPARABLE),
)


@dataclass(frozen=True)
class Judged:
    """One cell: its runs, the verdict, and what the paper prints, marked where that is guessing."""

    entry: FilledCell
    evidence: Evidence
    verdict: Verdict | None
    paper: str

    @property
    def name(self) -> str:
        """Its column and row, as notes.yaml names it."""
        return f"{self.entry.column} x {self.entry.label}"

    @property
    def disagrees(self) -> bool:
        """Whether the paper prints a number that ours has not reproduced."""
        return self.entry.reference is not None and self.verdict in DISAGREE

    @property
    def undecided(self) -> bool:
        """Whether there are runs, too few for a verdict, whose mean is not the printed number."""
        reference, values = self.entry.reference, self.evidence.values
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
        model = self.entry.reference.model if self.entry.reference else ""
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
        for entry in grid.entries:
            evidence, model = grid.evidence(entry), entry.reference and entry.reference.model
            paper = grid.column_of(entry).paper(model).text if model else MISSING
            verdict = judge(evidence, entry.reference, entry.comparable(spec.rule))
            found.append(Judged(entry, evidence, None if entry.contested else verdict, paper))
    return found
