"""Members of a group at once on a CPU: each on a core of its own, as it would be alone.

A small model leaves all but one core idle, and what a member does is mostly arithmetic outside of
python: torch's operations and compiled loops let other threads go on meanwhile. Each computes what
it would by itself. Between operations threads wait for each other, though, and where operations
take some microseconds only that costs more than a second core gains; so a group tries both ways at
its beginning, and goes on in the faster one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

import torch

from lrbench.errors import Interrupted
from lrbench.training.trial import Trial

T = TypeVar("T")

TRIES = 5  # updates each way, the first of which may compile or allocate


class SideBySide:
    """Does something for each of several trials, some of them at a time."""

    def __init__(self, workers: int, threads: int = 1) -> None:
        """Use `workers` cores at once; each trial computes with `threads` threads."""
        self._pool = None
        self._tried: tuple[list[float], list[float]] = [], []  # seconds: in turn, at once
        if workers > 1:
            self._pool = ThreadPoolExecutor(
                workers, "trial", initializer=torch.set_num_threads, initargs=(threads,)
            )

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def update(self, trials: Sequence[Trial]) -> list[Any]:
        """Do the next update of each trial; return the exceptions of those that failed."""
        alone, at_once = self._tried
        if self._pool is None or len(trials) == 1:
            return self.each(_update, trials)
        trying = len(at_once) < TRIES
        together = len(at_once) < len(alone) if trying else min(at_once) < min(alone)
        began = time.perf_counter()
        done = self._map(_update, trials, together)
        if trying:
            (at_once if together else alone).append(time.perf_counter() - began)
        return done

    def each(self, do: Callable[[Trial], T], trials: Iterable[Trial]) -> list[T | Exception]:
        """Return what `do` returns for each trial, in their order, or the exception it raised.

        One that fails keeps no other from going on. Raises Interrupted if one of them does.
        """
        return self._map(do, list(trials), together=True)

    def _map(
        self, do: Callable[[Trial], T], trials: Sequence[Trial], together: bool
    ) -> list[T | Exception]:
        def attempt(trial: Trial) -> T | Exception:
            try:
                return do(trial)
            except Interrupted:
                raise
            except Exception as error:
                return error

        if self._pool is None or len(trials) == 1 or not together:
            return [attempt(trial) for trial in trials]
        return list(self._pool.map(attempt, trials))


def _update(trial: Trial) -> None:
    trial.update()


def cores_for(trials: int, threads: int, device: torch.device) -> int:
    """Return how many trials of `threads` threads each go side by side on this machine."""
    if device.type != "cpu":
        return 1
    return max(1, min(trials, available_cores() // threads))


def available_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
