"""Run folders read one by one, thousands of them in several processes at once.

Reading a run takes a millisecond of processor, most of it json. A process that reads a share of the
folders has no plug-ins, and leaves to the one that asked what needs one. What it does not send back
is read by the one that asked: the answer is the same, with however many processes.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from lrbench.machine import available_cores
from lrbench.plugins import PluginsLeftOut, leave_out_plugins
from lrbench.report.runs.columns import Problems, Record, UnderWay
from lrbench.report.runs.looks import read_under_way
from lrbench.report.runs.record import read_run

SHARE = 1_000  # folders, at least: fewer are read sooner than a process has started
MOST = 8  # processes: what they send is read by one
PROGRAM = "from lrbench.report.runs.reading import serve; serve()"
Folder = tuple[Path, set[str]]  # of a run, with the names in it


class Read(NamedTuple):
    """What a run folder says: of a run that has ended, of one that has not, or neither."""

    record: Record | None
    under_way: UnderWay | None
    unfinished: list[Path]
    problems: Problems


def read_folder(root: Path, folder: Path, names: set[str]) -> Read:
    """Return what a run folder below `root` says, in which there are `names`."""
    problems: Problems = []
    unfinished: list[Path] = []
    record = read_run(root, folder, names, problems, unfinished)
    run = read_under_way(root, folder, names, problems) if unfinished else None
    return Read(record, run, unfinished, problems)


def read_folders(root: Path, folders: Sequence[Folder], share: int = SHARE) -> Iterator[Read]:
    """Yield what each folder says, in their order.

    share: how many folders are read while a process starts; fewer are no share of one. The first
    share is read here, and is larger by so many.
    """
    count = max(1, min(available_cores(), MOST, len(folders) // share))
    more = (len(folders) - share) // count
    ends = [0, *(len(folders) - more * left for left in reversed(range(count)))]
    shares = [folders[start:end] for start, end in pairwise(ends)]
    with ExitStack() as processes:
        answers = [processes.enter_context(_reader(root, mine)) for mine in shares[1:]]
        for folder in shares[0]:
            yield read_folder(root, *folder)
        for mine, answer in zip(shares[1:], answers, strict=True):
            for folder, read in zip(mine, answer(), strict=True):
                yield read_folder(root, *folder) if read is None else read


@contextmanager
def _reader(root: Path, folders: Sequence[Folder]) -> Iterator[Callable[[], list[Read | None]]]:
    """A process that reads folders; call what this gives to wait for what it says of each.

    It says it to a file, so that it need not wait to be heard. None is said of a folder that it
    could not read, and of each where the process did not start or failed.
    """
    with ExitStack() as opened:
        try:
            asked = opened.enter_context(TemporaryFile())
            answered = opened.enter_context(TemporaryFile())
            pickle.dump((root, folders), asked)
            asked.seek(0)
            process = opened.enter_context(_process(asked, answered))
        except OSError:
            yield lambda: [None] * len(folders)
            return
        opened.callback(process.kill)

        def answers() -> list[Read | None]:
            if process.wait() != 0:
                return [None] * len(folders)
            answered.seek(0)
            read: list[Read | None] = pickle.load(answered)
            return read

        yield answers


def _process(asked: IO[bytes], answered: IO[bytes]) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        [sys.executable, "-P", "-c", PROGRAM],
        stdin=asked,
        stdout=answered,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )


def serve() -> None:
    """Read the folders that are asked for on stdin, and say on stdout what they say."""
    leave_out_plugins()
    gc.disable()
    root, folders = pickle.load(sys.stdin.buffer)
    answers = [_unless_plugins(root, folder, names) for folder, names in folders]
    pickle.dump(answers, sys.stdout.buffer)


def _unless_plugins(root: Path, folder: Path, names: set[str]) -> Read | None:
    try:
        return read_folder(root, folder, names)
    except PluginsLeftOut:
        return None
