"""A paper's table of the runs there are: ours, the paper's, chance, and a verdict per cell.

One table would be too wide to read, so a report is several: the paper's layout by its rule, what
its verdicts rest on, every rule on fresh strings, solve rates, costs, and pairs of models.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lrbench.protocols.base import declared
from lrbench.report.output.cells import Column, Table
from lrbench.report.paper.reference import Split
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.detail import (
    all_strings_table,
    cost_table,
    fresh_table,
    pairs_table,
    solved_table,
    verdicts_table,
)
from lrbench.report.tables.grid import Grid, Row
from lrbench.report.tables.length_curves import length_tables
from lrbench.report.tables.lengths import length_grid
from lrbench.report.tables.notes import selection_notes
from lrbench.report.tables.splits import split_grids
from lrbench.report.tables.throughout import depth_table, prefix_table
from lrbench.tables import TableSpec

FIRST = {"prefixes": prefix_table, "depths": depth_table}  # kinds with a table before the paper's


def paper_tables(
    collection: Collection,
    spec: TableSpec,
    rule: str = "",
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
    models: Sequence[str] | None = None,
    splits: Sequence[Split] = (),
) -> list[Table]:
    """Return the tables of `spec` for the runs of `collection`, by `rule` (default: the table's).

    Every row of the paper's table is there, with or without runs of ours; with `models`, of those
    that no model of ours is compared with these alone. `references` is another folder of reference
    values. `choose` names the fingerprints to show where several configurations compete for a
    cell; without it such a cell says so and is empty. `splits` are the columns where they are
    known. Raises UserError for an unknown rule or fingerprint.
    """
    rule = rule or spec.rule
    if spec.kind == "lengths":
        return length_tables(collection, spec, rule, references, choose=choose, digits=digits)
    shares: dict[str, Any] = {"choose": choose, "digits": digits, "splits": splits}
    tables: list[Table] = []
    if (first := FIRST.get(spec.kind)) is not None:
        tables.append(first(collection, spec, rule, references, choose=choose, digits=digits))
    for grid in grids_of(collection, spec, rule, references, **shares):
        tables += tables_of_grid(collection, spec, grid, models)
    return tables


def grids_of(
    collection: Collection,
    spec: TableSpec,
    rule: str,
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
    splits: Sequence[Split] = (),
) -> Sequence[Grid]:
    """Return the cells of `spec`: of tasks in one grid, of splits in one for each task."""
    if declared(spec.protocol).by_split:
        return split_grids(collection, spec, rule, references, choose, digits, splits)
    return [length_grid(collection, spec, rule, references, choose, digits)]


def tables_of_grid(
    collection: Collection, spec: TableSpec, grid: Grid, models: Sequence[str] | None = None
) -> list[Table]:
    """Return every table of a grid; `models` are the paper's rows to show though alone."""
    main = _main(collection, spec, grid, grid.printed_models if models is None else models)
    if grid.kind == "look":  # beside looks fresh strings have tables of their own
        fresh = [fresh_table(grid), solved_table(grid)]
    elif any(len(filled.runs) for filled in grid.cells):
        fresh = []
    else:
        return [main]
    known = all_strings_table(grid, collection.answers)
    return [main, verdicts_table(grid), *fresh, *known, cost_table(grid), *pairs_table(grid)]


def _main(collection: Collection, spec: TableSpec, grid: Grid, models: Sequence[str]) -> Table:
    """The paper's layout: rows of ours with the paper's below, its other models, the levels."""
    rows: list[Row] = []
    compared: set[str] = set()
    for label in grid.labels:
        rows += grid.our_rows(label)
        found = (filled.reference for filled in grid.row(label) if filled and filled.reference)
        names = dict.fromkeys(reference.model for reference in found)
        rows += [grid.paper_row(label, f"paper: {name}", name) for name in names]
        compared |= set(names)
    rows += [grid.paper_row(name, "paper", name) for name in models if name not in compared]
    titles = ("model", "number", *(column.title for column in grid.columns))
    return Table(
        f"{spec.title}: {grid.number}",
        tuple(Column(title, right=False) for title in titles),
        (*rows, *grid.level_rows()),
        (*grid.legend(), *selection_notes(grid, collection, spec.protocol)),
    )
