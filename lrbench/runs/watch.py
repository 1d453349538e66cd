"""What happens around a group's updates: records, checkpoints, progress, and stopping."""

from __future__ import annotations

import time
from typing import Any

from lrbench.errors import Interrupted, UserError
from lrbench.runs.lease import Lease
from lrbench.runs.progress import Display
from lrbench.runs.run import Run
from lrbench.runs.signals import StopRequest
from lrbench.training.trial import Trial

CHECKPOINT_SECONDS = 60.0  # at most this much work is lost to kill -9 between looks


class GroupWatch:
    """The `Watcher` of a group: one run folder and lease for each of its trials."""

    def __init__(
        self,
        runs: dict[int, Run],
        leases: dict[int, Lease],
        stop: StopRequest,
        display: Display,
    ) -> None:
        self.runs, self.leases, self.stop, self.display = runs, leases, stop, display
        self.saved_at = time.monotonic()

    def logged(self, trial: Trial, loss: float) -> None:
        """Record a mean loss."""
        line = {"step": trial.step, "loss": loss, "lr": trial.rate, "seconds": trial.seconds}
        self.runs[trial.seed].record(line)
        self.display.logged(trial, loss)

    def looked(self, trial: Trial, look: dict[str, Any], believed: list[str]) -> None:
        """Record a look and keep the checkpoints it earns."""
        self.runs[trial.seed].record({"step": trial.step, "look": look, "believed": believed})
        self._save(trial, believed)
        self.display.looked(trial, look)

    def updated(self, trial: Trial) -> None:
        """Keep a checkpoint where one is due; stop here if asked to."""
        due = time.monotonic() - self.saved_at > CHECKPOINT_SECONDS
        if due or trial.stopped is not None:
            self._save(trial)
        if self.stop.requested:
            self._save(trial)
            raise Interrupted(
                f"{self.stop.name}: stopped at update {trial.step:,};"
                " the same command goes on from there"
            )

    def check(self) -> None:
        """Stop during an examination; what was trained is already kept."""
        if self.stop.requested:
            raise Interrupted(
                f"{self.stop.name}: stopped during an examination;"
                " the same command goes on from the last checkpoint"
            )
        for lease in self.leases.values():
            _still_ours(lease)

    def _save(self, trial: Trial, believed: list[str] | None = None) -> None:
        run = self.runs[trial.seed]
        _still_ours(self.leases[trial.seed])
        if run.saved_step != trial.step or believed:
            run.save(trial, believed)
        self.saved_at = time.monotonic()


def _still_ours(lease: Lease) -> None:
    if lease.lost:
        raise UserError(
            f"another process has taken over {lease.folder}: this one was silent for"
            f" {lease.expiry:g} s\nit goes on there; run the same command again to see its result"
        )
