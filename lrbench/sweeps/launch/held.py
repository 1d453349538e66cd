"""Runs that another process trains: another sweep, or a `lrbench train`.

A job whose run another process trains must not keep a worker waiting, so it is checked before it
is begun. Between two sweeps of one machine a lock on the job settles who goes first; the lease of
the run itself, which `runs/` takes, holds against everybody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from lrbench.disk import locked
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.folder.run import Run
from lrbench.runs.lease import Sighting

EXPIRY = 30.0  # seconds of silence after which another machine's lease is nobody's


class Taken(Exception):
    """Somebody else is at a run; says who."""


@contextmanager
def claimed(runs: Sequence[Run]) -> Iterator[None]:
    """Hold the jobs of these runs against other sweeps. Raises Taken if one is at them already."""
    with ExitStack() as stack:
        for run in runs:
            run.lease_folder.mkdir(parents=True, exist_ok=True)
            try:
                stack.enter_context(locked(run.lease_folder / "job.lock", patience=0))
            except TimeoutError as error:
                raise Taken("another sweep") from error
            if holder := held_by(run):
                raise Taken(holder)
        yield


def held_by(run: Run) -> str | None:
    """Return who trains this run now, in words; None if nobody that lives does."""
    seen = _sighting(run)
    if seen is None or (seen.here() and seen.gone()):
        return None
    if not seen.here() and seen.age > EXPIRY:
        return None
    return seen.owner


def left_behind(run: Run) -> bool:
    """Whether a process that is gone had begun this run and did not end it."""
    return _sighting(run) is not None and held_by(run) is None


def _sighting(run: Run) -> Sighting | None:
    path = run.lease_folder / "lease.json"
    try:
        modified = path.stat().st_mtime_ns
        record = files.read_json(path)
    except FileNotFoundError:
        return None
    except UnreadableFile:
        return None if not os.path.lexists(path) else Sighting(None, modified, _age(modified))
    return Sighting(record, modified, _age(modified))


def _age(modified: int) -> float:
    return time.time() - modified / 1e9
