"""Gather the runs below a folder into tidy frames; what cannot be read is listed, never dropped.

Only json is read: nothing found in a run folder is unpickled or executed. Frames are made column
by column, and an evaluation is kept as a tuple: a dictionary for each of 100,000 rows would take
longer and several times the memory.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.errors import UserError
from lrbench.report.columns import EVALUATION_COLUMNS, RUN_COLUMNS
from lrbench.report.folders import Problems, run_folders
from lrbench.report.records import NOT_MEASURED, BySplit, Evaluation, Record, read_run


@dataclass(frozen=True)
class Collection:
    """Every run found below a folder.

    `frame` has a row per run and evaluation (one row with empty cells for a run without any),
    `runs` a row per run. Both have a column for each configuration key and each `versions.*` that
    is not the same in all runs, `varying`; `settings` has all of them for each run's `folder`.
    `baselines` has those of each split, for runs over a corpus, by `folder`.
    `problems` are files that could not be used, each with the reason; `unfinished` are run folders
    without a result. Every run folder is in exactly one of `runs`, `problems` and `unfinished`.
    """

    frame: pd.DataFrame
    runs: pd.DataFrame
    varying: tuple[str, ...]
    settings: dict[str, dict[str, Any]]
    problems: Problems
    unfinished: list[Path]
    baselines: dict[str, BySplit] = field(default_factory=dict)


def collect(runs_dir: Path) -> Collection:
    """Read every run below `runs_dir`; raises UserError if there is no such folder."""
    root = Path(runs_dir)
    _check_folder(root)
    problems: Problems = []
    unfinished: list[Path] = []
    with _no_garbage():
        read = [
            read_run(root, folder, names, problems, unfinished)
            for folder, names in run_folders(root, problems)
        ]
    found = [record for record in read if record is not None]
    ordered = _each_once(found, problems)
    keys = _varying([record.settings for record in ordered if record.settings])
    runs = _run_frame(ordered, keys)
    return Collection(
        frame=_evaluation_frame(runs, [record.evaluations for record in ordered], keys),
        runs=runs,
        varying=keys,
        settings={record.row["folder"]: record.settings for record in ordered},
        problems=problems,
        unfinished=unfinished,
        baselines={r.row["folder"]: r.baselines for r in ordered if r.baselines},
    )


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Do not look for cycles meanwhile: json has none, and the search takes a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _check_folder(root: Path) -> None:
    try:
        found = root.is_dir()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(f"--runs '{str(root)[:40]}...' cannot be looked at: {reason}") from error
    if not found:
        raise UserError(
            f"no folder of runs at '{root}'\nfix: lrbench train, or name another with --runs DIR"
        )


def _each_once(found: list[Record], problems: Problems) -> list[Record]:
    """Return one record for each run, sorted; a copy of it, counted twice, would shrink intervals.

    Of two folders the first is used, but a failure never in the place of a result.
    """
    used: dict[tuple[Any, ...], Record] = {}
    for record in sorted(found, key=lambda record: record.row["status"] == "failed"):
        first = used.setdefault(record.key, record)
        if first is not record:
            same = first.evaluations == record.evaluations
            other = "" if same else ", with other numbers"
            problems.append(
                (record.folder, f"the same run as {first.folder}, which is used{other}")
            )
    return sorted(used.values(), key=lambda record: record.key)


def _varying(settings: list[dict[str, Any]]) -> tuple[str, ...]:
    """Keys on which runs differ; one with a fixed column is told there, as what really was used."""
    taken = {*RUN_COLUMNS, *EVALUATION_COLUMNS}
    names = sorted({name for run in settings for name in run} - taken)
    return tuple(name for name in names if len(_values(name, settings)) > 1)


def _values(name: str, settings: list[dict[str, Any]]) -> set[str]:
    """The different values of a key; a failed run does not tell its versions and has no say."""
    known = [run for run in settings if name in run or not name.startswith("versions")]
    return {repr(run.get(name)) for run in known}


def _run_frame(ordered: list[Record], keys: tuple[str, ...]) -> pd.DataFrame:
    columns = {name: [record.row[name] for record in ordered] for name in RUN_COLUMNS}
    varying = {key: [record.settings.get(key) for record in ordered] for key in keys}
    return pd.DataFrame(
        {name: pd.Series(values, dtype=RUN_COLUMNS[name]) for name, values in columns.items()}
        | {key: pd.Series(values, dtype=object) for key, values in varying.items()}
    )


def _evaluation_frame(
    runs: pd.DataFrame, evaluations: list[list[Evaluation]], keys: Sequence[str]
) -> pd.DataFrame:
    """Repeat the row of each run for each of its evaluations, and put these beside it."""
    scored = [rows or [NOT_MEASURED] for rows in evaluations]
    places = [place for place, rows in enumerate(scored) for _ in rows]
    frame = runs.take(places).reset_index(drop=True)
    columns = list(zip(*(row for rows in scored for row in rows), strict=True))
    told = pd.DataFrame(
        {
            name: pd.Series(columns[place] if columns else [], dtype=kind)
            for place, (name, kind) in enumerate(EVALUATION_COLUMNS.items())
        }
    )
    whole = pd.concat([frame, told], axis=1)
    return whole[[*RUN_COLUMNS, *EVALUATION_COLUMNS, *keys]]
