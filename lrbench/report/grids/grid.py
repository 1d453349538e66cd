"""Grids of cells: rows by label, columns by an axis, and the text of one cell.

A column is a task at its test length, or a split of a corpus. `lengths.py` and `splits.py` make
grids of the two kinds; what stands here, and every table made of a grid, is the same for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from lrbench.locations import not_at_hand
from lrbench.report.grids.filled_cell import UNLIKE, FilledCell
from lrbench.report.output.cells import MISSING, Column, PrintedCell, marked, spread
from lrbench.report.paper.reference import Published, Reference
from lrbench.report.paper.verdict import (
    FEWEST,
    Evidence,
    Guesser,
    Verdict,
    beside_chance,
    judge,
    printed_at_chance,
)
from lrbench.report.runs.columns import UNFINISHED, Settings

NO_DATA = "no data at hand"  # in place of a number that nobody can measure on this machine
LEVEL_DIGITS = 3  # of chance, guessing and baselines
Row = tuple[PrintedCell, ...]


@dataclass(frozen=True)
class AxisColumn:
    """A task at its test length, or a split: what is known there without any run of ours.

    `chance` is what the best reaches that knows nothing of a string; `guesser` guesses as often as
    the paper looked; `printed` are the paper's numbers, in its order. `published` is how it took
    them, `baselines` is what each lookup reaches on a split.
    """

    name: str
    title: str
    chance: float | None
    guesser: Guesser | None
    printed: tuple[Reference, ...]
    published: Published | None = None
    baselines: dict[str, float] = field(default_factory=dict)

    @property
    def best_baseline(self) -> tuple[str, float] | None:
        """The baseline to beat, and its accuracy."""
        return max(self.baselines.items(), key=lambda item: item[1], default=None)

    def paper(self, model: str) -> PrintedCell:
        """Return what the paper prints for one of its models, 'at chance' where guessing does it.

        Guessing by many looks explains only a number that is the best of them.
        """
        found = next((number for number in self.printed if number.model == model), None)
        if found is None:
            return PrintedCell(MISSING)
        guesser = self.guesser
        alike = guesser is not None and (guesser.looks == 1 or found.rule == "best")
        guessed = alike and guesser is not None and printed_at_chance(found, guesser)
        cell = PrintedCell(found.shown, (found.value,))
        return marked(cell, Verdict.AT_CHANCE if guessed else None)


@dataclass(frozen=True)
class Grid(ABC):
    """A table's cells by one rule.

    `cells` are the runs of each of its cells, once; `filled_cells` the same once for each column
    that they are shown in.
    """

    heading: ClassVar[str]  # above the names of columns, where a table has them as rows

    columns: tuple[AxisColumn, ...]
    cells: tuple[FilledCell, ...]
    filled_cells: tuple[FilledCell, ...]
    rule: str
    digits: int = 4
    part: str = ""  # which of a table's grids it is, where it has several

    @property
    @abstractmethod
    def kind(self) -> str:
        """Of which scores are held against the paper's: look or test."""

    @property
    @abstractmethod
    def number(self) -> str:
        """What our number is called."""

    @property
    @abstractmethod
    def verdict_titles(self) -> tuple[str, ...]:
        """What a verdict rests on: the columns of its table."""

    @property
    def labels(self) -> list[str]:
        """The rows of ours."""
        return list(dict.fromkeys(filled.label for filled in self.cells))

    @property
    def chance(self) -> dict[str, float | None]:
        return {column.name: column.chance for column in self.columns}

    @property
    def printed_models(self) -> list[str]:
        """The paper's models, in the paper's order."""
        return list(dict.fromkeys(each.model for column in self.columns for each in column.printed))

    @property
    def scored_by(self) -> str:
        """What the numbers are: accuracy, NRMSE, or both."""
        return (
            " or ".join(dict.fromkeys(filled.metric.title for filled in self.filled_cells))
            or "accuracy"
        )

    @property
    def tested_where_trained(self) -> bool:
        """Whether every test is at the training length, on other strings."""
        trained = [filled.settings.get("protocol.train_length") for filled in self.filled_cells]
        lengths = [filled.length for filled in self.filled_cells]
        known = [pair for pair in zip(trained, lengths, strict=True) if pair[0] is not None]
        return bool(known) and all(at == length for at, length in known)

    @abstractmethod
    def row(self, label: str) -> list[FilledCell | None]:
        """Return what stands in each column of a row, None where it has no cell."""

    @abstractmethod
    def our_rows(self, label: str) -> list[Row]:
        """Return the rows on our runs."""

    @abstractmethod
    def level_rows(self) -> list[Row]:
        """Return the rows at the foot: what those reach who know next to nothing."""

    @abstractmethod
    def legend(self) -> list[str]:
        """Return the notes on how to read the main table."""

    @abstractmethod
    def verdict_cells(self, filled: FilledCell, evidence: Evidence) -> dict[str, PrintedCell]:
        """Return what else a verdict rests on, by its title."""

    @abstractmethod
    def verdict_notes(self) -> tuple[str, ...]:
        """Return what the titles of those mean."""

    @abstractmethod
    def without_number(self, filled: FilledCell, ended: int) -> Iterator[str]:
        """Yield what the runs of a cell lack, and what they have that is not shown."""

    @abstractmethod
    def outside(self, run: Any, settings: Settings, protocol: str) -> str | None:
        """Return how a run is named that belongs to no cell, None where it belongs to one."""

    def paper_row(self, first: str, second: str, model: str) -> Row:
        """Return the paper's numbers of one of its models."""
        return (
            PrintedCell(first),
            PrintedCell(second),
            *(column.paper(model) for column in self.columns),
        )

    def column_of(self, filled: FilledCell) -> AxisColumn:
        """Return the column that a filled cell stands in."""
        return next(column for column in self.columns if column.name == filled.column)

    def with_runs(self) -> Iterator[tuple[FilledCell, tuple[PrintedCell, PrintedCell]]]:
        """Yield the filled cells that have runs, each with the cells that begin its row."""
        yield from heads(self.filled_cells)

    def evidence(self, filled: FilledCell) -> Evidence:
        """Return what the verdict on a filled cell is given by."""
        return filled.evidence(self.rule, self.kind, self.chance[filled.column])

    def compared(self, filled: FilledCell | None) -> PrintedCell:
        """Return our number as the paper takes its own, with the verdict on it."""
        if filled is None or filled.contested or filled.unfinished:
            return self._instead(filled, self.rule, self.kind)
        evidence = self.evidence(filled)
        cell = spread(evidence.values, self.digits, missing=missing(filled))
        if evidence.best_run and len(evidence.values) > 1:
            best = f"{max(evidence.values):.{self.digits}f}, best of {len(evidence.values)}"
            cell = PrintedCell(best, tuple(evidence.values))
        verdict = judge(evidence, filled.reference, filled.comparable(self.rule))
        return marked(with_unlike(cell, filled), verdict)

    def fresh(self, filled: FilledCell | None, rule: str) -> PrintedCell:
        """Return our number on fresh strings: no paper has one, so only chance is marked."""
        if filled is None or filled.contested or filled.unfinished:
            return self._instead(filled, rule, "test")
        evidence = filled.evidence(rule, "test", self.chance[filled.column])
        cell = spread(evidence.values, self.digits, missing=missing(filled))
        enough = len(evidence.values) >= FEWEST
        return marked(with_unlike(cell, filled), beside_chance(evidence) if enough else None)

    def _instead(self, filled: FilledCell | None, rule: str, kind: str) -> PrintedCell:
        """What stands where there is no cell, several compete for it, or no run has ended."""
        if filled is None or filled.contested:
            return PrintedCell(f"{len(filled.rivals)} compete") if filled else PrintedCell()
        found = filled.so_far(rule, kind)
        text = f"{spread(found, self.digits).text}, {UNFINISHED}" if found else UNFINISHED
        return with_unlike(PrintedCell(text, tuple(found), mark=UNFINISHED), filled)


