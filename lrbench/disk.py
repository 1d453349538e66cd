"""What file systems promise, where they can: names that outlast a power cut, locks."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

NO_PROMISE = (errno.EINVAL, errno.ENOTSUP)
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)


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
