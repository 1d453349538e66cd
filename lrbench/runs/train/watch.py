"""The watcher of a group's training: records, checkpoints, and stopping."""

from __future__ import annotations

import time

from lrbench.errors import Interrupted, UserError
from lrbench.records import Look, Result
from lrbench.runs.folder.run import Run
from lrbench.runs.lease import Lease
from lrbench.runs.track.live import LiveTracking
from lrbench.runs.train.display import Display
from lrbench.runs.train.signals import StopRequest
from lrbench.training.telemetry import CONVERGED
from lrbench.training.trial import Trial

CHECKPOINT_SECONDS = 60.0  # at most this much work is lost to kill -9 between looks


class LeaseLost(UserError):
    """Another process took a run over: this one must not write there any more."""


class GroupWatch:
    """The `Watcher` of a group: one run folder and lease for each of its trials."""

    def __init__(
        self,
        trials: list[Trial],
        runs: dict[int, Run],
        leases: dict[int, Lease],
        stop: StopRequest,
        display: Display,
        tracking: LiveTracking,
    ) -> None:
        self.trials, self.runs, self.leases = trials, runs, leases
        self.stop, self.display, self.tracking = stop, display, tracking
        self.failures: dict[int, Exception] = {}  # by seed
        self.warned: set[int] = set()  # seeds
        self.saved_at = time.monotonic()

    @property
    def stopping(self) -> bool:
        """Whether somebody has asked for a stop."""
        return self.stop.requested

    def logged(self, trial: Trial, loss: float) -> None:
        """Record a mean loss."""
        line = {"step": trial.step, "loss": loss, "lr": trial.rate, "seconds": trial.seconds}
        line |= trial.telemetry.latest
        run = self._ours(trial)
        run.record(line)
        self.tracking.recorded(trial.seed, line)
        self.display.logged(trial, loss)
        if trial.telemetry.latest.get(CONVERGED, 1.0) < 1 and trial.seed not in self.warned:
            self.warned.add(trial.seed)
            notice = unconverged(trial)
            run.record({"step": trial.step, "notice": notice})
            run.log(notice)
            self.display.notice(trial, notice)

    def looked(self, trial: Trial, look: Look, believed: list[str]) -> None:
        """Record a look and keep the checkpoints it earns."""
        line = {"step": trial.step, "look": look, "believed": believed}
        self._ours(trial).record(line)
        self.tracking.recorded(trial.seed, line)
        self._save(trial, believed)
        self.display.looked(trial, look)

    def updated(self, trial: Trial) -> None:
        """Keep a checkpoint where one is due; stop here if asked to."""
        if trial.stopped is not None:
            self._save(trial)
        due = time.monotonic() - self.saved_at > CHECKPOINT_SECONDS
        if due or self.stop.requested:
            for member in self.trials:  # none of the group is in the middle of an update
                if member.seed not in self.failures:
                    self._save(member)
            self.saved_at = time.monotonic()
        if self.stop.requested:
            raise Interrupted(
                f"{self.stop.name}: stopped at update {trial.step:,};"
                " the same command goes on from there"
            )

    def failed(self, trial: Trial, error: Exception) -> None:
        """Remember why a trial failed; a run that was taken over ends them all."""
        if isinstance(error, LeaseLost):
            raise error
        self.failures[trial.seed] = error

    def check(self, read: int = 0, planned: int = 0) -> None:
        """Stop during a look or an examination."""
        if self.stop.requested:
            raise Interrupted(f"{self.stop.name}: stopped during {self._left_off()}")
        for seed, lease in list(self.leases.items()):  # others may end meanwhile
            if lease.lost:
                raise _taken_over(self.runs[seed], lease)

    def finished(self, trial: Trial, result: Result) -> None:
        """Write a trial's result and give its lease back."""
        run = self._ours(trial)
        self.tracking.ended(trial.seed, result)
        run.finish(result)
        self.leases.pop(trial.seed).release()

    def _left_off(self) -> str:
        """Return what was cut off and where the same command goes on.

        A look is part of its update: only what was kept before the update is there.
        """
        left = [one for one in self.trials if one.stopped is None and one.seed not in self.failures]
        if not left:
            return "an examination; the same command goes on with what is not scored yet"
        kept = min(self.runs[trial.seed].saved_step for trial in left)
        start = f"update {kept:,}" if kept > 0 else "the beginning"
        return f"a look; the same command goes on from {start}"

    def _save(self, trial: Trial, believed: list[str] | None = None) -> None:
        if self.runs[trial.seed].saved_step != trial.step or believed:
            self._ours(trial).save(trial, believed)

    def _ours(self, trial: Trial) -> Run:
        """Return the trial's run to write to; LeaseLost if another process has it by now."""
        run, lease = self.runs[trial.seed], self.leases[trial.seed]
        if not lease.verify():
            raise _taken_over(run, lease)
        return run


def unconverged(trial: Trial) -> str:
    """Return what a user is told once about a run whose solver stopped converging."""
    share = 1 - trial.telemetry.latest[CONVERGED]
    return (
        f"not converged within the cap in {share:.1%} of solutions up to update {trial.step:,}:"
        " their states and gradients are those of the last iterate"
    )


def _taken_over(run: Run, lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"another process has taken over {run.final_folder}: this one was silent for"
        f" {lease.expiry:g} s\nit goes on there; run the same command again to see its result"
    )
