"""Which splits a table shows, and what each of its cells is on each of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lrbench.report.corpora.levels import Levels, levels
from lrbench.report.paper.splits import (
    Split,
    faithful,
    lookup,
    printed_splits,
    table_of,
)
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.entry import Entry
from lrbench.report.tables.selection import select
from lrbench.tables import TableCell, TableSpec

TRAIN_SPLIT = "protocol.train_split"
Cells = list[tuple[TableCell, Entry]]


@dataclass(frozen=True)
class Grid:
    """A table of one task: its cells, its splits, and what stands where they meet.

    `cells` has a cell's runs once, `entries` once for each split that they are shown on. `table` is
    the numeral of the paper's table, nothing for a choice of the user's own.
    """

    splits: tuple[Split, ...]
    cells: tuple[Entry, ...]
    entries: dict[tuple[str, Split], Entry]
    levels: dict[Split, Levels]
    table: str = ""

    @property
    def labels(self) -> list[str]:
        """The rows of ours."""
        return list(dict.fromkeys(entry.label for entry in self.cells))

    def row(self, label: str) -> list[Entry | None]:
        """Return a row's entries, None where it has no cell."""
        return [self.entries.get((label, split)) for split in self.splits]


def grids(
    collection: Collection,
    spec: TableSpec,
    choose: Sequence[str] = (),
    references: Path | None = None,
    splits: Sequence[Split] = (),
) -> list[Grid]:
    """Return a grid for each task of `spec`; one that names no cell shows the paper's rows alone.

    `splits` are the columns where they are known, else the table and the runs say which.
    Raises UserError for a fingerprint in `choose` that no run has.
    """
    found = select(collection, spec, choose, references)
    pairs = list(zip(spec.cells, found, strict=True))
    table = table_of(spec.source)
    theirs = printed_splits(table, references)
    told = [cell.task for cell in spec.cells] or [split.task for split in splits or theirs]
    tasks = list(dict.fromkeys(told))
    made = []
    for task in tasks:
        cells = [pair for pair in pairs if pair[0].task == task]
        there = [split for split in theirs if split.task == task]
        columns = list(splits) or _splits(task, spec.columns, cells, there, alone=len(tasks) == 1)
        made.append(_grid(collection, cells, columns, table, references))
    return made


def tested_splits(settings: Mapping[str, Any]) -> list[str]:
    """Return the test splits of a run's flat settings, none where they cannot be read."""
    try:
        names = json.loads(settings.get("protocol.test_splits") or "[]")
    except (TypeError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def trained_on(cell: TableCell, settings: Mapping[str, Any]) -> str:
    """Return the split that a cell's runs train on, by its overrides or by themselves."""
    typed = [word.partition("=")[2] for word in cell.overrides if word.startswith(TRAIN_SPLIT)]
    return str([settings.get(TRAIN_SPLIT, "train"), *typed][-1])


def _grid(
    collection: Collection,
    cells: Cells,
    splits: Sequence[Split],
    table: str,
    references: Path | None,
) -> Grid:
    entries: dict[tuple[str, Split], Entry] = {}
    for cell, entry in cells:
        for split in _of_cell(cell, entry, splits):
            shown = replace(
                entry,
                split=split.name,
                reference=lookup(split, cell.model, table, cell.reference, references),
                faithful=faithful(split, entry.settings),
            )
            entries.setdefault((entry.label, split), shown)
    folders = {
        split: [
            folder
            for (_, other), entry in entries.items()
            if other == split
            for folder in entry.runs["folder"]
        ]
        for split in splits
    }
    return Grid(
        tuple(splits),
        tuple(_told_apart(cell, entry) for cell, entry in cells),
        entries,
        {split: levels(split, collection, folders[split], references) for split in splits},
        table,
    )


def _of_cell(cell: TableCell, entry: Entry, splits: Iterable[Split]) -> list[Split]:
    """The splits that a cell is meant for: those it names, or all that its training split has."""
    source = trained_on(cell, entry.settings)
    mine = [split for split in splits if (split.task, split.trained_on) == (cell.task, source)]
    return [split for split in mine if not cell.splits or split.name in cell.splits]


def _told_apart(cell: TableCell, entry: Entry) -> Entry:
    """A model may be trained on several splits: where it is listed once for each, say which."""
    source = trained_on(cell, entry.settings)
    return entry if source == "train" else replace(entry, task=f"{cell.task} ({source})")


def _splits(
    task: str, columns: Sequence[str], cells: Cells, printed: Sequence[Split], alone: bool
) -> list[Split]:
    """The columns that were asked for, else the paper's and all that the runs were tested on.

    What a split was asked of is said by a cell that names it, by the paper's table, or by a run.
    A column that nothing knows is this task's if it stands `alone`.
    """
    named = {
        Split(task, name, trained_on(cell, entry.settings)): None
        for cell, entry in cells
        for name in cell.splits
    }
    tested = {
        Split(task, name, trained_on(cell, entry.settings)): None
        for cell, entry in cells
        for name in tested_splits(entry.settings)
    }
    known = list(dict.fromkeys([*named, *printed, *tested]))
    names = [name for name in columns if name != task]
    if not names:
        return known
    usual = known[0].trained_on if known else "train"
    return [
        split
        for name in names
        for split in [one for one in known if one.name == name]
        or [Split(task, name, usual)] * alone
    ]
