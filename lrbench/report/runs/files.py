"""Folders of runs and the json files in them, read without trust.

A folder that cannot be read is named, never skipped. A fault of a file is reported, never raised.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lrbench.report.runs.columns import Problems

RUN_FOLDER = re.compile(r"s[0-9]+")
RUN_FILES = {"result.json", "failure.json", "metrics.jsonl", "checkpoints", "run.log"}
INSIDE = {"checkpoints", "evaluations", "certificates"}  # of a run: no runs are in there


def run_folders(root: Path, problems: Problems) -> Iterator[tuple[Path, set[str]]]:
    """Yield each folder called s<seed> with the names in it, in order.

    Results that are being replaced (.new, .old) and hidden folders are left out. Links to folders
    are not followed, lest a loop or a copy be read; they are named in `problems`, and so are links
    that lead nowhere.
    """
    waiting = [str(root)]
    while waiting:  # not by recursion: folders may be nested deeper than Python's stack
        place = waiting.pop()
        try:
            with os.scandir(place) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            problems.append((shown(Path(place)), f"cannot be listed: {error.strerror}"))
            continue
        names = {entry.name for entry in entries}
        # A model may be called s4: only a folder that holds a run's files is one. The absolute
        # path, because `--runs .` may be said inside a run folder.
        named = RUN_FOLDER.fullmatch(os.path.basename(os.path.abspath(place)))
        is_run = bool(named) and not RUN_FILES.isdisjoint(names)
        below = [entry for entry in entries if _may_hold_runs(entry, is_run)]
        for entry in [] if is_run else [entry for entry in below if entry.is_symlink()]:
            reason = "a link, not followed; name where it leads with --runs"
            if not os.path.exists(entry.path):
                reason = "a link that leads nowhere"
            problems.append((shown(Path(entry.path)), reason))
        waiting += [entry.path for entry in reversed(below) if not entry.is_symlink()]
        if is_run:
            yield Path(place), names


def shown(path: Path) -> Path:
    """Return a path that can be printed: bytes that are no UTF-8 are written out in hex."""
    if str(path).isascii():
        return path
    return Path(os.fsencode(path).decode("utf-8", "backslashreplace"))


def _may_hold_runs(entry: os.DirEntry[str], inside_run: bool) -> bool:
    name = entry.name
    if name.startswith(".") or name.endswith((".new", ".old")) or (inside_run and name in INSIDE):
        return False
    try:
        return entry.is_dir() or (entry.is_symlink() and not os.path.exists(entry.path))
    except OSError:  # a link to itself
        return True


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
    if "\\u" in text and HALF_CHARACTER.search(text):
        json.dumps(data, ensure_ascii=False).encode()  # half a character could not be written out
    return data
