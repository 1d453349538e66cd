"""What a worker runs: one job of a sweep, whose end is told as plain values."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lrbench.config import Config
from lrbench.console import interactive, messages
from lrbench.errors import Interrupted, UserError
from lrbench.plugins import load_plugins
from lrbench.sweeps.devices import Placement
from lrbench.sweeps.parent import Obedience, Parent
from lrbench.sweeps.requeue import Preemption

_obedience: dict[int, Obedience] = {}  # of this process, by the process id of the sweep


@dataclass(frozen=True)
class JobEnd:
    """How a job ended: done, failed, taken (by another process), stopped, declined, or lost.

    One that was queued has not ended, and nobody waits for it.
    """

    how: str
    message: str = ""
    statuses: dict[int, str] = field(default_factory=dict)  # by seed, of runs that came to an end


@dataclass(frozen=True)
class JobFunction:
    """The task function that Hydra calls, here or in a worker, with a composed configuration.

    It lets no exception out: a launcher may take one as a reason to drop other jobs.
    """

    to_config: Callable[[Any], Config]
    parent: Parent
    placement: Placement = field(default_factory=Placement)
    detached: bool = False

    def __call__(self, composed: Any) -> JobEnd:
        if self.parent.wants_stop or not self.placement.settle(lambda: self.parent.wants_stop):
            return JobEnd("declined")
        if self.parent.is_me:
            with _quiet(not interactive()):
                return self._guarded(composed)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep decides, and tells its workers
        obedience = _obedient_to(self.parent)
        obedience.working.set()
        try:
            with _quiet(), Preemption() as preemption:
                end = self._guarded(composed)
                if end.how == "stopped":
                    preemption.requeue()
            return end
        finally:
            obedience.working.clear()

    def _guarded(self, composed: Any) -> JobEnd:
        from lrbench.runs.train.signals import StopRequest

        with StopRequest() as stop:  # that of the run itself takes its place for as long
            try:
                end = self._run(composed)
            except Interrupted as stopped:
                stop.request(str(stopped))
                end = JobEnd("stopped", str(stopped))
            except UserError as error:
                end = JobEnd("failed", str(error))
            except Exception as error:
                text = traceback.format_exc()
                end = JobEnd("failed", f"{type(error).__name__}: {error}\n{text}")
        if stop.requested and self.parent.is_me:
            self.parent.ask_to_stop()
        return end

    def _run(self, composed: Any) -> JobEnd:
        from lrbench.runs.folder.cell import Cell
        from lrbench.runs.folder.run import Run
        from lrbench.runs.train.job import run_cell
        from lrbench.sweeps.others import Taken, claimed

        load_plugins()
        config = self.to_config(composed)
        _call_it_train()
        cell = Cell.of(config)
        try:
            with claimed([Run(cell, seed) for seed in cell.seeds]):
                outcomes = run_cell(config)
        except Taken as taken:
            return JobEnd("taken", str(taken))
        failures = [outcome.message for outcome in outcomes if outcome.status == "failed"]
        statuses = {outcome.seed: outcome.status for outcome in outcomes}
        return JobEnd("failed" if failures else "done", "\n".join(failures), statuses)


@contextmanager
def _quiet(quiet: bool = True) -> Iterator[None]:
    """Let only the sweep speak: lines of several runs in a jumble tell nobody anything."""
    before = messages().quiet
    messages().quiet = quiet or before
    try:
        yield
    finally:
        messages().quiet = before


def _obedient_to(parent: Parent) -> Obedience:
    if parent.pid not in _obedience:
        _obedience[parent.pid] = Obedience(parent)
        _obedience[parent.pid].start()
    return _obedience[parent.pid]


def _call_it_train() -> None:
    """Let environment.json name the command that trains this very run."""
    from hydra.core.hydra_config import HydraConfig

    sys.argv = ["lrbench", "train", *HydraConfig.get().overrides.task]
