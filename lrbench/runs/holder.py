"""Who holds a lease, as far as one can see, and whether that process still lives."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lrbench.runs import processes
from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile


@dataclass(frozen=True)
class Sighting:
    """A lease as found: its record (None if unreadable), its time stamp, its age in seconds."""

    record: dict[str, Any] | None
    modified: int
    age: float

    @property
    def owner(self) -> str:
        """The holder in words."""
        if self.record is None:
            return "an unknown process (its lease.json is unreadable)"
        return f"process {self.record.get('pid')} on {self.record.get('host')}"

    def here(self) -> bool:
        """Whether its process id is one of this machine's."""
        if self.record is None or self.record.get("host") != processes.host():
            return False
        return self.record.get("machine") in (None, processes.machine())

    def gone(self) -> bool:
        """Whether the holder, a process of this machine, lives no more.

        This process itself counts as gone: whoever asks is about to take the lease, so what is
        left there was written by an attempt that was interrupted.
        """
        pid, started = (self.record or {}).get("pid"), (self.record or {}).get("started")
        if not isinstance(pid, int) or pid == os.getpid():
            return True
        return not processes.alive(pid, started)


class Watch:
    """Decides whether a lease is abandoned, from one sighting after another."""

    def __init__(self, expiry: float) -> None:
        self.expiry = expiry
        self._last: Sighting | None = None
        self._since = 0.0

    def verdict(self, seen: Sighting) -> str | None:
        """Return why the lease counts as abandoned, or None while its owner may live."""
        last, self._last = self._last, seen
        if last is None or (last.record, last.modified) != (seen.record, seen.modified):
            self._since = time.monotonic()
        if seen.here() and seen.gone():
            return f"{seen.owner} is gone"
        watched = time.monotonic() - self._since
        silence = watched if seen.here() else max(watched, seen.age)
        if silence > self.expiry:
            return f"{seen.owner} gave no sign of life for {silence:.0f} s"
        return None


def look(path: Path, lock: Path) -> Sighting | None:
    """Read the lease at `path` and its age; None if there is none. Call it under the lock.

    The age is the difference of two times by the file system's clock, which on a network is one
    clock for all: that of the lease and that of `lock`, touched now.
    """
    try:
        modified = path.stat().st_mtime_ns
        record = files.read_json(path)
    except FileNotFoundError:
        return None
    except UnreadableFile:
        record = None
    os.utime(lock)
    return Sighting(record, modified, (lock.stat().st_mtime_ns - modified) / 1e9)
