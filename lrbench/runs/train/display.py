"""Progress of training and examinations: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from lrbench.console import interactive, messages
from lrbench.records import Look
from lrbench.report.output.cells import duration
from lrbench.training.trial import Check, Trial

QUIET_SECONDS = 10.0  # plain lines come at looks, and this often between them
RECENT = 10  # losses that speeds are of
SHOWN_SECONDS = 0.2  # between two updates of an examination's bar
FORESEEN = 0.02  # of an examination, read before it is said how long the rest takes
POINT_SECONDS = 1.0  # between two points that its speed is of


class Shown:
    """A bar on a terminal while it is entered, and none elsewhere."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar if interactive() else None

    def __enter__(self) -> Self:
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


class Display(Shown):
    """Shows each trial's loss, last look, updates per second and time left."""

    def __init__(self, trials: list[Trial]) -> None:
        super().__init__(_bar(TextColumn("{task.completed:,}/{task.total:,}")))
        self.steps = max(trial.steps for trial in trials)
        self.trials = trials
        self.last_line = time.perf_counter()
        self.paces = {trial.seed: Pace() for trial in trials}  # of updates alone
        self.pace = Pace()  # of all trials together, by the clock: looks take time too
        self.look: dict[int, str] = {}
        self.rows: dict[int, TaskID] = {}
        if self.bar is not None:
            for trial in trials:
                name = f"{trial.task.name} seed {trial.seed}"
                row = self.bar.add_task(name, total=self.steps, completed=trial.step, note="")
                self.rows[trial.seed] = row

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
        """Say how long training may still take, an examination apart: it may end sooner."""
        going = [trial for trial in self.trials if trial.stopped is None]
        updates, rate = sum(trial.steps - trial.step for trial in going), self.pace.rate
        return (
            f"up to about {duration(updates / rate)} of training left" if rate and updates else ""
        )


class Part:
    """How far one of several examinations is, in symbols; its `Check`."""

    def __init__(self, whole: ExaminationDisplay, name: str, check: Check) -> None:
        self.whole, self.name, self.check = whole, name, check
        self.planned, self.read, self.ended = 0, 0, False
        self.shown_at = 0.0

    def __call__(self, read: int = 0, planned: int = 0) -> None:
        """Take note of what is read, show it now and then, and ask whether to stop."""
        self.check(read, planned)
        self.planned += planned
        self.read += read
        if (now := time.perf_counter()) - self.shown_at >= SHOWN_SECONDS:
            self.shown_at = now
            self.whole.show(self, now)

    def end(self) -> None:
        """Take note that nothing more is read."""
        self.ended = True
        self.whole.show(self, time.perf_counter())


class ExaminationDisplay(Shown):
    """Shows how much of the strings of some examinations has been read, and the time left.

    doing: `examining`, `evaluating` or `scoring again`. names: of each examination, which may have
    several parts, one after another. Examinations may go side by side in threads. `passing` bars go
    away when they end.
    """

    def __init__(self, doing: str, names: Sequence[str], passing: bool = False) -> None:
        super().__init__(_bar(TextColumn("{task.percentage:>3.0f}%"), passing))
        self.doing, self.names = doing, list(names)
        self.parts: list[Part] = []
        self.pace = Pace()
        self.last_point, self.last_line = 0.0, time.perf_counter()
        self.lock = threading.Lock()
        self.rows: dict[str, TaskID] = {}
        if self.bar is not None:
            for name in self.names:
                self.rows[name] = self.bar.add_task(f"{doing} {name}", total=None, note="")

    def part(self, name: str, check: Check) -> Part:
        """Return the `Check` of an examination: it shows how far that is, and calls `check`."""
        part = Part(self, name, check)
        with self.lock:
            self.parts.append(part)
        return part

    def show(self, part: Part, now: float) -> None:
        """Show how far a part, and with it the whole, is."""
        with self.lock:
            if now - self.last_point >= POINT_SECONDS:
                self.last_point = now
                self.pace.add(now, sum(each.read for each in self.parts))
            if self.bar is not None:
                total = part.read if part.ended else part.planned
                done = min(part.read, total)
                self.bar.update(self.rows[part.name], total=total or None, completed=done)
            elif now - self.last_line > QUIET_SECONDS and (line := self._line()):
                self.last_line = now
                messages().print(line, markup=False)

    def _line(self) -> str:
        """Say how far all of it is; nothing where nobody said how much there is to read."""
        begun = [part for part in self.parts if part.planned]
        if not begun:
            return ""
        left = [0 if part.ended else max(0, part.planned - part.read) for part in begun]
        whole = sum(part.planned for part in begun)
        # those that wait are as long as the others, as far as anybody knows
        each = len(self.names) / len({part.name for part in begun})
        waiting = whole * (each - 1)
        share = 1 - (sum(left) + waiting) / (whole * each)
        what = self.names[0] if len(self.names) == 1 else f"{len(self.names)} runs"
        line, rate = f"{what}  {self.doing}: {share:.0%}", self.pace.rate
        known = rate if rate and share >= FORESEEN else 0.0
        seconds = (sum(left) + waiting) / known if known else 0
        return f"{line}  about {duration(seconds)} left" if seconds else line


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


def _bar(done: TextColumn, passing: bool = False) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        done,
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=messages(),
        transient=passing,
    )
