"""The rows of a table of splits that are not ours: the paper's models, and the baselines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lrbench.report.corpora.columns import Grid
from lrbench.report.corpora.levels import MEANING, Levels
from lrbench.report.output.cells import MISSING, Cell, marked
from lrbench.report.paper.reference import Reference
from lrbench.report.paper.splits import printed
from lrbench.report.paper.verdict import Verdict, printed_at_chance

LEVEL_DIGITS = 3


def printed_models(grid: Grid, references: Path | None = None) -> list[str]:
    """Return the paper's models, in the order of its table."""
    found = (each for split in grid.splits for each in printed(split, grid.table, references))
    return list(dict.fromkeys(each.model for each in found))


def printed_numbers(grid: Grid, references: Path | None = None) -> list[Reference]:
    """Return every number that the paper prints for the splits of a grid."""
    return [each for split in grid.splits for each in printed(split, grid.table, references)]


def paper_row(
    first: str, second: str, model: str, grid: Grid, references: Path | None = None
) -> tuple[Cell, ...]:
    """Return the paper's numbers of a model, 'at chance' where guessing reaches them."""
    cells = []
    for split in grid.splits:
        numbers = printed(split, grid.table, references)
        found = next((number for number in numbers if number.model == model), None)
        cells.append(_cell(found, grid.levels[split]))
    return Cell(first), Cell(second), *cells


def baseline_rows(grid: Grid) -> list[tuple[Cell, ...]]:
    """Return a row for each baseline there is, those that see least of a string first."""
    there = {name for level in grid.levels.values() for name in level.values}
    names = [*(name for name in MEANING if name in there), *sorted(there - set(MEANING))]
    return [(Cell("baseline"), Cell(name), *_levels(grid, name)) for name in names]


def with_spread(reference: Reference) -> str:
    """Return the printed number, and what is printed behind it as its spread."""
    return f"{reference.text} ± {reference.spread}" if reference.spread else reference.text


def _cell(found: Reference | None, level: Levels) -> Cell:
    if found is None:
        return Cell(MISSING)
    guesser = level.guesser
    guessed = guesser is not None and printed_at_chance(found, guesser)
    cell = Cell(with_spread(found), (found.value,))
    return marked(cell, Verdict.AT_CHANCE if guessed else None)


def _levels(grid: Grid, name: str) -> Sequence[Cell]:
    values = (grid.levels[split].values.get(name) for split in grid.splits)
    return [
        Cell() if value is None else Cell(f"{value:.{LEVEL_DIGITS}f}", (value,)) for value in values
    ]
