"""Which runs are those of a cell: its protocol, task and model, and the settings it asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from lrbench.report.collect import Collection
from lrbench.report.under_way import UnderWay
from lrbench.tables import TableCell, TableSpec

GROUPS = ("task", "model", "protocol", "optim")  # words that name a file or a registered thing


def matching_runs(collection: Collection, table: TableSpec, cell: TableCell) -> pd.DataFrame:
    """Return runs of the cell's protocol, task and model with the settings that it asks for."""
    runs = collection.runs
    same = runs[
        (runs["protocol"] == table.protocol)
        & (runs["task"] == cell.task)
        & (runs["model"] == cell.model)
    ]
    wanted = _wanted(cell)
    if not wanted:
        return same
    fits = [_fits(collection.settings[folder], wanted) for folder in same["folder"]]
    return same[pd.Series(fits, index=same.index, dtype=bool)]


def matching_under_way(collection: Collection, table: TableSpec, cell: TableCell) -> list[UnderWay]:
    """Return the unfinished runs that would stand in a cell if they had ended.

    Of several cells that one fits, those that ask for most have it: what continues it is said
    there.
    """

    def asked(other: TableCell, run: UnderWay) -> int:
        wanted = _wanted(other)
        here = (table.protocol, other.task, other.model) == (run.protocol, run.task, run.model)
        return len(wanted) if here and _fits(run.settings, wanted) else -1

    return [
        run
        for run in collection.under_way
        if 0 <= asked(cell, run) == max(asked(other, run) for other in table.cells)
    ]


def _wanted(cell: TableCell) -> list[tuple[str, Any]]:
    """The settings that a cell asks for."""
    words = [word.partition("=")[::2] for word in cell.overrides if "=" in word]
    return [
        (key.lstrip("+"), parsed_word(text))
        for key, text in words
        if key not in (*GROUPS, "trials", "seed") and not key.startswith("hydra")
    ]


def _fits(settings: dict[str, Any], wanted: Iterable[tuple[str, Any]]) -> bool:
    """A failed run may not tell its settings: then it is not known to be another cell's."""
    return not settings or all(settings.get(key) == value for key, value in wanted)


def parsed_word(text: str) -> Any:
    """A typed value as `collect` flattens it: YAML, but 1e-3 is a number; lists are json text."""
    import yaml  # type: ignore[import-untyped]

    value = yaml.safe_load(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return json.dumps(value) if isinstance(value, list | dict) else value
