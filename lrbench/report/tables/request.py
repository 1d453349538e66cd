"""The request for a report: a table, or rows and columns that a user chooses, by a rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.errors import UserError, unknown
from lrbench.protocols.base import declared
from lrbench.report.grids.lengths import length_grid
from lrbench.report.grids.selection import matching_runs, matching_under_way
from lrbench.report.grids.splits import TRAIN_SPLIT, check_split_rule, over_corpora, splits_there
from lrbench.report.output.cells import PrintedCell, Table, spread
from lrbench.report.paper.reference import Reference, Split, printed, printed_modulus, printed_on
from lrbench.report.runs.collection import Collection, by_split
from lrbench.report.runs.columns import UnderWay
from lrbench.report.suite.entries import refuse_fingerprints
from lrbench.report.tables.matrix import (
    DIGITS,
    compact_of,
    paper_tables,
    tables_of_grid,
)
from lrbench.report.tables.summary_table import report_tables
from lrbench.statistics import mean
from lrbench.tables import WALKS, TableCell, TableSpec

LEVEL_DIGITS = 3  # of chance and guessing
SHORTEST = 4  # digits of a fingerprint that may stand for all of it


@dataclass(frozen=True)
class Request:
    """A `table`, or `rows` (models) and `columns` (tasks); without either, every run there is.

    No `rule` means the table's own, or best; no `part` all of them; no `digits` as many decimals
    as a table of its kind usually has. A `table` can be `compact`.
    """

    table: TableSpec | None = None
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rule: str = ""
    fingerprints: tuple[str, ...] = ()
    digits: int | None = None
    part: str = ""
    compact: bool = False

    @property
    def selective(self) -> bool:
        return bool(self.table or self.rows or self.columns)

    @property
    def one_rule(self) -> str:
        return self.rule or (self.table.rule if self.table else "best")


def with_rows_of(table: TableSpec, collection: Collection) -> TableSpec:
    """Return the table with one more cell for each model and task of these runs that it lacks.

    Only runs of its protocol on its tasks can stand in it.
    """
    there = {(cell.task, cell.model) for cell in table.cells}
    tasks = {cell.task for cell in table.cells}
    runs = collection.runs[collection.runs["protocol"] == table.protocol]
    found = dict.fromkeys(zip(runs["task"], runs["model"], strict=True))
    more = [
        TableCell((f"task={task}", f"model={model}", f"protocol={table.protocol}"))
        for task, model in found
        if task in tasks and (task, model) not in there
    ]
    return replace(table, cells=(*table.cells, *more))


def tables_of(
    collection: Collection, request: Request, references: Path | None = None
) -> list[Table]:
    """Return the tables asked for: the first, and of the others those that have rows.

    Raises UserError for a name or fingerprint that no run has, and for a part that is not there.
    """
    found = _all_tables(collection, request, references)
    tables = [table for at, table in enumerate(found) if at == 0 or table.rows]
    if not request.part:
        return tables
    found = [table for table in tables if table.part == request.part]
    if not found:
        there = ", ".join(dict.fromkeys(table.part for table in tables)) or "none"
        raise UserError(f"no table of part '{request.part}' here\nparts that are here: {there}")
    return found


def _all_tables(collection: Collection, request: Request, references: Path | None) -> list[Table]:
    if request.table:
        refuse_fingerprints(request.table, request.fingerprints)
        if request.table.kind == WALKS and request.rule and not request.compact:
            raise UserError(
                f"--rule chooses nothing in {request.table.name}: each of its steps is read by a"
                " rule of its own\nleave it out",
                exit_code=2,
            )
    check_fingerprints(collection, request.fingerprints)
    chosen: dict[str, Any] = {"choose": request.fingerprints, "digits": request.digits}
    if request.table:
        spec, rule = request.table, request.one_rule
        if request.compact:
            table = compact_of(collection, spec, rule, None, references, **chosen)
            if not table.rows:
                raise UserError(
                    f"no run here is of table '{spec.name}', and --compact shows runs alone\n"
                    "without --compact the report has the paper's numbers"
                )
            return [table]
        return paper_tables(collection, spec, rule, references, **chosen)
    digits = DIGITS if request.digits is None else request.digits
    if request.selective:
        names, chosen["digits"] = (request.rows, request.columns), digits
        return chosen_tables(collection, *names, request.rule, references, **chosen)
    tables = report_tables(narrowed(collection, request), references)
    return [rounded(table, digits) for table in tables]


def narrowed(collection: Collection, request: Request) -> Collection:
    """Return only the runs that the request is about, for figures and counts."""
    runs = collection.runs
    kept = _of_chosen_fingerprints(runs, request.fingerprints)
    if request.table:
        shown = {(cell.task, cell.model) for cell in request.table.cells}
        there = pd.Series(list(zip(runs["task"], runs["model"], strict=True)), index=runs.index)
        kept &= there.isin(shown) & (runs["protocol"] == request.table.protocol)
        if declared(request.table.protocol).by_split or request.table.kind == "lengths":
            cells = [matching_runs(collection, request.table, c) for c in request.table.cells]
            kept &= runs["folder"].isin([folder for cell in cells for folder in cell["folder"]])
    models = [row for row in request.rows if row in set(runs["model"])]
    if request.rows:
        kept &= runs["model"].isin(models)
    if request.columns:
        kept &= runs["task"].isin(tasks_of(request.columns, collection))
    under_way = [run for run in collection.under_way if _requested(run, collection, request)]
    if kept.all() and len(under_way) == len(collection.under_way):
        return collection
    frame = collection.frame[collection.frame["folder"].isin(runs.loc[kept, "folder"])]
    return replace(collection, runs=runs[kept], frame=frame, under_way=under_way)


def check_fingerprints(collection: Collection, chosen: Sequence[str]) -> None:
    """Raise UserError for a fingerprint, or its first digits, that no run has."""
    there = set(collection.every_run["fingerprint"])
    for prefix in chosen:
        if len(prefix) < SHORTEST or not any(name.startswith(prefix) for name in there):
            raise unknown(f"fingerprint ({SHORTEST} digits or more)", prefix, there, exit_code=2)


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


def _requested(run: UnderWay, collection: Collection, request: Request) -> bool:
    """Tell whether the request is about an unfinished run."""
    if request.table:
        cells = (matching_under_way(collection, request.table, c) for c in request.table.cells)
        if not any(run in cell for cell in cells):
            return False
    if request.rows and run.model not in request.rows:
        return False
    if request.columns and run.task not in tasks_of(request.columns, collection):
        return False
    if not request.fingerprints:
        return True
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


Names = Sequence[str]


def chosen_tables(
    collection: Collection,
    rows: Sequence[str],
    columns: Sequence[str],
    rule: str = "",
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
) -> list[Table]:
    """Return the tables of a user's own choice: models x tasks (or splits), for each protocol.

    No rows, or no columns: all there are. Beside models a row may be one of the paper's (S4D).
    No rule: the first that each protocol declares.
    Raises UserError for a model or task without a run, and as `paper_tables` does.
    """
    shares: dict[str, Any] = {"choose": choose, "digits": digits}
    over_splits: list[Table] = []
    everything = collection.every_run
    over = by_split(everything["protocol"])
    runs = everything[~over]
    if len(runs) < len(everything):
        named, mine, more = names_at_lengths(collection, runs, rows, columns, references)
        theirs = set(everything.loc[over, "protocol"])
        # Beside others they are left out by a rule of those.
        if not more or not rule or any(rule in declared(name).rules for name in theirs):
            over_splits = chosen_split_tables(collection, rows, columns, rule, references, **shares)
        if not more:
            return over_splits
        rows, columns = named, mine
    tasks = known("task", columns, runs["task"])
    tables: list[Table] = []
    for protocol in sorted(set(runs.loc[runs["task"].isin(tasks), "protocol"]) - {"?"}):
        of_paper = _among(printed_anywhere([protocol], tasks, references), rows)
        # A row of the paper that has a run as well (blockdiag) is a row of ours.
        there = set(runs["model"])
        ours = [row for row in rows if row in there or not any(n.is_of(row) for n in of_paper)]
        models = known("model", ours or rows[:1], runs["model"])
        cells = _cells(models, tasks)
        one = rule or declared(protocol).usual_rule
        spec = TableSpec(protocol, protocol, cells, "", protocol, one, tuple(tasks))
        grid = length_grid(collection, spec, one, references, choose, digits)
        if any(len(e.runs) or e.rivals or e.under_way for e in grid.filled_cells):
            tables += tables_of_grid(collection, spec, grid, _models(of_paper))
    return [*tables, *over_splits]


def known(kind: str, names: Sequence[str], there: Iterable[str]) -> list[str]:
    """Return `names`, or all there are. Raises UserError for one that is not there."""
    found = sorted(set(there) - {"?"})
    for name in names:
        if name not in found:
            raise unknown(f"{kind} (among these runs)", name, found, exit_code=2)
    return list(dict.fromkeys(names)) or found


def names_at_lengths(
    collection: Collection,
    runs: pd.DataFrame,
    rows: Sequence[str],
    columns: Sequence[str],
    references: Path | None,
) -> tuple[list[str], list[str], bool]:
    """Return the rows and columns that runs at lengths know, and whether there is any such table.

    The others are about runs over a corpus. Raises UserError for a name that neither know.
    """
    tasks, models = set(runs["task"]), set(runs["model"])
    mine = [name for name in columns if name in tasks]
    for name in columns:
        if name not in tasks and not knows_column(name, collection):
            there = [*tasks, *columns_there(collection)]
            raise unknown("task or split (among these runs)", name, there, exit_code=2)
    theirs = printed_anywhere(sorted(set(runs["protocol"])), mine or sorted(tasks), references)
    named = [name for name in rows if name in models or any(n.is_of(name) for n in theirs)]
    for name in rows:
        if name not in named and not knows_row(name, collection, references):
            known("model", [name], collection.runs["model"])
    return named, mine, bool(len(runs)) and bool(mine or not columns) and bool(named or not rows)


def printed_anywhere(
    protocols: Iterable[str], tasks: Sequence[str], references: Path | None
) -> list[Reference]:
    """Return what the papers of protocols print of tasks, at the modulus that each has."""
    return [
        number
        for protocol in protocols
        for task in tasks
        for modulus in [printed_modulus(task, protocol, references)]
        for number in printed(task, modulus, protocol, references)
    ]


def _among(numbers: Iterable[Reference], rows: Iterable[str]) -> list[Reference]:
    """Those whose model is one of `rows`."""
    named = list(rows)
    return [number for number in numbers if any(number.is_of(row) for row in named)]


def _models(numbers: Iterable[Reference]) -> list[str]:
    return list(dict.fromkeys(number.model for number in numbers))


def knows_column(name: str, collection: Collection) -> bool:
    """Tell whether a name is a task of these runs, or a split."""
    tasks = set(over_corpora(collection)["task"])
    return name in tasks or any(split.name == name for split in splits_there(collection))


def columns_there(collection: Collection) -> list[str]:
    """Return the tasks of these runs and their splits."""
    tasks = sorted(set(over_corpora(collection)["task"]) - {"?"})
    return [*tasks, *dict.fromkeys(split.name for split in splits_there(collection))]


def knows_row(name: str, collection: Collection, references: Path | None = None) -> bool:
    """Tell whether a name is a model of these runs, or one of the paper's rows for their splits."""
    if name in set(over_corpora(collection)["model"]):
        return True
    return bool(_printed_on([name], splits_there(collection), references))


