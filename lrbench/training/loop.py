"""The training loop: a group of runs of one cell, update by update, until each has ended."""

from __future__ import annotations

import math
import time
from typing import Any, Protocol

from lrbench.training.looks import take_look
from lrbench.training.trial import Trial

LOG_EVERY = 100


class Watcher(Protocol):
    """Whoever wants to know: keeps records and checkpoints, shows progress, may raise to stop."""

    def logged(self, trial: Trial, loss: float) -> None:
        """Take note of the mean loss since the last time."""

    def looked(self, trial: Trial, look: dict[str, Any], believed: list[str]) -> None:
        """Take note of a look and of the rules that now believe it."""

    def updated(self, trial: Trial) -> None:
        """Take note of a finished update; raise Interrupted to stop here."""

    def check(self) -> None:
        """Raise Interrupted if the program should stop; called during long examinations."""


def train_group(trials: list[Trial], watch: Watcher) -> None:
    """Train every trial of a group until each has stopped.

    Trials keep in step with each other; one that resumes from an older checkpoint than the others
    is waited for, and one that has ended leaves the group.
    """
    while active := [trial for trial in trials if trial.stopped is None]:
        furthest_behind = min(trial.step for trial in active)
        for trial in active:
            if trial.step == furthest_behind:
                advance(trial, watch)


def advance(trial: Trial, watch: Watcher) -> None:
    """Do one update, and the record, look and ending that may be due after it."""
    protocol = trial.config.protocol
    began = time.perf_counter()
    trial.update()
    final = trial.step == protocol.max_steps
    look_due = final or trial.step % protocol.look_every == 0
    if look_due or trial.step % LOG_EVERY == 0:
        loss = trial.take_loss()
        trial.seconds += time.perf_counter() - began
        watch.logged(trial, loss)
        if not math.isfinite(loss):
            trial.stopped = "diverged"
    else:
        trial.seconds += time.perf_counter() - began
    if look_due and trial.stopped is None:
        _look(trial, watch, final)
    watch.updated(trial)


def _look(trial: Trial, watch: Watcher, final: bool) -> None:
    look = take_look(trial, watch.check)
    if not math.isfinite(look["validation_loss"]):
        trial.stopped = "diverged"
        return
    believed = trial.rules.consider(look)
    metric = trial.task.metric
    perfect = metric.perfect(look[f"test_{metric.name}"])
    if perfect and trial.perfect_look is None:
        trial.perfect_look = {"step": trial.step, "seconds": trial.seconds}
    if trial.config.protocol.stop == "perfect" and perfect:
        trial.stopped = "perfect"
    elif final:
        trial.stopped = "budget"
    watch.looked(trial, look, believed)
