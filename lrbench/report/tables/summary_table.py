"""The tables of `lrbench report`: one a protocol, a row a cell, from the tidy frames."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lrbench.metrics import ACCURACY, METRICS, metric_among
from lrbench.report.corpora.table import split_report_tables
from lrbench.report.output.cells import MISSING, Cell, Column, Table, span, spread
from lrbench.report.paper.reference import Reference, faithful, lookup
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import BY_SPLIT, CELL
from lrbench.report.tables.notes import (
    differences,
    settings_of,
    statuses,
    table_notes,
    without_number,
)
from lrbench.statistics import mean
from lrbench.tables import RULES

PAPER_RULE = "best"
COLUMNS = (
    Column("task", right=False),
    Column("model", right=False),
    Column("configuration", right=False),
    Column("runs", right=False),
    Column("updates"),
    Column("parameters"),
    Column("state"),
    Column("lengths"),
    Column(f"train: {PAPER_RULE}"),
    *(Column(f"test: {rule}") for rule in RULES),
    Column("best look"),
    Column("chance"),
    Column("guessing"),
    Column("paper"),
)


class Score(NamedTuple):
    """One evaluation of a run, plain: a filter of a frame costs a thousand times as much."""

    folder: str
    length: Any
    split: str
    metric: str
    value: Any
    which: str
    kind: str
    chance: Any
    guessing: Any


def report_tables(collection: Collection, references: Path | None = None) -> list[Table]:
    """Return one table for each protocol: rows are cells, which never mix fingerprints.

    Runs over a corpus have one for each task and training split.
    """
    tables: list[Table] = []
    for protocol, runs in collection.runs.groupby("protocol", sort=True):
        if protocol in BY_SPLIT:
            tables += split_report_tables(collection, str(protocol), references)
            continue
        frame = collection.frame[collection.frame["protocol"] == protocol]
        scores = _scores(frame)
        rows = []
        for _, rivals in runs.groupby(["task", "model"], sort=True):
            keys = differences(rivals, collection)
            for _, cell in rivals.groupby(CELL, sort=True):
                evaluations = [score for f in cell["folder"] for score in scores.get(f, [])]
                paper = _paper(cell, collection, references)
                head = Cell(_configuration(cell, keys, collection))
                rows += _rows(cell, evaluations, head, paper)
        notes = table_notes(runs, frame, collection)
        tables.append(Table(str(protocol), COLUMNS, tuple(rows), tuple(notes)))
    return tables


def _scores(frame: pd.DataFrame) -> dict[str, list[Score]]:
    """Each run's evaluations; the rows of a run stand together."""
    known = frame[[*Score._fields]][frame["length"].notna()]
    rows = map(Score._make, zip(*(known[name].tolist() for name in Score._fields), strict=True))
    return {folder: list(scores) for folder, scores in groupby(rows, lambda row: row.folder)}


def _configuration(cell: pd.DataFrame, keys: list[str], collection: Collection) -> str:
    """The fingerprint and, where another competes for the cell, what is different about it."""
    settings = settings_of(cell, collection)
    told = [f"{key}={settings.get(key)}" for key in keys if settings]
    return " ".join([str(cell["fingerprint"].iloc[0]), *told])


def _rows(
    runs: pd.DataFrame, scores: list[Score], configuration: Cell, paper: Reference | None
) -> list[tuple[Cell, ...]]:
    """One row for each test length (most protocols have one)."""
    head = (
        Cell(_title(runs) + _scored_by(scores)),
        Cell(str(runs["model"].iloc[0])),
        configuration,
        Cell(statuses(runs)),
        *(span(_whole(runs, name)) for name in ("steps", "parameters", "state_size")),
    )
    trained = [score for score in scores if score.split == "train_length"]
    tested = [score for score in scores if score.split == "test"]
    rows = []
    for length in sorted({score.length for score in tested}) or [0]:
        there = [score for score in tested if score.length == length]
        rows.append((*head, *_accuracy_cells(runs, trained, there, paper)))
    return rows


def _accuracy_cells(
    runs: pd.DataFrame, trained: list[Score], tested: list[Score], paper: Reference | None
) -> tuple[Cell, ...]:
    lengths = [span([score.length for score in scores]).text for scores in (trained, tested)]
    missing = without_number(runs)
    by_rule = [score for score in tested if score.which == PAPER_RULE]
    return (
        Cell(" → ".join(lengths) if set(lengths) != {MISSING} else MISSING),
        spread(_accuracies(trained, PAPER_RULE, "test"), missing=missing),
        *(spread(_accuracies(tested, rule, "test"), missing=missing) for rule in RULES),
        spread(_accuracies(tested, PAPER_RULE, "look"), missing=missing),
        _level(tested, lambda score: score.chance),
        _level(by_rule, lambda score: score.guessing),
        Cell(paper.at(tested[0].length) if paper and tested else MISSING),
    )


def _accuracies(scores: list[Score], rule: str, kind: str) -> list[float]:
    chosen = [score for score in scores if (score.which, score.kind) == (rule, kind)]
    known = [score for score in chosen if score.metric in METRICS]
    return [float(score.value) for score in known if pd.notna(score.value)]


def _scored_by(scores: list[Score]) -> str:
    """What the numbers of a row are, where they are no accuracies."""
    metric = metric_among(score.metric for score in scores)
    return "" if metric == ACCURACY else f", {metric.title}"


def _level(scores: list[Score], read: Callable[[Score], Any]) -> Cell:
    """A level measured once a run: its mean over runs (the spread of chance says nothing)."""
    known = {score.folder: read(score) for score in reversed(scores) if pd.notna(read(score))}
    values = tuple(float(known[folder]) for folder in sorted(known))
    return Cell(f"{mean(values):.3f}", values) if values else Cell()


def _whole(runs: pd.DataFrame, name: str) -> list[int]:
    return [int(value) for value in runs[name].tolist() if pd.notna(value)]


def _title(runs: pd.DataFrame) -> str:
    titles = runs["task_title"].dropna()
    return str(titles.iloc[0] if len(titles) else runs["task"].iloc[0])


def _paper(runs: pd.DataFrame, collection: Collection, references: Path | None) -> Reference | None:
    task, model, protocol = (runs[name].iloc[0] for name in ("task", "model", "protocol"))
    settings = settings_of(runs, collection)
    modulus = settings.get("task.modulus")
    if not faithful(str(task), settings, references):
        return None
    return lookup(task, modulus, model, protocol, references)
