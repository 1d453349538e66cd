"""Runs in a tracker after they were trained, from their files alone, finished or not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from lrbench.disk import below
from lrbench.errors import UserError
from lrbench.records import Result
from lrbench.runs.evaluate.trained import result_of
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.lease import is_held
from lrbench.runs.track.points import points_of
from lrbench.runs.track.tracker import TrackedRun, open_tracker, require_tracker

SEED = re.compile(r"s(\d+)")


def export_runs(
    named: Iterable[Path], to: str, afresh: bool, tell: Callable[[str], None]
) -> list[Path]:
    """Give a tracker the runs in or below the named folders; return their folders.

    afresh: as new runs of a tracker that knows them. Raises UserError for a tracker that is not
    there, a folder without a run, a run that is being trained, and for files that cannot be read.
    """
    require_tracker(to)
    found = {run.resolve(): run for folder in named for run in run_folders(folder)}
    folders = list(found.values())
    for folder in folders:
        lease = folder.parent / ".leases" / folder.name / "lease.json"
        if is_held(lease):
            raise UserError(
                f"{folder} is being trained now\n"
                f"export it when it has ended, or train with track={to}"
            )
    for folder in folders:
        tell(f"{folder}: {_export(folder, to, afresh)}")
    return folders


def run_folders(folder: Path) -> list[Path]:
    """Return a run's folder itself, or all runs below it; UserError where there is none."""
    found = sorted({path.parent for path in below(folder, "metrics.jsonl")})
    runs = [path for path in found if SEED.fullmatch(path.name)]
    if not runs:
        raise UserError(
            f"no run in '{folder}': no metrics.jsonl of a folder s<seed> in or below it\n"
            "name a run, such as outputs/sum/blockdiag/fan2024/.../s0, or a folder of runs"
        )
    return runs


def _export(folder: Path, to: str, afresh: bool) -> str:
    """Export a run; return what was done in words."""
    try:
        settings = files.read_json(folder.parent / "config.json")
        result: Result | None = None
        if (folder / "result.json").exists():
            result = result_of(folder)
        points = list(points_of(files.read_lines(folder / "metrics.jsonl"), result))
    except UnreadableFile as error:
        raise UserError(f"{error}\nlrbench report names every file that cannot be read") from error
    fingerprint, seed = folder.parent.name, int(folder.name[1:])
    cell = f"{settings['task']['name']} {settings['model']['name']} {fingerprint}"
    settings = {**settings, "seed": seed, "fingerprint": fingerprint}
    run = TrackedRun(folder, cell, seed, settings)
    try:
        tracker = open_tracker(to, run, afresh)
        new = tracker.tell(points)
        tracker.close(ended=result is not None)
    except Exception as error:  # of a package of others: no account, no network, a full disk
        raise UserError(f"{folder}: {to} failed: {type(error).__name__}: {error}") from error
    return f"{new} of {len(points)} points to {to}"
