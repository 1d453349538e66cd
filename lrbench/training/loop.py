"""The training loop: a group of runs of one cell, update by update, until each has ended."""

from __future__ import annotations

import math
import time
from typing import Any, Protocol

from lrbench.training.apart import train_apart
from lrbench.training.looks import take_look
from lrbench.training.side_by_side import SideBySide
from lrbench.training.trial import Trial

LOG_EVERY = 100


class Watcher(Protocol):
    """Whoever wants to know: keeps records and checkpoints, shows progress, may raise to stop."""

    @property
    def stopping(self) -> bool:
        """Whether `updated` is going to raise Interrupted."""

    def logged(self, trial: Trial, loss: float) -> None:
        """Take note of the mean loss since the last time."""

    def looked(self, trial: Trial, look: dict[str, Any], believed: list[str]) -> None:
        """Take note of a look and of the rules that now believe it."""

    def updated(self, trial: Trial) -> None:
        """Take note of a finished update; raise Interrupted to stop here."""

    def failed(self, trial: Trial, error: Exception) -> None:
        """Take note that a trial failed and leaves the group; raise what concerns all of it."""

    def check(self) -> None:
        """Raise Interrupted if the program should stop; called during long examinations."""


def train_group(trials: list[Trial], watch: Watcher, members: SideBySide | None = None) -> None:
    """Train every trial of a group until each has stopped.

    Trials keep in step with each other; one that resumes from an older checkpoint than the others
    is waited for, and one that has ended or failed leaves the group. `members` says how: in turn by
    default, in processes of their own where that is worth it.
    """
    members = members or SideBySide(1)
    while active := [trial for trial in trials if trial.stopped is None]:
        processes = members.processes_for(active)
        if processes:
            if not train_apart(active, watch, processes):
                members.stay()
            continue
        furthest_behind = min(trial.step for trial in active)
        advance([trial for trial in active if trial.step == furthest_behind], watch, members)


def advance(trials: list[Trial], watch: Watcher, members: SideBySide) -> None:
    """Do one update of each, and the record, look and ending that may be due after it."""
    step = trials[0].step + 1
    trials = _updated(trials, watch, members, step % LOG_EVERY == 0)
    going_on = [trial for trial in trials if trial.stopped is None and trial.look_due]
    looks = members.each(lambda trial: take_look(trial, watch.check), going_on)
    for trial, look in zip(going_on, looks, strict=True):
        if isinstance(look, Exception):
            _fail(trial, look, watch)
            continue
        believed = trial.heed(look)
        if trial.stopped != "diverged":
            watch.looked(trial, look, believed)
    # only now, when every member has its looks, may all of them be kept as they are
    for trial in trials:
        if trial.stopped != "failed":
            watch.updated(trial)


def _updated(
    trials: list[Trial], watch: Watcher, members: SideBySide, log_due: bool
) -> list[Trial]:
    """Update trials and return those that did not fail; each is told its share of the time."""
    began = time.perf_counter()
    done = members.update(trials)
    losses = [trial.take_loss() if log_due or trial.look_due else None for trial in trials]
    share = (time.perf_counter() - began) / len(trials)
    for trial, outcome, loss in zip(trials, done, losses, strict=True):
        if isinstance(outcome, Exception):
            _fail(trial, outcome, watch)
            continue
        trial.seconds += share
        if loss is not None:
            watch.logged(trial, loss)
            if not math.isfinite(loss):
                trial.stopped = "diverged"
    return [trial for trial in trials if trial.stopped != "failed"]


def _fail(trial: Trial, error: Exception, watch: Watcher) -> None:
    watch.failed(trial, error)
    trial.stopped = "failed"
