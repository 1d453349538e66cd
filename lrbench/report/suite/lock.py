"""The lock of a suite: the settings that a run must have, and the strings of its tests.

The lock is a file in data/reference/, written once by `python -m benchmarks.suite_lock`. It holds
for each task the settings, the task's version and the hashes of the test strings, and a hash of all
of this.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from lrbench.errors import UserError
from lrbench.report.paper.reference import reference_dir
from lrbench.report.runs.columns import Settings
from lrbench.report.runs.record import digest_of

LAYERS = "model.layers"
FREE = ("optim.lr",)  # of the settings of task, protocol and optimiser, what the search chooses
FIXED = ("task.", "protocol.", "optim.", "versions.task", "versions.protocol")


@dataclass(frozen=True)
class LockedTask:
    """One task: its column, the settings of its runs, and the digest of its test strings.

    settings: those of task, protocol and optimiser, flat, with the versions of task and protocol.
    layers: of every model, unless it enters with others.
    tests: the length and the number of strings of each test, shortest first.
    """

    label: str
    settings: Settings
    layers: int
    digest: str
    tests: tuple[tuple[int, int], ...]

    def differing(self, settings: Settings) -> list[str]:
        """Return the settings in which a run is not one of the suite's."""
        fixed = {key: value for key, value in settings.items() if _is_fixed(key)}
        keys = sorted({*fixed, *self.settings})
        return [key for key in keys if fixed.get(key) != self.settings.get(key)]

    def is_task(self, settings: Settings) -> bool:
        """Whether a run is on this very task: none of the task's settings is in `differing`."""
        for name, value in self._task.items():
            if settings.get(name) != value:
                return False
        return all(
            value is None or name in self._task
            for name, value in settings.items()
            if name.startswith("task.")
        )

    @cached_property
    def _task(self) -> Settings:
        return {name: value for name, value in self.settings.items() if name.startswith("task.")}


@dataclass(frozen=True)
class Lock:
    """What a suite consists of; `sha256` is the hash of the whole file's content."""

    suite: str
    sha256: str
    tasks: tuple[LockedTask, ...]
    rates: tuple[float, ...]
    enough: float
    search: Settings  # the settings of the runs that choose a rate, where they differ

    @property
    def protocol(self) -> str:
        """The protocol of its runs, by name."""
        return str(self.tasks[0].settings["protocol.name"])

    def place_of(self, settings: Settings) -> int | None:
        """Return which task a run is on; None where it is none of the suite's."""
        found = (at for at, task in enumerate(self.tasks) if task.is_task(settings))
        return next(found, None)

    def name_of(self, place: int) -> str:
        """Return a task by its column, and its number where several are one column."""
        label = self.tasks[place].label
        same = [at for at, task in enumerate(self.tasks) if task.label == label]
        return label if len(same) == 1 else f"{label} {same.index(place)}"


def lock_path(suite: str) -> Path:
    """Return where the lock of a suite lies."""
    return reference_dir() / f"{suite}.lock"


def has_lock(suite: str) -> bool:
    """Tell whether there is a suite of this name; a path is none."""
    return bool(re.fullmatch(r"[\w-]+", suite)) and lock_path(suite).is_file()


@cache
def read_lock(suite: str) -> Lock:
    """Return the lock of a suite. Raises UserError where there is none, or it was changed."""
    path = lock_path(suite)
    if not has_lock(suite):
        raise UserError(
            f"suite '{suite}' has no lock at {path}\n"
            "only a suite whose test strings are locked can be reported as one"
        )
    content = json.loads(path.read_text())
    if content.get("sha256") != own_hash(content):
        raise UserError(
            f"{path} was changed: its content does not have the hash that it names\n"
            "restore it from the repository"
        )
    tasks = tuple(
        LockedTask(
            *(task["label"], task["settings"], task["layers"], digest_of(task["strings"])),
            tuple(sorted((int(at), told["n"]) for at, told in task["strings"].items())),
        )
        for task in content["tasks"]
    )
    return Lock(
        suite,
        content["sha256"],
        tasks,
        tuple(content["rates"]),
        content["enough"],
        content["search"],
    )


def own_hash(content: Mapping[str, Any]) -> str:
    """Return the hash that a lock with this content names."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _is_fixed(key: str) -> bool:
    return key.startswith(FIXED) and key not in FREE
