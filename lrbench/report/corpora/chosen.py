"""Tables of a user's own choice of runs over a corpus: models x splits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from lrbench.report.corpora.columns import TRAIN_SPLIT, tested_splits
from lrbench.report.corpora.matrix import check_rule, split_tables
from lrbench.report.output.cells import Table
from lrbench.report.paper.splits import Split, is_row, printed
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import BY_SPLIT
from lrbench.tables import TableCell, TableSpec

Names = Sequence[str]


def over_corpora(collection: Collection) -> pd.DataFrame:
    """Return the runs that are scored on splits, unfinished ones too."""
    runs = collection.every_run
    return runs[runs["protocol"].isin(BY_SPLIT)]


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
    return bool(_printed([name], splits_there(collection), references))


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
    check_rule(rule)
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
        others = _printed(rows, mine, references)
        if cells or others:
            tables += split_tables(
                *(collection, spec, rule, references),
                choose=choose,
                digits=digits,
                others=others,
                splits=mine,
            )
    return tables


def _trained(runs: pd.DataFrame, source: str, collection: Collection) -> bool:
    told = (collection.settings_of(folder) for folder in runs["folder"])
    found = (settings.get(TRAIN_SPLIT, source) for settings in told)
    return any(split == source for split in found)


def _printed(rows: Iterable[str], splits: Iterable[Split], references: Path | None) -> list[str]:
    """The paper's rows among `rows`."""
    found = (each.model for split in splits for each in printed(split, folder=references))
    names = list(rows)
    return [model for model in dict.fromkeys(found) if any(is_row(model, row) for row in names)]


def _title(protocol: str, task: str, source: str) -> str:
    return f"{protocol}: {task}" + ("" if source == "train" else f", trained on {source}")
