"""Where the program speaks: results on stdout, progress and messages on stderr.

One console for stderr, so that a progress bar and messages never overwrite each other.
"""

from __future__ import annotations

import multiprocessing
from functools import cache

from rich.console import Console


class _Console(Console):
    """Leaves a closed pipe (head, less) to the edge of the program."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


@cache
def messages() -> Console:
    """The one console for progress and messages, on stderr."""
    return _Console(stderr=True, highlight=False, soft_wrap=True)


@cache
def results() -> Console:
    """The console for results, on stdout."""
    return _Console(highlight=False, soft_wrap=True)


def interactive() -> bool:
    """Whether a person watches stderr: a terminal, and not a worker of a sweep."""
    return messages().is_terminal and multiprocessing.parent_process() is None
