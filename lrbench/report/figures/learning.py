"""Learning curves as plain numbers: what each look saw, one panel a task."""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Iterator, Sequence

import pandas as pd

from lrbench.metrics import ACCURACY
from lrbench.protocols.base import declared
from lrbench.report.figures.data import (
    PANEL,
    Curve,
    DrawnRun,
    Panel,
    Points,
    by_label,
    slugs,
    titled,
)
from lrbench.report.figures.labels import Labels, configuration_labels
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.looks import EVERY

UPDATES = "updates"
FEWEST_LOOKS = 2  # of a run: fewer are no curve


def learning_panels(
    collection: Collection, labels: Labels | None = None, unlearned: Names[str] = ()
) -> list[Panel]:
    """Return a panel for each task and protocol whose runs have looks, unfinished runs too.

    Errors are left out: they have no axis in common with accuracies. `labels` are those of
    `panels`, `unlearned` the fingerprints that did not learn their task there.
    """
    labels = configuration_labels(collection) if labels is None else labels
    rows = collection.every_score
    rows = titled(rows[(rows["which"] == EVERY) & (rows["metric"] == ACCURACY.name)])
    counts = rows.groupby("folder")["checkpoint_step"].transform("nunique")
    rows = rows[counts >= FEWEST_LOOKS]
    keys: list[tuple[str, ...]] = sorted(set(rows[PANEL].itertuples(index=False, name=None)))
    return [
        _panel(key, slug, rows[(rows[PANEL] == list(key)).all(axis=1)], labels, unlearned)
        for key, slug in zip(keys, slugs(keys), strict=True)
    ]


def _panel(
    key: Sequence[str], slug: str, rows: pd.DataFrame, labels: Labels, unlearned: Names[str]
) -> Panel:
    curves = []
    for name, cell in by_label(rows, labels):
        trials = tuple(DrawnRun(points, None, {}) for points in _by_run(cell))
        known = name not in unlearned
        curves.append(Curve(labels[name], trials, len(trials), None, known, name))
    lengths = [] if declared(key[2]).by_split else rows["length"].dropna().unique().tolist()
    return Panel(
        title=key[1],
        slug=slug,
        rule=_place(key, rows),
        train_lengths=(),
        test_length=int(lengths[0]) if len(lengths) == 1 else None,
        chance=(),
        curves=tuple(curves),
        devices=(),
        axis=UPDATES,
    )


def _by_run(cell: pd.DataFrame) -> Iterator[Points]:
    for _, run in cell.groupby("folder", sort=True):
        ordered = run.sort_values("checkpoint_step")
        steps, values = ordered["checkpoint_step"].tolist(), ordered["value"].tolist()
        yield tuple((float(x), float(y)) for x, y in zip(steps, values, strict=True))


def _place(key: Sequence[str], rows: pd.DataFrame) -> str:
    """Where the looks looked: at a length, or on a split."""
    if declared(key[2]).by_split:
        return "on " + ", ".join(sorted(set(rows["split"])))
    lengths = sorted({int(length) for length in rows["length"].dropna()})
    return "at " + ", ".join(f"{length:,}" for length in lengths)