def with_unlike(cell: PrintedCell, filled: FilledCell) -> PrintedCell:
    """Return `cell` with a pilcrow where its runs are not those that the table asks for."""
    return cell if filled.unlike is None else replace(cell, text=f"{cell.text} {UNLIKE}")


def heads(
    filled_cells: Sequence[FilledCell],
) -> Iterator[tuple[FilledCell, tuple[PrintedCell, PrintedCell]]]:
    """Yield those that have runs, each with its column and label."""
    for filled in filled_cells:
        if len(filled.runs):
            label = with_unlike(PrintedCell(filled.label), filled)
            yield filled, (PrintedCell(filled.column), label)


def left(heading: str = "task") -> tuple[Column, Column]:
    """Return the headings above the cells that begin a row."""
    return Column(heading, right=False), Column("model", right=False)


def level(value: float | None) -> PrintedCell:
    """Return what is reached by chance, by guessing or by a baseline."""
    return PrintedCell() if value is None else PrintedCell(f"{value:.{LEVEL_DIGITS}f}", (value,))


def missing(filled: FilledCell) -> str:
    """Return what stands for a number: 'failed' and 'diverged' only where all runs did.

    Without runs it may be said why nobody can make any here.
    """
    statuses = set(filled.runs["status"])
    if not statuses and not_at_hand(filled.task):
        return NO_DATA
    return str(statuses.pop()) if statuses in ({"failed"}, {"diverged"}) else MISSING
