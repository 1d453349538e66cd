"""The tables of `lrbench report`: one a protocol, a row a cell, from the tidy frames."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from lrbench.report.cells import MISSING, Cell, Column, Table, span, spread
from lrbench.report.collect import Collection
from lrbench.report.columns import CELL
from lrbench.report.notes import (
    competitors,
    differences,
    settings_of,
    table_notes,
)
from lrbench.report.reference import Reference, lookup
from lrbench.statistics import mean

RULES = ("best", "id", "band", "last")
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


def report_tables(collection: Collection, references: Path | None = None) -> list[Table]:
    """Return one table for each protocol: rows are cells, which never mix fingerprints."""
    tables = []
    for protocol, runs in collection.runs.groupby("protocol", sort=True):
        frame = collection.frame[collection.frame["protocol"] == protocol]
        rows = []
        for key, cell in runs.groupby(CELL, sort=True):
            evaluations = frame[(frame[CELL] == list(key)).all(axis=1)]
            paper = _paper(cell, collection, references)
            head = Cell(_configuration(cell, runs, collection))
            rows += _rows(cell, evaluations, head, paper)
        notes = table_notes(runs, frame, collection)
        tables.append(Table(str(protocol), COLUMNS, tuple(rows), tuple(notes)))
    return tables


def _configuration(cell: pd.DataFrame, runs: pd.DataFrame, collection: Collection) -> str:
    """The fingerprint and, where another competes for the cell, what is different about it."""
    settings = settings_of(cell, collection)
    keys = differences(competitors(cell, runs), collection)
    told = [f"{key}={settings.get(key)}" for key in keys if settings]
    return " ".join([str(cell["fingerprint"].iloc[0]), *told])


def _rows(
    runs: pd.DataFrame, frame: pd.DataFrame, configuration: Cell, paper: Reference | None
) -> list[tuple[Cell, ...]]:
    """One row for each test length (most protocols have one)."""
    head = (
        Cell(_title(runs)),
        Cell(str(runs["model"].iloc[0])),
        configuration,
        Cell(_statuses(runs)),
        *(span(_whole(runs, name)) for name in ("steps", "parameters", "state_size")),
    )
    trained = frame[frame["split"] == "train_length"]
    tested = frame[frame["split"] == "test"]
    lengths = sorted(set(_whole(tested, "length"))) or [0]
    return [
        (*head, *_accuracy_cells(runs, trained, tested[tested["length"] == length], paper))
        for length in lengths
    ]


def _accuracy_cells(
    runs: pd.DataFrame, trained: pd.DataFrame, tested: pd.DataFrame, paper: Reference | None
) -> tuple[Cell, ...]:
    lengths = [span(_whole(rows, "length")).text for rows in (trained, tested)]
    length = _whole(tested, "length")
    missing = _without(runs)
    by_rule = tested[tested["which"] == PAPER_RULE]
    return (
        Cell(" → ".join(lengths) if set(lengths) != {MISSING} else MISSING),
        spread(_accuracies(trained, PAPER_RULE, "test"), missing=missing),
        *(spread(_accuracies(tested, rule, "test"), missing=missing) for rule in RULES),
        spread(_accuracies(tested, PAPER_RULE, "look"), missing=missing),
        _level(tested, "chance"),
        _level(by_rule, "guessing"),
        Cell(paper.at(length[0]) if paper and length else MISSING),
    )


def _accuracies(rows: pd.DataFrame, rule: str, kind: str) -> list[float]:
    chosen = rows[(rows["which"] == rule) & (rows["kind"] == kind) & (rows["metric"] == "accuracy")]
    return [float(value) for value in chosen["value"].dropna()]


def _level(rows: pd.DataFrame, name: str) -> Cell:
    """A level measured once a run: its mean over runs (the spread of chance says nothing)."""
    values = tuple(float(value) for value in rows.groupby("folder")[name].first().dropna())
    return Cell(f"{mean(values):.3f}", values) if values else Cell()


def _whole(runs: pd.DataFrame, name: str) -> list[int]:
    return [int(value) for value in runs[name].dropna()]


def _statuses(runs: pd.DataFrame) -> str:
    counts = runs["status"].value_counts()
    known = [name for name in ("finished", "diverged", "failed") if name in counts]
    return ", ".join(f"{counts[name]} {name}" for name in known)


def _without(runs: pd.DataFrame) -> str:
    """What stands where a cell has no number: 'failed' and 'diverged' only if all its runs did."""
    statuses = set(runs["status"])
    return statuses.pop() if statuses in ({"failed"}, {"diverged"}) else MISSING


def _title(runs: pd.DataFrame) -> str:
    titles = runs["task_title"].dropna()
    return str(titles.iloc[0] if len(titles) else runs["task"].iloc[0])


def _paper(runs: pd.DataFrame, collection: Collection, references: Path | None) -> Reference | None:
    first = runs.iloc[0]
    modulus = settings_of(runs, collection).get("task.modulus")
    return lookup(first["task"], modulus, first["model"], first["protocol"], references)
