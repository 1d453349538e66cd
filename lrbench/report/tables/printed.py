"""The paper's own rows of a table: its numbers, marked where guessing under its rule gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lrbench.report.output.cells import MISSING, Cell, marked
from lrbench.report.paper.reference import Published, Reference, printed, published
from lrbench.report.paper.verdict import Guesser, Verdict, printed_at_chance
from lrbench.report.tables.entry import Entry
from lrbench.statistics import guessing_best_of


@dataclass(frozen=True)
class PaperRows:
    """What the paper prints for each task (in the table's order), and a guesser like its models."""

    printed: tuple[tuple[Reference, ...], ...]
    looked: tuple[Published | None, ...]
    chance: tuple[float | None, ...]

    @property
    def models(self) -> list[str]:
        """The paper's models, in the paper's order."""
        return list(dict.fromkeys(found.model for task in self.printed for found in task))

    def cells(self, model: str) -> list[Cell]:
        """Return a cell a task: the number as printed and 'at chance' where it is."""
        return [
            self._cell(
                next((row for row in task if row.model == model), None), self._guesser(index)
            )
            for index, task in enumerate(self.printed)
        ]

    def levels(self) -> list[tuple[Cell, ...]]:
        """Return the rows below: guessing under the paper's rule, and chance."""
        rows = []
        if any(self._guesser(index) for index in range(len(self.looked))):
            guessing = [self._guessing(index) for index in range(len(self.looked))]
            rows.append((Cell("guessing"), Cell("by the paper's rule"), *guessing))
        chance = [Cell() if p is None else Cell(f"{p:.3f}", (p,)) for p in self.chance]
        return [*rows, (Cell("chance"), Cell("best baseline"), *chance)]

    def notes(self) -> list[str]:
        """Say where the paper's numbers are from and what they may not mean."""
        first = next((found for task in self.printed for found in task), None)
        if first is None:
            return []
        looked = sorted({f"{p.looks} looks at {p.strings} strings" for p in self.looked if p})
        how = f"; its rule: the best of up to {', '.join(looked)}" if looked else ""
        return [
            f"paper: as printed in {first.source} ({first.aggregation}){how}; marked at chance"
            " where a mean of as many guessers under that rule reaches it in 5 % of cases or more"
        ]

    def _guesser(self, index: int) -> Guesser | None:
        looked, p = self.looked[index], self.chance[index]
        return Guesser(p, looked.strings, looked.looks) if looked and p is not None else None

    def _guessing(self, index: int) -> Cell:
        guesser = self._guesser(index)
        if guesser is None:
            return Cell()
        average = guessing_best_of(guesser.p, guesser.strings, guesser.looks)
        return Cell(f"{average:.3f}", (average,))

    def _cell(self, found: Reference | None, guesser: Guesser | None) -> Cell:
        if found is None:
            return Cell(MISSING)
        guessed = found.rule == "best" and guesser and printed_at_chance(found, guesser)
        return marked(Cell(found.text, (found.value,)), Verdict.AT_CHANCE if guessed else None)


def paper_rows(
    entries: Sequence[Entry],
    tasks: Sequence[str],
    levels: dict[str, float | None],
    references: Path | None = None,
) -> PaperRows:
    """Return the paper's rows for the tasks of a table; `levels` is chance at each."""
    by_task = {entry.task: entry for entry in reversed(entries)}
    places = [
        (by_task[task].protocol, task, by_task[task].modulus) if task in by_task else None
        for task in tasks
    ]
    return PaperRows(
        printed=tuple(
            tuple(printed(place[1], place[2], place[0], references)) if place else ()
            for place in places
        ),
        looked=tuple(published(*place, references) if place else None for place in places),
        chance=tuple(levels.get(task) for task in tasks),
    )
