"""A collection as two files that can be published: runs.csv, and settings.json for the rest.

runs.csv is what `lrbench report --format csv` prints: every number, to the last digit.
settings.json has what a csv file has no place for, so that `read_archive` gives the collection
back and every table made of it is the same: settings with their types, what runs share told once
(`settings.all`), then what those of a cell share (`cells`), then a run's own (`runs`); baselines of
splits; what could not be used; how far unfinished runs are; and each cell's environment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lrbench.report.collect import Collection
from lrbench.report.finding import SETTINGS, TABLE, cell_of
from lrbench.report.records import BySplit

SCHEMA = 1
Settings = dict[str, Any]


def archive(collection: Collection, runs_dir: Path) -> dict[str, bytes]:
    """Return the two files by name, the same bytes for the same runs.

    Paths in them are relative to `runs_dir`, where the runs were collected.
    """
    table = collection.every_row.to_csv(index=False, lineterminator="\n")
    content = {
        "schema": SCHEMA,
        "varying": list(collection.varying),
        "settings": _shared(_settings(collection)),
        "baselines": _baselines(collection),
        "environments": _environments(collection),
        "problems": [
            [_relative(path, runs_dir), _without(reason, runs_dir)]
            for path, reason in collection.problems
        ],
        "unfinished": [_relative(path, runs_dir) for path in collection.unfinished],
        "under_way": {
            run.folder: {"budget": run.budget, "look": run.look} for run in collection.under_way
        },
    }
    text = json.dumps(content, indent=1, sort_keys=True)
    return {TABLE: table.encode(), SETTINGS: f"{text}\n".encode()}


def _settings(collection: Collection) -> dict[str, Settings]:
    """The settings of every row's run: a collection that was narrowed keeps those of all."""
    ended = {folder: collection.settings[folder] for folder in collection.runs["folder"]}
    return ended | {run.folder: run.settings for run in collection.under_way}


def _shared(settings: Mapping[str, Settings]) -> dict[str, Any]:
    """Tell what is the same in all runs that tell their settings once, then the same by cell."""
    told = {folder: run for folder, run in settings.items() if run}
    common = _common(told.values())
    by_cell: dict[str, list[Settings]] = {}
    for folder, run in told.items():
        by_cell.setdefault(cell_of(folder), []).append(run)
    cells = {cell: _less(_common(runs), common) for cell, runs in by_cell.items()}
    runs = {
        folder: own
        for folder, run in told.items()
        if (own := _less(_less(run, common), cells[cell_of(folder)]))
    }
    silent = [folder for folder, run in settings.items() if not run]
    return {"all": common, "cells": cells, "runs": runs, "untold": silent}


def _common(settings: Iterable[Settings]) -> Settings:
    """What is in all of them, equal and of one type: True is not 1, and 1 is not 1.0."""
    first, *others = [*settings] or [{}]
    return {
        key: value
        for key, value in first.items()
        if all(key in other and repr(other[key]) == repr(value) for other in others)
    }


def _less(settings: Settings, known: Settings) -> Settings:
    return {key: value for key, value in settings.items() if key not in known}


def _baselines(collection: Collection) -> list[dict[str, Any]]:
    """The baselines that runs measured, each set once with the folders of its runs.

    As lists, because of equally good ones the first is named.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in collection.runs["folder"]:
        if folder in collection.baselines:
            rows = _rows(collection.baselines[folder])
            here = found.setdefault(json.dumps(rows), {"folders": [], "measured": rows})
            here["folders"].append(folder)
    return list(found.values())


def _rows(baselines: BySplit) -> list[dict[str, Any]]:
    return [
        {"split": split, "baseline": name, "value": value, "n": n}
        for split, levels in baselines.items()
        for name, (value, n) in levels.items()
    ]


def _environments(collection: Collection) -> dict[str, Any]:
    """Those of the cells that have a row, without paths of the machine."""
    cells = {cell_of(folder) for folder in _settings(collection)}
    return {
        cell: {name: value for name, value in told.items() if not _is_path(value)}
        for cell, told in collection.environments.items()
        if cell in cells
    }


def _is_path(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("/", "~"))


def _relative(path: Path, root: Path) -> str:
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def _without(reason: str, root: Path) -> str:
    return reason.replace(f"{root}/", "") if root.parts else reason
