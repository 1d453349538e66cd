"""Json files of run folders, read without trust: what is wrong with one is told, never raised."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lrbench.report.folders import Problems, shown

LARGEST = 64 * 2**20  # bytes of a json file; a real result has twenty thousand
# A character that json can spell as an escape although no text may hold half of it
HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


def read_object(
    path: Path, problems: Problems, complaint: Callable[[Any], str | None]
) -> dict[str, Any] | None:
    """Return the object in a json file, or None and a line in `problems`."""
    data: Any = None
    try:
        data = parsed(content(path))
        wrong = complaint(data)
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        wrong = f"is not json: {str(error) or type(error).__name__}"
    if wrong is None:
        return dict(data)
    problems.append((shown(path), wrong))
    return None


def content(path: Path) -> bytes:
    """Return a plain file's bytes; OSError for others: a pipe would wait, a device never end.

    Plain system calls, half as many as `Path.read_bytes` makes: there are thousands of files.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        if found.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"larger than {LARGEST >> 20} MiB")
        data = os.read(opened, found.st_size)
        while len(data) < found.st_size and (more := os.read(opened, found.st_size - len(data))):
            data += more
        return data
    finally:
        os.close(opened)


def parsed(content: bytes) -> Any:
    """Return what json text holds; ValueError or RecursionError where it is none."""
    text = content.decode("utf-8")
    data = json.loads(text)
    if HALF_CHARACTER.search(text):
        json.dumps(data, ensure_ascii=False).encode()  # half a character could not be written out
    return data
