"""What a report shows: the user's choice of table, rule, fingerprints and digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.errors import unknown
from lrbench.protocols.base import declared
from lrbench.report.output.cells import PrintedCell, Table, spread
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.looks import UnderWay
from lrbench.report.tables.chosen import chosen_tables, tasks_of
from lrbench.report.tables.matrix import paper_tables
from lrbench.report.tables.selection import matching_runs, matching_under_way
from lrbench.report.tables.summary_table import report_tables
from lrbench.statistics import mean
from lrbench.tables import TableSpec

DIGITS = 4
LEVEL_DIGITS = 3  # of chance and guessing
SHORTEST = 4  # digits of a fingerprint that may stand for all of it


@dataclass(frozen=True)
class Request:
    """A `table`, or `rows` (models) and `columns` (tasks); without either, every run there is.

    No `rule` means the table's own, or best.
    """

    table: TableSpec | None = None
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rule: str = ""
    fingerprints: tuple[str, ...] = ()
    digits: int = DIGITS

    @property
    def selective(self) -> bool:
        return bool(self.table or self.rows or self.columns)

    @property
    def one_rule(self) -> str:
        return self.rule or (self.table.rule if self.table else "best")


def tables_of(
    collection: Collection, request: Request, references: Path | None = None
) -> list[Table]:
    """Return the tables asked for. Raises UserError for a name or fingerprint that no run has."""
    check_fingerprints(collection, request.fingerprints)
    rule = request.one_rule
    chosen: dict[str, Any] = {"choose": request.fingerprints, "digits": request.digits}
    if request.table:
        return paper_tables(collection, request.table, rule, references, **chosen)
    if request.selective:
        names = (request.rows, request.columns)
        return chosen_tables(collection, *names, rule, references, **chosen)
    tables = report_tables(narrowed(collection, request), references)
    return [rounded(table, request.digits) for table in tables]


def narrowed(collection: Collection, request: Request) -> Collection:
    """Return only the runs that the request is about, for figures and counts."""
    runs = collection.runs
    kept = _of_chosen_fingerprints(runs, request.fingerprints)
    if request.table:
        places = {(cell.task, cell.model) for cell in request.table.cells}
        there = pd.Series(list(zip(runs["task"], runs["model"], strict=True)), index=runs.index)
        kept &= there.isin(places) & (runs["protocol"] == request.table.protocol)
        if declared(request.table.protocol).by_split or request.table.kind == "lengths":
            cells = [matching_runs(collection, request.table, c) for c in request.table.cells]
            kept &= runs["folder"].isin([folder for cell in cells for folder in cell["folder"]])
    models = [row for row in request.rows if row in set(runs["model"])]
    if request.rows:
        kept &= runs["model"].isin(models)
    if request.columns:
        kept &= runs["task"].isin(tasks_of(request.columns, collection))
    under_way = [run for run in collection.under_way if _asked(run, collection, request)]
    if kept.all() and len(under_way) == len(collection.under_way):
        return collection
    frame = collection.frame[collection.frame["folder"].isin(runs.loc[kept, "folder"])]
    return replace(collection, runs=runs[kept], frame=frame, under_way=under_way)


def check_fingerprints(collection: Collection, chosen: Sequence[str]) -> None:
    """Raise UserError for a fingerprint, or its first digits, that no run has."""
    there = set(collection.every_run["fingerprint"])
    for word in chosen:
        if len(word) < SHORTEST or not any(name.startswith(word) for name in there):
            raise unknown(f"fingerprint ({SHORTEST} digits or more)", word, there, exit_code=2)


def rounded(table: Table, digits: int) -> Table:
    """Return `table` with its measured accuracies to `digits`; printed numbers stay as printed."""
    if digits == DIGITS:
        return table
    return replace(table, rows=tuple(tuple(_rounded(c, digits) for c in row) for row in table.rows))


def _rounded(cell: PrintedCell, digits: int) -> PrintedCell:
    if not cell.values:
        return cell
    if cell.text == spread(cell.values).text:
        return spread(cell.values, digits)
    if cell.text == f"{mean(cell.values):.{LEVEL_DIGITS}f}":
        return replace(cell, text=f"{mean(cell.values):.{min(digits, LEVEL_DIGITS)}f}")
    return cell


def _asked(run: UnderWay, collection: Collection, request: Request) -> bool:
    """Tell whether the request is about an unfinished run."""
    if request.table:
        cells = (matching_under_way(collection, request.table, c) for c in request.table.cells)
        if not any(run in cell for cell in cells):
            return False
    if request.rows and run.model not in request.rows:
        return False
    if request.columns and run.task not in tasks_of(request.columns, collection):
        return False
    place = (run.protocol, run.task, run.model)
    rivals = collection.every_run[["protocol", "task", "model"]].eq(list(place)).all(axis=1)
    there = collection.every_run.loc[rivals, "fingerprint"]
    decided = there[there.str.startswith(tuple(request.fingerprints))]
    return decided.empty or run.fingerprint in set(decided)


def _of_chosen_fingerprints(runs: pd.DataFrame, chosen: Sequence[str]) -> pd.Series[bool]:
    """Keep the chosen of the fingerprints that compete for a cell; other cells keep all of them."""
    every = pd.Series(True, index=runs.index)
    if not chosen:
        return every
    named = runs["fingerprint"].str.startswith(tuple(chosen))
    decided = named.groupby([runs[name] for name in ("protocol", "task", "model")])
    return named | ~decided.transform("any").astype(bool)
