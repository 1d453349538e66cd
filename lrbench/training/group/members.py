"""Training of a group's members: side by side on CPU cores, or as one program on a GPU.

On a CPU they share one process: updates in turn, examinations on all cores. An update of a small
model is hundreds of operations of some microseconds, so short that threads lose more by waiting for
each other than they gain. Long operations, as of an examination, run on threads at once. Updates go
to processes of their own (`processes.py`) where these soon save more than the seconds that they
take to start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

import torch

from lrbench.errors import Interrupted
from lrbench.machine import available_cores
from lrbench.training.group.proof import proves_itself
from lrbench.training.group.stacked import Stacked, stackable
from lrbench.training.trial import BatchTrial, Trial
from lrbench.trust import decision

T = TypeVar("T")

TIMED = 3  # updates of each before it is known what one takes: the first may compile or allocate
START_SECONDS = 15.0  # what starting processes costs, with a margin


class SideBySide:
    """Does something for each of several trials."""

    def __init__(self, workers: int, threads: int = 1) -> None:
        """Use `workers` cores at once; each trial computes with `threads` threads."""
        self.workers = workers
        self._pool = None
        self._seconds: list[float] = []  # of an update of one trial
        if workers > 1:
            self._pool = ThreadPoolExecutor(
                workers, "trial", initializer=torch.set_num_threads, initargs=(threads,)
            )

    def __enter__(self) -> SideBySide:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def update(self, trials: Sequence[Trial]) -> list[Any]:
        """Do the next update of each trial; return the exceptions of those that failed."""
        began = time.perf_counter()
        done = [_attempt(lambda one: one.update(), trial) for trial in trials]
        if len(self._seconds) < TIMED:
            self._seconds.append((time.perf_counter() - began) / len(trials))
        return done

    def processes_for(self, trials: Sequence[Trial]) -> int:
        """Return how many processes the updates that are left should go to; 0 for none.

        Raises nothing and starts nothing. `stay` makes it 0 for good.
        """
        processes = min(self.workers, len(trials))
        if processes < 2 or len(self._seconds) < TIMED:
            return 0
        left = sum(trial.steps - trial.step for trial in trials) * min(self._seconds)
        return processes if left * (1 - 1 / processes) > START_SECONDS else 0

    def stay(self) -> None:
        """Train in this process from now on."""
        self.workers = 1

    def each(self, do: Callable[[Trial], T], trials: Iterable[Trial]) -> list[T | Exception]:
        """Return what `do` returns for each trial, in their order, or the exception it raised.

        One that fails keeps no other from going on. Raises Interrupted if one of them does.
        """
        trials = list(trials)
        if self._pool is None or len(trials) == 1:
            return [_attempt(do, trial) for trial in trials]
        return list(self._pool.map(lambda trial: _attempt(do, trial), trials))


def _attempt(do: Callable[[Trial], T], trial: Trial) -> T | Exception:
    try:
        return do(trial)
    except Interrupted:
        raise
    except Exception as error:
        return error


def cores_for(trials: int, threads: int, device: torch.device) -> int:
    """Return how many trials of `threads` threads each go side by side on this machine."""
    if device.type != "cpu":
        return 1
    return max(1, min(trials, available_cores() // threads))


class OneProgram(SideBySide):
    """Updates all members at once; whenever one has left, the others are stacked anew."""

    def __init__(self) -> None:
        super().__init__(1)
        self._stack: Stacked | None = None

    def update(self, trials: Sequence[Trial]) -> list[Any]:
        try:
            if self._stack is None or self._stack.trials != list(trials):
                if self._stack is not None:
                    self._stack.dissolve()
                self._stack = Stacked([one for one in trials if isinstance(one, BatchTrial)])
            self._stack.update()
        except Interrupted:
            raise
        except Exception as error:  # it was one program: all of them failed
            return [error] * len(trials)
        return [None] * len(trials)


def members_for(trials: Sequence[Trial], tell: Callable[[str], None]) -> SideBySide:
    """Return the way to train these trials; `tell` is told why they cannot be one program."""
    decision.begin()
    first = trials[0]
    if first.device.type == "cuda":
        reason = stackable(first)
        if not reason and proves_itself(trials):
            return OneProgram()
        if reason and len(trials) > 1:
            tell(f"trained one after the other: {reason}")
    threads = first.config.threads
    return SideBySide(cores_for(len(trials), threads, first.device), threads)
