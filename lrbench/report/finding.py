"""Find the runs below one folder; what cannot be read is listed, never dropped.

Only json is read: nothing found in a run folder is unpickled or executed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lrbench.errors import UserError
from lrbench.report.evaluations import Evaluation
from lrbench.report.folders import Problems, run_folders
from lrbench.report.json_files import read_object
from lrbench.report.looks import METRICS_FILE, read_looks
from lrbench.report.records import Record, read_run
from lrbench.report.under_way import UnderWay, read_under_way

TABLE, SETTINGS = "runs.csv", "settings.json"  # of a published table


@dataclass(frozen=True)
class Found:
    """Everything below one folder; the folders of runs are relative to it.

    `problems` are files that could not be used, each with the reason, `unfinished` run folders
    without a result, of which `under_way` are those that tell how far they are. `environments` has
    each cell's environment.json, by the cell's folder. `varying` are the settings with a column,
    where a published table has told which. `looks` are those of a run, by its folder.
    """

    records: list[Record] = field(default_factory=list)
    under_way: list[UnderWay] = field(default_factory=list)
    problems: Problems = field(default_factory=list)
    unfinished: list[Path] = field(default_factory=list)
    environments: dict[str, dict[str, Any]] = field(default_factory=dict)
    varying: tuple[str, ...] | None = None
    looks: dict[str, tuple[Evaluation, ...]] = field(default_factory=dict)

    def below(self, root: Path) -> Found:
        """Return the same with the runs' folders as seen from where `root` is."""
        place = (root.parent if root.suffix == ".csv" else root).as_posix()
        return replace(
            self,
            records=[
                replace(one, row=one.row | {"folder": f"{place}/{one.row['folder']}"})
                for one in self.records
            ],
            under_way=[replace(run, folder=f"{place}/{run.folder}") for run in self.under_way],
            environments={f"{place}/{cell}": told for cell, told in self.environments.items()},
            looks={f"{place}/{folder}": rows for folder, rows in self.looks.items()},
            varying=None,
        )


def find(root: Path) -> Found:
    """Return every run below `root`, or those of the published table (its runs.csv) that it is.

    Raises UserError if there is no such folder, and as `find_in_archive` does.
    """
    if is_archive(root):
        from lrbench.report.archive_reading import find_in_archive

        return find_in_archive(root)
    _check_folder(root)
    found = Found()
    with _no_garbage():
        for folder, names in run_folders(root, found.problems):
            before = len(found.unfinished)
            record = read_run(root, folder, names, found.problems, found.unfinished)
            run = None
            if record is not None:
                found.records.append(record)
            elif len(found.unfinished) > before:
                run = read_under_way(root, folder, names, found.problems)
            if run is not None:
                found.under_way.append(run)
            _read_looks(found, folder, names, record or run)
    return replace(found, environments=_environments(root, found.records, found.under_way))


def _read_looks(found: Found, folder: Path, names: set[str], run: Record | UnderWay | None) -> None:
    if run is None or METRICS_FILE not in names:
        return
    row = run.row
    looks = read_looks(folder, str(row["protocol"]), run.settings, found.problems)
    if looks:
        found.looks[row["folder"]] = looks


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


def _environments(
    root: Path, records: Sequence[Record], under_way: Sequence[UnderWay]
) -> dict[str, dict[str, Any]]:
    """Each cell's environment.json; one that cannot be read tells nothing."""
    folders = [record.row["folder"] for record in records] + [run.folder for run in under_way]
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
