"""An exclusive lock on a file, held for an instant: flock(2), best effort on a network."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lrbench.disk import NO_LOCKS


@contextmanager
def locked(path: Path, patience: float) -> Iterator[None]:
    """Hold the lock on `path`, which is made if need be and never removed.

    Raises TimeoutError when another process keeps it for `patience` seconds. On a file system
    that has no locks nothing is held.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        held = _take(descriptor, path, patience)
        try:
            yield
        finally:
            if held:  # closing would not do if another thread forked meanwhile
                fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _take(descriptor: int, path: Path, patience: float) -> bool:
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path} is locked by a process that does not go on") from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            return False
        time.sleep(0.005)
