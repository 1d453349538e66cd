"""Names of curves: the rows of the table that is drawn, or a model and what sets its runs apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pandas as pd

from lrbench.report.grids.filled_cell import FilledCell
from lrbench.report.grids.selection import marked_model, select, settings_of
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import Settings
from lrbench.report.tables.matrix import grids_of
from lrbench.report.tables.notes import differences
from lrbench.report.tables.request import Request, narrowed

VERSIONS = "versions."

Labels = Mapping[str, str]  # of fingerprints, in the order of the rows


def row_labels(collection: Collection, request: Request) -> Labels:
    """Return the row of each fingerprint that the request's table shows, in the table's order.

    Where several compete for a row, each with the settings that set it apart; last come those of no
    row. Without a table, `configuration_labels`. Raises UserError for a fingerprint that no run
    has.
    """
    others = configuration_labels(narrowed(collection, request))
    if request.table is None:
        return others
    found: dict[str, str] = {}
    for filled in _cells(collection, request):
        fingerprints = dict.fromkeys((*filled.rivals, *(r.fingerprint for r in filled.under_way)))
        rivals = collection.every_run
        rivals = rivals[rivals["fingerprint"].isin(fingerprints) & (rivals["task"] == filled.task)]
        for fingerprint, apart in _apart(rivals, collection):
            text = " ".join(filter(None, [short(filled.label), apart]))
            found.setdefault(fingerprint, text)
    return found | {
        name: f"{text}, of no row" for name, text in others.items() if name not in found
    }


def short(label: str) -> str:
    """Return a row's label with its settings by their own names: iterations=1."""
    return re.sub(r"\b(?:\w+\.)+(\w+=)", r"\1", label)


def configuration_labels(collection: Collection) -> Labels:
    """Return each fingerprint's model, with its settings where several compete for a task."""
    return {
        fingerprint: " ".join(filter(None, [marked_model(str(place[2])), apart]))
        for place, rivals in collection.every_run.groupby(["protocol", "task", "model"], sort=True)
        for fingerprint, apart in _apart(rivals, collection)
    }


def _cells(collection: Collection, request: Request) -> Iterator[FilledCell]:
    assert request.table is not None
    if request.table.kind == "lengths":
        yield from select(collection, request.table, request.fingerprints)
        return
    rule = request.one_rule
    for grid in grids_of(collection, request.table, rule, choose=request.fingerprints):
        yield from grid.cells


def _apart(rivals: pd.DataFrame, collection: Collection) -> Iterator[tuple[str, str]]:
    """Yield the fingerprints among runs of one model, each with what sets it apart.

    Settings, else versions; else, where a failed run tells neither, a number.
    """
    cells = {str(name): cell for name, cell in rivals.groupby("fingerprint", sort=True)}
    if len(cells) == 1:
        yield next(iter(cells)), ""
        return
    told = {run.folder: run.settings for run in collection.under_way}
    collection = replace(collection, settings={**told, **collection.settings})
    settings = {name: settings_of(cell, collection) for name, cell in cells.items()}
    versions = sorted({key for one in settings.values() for key in one if key.startswith(VERSIONS)})
    texts: dict[str, str] = {}
    for keys in (differences(rivals, collection), versions):
        texts = {name: _text(settings[name], keys) for name in cells}
        if len(set(texts.values())) == len(cells):
            yield from texts.items()
            return
    yield from ((name, f"configuration {number}") for number, name in enumerate(cells, 1))


def _text(settings: Settings, keys: list[str]) -> str:
    return short(" ".join(f"{key}={settings.get(key)}" for key in keys))
