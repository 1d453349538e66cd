"""What a report shows of its entries, and the cell that one of them fills under a rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lrbench.report.output.cells import MISSING, Cell, Column, marked, spread
from lrbench.report.paper.verdict import FEWEST, Verdict, guesses, judge
from lrbench.report.runs.looks import UNFINISHED
from lrbench.report.tables.entry import Entry

RULE_LEGEND = {
    "best": "best look at the test length",
    "id": "lowest validation loss at the training length",
    "band": "highest accuracy over the band",
    "last": "end of training",
}
LEFT = (Column("task", right=False), Column("model", right=False))


def rule_told(rule: str, entries: Iterable[Entry]) -> str:
    """Say which checkpoint a rule keeps, and whether the papers of these entries took theirs so."""
    papers = {entry.reference.rule for entry in entries if entry.reference} - {None}
    theirs = rule in (papers or {"best"})
    return RULE_LEGEND[rule] + (", the paper's rule" if theirs else "")


@dataclass(frozen=True)
class View:
    """The entries that the tables of one report show, by one rule; `chance` is each task's.

    Over a corpus `tasks` are splits, and the `heading` above them says so.
    """

    entries: tuple[Entry, ...]
    tasks: tuple[str, ...]
    rule: str
    chance: dict[str, float | None]
    digits: int = 4
    heading: str = "task"

    @property
    def scored_by(self) -> str:
        """What the numbers are: accuracy, NRMSE, or both."""
        return (
            " or ".join(dict.fromkeys(entry.metric.title for entry in self.entries)) or "accuracy"
        )

    @property
    def tested_where_trained(self) -> bool:
        """Whether every test is at the training length, on other strings."""
        trained = [entry.settings.get("protocol.train_length") for entry in self.entries]
        lengths = [entry.length for entry in self.entries]
        known = [pair for pair in zip(trained, lengths, strict=True) if pair[0] is not None]
        return bool(known) and all(at == length for at, length in known)

    def with_runs(self) -> Iterator[tuple[Entry, tuple[Cell, Cell]]]:
        """Yield the entries that have runs, each with the cells that begin its row."""
        for entry in self.entries:
            if len(entry.runs):
                yield entry, (Cell(entry.column), Cell(entry.label))

    def look(self, entry: Entry | None) -> Cell:
        """Return our number as the paper takes its own, with the verdict on it."""
        if entry is None or entry.contested:
            return instead(entry)
        if entry.unfinished:
            return unfinished(entry, self.rule, "look", self.digits)
        evidence = entry.evidence(self.rule, "look", self.chance[entry.task])
        cell = spread(evidence.values, self.digits, missing=missing(entry))
        return marked(cell, judge(evidence, entry.reference, entry.comparable(self.rule)))

    def fresh(self, entry: Entry | None, rule: str) -> Cell:
        """Return our number on fresh strings: no paper has one, so only chance is marked."""
        if entry is None or entry.contested:
            return instead(entry)
        if entry.unfinished:
            return unfinished(entry, rule, "test", self.digits)
        evidence = entry.evidence(rule, "test", self.chance[entry.task])
        cell = spread(evidence.values, self.digits, missing=missing(entry))
        known = len(evidence.values) >= FEWEST and guesses(evidence)
        return marked(cell, Verdict.AT_CHANCE if known else None)

    def level(self, task: str) -> Cell:
        """Return chance at a task."""
        level = self.chance.get(task)
        return Cell() if level is None else Cell(f"{level:.3f}", (level,))


def instead(entry: Entry | None) -> Cell:
    """Return what stands where there is no cell, or where several configurations compete for it."""
    return Cell(f"{len(entry.rivals)} compete") if entry else Cell()


def unfinished(entry: Entry, rule: str, kind: str, digits: int) -> Cell:
    """Return what the unfinished runs of a cell have so far, and that they are; no verdict."""
    found = entry.so_far(rule, kind)
    told = f"{spread(found, digits).text}, {UNFINISHED}" if found else UNFINISHED
    return Cell(told, tuple(found), mark=UNFINISHED)


def missing(entry: Entry) -> str:
    """Return what stands for a number: 'failed' and 'diverged' only where all runs did."""
    statuses = set(entry.runs["status"])
    return str(statuses.pop()) if statuses in ({"failed"}, {"diverged"}) else MISSING
