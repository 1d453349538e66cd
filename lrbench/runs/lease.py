"""The lease of a run: a file with a heartbeat, by which only one process trains it.

`lease.json` names the owner and is rewritten every few seconds. It is abandoned

- at once, when the owner was a process of this machine that is gone (a process that got the
  same id later started at another time, and does not count);
- when an owner elsewhere has not renewed it for `expiry` seconds, by the file system's clock, so
  that two machines need not agree on the time;
- when nothing about it changed for `expiry` seconds while we watched, by any owner.

Reading, judging and writing it happen under an exclusive flock on `lease.lock`, so of two takers
on one machine one wins. On network file systems flock is best effort, and so is the lease: an
owner that was taken over finds out at its next heartbeat, or when it calls `verify`.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from lrbench import machine
from lrbench.disk import locked
from lrbench.errors import Interrupted, UserError
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
        if self.record is None or self.record.get("host") != machine.host():
            return False
        return self.record.get("machine") in (None, machine.identity())

    def gone(self) -> bool:
        """Whether the holder, a process of this machine, lives no more.

        This process itself counts as gone: whoever asks is about to take the lease, so what is
        left there was written by an attempt that was interrupted.
        """
        pid, started = (self.record or {}).get("pid"), (self.record or {}).get("started")
        if not isinstance(pid, int) or pid == os.getpid():
            return True
        return not machine.alive(pid, started)


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


EXPIRY = 30.0  # seconds without a beat, after which a lease elsewhere counts as abandoned


def is_held(lease: Path) -> bool:
    """Tell whether somebody trains the run of a lease.json; it is looked at, not taken.

    False as well where it may not be read: `disk.unlisted` names its folder.
    """
    try:
        modified = lease.stat().st_mtime_ns
        record = files.read_json(lease)
    except (FileNotFoundError, PermissionError, UnreadableFile):
        return False
    seen = Sighting(record, modified, time.time() - modified / 1e9)
    return not seen.gone() if seen.here() else seen.age < EXPIRY


Got = Literal["free", "waited", "taken over"]
log = logging.getLogger(__name__)

_reserved: dict[str, int] = {}  # folder -> process id: a forked child holds nothing
_reserving = threading.Lock()


class Lease:
    """Exclusive right to train the run in `folder`, called `name` in messages; a context manager.

    Look at what is on disk after `acquire`, even if it says 'free': another process may have
    finished the run and gone a moment before. A training loop polls `lost` and calls `verify`
    before it writes anything that counts. `trouble` says what is wrong with the heartbeat, if
    anything is.
    """

    def __init__(
        self,
        folder: Path,
        expiry: float = 30.0,
        beat: float = 5.0,
        on_wait: Callable[[str], None] = lambda message: None,
        stop: Callable[[], bool] = lambda: False,
        name: str | Path = "",
    ) -> None:
        if not 0 < beat < expiry:
            raise ValueError(f"need 0 < beat < expiry, not beat={beat}, expiry={expiry}")
        self.folder = Path(folder)
        self.name = str(name or folder)
        self.expiry, self.beat = expiry, beat
        self.lost = False
        self.how: Got | None = None
        self.trouble: str | None = None
        self._on_wait, self._stop = on_wait, stop
        self._path, self._lock = self.folder / "lease.json", self.folder / "lease.lock"
        self._token = ""
        self._pid = 0
        self._released = threading.Event()
        self._heart: threading.Thread | None = None

    def acquire(self) -> Got:
        """Get the lease, waiting for a live owner, and say how: free, waited or taken over.

        Raises UserError if this process has it already, Interrupted if `stop` says so.
        """
        _reserve(self.folder)
        try:
            self._token, self._pid = secrets.token_hex(16), os.getpid()
            self.lost, self.trouble = False, None
            self._released.clear()
            self.how = self._wait()
            self._heart = threading.Thread(target=self._pulse, name="lease", daemon=True)
            self._heart.start()
        except BaseException:
            _unreserve(self.folder)
            raise
        return self.how

    def verify(self) -> bool:
        """Read the lease now and return whether it is still ours (if not, `lost` is set)."""
        try:
            ours = files.read_json(self._path).get("token") == self._token
        except UnreadableFile as error:
            ours = not isinstance(error.__cause__, FileNotFoundError)
            if ours:
                self._note(f"lease.json: {error.reason}")
        self.lost = self.lost or not ours
        return not self.lost

    def release(self) -> None:
        """Give the lease back; does nothing if it is not held, or held by a parent process."""
        if self._heart is None or self._pid != os.getpid():
            return
        try:
            self._released.set()
            self._heart.join(timeout=self.expiry)
            self._heart = None
            with self._alone():
                if self.verify():
                    self._path.unlink(missing_ok=True)
        except OSError as error:  # the run is over: an unremoved lease only makes others wait
            log.warning("lease of %s not removed: %s", self.folder, error)
        finally:
            _unreserve(self.folder)

    def __enter__(self) -> Lease:
        self.acquire()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()

    def _wait(self) -> Got:
        watch = Watch(self.expiry)
        waited = False
        while True:
            seen, reason = self._attempt(watch)
            if seen is None:
                return "waited" if waited else "free"
            if reason is not None:
                self._on_wait(f"taking over {self.name}: {reason}")
                return "taken over"
            if not waited:
                waited = True
                self._on_wait(f"waiting for {self.name}: {seen.owner} is training it")
            if self._stop():
                raise Interrupted(f"stopped while waiting for {self.name}")
            time.sleep(min(1.0, self.beat / 5))

    def _attempt(self, watch: Watch) -> tuple[Sighting | None, str | None]:
        """Take the lease if nobody has it (no sighting) or its owner is gone (a reason)."""
        with self._alone():
            seen = look(self._path, self._lock)
            reason = watch.verdict(seen) if seen else None
            if seen is None or reason is not None:
                self._write()
        return seen, reason

    def _write(self) -> None:
        record = {
            "token": self._token,
            "pid": self._pid,
            "host": machine.host(),
            "machine": machine.identity(),
            "started": machine.start_ticks(self._pid),
            "beat": time.time(),
        }
        files.write_json(self._path, record, durable=False)

    def _pulse(self) -> None:
        while not self.lost and not self._released.wait(self.beat):
            try:
                with self._alone():
                    if self.verify():
                        self._renew()
            except FileNotFoundError:
                self.lost = True  # the run folder itself is gone
            except OSError as error:
                self._note(str(error))

    def _renew(self) -> None:
        try:
            self._write()
            self.trouble = None
        except OSError as error:  # a full disk can still record that we live
            self._note(str(error))
            os.utime(self._path)

    def _note(self, trouble: str) -> None:
        if self.trouble is None:
            log.warning("heartbeat of %s: %s; trying on", self.folder, trouble)
        self.trouble = trouble

    def _alone(self) -> AbstractContextManager[None]:
        return locked(self._lock, patience=self.expiry)


def _reserve(folder: Path) -> None:
    key = os.path.realpath(folder)
    with _reserving:
        if _reserved.get(key) == os.getpid():
            raise UserError(
                f"run folder {folder} is already being trained by this process\n"
                "fix: let one run finish before starting it again"
            )
        _reserved[key] = os.getpid()


def _unreserve(folder: Path) -> None:
    with _reserving:
        _reserved.pop(os.path.realpath(folder), None)
