"""What is shown while a group trains: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from lrbench.console import interactive, messages
from lrbench.training.trial import Trial

QUIET_SECONDS = 10.0  # plain lines come at looks, and this often between them


class Display:
    """Shows each trial's loss, last look, updates per second and time left."""

    def __init__(self, trials: list[Trial]) -> None:
        self.steps = max(trial.steps for trial in trials)
        self.began = time.perf_counter()
        self.first_step = sum(trial.step for trial in trials)
        self.last_line = self.began
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
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def logged(self, trial: Trial, loss: float) -> None:
        """Show a loss."""
        if self.bar is not None:
            note = f"loss {loss:.4f}{self.look.get(trial.seed, '')}  {_speed(trial)}"
            self.bar.update(self.rows[trial.seed], completed=trial.step, note=note)
        elif time.perf_counter() - self.last_line > QUIET_SECONDS:
            self._line(trial, f"loss {loss:.4f}  {_speed(trial)}")

    def looked(self, trial: Trial, look: dict[str, Any]) -> None:
        """Show a look."""
        short, long = _told(trial, look)
        self.look[trial.seed] = f"  {short}"
        if self.bar is None:
            self._line(trial, f"look: {long}  {_speed(trial)}")

    def notice(self, trial: Trial, text: str) -> None:
        """Say something that a user ought to know, once."""
        messages().print(f"seed {trial.seed}  {text}", markup=False)

    def _line(self, trial: Trial, text: str) -> None:
        self.last_line = time.perf_counter()
        messages().print(f"seed {trial.seed}  update {trial.step:,}/{self.steps:,}  {text}")


def _told(trial: Trial, look: dict[str, Any]) -> tuple[str, str]:
    """Return what a look says, in short and in full."""
    metric = trial.task.metric.name
    if "epoch" in look:
        short = f"{look['validation_accuracy']:.3f} on dev"
        return short, f"{short}, loss {look['validation_loss']:.4f}, epoch {look['epoch']:g}"
    value = f"{look[f'test_{metric}']:.3f}"
    named = "" if trial.task.metric.counts else f"{trial.task.metric.title} "
    short = f"{named}{value} at {look['test_length']}"
    beside = f"{look[f'validation_{metric}']:.3f} at training length"
    return short, f"{short}  {beside}, {look[f'band_{metric}']:.3f} in band"


def _speed(trial: Trial) -> str:
    return f"{trial.step / trial.seconds:.1f} updates/s" if trial.seconds else ""


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.completed:,}/{task.total:,}"),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=messages(),
    )
