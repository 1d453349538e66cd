"""A paper's table of runs over a corpus: ours on each split, the paper's, baselines, verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from lrbench.errors import unknown
from lrbench.report.corpora.columns import Grid, grids
from lrbench.report.corpora.evidence import verdicts_table
from lrbench.report.corpora.legend import main_notes
from lrbench.report.corpora.rows import baseline_rows, paper_row, printed_models
from lrbench.report.output.cells import Cell, Column, Table, marked, spread
from lrbench.report.paper.splits import Split
from lrbench.report.paper.verdict import judge
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.cost import cost_table
from lrbench.report.tables.entry import Entry
from lrbench.report.tables.pairs import pairs_table
from lrbench.report.tables.places import View, instead, missing, unfinished
from lrbench.statistics import median
from lrbench.tables import TableSpec

SPLIT_RULES = ("best", "last")


def split_tables(
    collection: Collection,
    spec: TableSpec,
    rule: str = "best",
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
    others: Sequence[str] | None = None,
    splits: Sequence[Split] = (),
) -> list[Table]:
    """Return the tables of `spec`, whose columns are splits, for the runs of `collection`.

    The arguments are those of `matrix.paper_tables`; `others` are the paper's rows to show though
    no model of ours is compared with them, by default all, `splits` the columns where they are
    known. Raises UserError for a rule that is not
    best or last, and for an unknown fingerprint.
    """
    check_rule(rule)
    tables: list[Table] = []
    for grid in grids(collection, spec, choose, references, splits):
        view, cells = view_of(grid, rule, digits), cells_of(grid, rule, digits)
        models = printed_models(grid, references) if others is None else others
        tables.append(_main(collection, spec, grid, view, models, references))
        if any(len(entry.runs) for entry in grid.cells):
            tables += [verdicts_table(grid, view), cost_table(cells), *pairs_table(view)]
    return tables


def check_rule(rule: str) -> None:
    """Raise UserError for a rule that runs over a corpus do not have."""
    if rule not in SPLIT_RULES:
        raise unknown("rule (of runs over a corpus)", rule, SPLIT_RULES, exit_code=2)


def view_of(grid: Grid, rule: str, digits: int) -> View:
    """Return the entries of a grid, one for each split, as the other tables take them."""
    return View(
        entries=tuple(grid.entries.values()),
        tasks=tuple(split.name for split in grid.splits),
        rule=rule,
        chance={split.name: level.chance for split, level in grid.levels.items()},
        digits=digits,
        heading="split",
    )


def cells_of(grid: Grid, rule: str, digits: int) -> View:
    """Return the cells of a grid, once each."""
    tasks = tuple(dict.fromkeys(entry.task for entry in grid.cells))
    return View(grid.cells, tasks, rule, {}, digits)


def split_cell(view: View, entry: Entry | None) -> Cell:
    """Return our number on a split, with the verdict on it."""
    if entry is None or entry.contested:
        return instead(entry)
    if entry.unfinished:
        return unfinished(entry, view.rule, "test", view.digits)
    evidence = entry.evidence(view.rule, "test", view.chance[entry.split])
    cell = spread(evidence.values, view.digits, missing=missing(entry))
    return marked(cell, judge(evidence, entry.reference, entry.comparable(view.rule)))


def _main(
    collection: Collection,
    spec: TableSpec,
    grid: Grid,
    view: View,
    others: Iterable[str],
    references: Path | None,
) -> Table:
    """Ours and the paper's model under it, the paper's other models, then the baselines."""
    rows: list[tuple[Cell, ...]] = []
    compared: set[str] = set()
    for label in grid.labels:
        entries = grid.row(label)
        rows.append((Cell(label), Cell(view.rule), *(split_cell(view, e) for e in entries)))
        rows += _median(label, entries, view)
        names = dict.fromkeys(e.reference.model for e in entries if e and e.reference)
        rows += [paper_row(label, f"paper: {name}", name, grid, references) for name in names]
        compared |= set(names)
    rows += [
        paper_row(name, "paper", name, grid, references) for name in others if name not in compared
    ]
    titles = ("model", "number", *(split.title for split in grid.splits))
    return Table(
        f"{spec.title}: {view.rule}",
        tuple(Column(title, right=False) for title in titles),
        (*rows, *baseline_rows(grid)),
        tuple(main_notes(collection, spec, grid, view, references)),
    )


def _median(label: str, entries: Sequence[Entry | None], view: View) -> list[tuple[Cell, ...]]:
    """Our median, where the paper prints one and it is another number than the mean."""
    told = [e for e in entries if e and e.reference and "median" in e.reference.aggregation]
    values = {id(e): e.values(view.rule, "test") for e in told}
    if max(map(len, values.values()), default=0) < 3:
        return []
    cells = []
    for entry in entries:
        found = values.get(id(entry), [])
        text = f"{median(found):.{view.digits}f} ({len(found)})" if found else "-"
        cells.append(Cell(text, (median(found),) if found else ()))
    return [(Cell(label), Cell(f"{view.rule}, median"), *cells)]
