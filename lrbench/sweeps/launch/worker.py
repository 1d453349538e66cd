"""A worker of a sweep: the process it works for, and the job it runs.

A worker returns a job's end as plain values. It checks whether the process that runs the sweep is
alive, and whether that process wants its workers to stop. Jobs of a SLURM queue are independent:
they continue without that process, and obey its stop file where they see it.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrbench import machine
from lrbench.config import Config
from lrbench.console import interactive, messages
from lrbench.errors import Interrupted, UserError
from lrbench.plugins import load_plugins
from lrbench.runs.train.signals import request_everywhere
from lrbench.sweeps.launch.devices import Placement
from lrbench.sweeps.launch.slurm import Preemption

POLL_SECONDS = 0.3
GRACE_SECONDS = 60.0  # for the checkpoint of an orphan, before it ends without
_obedience: dict[int, Obedience] = {}  # of this process, by the process id of the sweep


@dataclass(frozen=True)
class Parent:
    """Who runs the sweep; `stop_file` appears when all are to stop where they can be resumed."""

    pid: int
    started: int | None
    machine: str
    stop_file: Path
    needed: bool = True  # workers end without it

    @classmethod
    def here(cls, stop_file: Path, needed: bool = True) -> Parent:
        """Return this process."""
        pid = os.getpid()
        return cls(pid, machine.start_ticks(pid), machine.identity(), stop_file, needed)

    @property
    def is_me(self) -> bool:
        """Whether this is the process itself, so that jobs run in it and not in a worker."""
        return self.pid == os.getpid() and self.near

    @property
    def near(self) -> bool:
        return self.machine == machine.identity()

    @property
    def gone(self) -> bool:
        """Whether the sweep's process is known to be dead."""
        return self.needed and self.near and not machine.alive(self.pid, self.started)

    @property
    def wants_stop(self) -> bool:
        """Whether workers should stop: they were asked to, or there is nobody to work for."""
        return self.stop_file.exists() or self.gone

    def ask_to_stop(self) -> None:
        """Make the stop file."""
        self.stop_file.parent.mkdir(parents=True, exist_ok=True)
        self.stop_file.touch()


@contextmanager
def sweeping(queue: Path | None = None) -> Iterator[Parent]:
    """Be the parent of a sweep; for jobs of a queue, the stop file lies in the folder `queue`."""
    if queue is not None:
        name = f"stop-{machine.host()}-{os.getpid()}-{time.time_ns()}"
        yield Parent.here(queue.absolute() / name, needed=False)
        return
    with tempfile.TemporaryDirectory(prefix="lrbench-sweep-") as folder:
        yield Parent.here(Path(folder) / "stop")


class Obedience:
    """A worker's end of it: a thread that stops the job at hand, and ends an orphaned worker.

    The training loop answers the request for a stop with a checkpoint.
    """

    def __init__(self, parent: Parent) -> None:
        self.parent = parent
        self.working = threading.Event()

    def start(self) -> None:
        """Watch from now on, until the process ends."""
        threading.Thread(target=self._watch, name="parent", daemon=True).start()

    def _watch(self) -> None:
        while not self.parent.wants_stop:
            time.sleep(POLL_SECONDS)
        deadline = time.monotonic() + GRACE_SECONDS
        while not self.parent.gone or (self.working.is_set() and time.monotonic() < deadline):
            if self.working.is_set():
                request_everywhere("SIGTERM")  # not sent: in submitit's jobs it is without effect
            time.sleep(POLL_SECONDS)
        os._exit(1)


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
        # Before all else: a worker whose sweep is gone by now would wait minutes for another job.
        obedience = None if self.parent.is_me else obey(self.parent)
        if self.parent.wants_stop or not self.placement.settle(lambda: self.parent.wants_stop):
            return JobEnd("declined")
        if obedience is None:
            with _quiet(not interactive()):
                return self._guarded(composed)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the sweep decides, and tells its workers
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
        from lrbench.runs.evaluate.ending import search_after_training
        from lrbench.runs.folder.cell import Cell
        from lrbench.runs.folder.run import Run
        from lrbench.runs.train.job import run_cell
        from lrbench.sweeps.launch import crashes
        from lrbench.sweeps.launch.held import Taken, claimed

        load_plugins()
        config = self.to_config(composed)
        _call_it_train()
        cell = Cell.of(config)
        runs = [Run(cell, seed) for seed in cell.seeds]
        try:
            with crashes.at([run.final_folder for run in runs]):
                with claimed(runs):
                    outcomes = run_cell(config)
                search_after_training(config, outcomes)
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


def obey(parent: Parent) -> Obedience:
    """Return what watches `parent` for this process, started at the first call."""
    if parent.pid not in _obedience:
        _obedience[parent.pid] = Obedience(parent)
        _obedience[parent.pid].start()
    return _obedience[parent.pid]


def tell_workers(parent: Parent) -> None:
    """Let the processes that joblib starts from now on end with `parent`.

    Without this, a worker knows its sweep from its first job on. If the sweep is killed before
    that, joblib lets the worker wait for five minutes.
    """
    from joblib import register_parallel_backend
    from joblib._parallel_backends import LokyBackend

    class Told(LokyBackend):  # type: ignore[misc]  # joblib is not annotated
        def configure(self, *arguments: Any, **settings: Any) -> Any:
            return super().configure(*arguments, initializer=obey, initargs=(parent,), **settings)

    register_parallel_backend("loky", Told)


def _call_it_train() -> None:
    """Let environment.json name the command that trains this very run."""
    from hydra.core.hydra_config import HydraConfig

    sys.argv = ["lrbench", "train", *HydraConfig.get().overrides.task]
