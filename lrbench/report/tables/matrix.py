"""A paper's table of the runs there are: ours, the paper's, chance, and a verdict per cell.

One table would be too wide to read, so a report is several: the paper's layout by its rule, what
its verdicts rest on, every rule on fresh strings, solve rates, costs, and pairs of models. A
compact table has one cell for each of the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lrbench.errors import unknown
from lrbench.protocols.base import declared
from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.grid import LEVEL_DIGITS, Grid, Row, missing, with_unlike
from lrbench.report.grids.lengths import length_grid
from lrbench.report.grids.splits import split_grids
from lrbench.report.output.cells import MISSING, Column, PrintedCell, Table, spread, with_best
from lrbench.report.paper.reference import Split
from lrbench.report.paper.verdict import Verdict, guesses
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import UNFINISHED
from lrbench.report.suite.tables import compact_suite, suite_tables
from lrbench.report.tables.detail import (
    all_strings_table,
    cost_table,
    fresh_table,
    pairs_table,
    solved_table,
    verdicts_table,
)
from lrbench.report.tables.length_curves import length_tables
from lrbench.report.tables.notes import selection_notes
from lrbench.report.tables.throughout import by_layers, depth_table, prefix_table
from lrbench.report.tables.trees import tree_tables
from lrbench.report.tables.walks import walk_tables
from lrbench.statistics import mean
from lrbench.tables import SUITE, WALKS, TableSpec

FIRST = {"prefixes": prefix_table, "depths": depth_table}  # kinds with a table before the paper's
GUESSED = (Verdict.AT_CHANCE, Verdict.BELOW_CHANCE)
UNRANKED = (*GUESSED, Verdict.NOT_LEARNED, UNFINISHED)  # nothing of these is a best
DIGITS = 4  # of accuracies, where nobody asks for another number
COMPACT_DIGITS = SUITE_DIGITS = 3


def paper_tables(
    collection: Collection,
    spec: TableSpec,
    rule: str = "",
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int | None = None,
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
    if digits is None:
        digits = SUITE_DIGITS if spec.kind in (SUITE, WALKS) else DIGITS
    if spec.kind == "lengths":
        return length_tables(collection, spec, rule, references, choose=choose, digits=digits)
    if spec.kind == SUITE:
        return suite_tables(collection, spec, rule, digits=digits)
    if spec.kind == WALKS:
        return walk_tables(collection, spec, choose=choose, digits=digits)
    shares: dict[str, Any] = {"choose": choose, "digits": digits, "splits": splits}
    tables: list[Table] = []
    if (first := FIRST.get(spec.kind)) is not None:
        tables.append(first(collection, spec, rule, references, choose=choose, digits=digits))
    spec = by_layers(spec) if spec.kind == "depths" else spec
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
    trees = tree_tables(grid, collection)
    if grid.kind == "look":  # beside looks fresh strings have tables of their own
        fresh = [fresh_table(grid), solved_table(grid)]
    elif any(len(filled.runs) for filled in grid.cells):
        fresh = []
    else:
        return [main, *trees]
    beside = [*fresh, *all_strings_table(grid, collection.answers), *trees]
    return [main, verdicts_table(grid), *beside, cost_table(grid), *pairs_table(grid)]


def _main(collection: Collection, spec: TableSpec, grid: Grid, models: Sequence[str]) -> Table:
    """The paper's layout: rows of ours with the paper's below, its other models, the levels."""
    rows: list[Row] = []
    compared: set[str] = set()
    for label, ours in _our_rows(grid).items():
        rows += ours
        found = (filled.reference for filled in grid.row(label) if filled and filled.reference)
        names = dict.fromkeys(reference.model for reference in found)
        rows += [grid.paper_row(label, f"paper: {name}", name) for name in names]
        compared |= set(names)
    rows += [grid.paper_row(name, "paper", name) for name in models if name not in compared]
    titles = ("model", "number", *(column.title for column in grid.columns))
    return Table(
        f"{', '.join(filter(None, (spec.title, grid.part)))}: {grid.number}",
        tuple(Column(title, right=False) for title in titles),
        (*rows, *grid.level_rows()),
        (*grid.legend(), *selection_notes(grid, collection, spec.protocol)),
    )


def _our_rows(grid: Grid) -> dict[str, list[Row]]:
    """Our rows by label; the best number of each column is marked, of looks and tests apart."""
    rows = [(label, row) for label in grid.labels for row in grid.our_rows(label)]
    marked: dict[int, list[PrintedCell]] = {i: list(row) for i, (_, row) in enumerate(rows)}
    for number in dict.fromkeys(row[1].text for _, row in rows):
        mine = [i for i, (_, row) in enumerate(rows) if row[1].text == number]
        for place, lower in enumerate(_lower_is_better(grid), start=2):
            column = [rows[i][1][place] for i in mine]
            for i, cell in zip(mine, with_best(column, lower, UNRANKED), strict=True):
                marked[i][place] = cell
    found: dict[str, list[Row]] = {label: [] for label in grid.labels}
    for i, (label, _) in enumerate(rows):
        found[label].append(tuple(marked[i]))
    return found


def _lower_is_better(grid: Grid) -> list[bool]:
    """Tell of each column whether it holds errors."""
    held = zip(*map(grid.row, grid.labels), strict=True)
    return [any(filled and not filled.metric.counts for filled in column) for column in held]


def compact_of(
    collection: Collection,
    spec: TableSpec,
    rule: str = "",
    rows: Sequence[str] | None = None,
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int | None = None,
) -> Table:
    """Return `spec` as one small table: of these `rows`, or of all that have runs.

    Raises UserError for a row without runs, and as `paper_tables` does.
    """
    rule, digits = rule or spec.rule, COMPACT_DIGITS if digits is None else digits
    if spec.kind == SUITE:
        table = compact_suite(collection, spec, rule, digits)
        by_label = {row[0].text: row for row in table.rows}
        names = list(by_label) if rows is None else _known_rows(rows, list(by_label), spec.name)
        return replace(table, rows=tuple(by_label[name] for name in names))
    grids = grids_of(collection, spec, rule, references, choose=choose, digits=digits)
    return replace(compact_table(spec.name, grids, rule, rows, digits), title=spec.title)


def _known_rows(rows: Sequence[str], there: Sequence[str], title: str) -> list[str]:
    for row in rows:
        if row not in there:
            raise unknown(f"row of table '{title}'", row, list(there))
    return list(rows)


def compact_table(
    title: str,
    grids: Sequence[Grid],
    rule: str,
    rows: Sequence[str] | None = None,
    digits: int = COMPACT_DIGITS,
) -> Table:
    """Return models x tasks: fresh strings by a rule, at the training length, the paper's number.

    Of these `rows` (labels of cells with runs), or of all. Raises UserError for another row.
    """
    by_place = {
        (filled.label, filled.column): (grid, filled)
        for grid in grids
        for filled in grid.filled_cells
    }
    labels = list(dict.fromkeys(label for label, _ in by_place if _has_runs(label, by_place)))
    labels = labels if rows is None else _known_rows(rows, labels, title)
    names = list(dict.fromkeys(name for _, name in by_place))
    columns, held = [Column("", right=False)], [[PrintedCell(label) for label in labels]]
    for name in names:
        mine = [filled for (_, column), (_, filled) in by_place.items() if column == name]
        cells = [_compact_cell(by_place.get((label, name)), rule, digits) for label in labels]
        chance = next(
            grid.chance[name] for (_, column), (grid, _) in by_place.items() if column == name
        )
        columns.append(_compact_column(name, mine, chance))
        held.append(with_best(cells, any(not f.metric.counts for f in mine), UNRANKED))
    return Table(
        title, tuple(columns), tuple(zip(*held, strict=True)), (_compact_note(grids, rule),)
    )


def _has_runs(label: str, by_place: dict[tuple[str, str], tuple[Grid, FilledCell]]) -> bool:
    return any(len(filled.runs) for (row, _), (_, filled) in by_place.items() if row == label)


def _compact_cell(place: tuple[Grid, FilledCell] | None, rule: str, digits: int) -> PrintedCell:
    """Return 'mean ± std (n) / at the training length / paper's'."""
    if place is None or not len(place[1].runs):
        return PrintedCell()
    grid, filled = place
    values = filled.values(rule, "test")
    fresh = spread(values, digits, missing=missing(filled)).text
    fresh += " (1)" if len(values) == 1 else ""
    trained = filled.trained(rule)
    parts = [fresh]
    if not filled.split:
        parts.append(f"{mean(trained):.{digits}f}" if trained else MISSING)
    parts.append(filled.reference.text if filled.reference else MISSING)
    known = values and guesses(filled.evidence(rule, "test", grid.chance[filled.column]))
    cell = PrintedCell(" / ".join(parts), tuple(values), Verdict.AT_CHANCE if known else "")
    return with_unlike(cell, filled)


def _compact_column(name: str, mine: Sequence[FilledCell], chance: float | None) -> Column:
    """Return the task with chance and its lengths, in the order of the numbers below."""
    known = "" if chance is None else f" (chance {chance:.{LEVEL_DIGITS}f})"
    if any(filled.split for filled in mine):
        return Column(f"{name}{known} / paper", right=False)
    shown = [filled.length for filled in mine if filled.length and len(filled.runs)]
    trained = [n for filled in mine if (n := filled.settings.get("protocol.train_length"))]
    at = [f"at {group[0]}" if group else MISSING for group in (shown, trained)]
    return Column(f"{name}{known}: {at[0]} / {at[1]} / paper", right=False)


def _compact_note(grids: Sequence[Grid], rule: str) -> str:
    scored = " or ".join(dict.fromkeys(grid.scored_by for grid in grids))
    by_length = any(not filled.split for grid in grids for filled in grid.filled_cells)
    trained = "; at the training length, of the checkpoint that was best there" if by_length else ""
    return (
        f"{scored} on strings that nothing was chosen by, mean ± sample std (runs), of the"
        f" checkpoint of the rule {rule}{trained}; the paper's number"
    )
