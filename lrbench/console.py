"""The output of the program: results on stdout, progress and messages on stderr.

One console for stderr, so that a progress bar and messages never overwrite each other.
"""

from __future__ import annotations

import errno
import multiprocessing
import sys
from functools import cache
from typing import IO, Any

from rich.console import Console

from lrbench.disk import FULL

LOST = (*FULL, errno.EPIPE)


class Lossy:
    """A text stream that loses what cannot be written: no run ends because its log cannot grow.

    The disk is full, or the reader of a pipe (head, tee) has gone. Only messages go through it,
    never results.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write as much as goes; return the length of the whole text."""
        try:
            return self._stream.write(text)
        except OSError as error:
            if error.errno not in LOST:
                raise
            return len(text)

    def flush(self) -> None:
        """Flush as much as goes."""
        try:
            self._stream.flush()
        except OSError as error:
            if error.errno not in LOST:
                raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Console(Console):
    """Leaves a closed pipe (head, less) to the edge of the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class _Messages(_Console):
    """The console on stderr, whatever stderr is at the moment."""

    @property
    def file(self) -> Any:
        return Lossy(super().file)

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file


def stderr() -> Any:
    """Return stderr as messages are written to it; see `Lossy`."""
    return Lossy(sys.stderr)


@cache
def messages() -> Console:
    """The one console for progress and messages, on stderr."""
    return _Messages(stderr=True, highlight=False, soft_wrap=True)


@cache
def results() -> Console:
    """The console for results, on stdout."""
    return _Console(highlight=False, soft_wrap=True)


def interactive() -> bool:
    """Whether a person watches stderr: a terminal, and not a worker of a sweep."""
    return messages().is_terminal and multiprocessing.parent_process() is None
