"""Runs as the tidy frames of a report: column by column, the same types whatever is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from lrbench.report.columns import EVALUATION_COLUMNS, RUN_COLUMNS
from lrbench.report.evaluations import Evaluation

NOT_MEASURED: Evaluation = (None,) * len(EVALUATION_COLUMNS)


def varying(settings: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the keys on which runs differ; one with a fixed column is told there, as it was."""
    taken = {*RUN_COLUMNS, *EVALUATION_COLUMNS}
    names = sorted({name for run in settings for name in run} - taken)
    return tuple(name for name in names if len(_values(name, settings)) > 1)


def run_frame(
    rows: Sequence[dict[str, Any]], settings: Sequence[dict[str, Any]], keys: Sequence[str]
) -> pd.DataFrame:
    """Return a row for each run, with a column for each of the settings `keys`."""
    columns = {name: [row[name] for row in rows] for name in RUN_COLUMNS}
    told = {key: [run.get(key) for run in settings] for key in keys}
    return pd.DataFrame(
        {name: pd.Series(values, dtype=RUN_COLUMNS[name]) for name, values in columns.items()}
        | {key: pd.Series(values, dtype=object) for key, values in told.items()}
    )


def evaluation_frame(
    runs: pd.DataFrame, evaluations: Sequence[Sequence[Evaluation]]
) -> pd.DataFrame:
    """Repeat the row of each run for each of its evaluations, and put these beside it.

    Without the settings: no table needs them here, and of 100,000 rows they are most of the memory.
    """
    scored = [rows or [NOT_MEASURED] for rows in evaluations]
    places = [place for place, rows in enumerate(scored) for _ in rows]
    values = list(zip(*(row for rows in scored for row in rows), strict=True))
    columns: dict[str, Any] = {name: runs[name].array.take(places) for name in RUN_COLUMNS}
    for place, (name, kind) in enumerate(EVALUATION_COLUMNS.items()):
        columns[name] = pd.Series(values[place] if values else [], dtype=kind)
    return pd.DataFrame(columns, copy=False)


def _values(name: str, settings: list[dict[str, Any]]) -> set[str]:
    """The different values of a key; a failed run does not tell its versions and has no say."""
    known = [run for run in settings if name in run or not name.startswith("versions")]
    return {repr(run.get(name)) for run in known}
