"""Where a table and its paper meet: each cell with the verdict on it, as the tables give it."""

from __future__ import annotations

from dataclasses import dataclass

from lrbench.report.corpora.columns import grids
from lrbench.report.corpora.matrix import view_of
from lrbench.report.corpora.rows import paper_row
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
from lrbench.report.runs.columns import BY_SPLIT
from lrbench.report.tables.entry import Entry
from lrbench.report.tables.printed import paper_rows
from lrbench.report.tables.selection import chances, select
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

    entry: Entry
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
    return (
        _of_splits(collection, spec) if spec.protocol in BY_SPLIT else _of_tasks(collection, spec)
    )


def _of_tasks(collection: Collection, spec: TableSpec) -> list[Judged]:
    entries = select(collection, spec)
    tasks = list(spec.columns) or list(dict.fromkeys(entry.task for entry in entries))
    entries = [entry for entry in entries if entry.task in tasks]
    chance = chances(entries)
    rows = paper_rows(entries, tasks, chance)
    found = []
    for entry in entries:
        evidence = entry.evidence(spec.rule, "look", chance[entry.task])
        model = entry.reference.model if entry.reference else ""
        paper = rows.cells(model)[tasks.index(entry.task)].text if model else MISSING
        found.append(_judged(entry, evidence, spec.rule, paper))
    return found


def _of_splits(collection: Collection, spec: TableSpec) -> list[Judged]:
    found = []
    for grid in grids(collection, spec):
        view = view_of(grid, spec.rule, DIGITS)
        papers = {entry.reference.model for entry in view.entries if entry.reference}
        printed = {model: paper_row("", "", model, grid)[2:] for model in sorted(papers)}
        for (_, split), entry in grid.entries.items():
            evidence = entry.evidence(spec.rule, "test", view.chance[split.name])
            cells = printed[entry.reference.model] if entry.reference else None
            paper = cells[grid.splits.index(split)].text if cells else MISSING
            found.append(_judged(entry, evidence, spec.rule, paper))
    return found


def _judged(entry: Entry, evidence: Evidence, rule: str, paper: str) -> Judged:
    if entry.contested:
        return Judged(entry, evidence, None, paper)
    return Judged(entry, evidence, judge(evidence, entry.reference, entry.comparable(rule)), paper)
