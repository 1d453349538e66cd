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
from lrbench.report.folders import Problems, run_folders
from lrbench.report.frames import evaluation_frame, run_frame, varying
from lrbench.report.json_files import read_object
from lrbench.report.records import BySplit, Record, read_run
from lrbench.report.under_way import UnderWay, each_under_way, read_under_way

TABLE, SETTINGS = "runs.csv", "settings.json"  # of a published table


@dataclass(frozen=True)
class Collection:
    """Every run found below a folder.

    `frame` has a row per run and evaluation (one row with empty cells for a run without any),
    `runs` a row per run. Both have a column for each configuration key and each `versions.*` that
    is not the same in all runs, `varying`; `settings` has all of them for each run's `folder`.
    `baselines` has those of each split, for runs over a corpus, by `folder`.
    `problems` are files that could not be used, each with the reason; `unfinished` are run folders
    without a result. Every run folder is in exactly one of `runs`, `problems` and `unfinished`.
    `under_way` tells of the unfinished ones that tell it how far they are: neither `frame` nor
    `runs` has them, `every_row` does. `environments` has each cell's environment.json, by the
    cell's folder.
    """

    frame: pd.DataFrame
    runs: pd.DataFrame
    varying: tuple[str, ...]
    settings: dict[str, dict[str, Any]]
    problems: Problems
    unfinished: list[Path]
    baselines: dict[str, BySplit] = field(default_factory=dict)
    under_way: list[UnderWay] = field(default_factory=list)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def every_row(self) -> pd.DataFrame:
        """The rows of runs.csv: `frame`, and below it those of runs with status 'unfinished'.

        Nothing is counted over these: a table has its numbers from `frame` and `runs`.
        """
        if not self.under_way:
            return self.frame
        scores = [run.scores for run in self.under_way]
        more = evaluation_frame(self._unfinished, scores, self.varying)
        return pd.concat([self.frame, more], ignore_index=True) if len(self.frame) else more

    @property
    def every_run(self) -> pd.DataFrame:
        """A row per run: `runs`, and below it those with status 'unfinished'."""
        if not self.under_way:
            return self.runs
        more = self._unfinished
        return pd.concat([self.runs, more], ignore_index=True) if len(self.runs) else more

    def settings_of(self, folder: str) -> dict[str, Any]:
        """Return the settings of a run, whether it has ended or not."""
        if folder in self.settings:
            return self.settings[folder]
        return next(run.settings for run in self.under_way if run.folder == folder)

    @property
    def _unfinished(self) -> pd.DataFrame:
        runs = self.under_way
        return run_frame([run.row for run in runs], [run.settings for run in runs], self.varying)


def collect(runs_dir: Path) -> Collection:
    """Read every run below `runs_dir`, or the published table (its runs.csv) that it is.

    Raises UserError if there is no such folder, and as `read_archive` does.
    """
    root = Path(runs_dir)
    if is_archive(root):
        from lrbench.report.archive_reading import read_archive

        return read_archive(root)
    _check_folder(root)
    problems: Problems = []
    unfinished: list[Path] = []
    found: list[Record] = []
    under_way: list[UnderWay] = []
    with _no_garbage():
        for folder, names in run_folders(root, problems):
            before = len(unfinished)
            record = read_run(root, folder, names, problems, unfinished)
            if record is not None:
                found.append(record)
            elif len(unfinished) > before and (
                run := read_under_way(root, folder, names, problems)
            ):
                under_way.append(run)
    ordered = _each_once(found, problems)
    others = each_under_way(under_way, {record.key for record in ordered})
    return collection_of(
        ordered, problems, unfinished, others, _environments(root, ordered, others)
    )


def collection_of(
    ordered: Sequence[Record],
    problems: Problems,
    unfinished: list[Path],
    under_way: list[UnderWay],
    environments: dict[str, dict[str, Any]],
    keys: tuple[str, ...] | None = None,
) -> Collection:
    """Return the frames of runs in their order; `keys` are the settings that vary, if known."""
    if keys is None:
        keys = varying([record.settings for record in ordered if record.settings])
    settings = [record.settings for record in ordered]
    runs = run_frame([record.row for record in ordered], settings, keys)
    return Collection(
        frame=evaluation_frame(runs, [record.evaluations for record in ordered], keys),
        runs=runs,
        varying=keys,
        settings={record.row["folder"]: record.settings for record in ordered},
        problems=problems,
        unfinished=unfinished,
        baselines={r.row["folder"]: r.baselines for r in ordered if r.baselines},
        under_way=under_way,
        environments=environments,
    )


def is_archive(path: Path) -> bool:
    """Tell whether a path is a published table: a csv file, or a folder with it and its json."""
    try:
        if path.suffix == ".csv":
            return path.is_file()
        return all((path / name).is_file() for name in (TABLE, SETTINGS))
    except (OSError, ValueError):
        return False


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


def _environments(
    root: Path, ordered: Sequence[Record], under_way: Sequence[UnderWay]
) -> dict[str, dict[str, Any]]:
    """Each cell's environment.json; one that cannot be read tells nothing."""
    folders = [record.row["folder"] for record in ordered] + [run.folder for run in under_way]
    found = {}
    for cell, folder in {cell_of(folder): folder for folder in folders}.items():
        path = (root / folder).absolute().parent / "environment.json"
        told = read_object(path, [], _complaint) if path.exists() else None
        if told is not None:
            found[cell] = told
    return found


def cell_of(folder: str) -> str:
    """Return the folder of the cell of a run's folder."""
    return Path(folder).parent.as_posix()


def _complaint(data: Any) -> str | None:
    return None if isinstance(data, dict) else "holds no object"
