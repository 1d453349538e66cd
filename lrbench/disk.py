"""File systems: names that outlast a power cut, locks, and files below a folder."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import filter as matching
from pathlib import Path

from lrbench.errors import UserError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
CANNOT_WRITE = (*FULL, errno.EACCES, errno.EROFS)
IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST, errno.EISDIR)  # a file where a folder belongs
NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP)  # nothing can be looked for under such a name
NO_PROMISE = (errno.EINVAL, errno.ENOTSUP)
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


def below(folder: Path, pattern: str) -> list[Path]:
    """Return the files of matching names in a folder and below it, sorted.

    Folders that vanish meanwhile or cannot be read are passed over, links are not followed. Raises
    UserError for the root of the file system: all of it would be read.
    """
    if is_root(folder):
        raise UserError(f"'{folder}' is the root of the file system\nname the folder of the runs")
    walk = os.walk(folder)
    return sorted(
        Path(where, name) for where, _, names in walk for name in matching(names, pattern)
    )


def unlisted(folder: Path) -> dict[Path, str]:
    """Return the folders in a folder and below it that cannot be read, with the reasons."""
    passed: list[OSError] = []
    for _ in os.walk(folder, onerror=passed.append):
        pass
    stayed = [error for error in passed if not isinstance(error, FileNotFoundError)]
    return {Path(error.filename): str(error.strerror).lower() for error in stayed}


def may_write(folder: Path) -> bool:
    """Tell whether files can be made in a folder, or in what is there of the way to it."""
    folder = folder.absolute()
    while not os.path.exists(folder):  # what may not be looked at is not there, for this
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


def is_root(folder: Path) -> bool:
    """Tell whether this is the folder above all others."""
    return folder.resolve() == Path(folder.resolve().anchor)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a power cut, where a file system can promise it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_PROMISE:
            raise
    finally:
        os.close(descriptor)


def lock(descriptor: int, tell: Callable[[str], None], taken: str) -> bool:
    """Take the lock of an open file; where somebody has it, tell that it is `taken`, and wait.

    Returns False on a file system that has no locks.
    """
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell(f"{taken}; waiting for that")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        return False
    return True


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
