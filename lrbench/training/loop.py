"""The training loop: a group of runs of one cell, update by update, until each has ended."""

from __future__ import annotations

import math
import time

from lrbench.training.group.members import SideBySide
from lrbench.training.group.processes import train_apart
from lrbench.training.trial import Trial, Watcher

LOG_EVERY = 100


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
    looks = members.each(lambda trial: trial.look(watch.check), going_on)
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
