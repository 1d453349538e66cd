"""The tables of `lrbench report` without a choice: a row a configuration, a column a split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.report.corpora.chosen import splits_there
from lrbench.report.corpora.columns import TRAIN_SPLIT, Grid
from lrbench.report.corpora.legend import RULE_LEGEND, baseline_notes, cut_short, paper_notes
from lrbench.report.corpora.levels import levels
from lrbench.report.corpora.matrix import SPLIT_RULES
from lrbench.report.corpora.rows import baseline_rows, with_spread
from lrbench.report.output.cells import MISSING, Cell, Column, Table, span, spread
from lrbench.report.paper.reference import Reference
from lrbench.report.paper.splits import Split, faithful, lookup
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import CELL
from lrbench.report.tables.notes import (
    competition,
    differences,
    settings_of,
    statuses,
    unsuccessful,
    without_number,
)

HEAD = ("model", "configuration", "runs", "updates", "parameters", "number", "dev")
BLANK = (Cell(""),) * (HEAD.index("number") - 1)
RIGHT = ("updates", "parameters", "dev")
Scores = dict[tuple[str, str, str, str], float]  # folder, rule, kind, split


def split_report_tables(
    collection: Collection, protocol: str, references: Path | None = None
) -> list[Table]:
    """Return a table for each task and training split of a protocol over corpora."""
    collection = replace(collection, under_way=[])  # what has not ended has no row
    runs = collection.runs[collection.runs["protocol"] == protocol]
    scores = _scores(collection.frame[collection.frame["protocol"] == protocol])
    # A run that failed before it told its settings stands with those on the usual split.
    sources = runs["folder"].map(
        lambda folder: str(collection.settings[folder].get(TRAIN_SPLIT, "train"))
    )
    return [
        _table(collection, there, Split(task, "", source), protocol, scores, references)
        for task, source in sorted(
            set(zip(runs["task"], sources, strict=True)),
            key=lambda place: (place[0], place[1] != "train", place[1]),
        )
        for there in [runs[(runs["task"] == task) & (sources == source)]]
    ]


def _table(
    collection: Collection,
    runs: pd.DataFrame,
    place: Split,
    protocol: str,
    scores: Scores,
    references: Path | None,
) -> Table:
    splits = tuple(
        split
        for split in splits_there(collection)
        if (split.task, split.trained_on) == (place.task, place.trained_on)
    )
    folders = [str(folder) for folder in runs["folder"]]
    known = {split: levels(split, collection, folders, references) for split in splits}
    grid = Grid(splits, (), {}, known)
    rows: list[tuple[Cell, ...]] = []
    for model, rivals in runs.groupby("model", sort=True):
        keys = differences(rivals, collection)
        for _, cell in rivals.groupby(CELL, sort=True):
            rows += _rows(collection, cell, keys, splits, scores)
        settings = settings_of(rivals, collection)
        rows += _paper_row(str(model), splits, settings, references)
    rows += [(first, *BLANK, name, Cell(""), *rest) for first, name, *rest in baseline_rows(grid)]
    numbers = _numbers(runs, splits, references)
    title = f"{protocol}: {place.task}"
    title += "" if place.trained_on == "train" else f", trained on {place.trained_on}"
    notes = [
        "dev, splits: accuracy on all their strings, mean ± sample std (n) over n runs; "
        + "; ".join(f"{rule} = {RULE_LEGEND[rule]}" for rule in SPLIT_RULES),
        *paper_notes(numbers, marks=False),
        *baseline_notes(grid),
        *cut_short(runs),
        *competition(runs, collection),
        *unsuccessful(runs),
    ]
    return Table(title, _columns(splits), tuple(rows), tuple(notes))


def _rows(
    collection: Collection,
    cell: pd.DataFrame,
    keys: list[str],
    splits: tuple[Split, ...],
    scores: Scores,
) -> list[tuple[Cell, ...]]:
    """A row for each rule."""
    settings = settings_of(cell, collection)
    model = str(cell["model"].iloc[0])
    apart = [f"{key}={settings.get(key)}" for key in keys if settings]
    head = (
        Cell(model),
        Cell(" ".join([str(cell["fingerprint"].iloc[0]), *apart])),
        Cell(statuses(cell)),
        *(span([int(v) for v in cell[name].dropna()]) for name in ("steps", "parameters")),
    )
    dev = str(settings.get("protocol.dev_split", "dev"))
    folders, missing = [str(folder) for folder in cell["folder"]], without_number(cell)
    rows = []
    for rule in SPLIT_RULES:
        places = [("look", dev), *(("test", split.name) for split in splits)]
        found = [
            [scores[key] for f in folders if (key := (f, rule, kind, name)) in scores]
            for kind, name in places
        ]
        if rule == SPLIT_RULES[0] or any(found):
            rows.append((*head, Cell(rule), *(spread(each, missing=missing) for each in found)))
    return rows


def _paper_row(
    model: str, splits: tuple[Split, ...], settings: Mapping[str, Any], references: Path | None
) -> list[tuple[Cell, ...]]:
    """The paper's numbers where it has such a model."""
    theirs = [
        lookup(split, model, folder=references) if faithful(split, settings) else None
        for split in splits
    ]
    names = [each.model for each in theirs if each]
    if not names:
        return []
    told = [Cell(with_spread(each) if each else MISSING) for each in theirs]
    return [(Cell(model), *BLANK, Cell(f"paper: {names[0]}"), Cell(""), *told)]


def _numbers(
    runs: pd.DataFrame, splits: tuple[Split, ...], references: Path | None
) -> list[Reference]:
    """What the paper prints for these models."""
    models = sorted(set(runs["model"]))
    found = (lookup(split, model, folder=references) for model in models for split in splits)
    return [number for number in found if number]


def _scores(frame: pd.DataFrame) -> Scores:
    rows = frame[(frame["metric"] == "accuracy") & frame["value"].notna()]
    names = ("folder", "which", "kind", "split", "value")
    columns = zip(*(rows[name].tolist() for name in names), strict=True)
    return {(folder, rule, kind, split): float(v) for folder, rule, kind, split, v in columns}


def _columns(splits: tuple[Split, ...]) -> tuple[Column, ...]:
    head = (Column(title, right=title in RIGHT) for title in HEAD)
    return (*head, *(Column(split.name) for split in splits))
