"""The rows and columns that a user asks for: which runs know them, and the tables of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.errors import unknown
from lrbench.protocols.base import declared
from lrbench.report.output.cells import Table
from lrbench.report.paper.reference import (
    Reference,
    Split,
    printed,
    printed_modulus,
    printed_on,
)
from lrbench.report.runs.collection import Collection, by_split
from lrbench.report.tables.lengths import length_grid
from lrbench.report.tables.matrix import paper_tables, tables_of_grid
from lrbench.report.tables.splits import TRAIN_SPLIT, check_split_rule, tested_splits
from lrbench.tables import TableCell, TableSpec

Names = Sequence[str]


def chosen_tables(
    collection: Collection,
    rows: Sequence[str],
    columns: Sequence[str],
    rule: str = "best",
    references: Path | None = None,
    *,
    choose: Sequence[str] = (),
    digits: int = 4,
) -> list[Table]:
    """Return the tables of a user's own choice: models x tasks (or splits), for each protocol.

    No rows, or no columns: all there are. Beside models a row may be one of the paper's (S4D).
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
        if not more or any(rule in declared(name).rules for name in theirs):
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
        spec = TableSpec(protocol, protocol, cells, "", protocol, rule, tuple(tasks))
        grid = length_grid(collection, spec, rule, references, choose, digits)
        if any(len(e.runs) or e.rivals or e.under_way for e in grid.entries):
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


def over_corpora(collection: Collection) -> pd.DataFrame:
    """Return the runs that are scored on splits, unfinished ones too."""
    runs = collection.every_run
    return runs[by_split(runs["protocol"])]


def splits_there(collection: Collection) -> list[Split]:
    """Return every split that a run of the collection was tested on, in the order of the runs."""
    runs = over_corpora(collection)
    found: dict[Split, None] = {}
    for task, folder in zip(runs["task"], runs["folder"], strict=True):
        settings = collection.settings_of(folder)
        source = str(settings.get(TRAIN_SPLIT, "train"))
        found |= dict.fromkeys(Split(task, name, source) for name in tested_splits(settings))
    return list(found)


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
    rule: str = "best",
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
    for protocol in set(runs["protocol"]):
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
        others = _printed_on(rows, mine, references)
        if cells or others:
            shares: dict[str, Any] = {"choose": choose, "digits": digits}
            tables += paper_tables(
                *(collection, spec, rule, references), **shares, models=others, splits=mine
            )
    return tables


def _trained(runs: pd.DataFrame, source: str, collection: Collection) -> bool:
    told = (collection.settings_of(folder) for folder in runs["folder"])
    found = (settings.get(TRAIN_SPLIT, source) for settings in told)
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