def tasks_of(columns: Iterable[str], collection: Collection) -> set[str]:
    """Return the tasks that columns name, themselves or by their splits."""
    wanted = set(columns)
    return wanted | {split.task for split in splits_there(collection) if split.name in wanted}


def chosen_split_tables(
    collection: Collection,
    rows: Names,
    columns: Names,
    rule: str = "",
    references: Path | None = None,
    *,
    choose: Names = (),
    digits: int = 4,
) -> list[Table]:
    """Return tables of models x splits, one set for each task and training split.

    `rows` are models of ours or of the paper, `columns` tasks or splits, empty for all. Raises
    UserError for a rule that runs over a corpus do not have.
    """
    runs, splits = over_corpora(collection), splits_there(collection)
    for protocol in set(runs["protocol"]) if rule else ():
        check_split_rule(protocol, rule)
    if columns:
        splits = [split for split in splits if {split.task, split.name} & set(columns)]
    tables: list[Table] = []
    for protocol, task, source in dict.fromkeys(
        (protocol, split.task, split.trained_on)
        for protocol in sorted(set(runs["protocol"]))
        for split in splits
    ):
        mine = [split for split in splits if (split.task, split.trained_on) == (task, source)]
        there = runs[(runs["task"] == task) & (runs["protocol"] == protocol)]
        models = list(dict.fromkeys(rows or sorted(set(there["model"]))))
        cells = tuple(
            TableCell((f"task={task}", f"model={name}", f"{TRAIN_SPLIT}={source}"))
            for name in models
            if _trained(there[there["model"] == name], source, collection)
        )
        spec = TableSpec(
            str(protocol),
            _title(str(protocol), task, source),
            cells,
            protocol=str(protocol),
        )
        paper_rows = _printed_on(rows, mine, references)
        if cells or paper_rows:
            shares: dict[str, Any] = {"choose": choose, "digits": digits}
            tables += paper_tables(
                *(collection, spec, rule or declared(protocol).usual_rule, references),
                **shares,
                models=paper_rows,
                splits=mine,
            )
    return tables


def _trained(runs: pd.DataFrame, source: str, collection: Collection) -> bool:
    each_settings = (collection.settings_of(folder) for folder in runs["folder"])
    found = (settings.get(TRAIN_SPLIT, source) for settings in each_settings)
    return any(split == source for split in found)


def _printed_on(rows: Iterable[str], splits: Iterable[Split], references: Path | None) -> list[str]:
    """The paper's rows among `rows`."""
    found = (number for split in splits for number in printed_on(split, folder=references))
    return _models(_among(found, rows))


def _title(protocol: str, task: str, source: str) -> str:
    return f"{protocol}: {task}" + ("" if source == "train" else f", trained on {source}")


def _cells(models: Iterable[str], tasks: Iterable[str]) -> tuple[TableCell, ...]:
    pairs = [(task, model) for model in dict.fromkeys(models) for task in tasks]
    return tuple(TableCell((f"task={task}", f"model={model}")) for task, model in pairs)
