"""What happens around a group's updates: records, checkpoints, what is shown, and stopping.

Progress is a live bar on a terminal, plain lines elsewhere.
"""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from lrbench.console import interactive, messages
from lrbench.errors import Interrupted, UserError
from lrbench.records import Look, Result
from lrbench.report.output.cells import duration
from lrbench.runs.folder.run import Run
from lrbench.runs.lease import Lease
from lrbench.runs.track.live import LiveTracking
from lrbench.runs.train.signals import StopRequest
from lrbench.training.telemetry import CONVERGED
from lrbench.training.trial import Trial

QUIET_SECONDS = 10.0  # plain lines come at looks, and this often between them
RECENT = 10  # losses that speeds are of


class Pace:
    """Updates a second over the newest losses: the first ones are mostly compilation."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque(maxlen=RECENT)

    def add(self, seconds: float, step: int) -> None:
        """Note that `step` was reached after so many seconds."""
        self._points.append((seconds, step))

    @property
    def rate(self) -> float | None:
        """Updates a second; None before two points."""
        if len(self._points) < 2:
            return None
        (first, begin), (last, end) = self._points[0], self._points[-1]
        return (end - begin) / (last - first) if last > first and end > begin else None


class Display:
    """Shows each trial's loss, last look, updates per second and time left."""

    def __init__(self, trials: list[Trial]) -> None:
        self.steps = max(trial.steps for trial in trials)
        self.trials = trials
        self.last_line = time.perf_counter()
        self.paces = {trial.seed: Pace() for trial in trials}  # of updates alone
        self.pace = Pace()  # of all trials together, by the clock: looks take time too
        self.look: dict[int, str] = {}
        self.bar: Progress | None = None
        self.rows: dict[int, TaskID] = {}
        if interactive():
            self.bar = _bar()
            for trial in trials:
                name = f"{trial.task.name} seed {trial.seed}"
                row = self.bar.add_task(name, total=self.steps, completed=trial.step, note="")
                self.rows[trial.seed] = row

    def __enter__(self) -> Display:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def logged(self, trial: Trial, loss: float) -> None:
        """Show a loss."""
        self.paces[trial.seed].add(trial.seconds, trial.step)
        self.pace.add(time.perf_counter(), sum(each.step for each in self.trials))
        if self.bar is not None:
            note = f"loss {loss:.4f}{self.look.get(trial.seed, '')}  {self._speed(trial)}"
            self.bar.update(self.rows[trial.seed], completed=trial.step, note=note)
        elif time.perf_counter() - self.last_line > QUIET_SECONDS:
            self._line(trial, f"loss {loss:.4f}")

    def looked(self, trial: Trial, look: Look) -> None:
        """Show a look."""
        short, long = _scores(trial, look)
        self.look[trial.seed] = f"  {short}"
        if self.bar is None:
            self._line(trial, f"look: {long}")

    def notice(self, trial: Trial, text: str) -> None:
        """Say something that a user ought to know, once."""
        messages().print(f"seed {trial.seed}  {text}", markup=False)

    def _line(self, trial: Trial, text: str) -> None:
        self.last_line = time.perf_counter()
        parts = [f"seed {trial.seed}", f"update {trial.step:,}/{self.steps:,}", text]
        parts += [self._speed(trial), self._left()]
        messages().print("  ".join(part for part in parts if part), markup=False)

    def _speed(self, trial: Trial) -> str:
        rate = self.paces[trial.seed].rate
        return f"{rate:.1f} updates/s" if rate else ""

    def _left(self) -> str:
        """Say how long training takes at most: it may end before its budget does."""
        going = [trial for trial in self.trials if trial.stopped is None]
        updates, rate = sum(trial.steps - trial.step for trial in going), self.pace.rate
        return f"at most {duration(updates / rate)} left" if rate and updates else ""


def _scores(trial: Trial, look: Look) -> tuple[str, str]:
    """Return what a look says, in short and in full."""
    metric = trial.task.metric.name
    if "epoch" in look:
        short = f"{look['validation_accuracy']:.3f} on dev"
        return short, f"{short}, loss {look['validation_loss']:.4f}, epoch {look['epoch']:g}"
    value = f"{look[f'test_{metric}']:.3f}"
    named = "" if trial.task.metric.counts else f"{trial.task.metric.title} "
    short = f"{named}{value} at {look['test_length']}"
    beside = f"{look[f'validation_{metric}']:.3f} at training length"
    if (band := look.get(f"band_{metric}")) is not None:
        beside += f", {band:.3f} in band"
    return short, f"{short}  {beside}"


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=messages(),
    )


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

    def check(self) -> None:
        """Stop during an examination; what was trained is already kept."""
        if self.stop.requested:
            raise Interrupted(
                f"{self.stop.name}: stopped during an examination;"
                " the same command goes on from the last checkpoint"
            )
        for seed, lease in list(self.leases.items()):  # others may end meanwhile
            if lease.lost:
                raise _taken_over(self.runs[seed], lease)

    def finished(self, trial: Trial, result: Result) -> None:
        """Write a trial's result and give its lease back."""
        run = self._ours(trial)
        self.tracking.ended(trial.seed, result)
        run.finish(result)
        self.leases.pop(trial.seed).release()

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
