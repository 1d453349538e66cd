"""The execution of a sweep's plan: missing runs launched, abandoned ones again, others awaited."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from lrbench.errors import Interrupted, UserError
from lrbench.report.output.display import plural
from lrbench.runs.train.signals import StopRequest
from lrbench.sweeps.launch import slurm
from lrbench.sweeps.launch.crashes import died_at
from lrbench.sweeps.launch.held import held_by, left_behind
from lrbench.sweeps.launch.sweeper import Launch
from lrbench.sweeps.launch.worker import JobEnd, Parent
from lrbench.sweeps.plan.expansion import Overrides
from lrbench.sweeps.plan.ledger import Ledger, Lookout
from lrbench.sweeps.plan.plan import Job, Plan
from lrbench.sweeps.plan.report import announce

NAMED = 3  # of those that are waited for
MOST_ATTEMPTS = 2  # at a job whose process died, or that came to no end; the second is alone


class Drive:
    """The jobs of a plan on their way through a launcher."""

    def __init__(
        self,
        plan: Plan,
        ledger: Ledger,
        parent: Parent,
        arguments: Callable[[Overrides], list[str]],
        detached: bool = False,
    ) -> None:
        self.detached = detached  # queue what is free, and wait for nothing
        self.ledger, self.parent, self.arguments = ledger, parent, arguments
        self.pending = list(plan.jobs)
        self.attempts: Counter[Job] = Counter()
        self.waiting = False
        self.elsewhere: set[Job] = set()  # jobs that were somebody else's when we last looked

    def __call__(self, launch: Launch) -> None:
        """Launch until nothing is pending. Raises Interrupted when asked to stop."""
        with StopRequest() as stop, Lookout(self.ledger, lambda: self._pass_on(stop)):
            self._drop_crashed()
            while self.pending:
                self._stop_if_requested(stop)
                free = [job for job in self.pending if not _held(job)]
                self.elsewhere |= set(self.pending) - set(free)
                if self.detached:
                    self._detach(launch, free)
                    return
                if free:
                    self._round(launch, self._next(free))
                else:
                    self._wait()
                self._drop_ended()
            self._stop_if_requested(stop)

    def _next(self, free: list[Job]) -> list[Job]:
        """All that were never tried; then the others one at a time, lest neighbours be blamed."""
        return [job for job in free if not self.attempts[job]] or free[:1]

    def _round(self, launch: Launch, jobs: Sequence[Job]) -> None:
        """Launch these jobs, and count an attempt for each that should have ended and did not."""
        crash, returned = "", []
        self.elsewhere -= set(jobs)
        try:
            arguments = [self.arguments(job.overrides) for job in jobs]
            returned = list(launch(arguments, lambda at, name: _note(jobs[at], name)))
        except Exception as error:  # the launcher's: jobs let none out
            crash = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        self.ledger.look()
        for job, back in zip(jobs, returned, strict=not crash):
            self._settle(job, _end(back))
        lost = [job for job in jobs if self._is_open(job) and not _held(job)]
        if crash and not self.parent.wants_stop:
            blamed = [job for job in lost if any(left_behind(run.run) for run in job.runs)]
            if not blamed and lost == list(jobs):
                raise UserError(f"the launcher did not run the jobs\n{crash}")
            self._count(blamed, f"its worker died: {crash}")

    def _detach(self, launch: Launch, free: Sequence[Job]) -> None:
        if free:
            self._round(launch, free)
        for job in self.pending:
            announce(f"{job.runs[0].name}: {_held(job) or 'not submitted'}")

    def _settle(self, job: Job, end: JobEnd) -> None:
        if end.how == "taken":
            self.elsewhere.add(job)
        if end.how in ("taken", "declined", "queued"):
            return
        for run in job.runs:
            if end.statuses.get(run.seed) == "skipped":
                self.ledger.done_elsewhere(run)
        if end.how == "failed":
            for run in job.runs:
                self.ledger.fail(run, end.message)
        elif self._is_open(job) and not self.parent.wants_stop:
            self._count([job], end.message or "it ended without a result")

    def _count(self, jobs: Sequence[Job], reason: str) -> None:
        for job in jobs:
            self.attempts[job] += 1
            if self.attempts[job] >= MOST_ATTEMPTS:
                for run in job.runs:
                    self.ledger.fail(run, f"{reason} ({MOST_ATTEMPTS} attempts)")

    def _wait(self) -> None:
        """All that is left is trained by others; look again in a moment."""
        if not self.waiting:
            self.waiting = True
            announce(_waiting_for(self.pending))
        time.sleep(0.3)

    def _drop_ended(self) -> None:
        self.ledger.look()
        for job in self.elsewhere:
            for run in job.runs:
                self.ledger.done_elsewhere(run)
        self.pending = [job for job in self.pending if self._is_open(job)]

    def _drop_crashed(self) -> None:
        """Jobs that an earlier process of this sweep died at have had their attempt."""
        for job in self.pending:
            died = [name for run in job.runs if (name := died_at(run.run.final_folder))]
            for run in job.runs if died else ():
                self.ledger.fail(run, f"its process died of {died[0]}")
        self._drop_ended()

    def _is_open(self, job: Job) -> bool:
        return any(run in self.ledger.open for run in job.runs)

    def _pass_on(self, stop: StopRequest) -> None:
        if stop.requested:
            self.parent.ask_to_stop()

    def _stop_if_requested(self, stop: StopRequest) -> None:
        if stop.requested or self.parent.wants_stop:
            self.parent.ask_to_stop()
            raise Interrupted("interrupted; the same command goes on where it stopped")


def _held(job: Job) -> str | None:
    holders = (held_by(run.run) or slurm.queued_as(run.run) for run in job.runs)
    return next((holder for holder in holders if holder), None)


def _note(job: Job, name: str) -> None:
    for run in job.runs:
        slurm.note(run.run, name)


def _end(returned: Any) -> JobEnd:
    """The JobEnd in a JobReturn; what Hydra itself could not do is a failure."""
    if isinstance(returned, JobEnd):
        return returned
    value = returned._return_value  # its property would raise what went wrong
    return value if isinstance(value, JobEnd) else JobEnd("failed", f"{value}")


def _waiting_for(pending: Sequence[Job]) -> str:
    """Say how many runs others train, and name the first few of those."""
    holders = sorted({holder for job in pending if (holder := _held(job))})
    named, rest = ", ".join(holders[:NAMED]), len(holders) - NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return f"waiting for {plural(len(pending), 'run')} of {named}{more}"
