"""Which runs are those of a cell: its protocol, task and model, and the settings it asks for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pandas as pd

from lrbench.report.collect import Collection
from lrbench.report.under_way import UnderWay
from lrbench.tables import TableCell, TableSpec

COUNTED = ("trials", "seed", "tuning_runs")  # how many runs and which: not what they are
GROUPS = ("task", "model", "protocol", "optim")  # words that name a file or a registered thing


def matching_runs(collection: Collection, table: TableSpec, cell: TableCell) -> pd.DataFrame:
    """Return runs of the cell's protocol, task and model with the settings that it asks for.

    Of several cells that a run fits, those that ask for most have it: a run with s4d=false is no
    run of the cell that asks for nothing, where another asks for just that.
    """
    runs = collection.runs
    same = runs[
        (runs["protocol"] == table.protocol)
        & (runs["task"] == cell.task)
        & (runs["model"] == cell.model)
    ]
    rivals = _wanted_there(table, cell.task, cell.model)
    fits = [_owns(cell, rivals, collection.settings[folder]) for folder in same["folder"]]
    return same[pd.Series(fits, index=same.index, dtype=bool)]


def matching_under_way(collection: Collection, table: TableSpec, cell: TableCell) -> list[UnderWay]:
    """Return the unfinished runs that would stand in a cell if they had ended."""
    place = (table.protocol, cell.task, cell.model)
    rivals = _wanted_there(table, cell.task, cell.model)
    return [
        run
        for run in collection.under_way
        if (run.protocol, run.task, run.model) == place and _owns(cell, rivals, run.settings)
    ]


def _wanted_there(table: TableSpec, task: str, model: str) -> list[list[tuple[str, Any]]]:
    """What each cell of one task and model asks for."""
    return [_wanted(cell) for cell in table.cells if (cell.task, cell.model) == (task, model)]


def _owns(cell: TableCell, rivals: list[list[tuple[str, Any]]], settings: dict[str, Any]) -> bool:
    wanted = _wanted(cell)
    if not settings:  # a failed run may not tell them: then it is not known to be another cell's
        return True
    most = max((len(other) for other in rivals if _fits(settings, other)), default=0)
    return _fits(settings, wanted) and len(wanted) >= most


def _wanted(cell: TableCell) -> list[tuple[str, Any]]:
    """The settings that a cell asks for."""
    words = [word.lstrip("+").partition("=")[::2] for word in cell.overrides if "=" in word]
    return [
        (key, parsed_word(text))
        for key, text in words
        if key not in (*GROUPS, *COUNTED) and not key.startswith("hydra")
    ]


def _fits(settings: dict[str, Any], wanted: Iterable[tuple[str, Any]]) -> bool:
    return all(settings.get(key) == value for key, value in wanted)


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
