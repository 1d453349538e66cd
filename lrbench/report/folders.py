"""Which folders below a folder are runs. What cannot be looked into is named, never passed over."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

RUN_FOLDER = re.compile(r"s[0-9]+")
RUN_FILES = {"result.json", "failure.json", "metrics.jsonl", "checkpoints", "run.log"}
INSIDE = {"checkpoints", "evaluations"}  # of a run: no runs are in there

Problems = list[tuple[Path, str]]


def run_folders(root: Path, problems: Problems) -> Iterator[tuple[Path, set[str]]]:
    """Yield each folder called s<seed> with the names in it, in order.

    Results that are being replaced (.new, .old) and hidden folders are left out. Links to folders
    are not followed, lest a loop or a copy be read; they are named in `problems`.
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
            problems.append((shown(Path(entry.path)), reason))
        waiting += [entry.path for entry in reversed(below) if not entry.is_symlink()]
        if is_run:
            yield Path(place), names


def shown(path: Path) -> Path:
    """Return a path that can be printed: bytes that are no UTF-8 are written out in hex."""
    return Path(os.fsencode(path).decode("utf-8", "backslashreplace"))


def _may_hold_runs(entry: os.DirEntry[str], inside_run: bool) -> bool:
    name = entry.name
    if name.startswith(".") or name.endswith((".new", ".old")) or (inside_run and name in INSIDE):
        return False
    try:
        return entry.is_dir()
    except OSError:  # a link to itself leads to no folder
        return False
