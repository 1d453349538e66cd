"""The interface of trackers: other programs that show runs, given the numbers of one run.

The files of a run stay the reference. A tracker gets what they hold, each point once. TensorBoard's
files are written anew whenever a run is resumed. For the other trackers `tracked.json` in the run's
folder has the id by which they know the run, and the last point that they got.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lrbench.config import TRACKERS
from lrbench.errors import missing, unknown
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.track.points import TrackedPoint

PROJECT = "lrbench"
TRACKED = "tracked.json"


@dataclass(frozen=True)
class TrackedRun:
    """A run as a tracker is told of it.

    folder: the run's own. cell: `task model fingerprint`, under which runs are grouped. settings:
    its configuration with its seed.
    """

    folder: Path
    cell: str
    seed: int
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """What a list of runs has for it."""
        return f"{self.cell} s{self.seed}"


class Tracker(ABC):
    """One run in one program; `name` is what is typed after `track=`."""

    name: str

    def __init__(self, run: TrackedRun) -> None:
        self.run = run

    @abstractmethod
    def log(self, point: TrackedPoint) -> None:
        """Take a point that it has not been given yet."""

    @abstractmethod
    def close(self, ended: bool) -> None:
        """Write what is left; `ended` is whether the run has come to its end."""

    def tell(self, points: Iterable[TrackedPoint]) -> int:
        """Take the points that are new to it; return how many those were."""
        given = list(points)
        for point in given:
            self.log(point)
        return len(given)


class Remembering(Tracker):
    """A tracker whose records outlive the run's folder: it is told each point once.

    `id` is what it knows the run by. With `afresh` it is told all points again, as another run.
    """

    def __init__(self, run: TrackedRun, afresh: bool = False) -> None:
        super().__init__(run)
        self._path = run.folder / TRACKED
        known = {} if afresh else _read(self._path).get(self.name, {})
        self.id: str = known.get("id") or secrets.token_hex(4)
        self._sent: dict[str, int] = dict(known.get("sent") or {})

    def tell(self, points: Iterable[TrackedPoint]) -> int:
        new = 0
        for point in points:
            if point.step > self._sent.get(point.kind, -1):
                self.log(point)
                self._sent[point.kind] = point.step
                told = {**_read(self._path), self.name: {"id": self.id, "sent": self._sent}}
                files.write_json(self._path, told, durable=False)
                new += 1
        return new


def require_tracker(name: str) -> None:
    """Raise UserError where there is no such tracker, or its package is not installed."""
    if name not in TRACKERS:
        raise unknown("tracker", name, TRACKERS, exit_code=2)
    if find_spec(name) is None:
        raise missing(f"{name}, which track={name} and --to {name} need,", name)


def open_tracker(name: str, run: TrackedRun, afresh: bool = False) -> Tracker:
    """Return the tracker called `name` for a run; whatever its package raises goes on."""
    module = import_module(f"lrbench.runs.track.{name}")
    made: Tracker = module.TRACKER(run, afresh)
    return made


def _read(path: Path) -> dict[str, Any]:
    """Return what is known of earlier telling; a damaged file is as none: it holds no number."""
    try:
        return files.read_json(path)
    except UnreadableFile:
        return {}
