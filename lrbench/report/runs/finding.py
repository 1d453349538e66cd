"""The search for runs below one folder; what cannot be read is listed, never dropped.

Only json is read: nothing found in a run folder is unpickled or executed.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from lrbench.disk import is_root
from lrbench.errors import UserError
from lrbench.report.runs.collection import Found, cell_of
from lrbench.report.runs.columns import Environment, Problems, Record, UnderWay
from lrbench.report.runs.files import read_object, run_folders
from lrbench.report.runs.looks import METRICS_FILE, looks_told, read_looks
from lrbench.report.runs.reading import read_folders


def find_runs(root: Path) -> Found:
    """Return every run below `root`; UserError if there is no such folder."""
    _check_folder(root)
    unlisted: Problems = []
    with no_garbage():
        folders = list(run_folders(root, unlisted))
        found = Found()
        problems = dict.fromkeys(unlisted)  # runs of a cell share files: each fault is named once
        for (folder, names), read in zip(folders, read_folders(root, folders), strict=True):
            problems |= dict.fromkeys(read.problems)
            found.unfinished.extend(read.unfinished)
            if read.record is not None:
                found.records.append(read.record)
            if read.under_way is not None:
                found.under_way.append(read.under_way)
            _note_looks(found, folder, names, read.record or read.under_way)
        found.problems.extend(problems)
    return replace(found, environments=_environments(root, found.records, found.under_way))


def _note_looks(found: Found, folder: Path, names: set[str], run: Record | UnderWay | None) -> None:
    """Note where the looks of a run are: few reports ask for them, and reading them takes long."""
    if run is not None and METRICS_FILE in names:
        protocol = str(run.row["protocol"])
        told = looks_told(run.evaluations) if isinstance(run, Record) else frozenset()
        found.looks[run.row["folder"]] = partial(read_looks, folder, protocol, run.settings, told)


@contextmanager
def no_garbage() -> Iterator[None]:
    """Do not look for cycles meanwhile: there are none in json, and few in tables.

    A search takes a fifth of the time, tables two thirds.
    """
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
    if is_root(root):
        raise UserError(f"'{root}' is the root of the file system\nname a folder with --runs DIR")


def _environments(
    root: Path, records: Sequence[Record], under_way: Sequence[UnderWay]
) -> dict[str, Environment]:
    """Each cell's environment.json; one that cannot be read tells nothing."""
    folders = [record.row["folder"] for record in records] + [run.folder for run in under_way]
    found = {}
    for cell, folder in {cell_of(folder): folder for folder in folders}.items():
        path = (root / folder).absolute().parent / "environment.json"
        content = read_object(path, [], _complaint) if path.exists() else None
        if content is not None:
            found[cell] = content
    return found


def _complaint(data: Any) -> str | None:
    return None if isinstance(data, dict) else "holds no object"
