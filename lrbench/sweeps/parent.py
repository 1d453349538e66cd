"""The process that runs a sweep, as its workers see it: is it there, does it want them to stop?

Jobs of a SLURM queue are on their own: they go on without the process, and obey its stop file
where they see it.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lrbench import machine
from lrbench.runs.train.signals import request_everywhere

POLL_SECONDS = 0.3
GRACE_SECONDS = 60.0  # for the checkpoint of an orphan, before it ends without


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
