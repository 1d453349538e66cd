"""Members of a group in processes of their own, as many at once as there are cores.

A small model's update is hundreds of operations of some microseconds, between which the threads of
one process wait for each other; processes do not. Whichever member is furthest behind goes on next
with whichever process is free, from the state that its last turn left (`worker.py`): all of them
keep within a turn of each other, and what the watcher may save is always a state between two
updates.

What a process says of its member is pickled by value: `Connection.send` would have torch pass on
open files instead of numbers.
"""

from __future__ import annotations

import copy
import dataclasses
import pickle
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from lrbench.records import Look
from lrbench.training.telemetry import Telemetry
from lrbench.training.trial import Trial, Watcher

PROGRAM = "lrbench.training.group.worker"
POLL_SECONDS = 0.1  # how soon a request to stop is heard


@dataclass(frozen=True)
class Logged:
    """A mean loss, what else was told meanwhile, and where the trial was by then."""

    step: int
    seconds: float
    loss: float
    telemetry: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Looked:
    """A look, the rules that believe it, and the trial's state then."""

    state: dict[str, Any]
    look: Look
    believed: list[str]


@dataclass(frozen=True)
class Failed:
    """The exception that ended a trial."""

    error: Exception


@dataclass(frozen=True)
class Ended:
    """The end of a turn and the state there; None if it was given up in the middle of a look."""

    state: dict[str, Any] | None


def send(connection: Connection, message: Any) -> None:
    """Send an object."""
    connection.send_bytes(pickle.dumps(message))


def receive(connection: Connection) -> Any:
    """Wait for an object; EOFError or ConnectionResetError if the other end is gone."""
    return pickle.loads(connection.recv_bytes())


class Crew:
    """Processes that know the cell of some trials, of which each computes with `threads` threads.

    Used as a context they are gone at its end.
    """

    def __init__(self, trials: Sequence[Trial], processes: int, threads: int) -> None:
        greeting = (sys.path, dataclasses.asdict(trials[0].config), threads)
        self.processes: dict[Connection, subprocess.Popen[bytes]] = {}
        for _ in range(processes):
            ours, process = _start()
            send(ours, greeting)
            self.processes[ours] = process

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *unused: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the processes that are left."""
        while self.processes:
            connection, process = self.processes.popitem()
            connection.close()
            process.kill()
            process.wait()

    def gone(self, connection: Connection) -> str:
        """Take a process that closed its end from the crew; return how it ended."""
        process = self.processes.pop(connection)
        connection.close()
        status = process.wait()
        return f"signal {-status}" if status < 0 else f"exit code {status}"


def _start() -> tuple[Connection, subprocess.Popen[bytes]]:
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", PROGRAM, str(theirs.fileno())]
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
        )
    return Connection(ours.detach()), process


def train_apart(trials: Sequence[Trial], watch: Watcher, processes: int) -> bool:
    """Train all until each has ended or failed; False if no process came up or stayed.

    Then every trial is as its last turn left it, and can go on here. Raises what the watcher
    raises.
    """
    with Crew(trials, processes, trials[0].config.threads) as crew:
        return _Turns(trials, watch, crew).run()


class _Turns:
    """Who is where: free processes, turns under way, members that wait."""

    def __init__(self, trials: Sequence[Trial], watch: Watcher, crew: Crew) -> None:
        self.trials, self.watch, self.crew = trials, watch, crew
        self.free: list[Connection] = []  # a process is free once it has said that it is ready
        self.under_way: dict[Connection, Trial] = {}
        self.back: list[Trial] = []  # of turns that have ended

    def run(self) -> bool:
        while going_on := [trial for trial in self.trials if trial.stopped is None]:
            if not self.crew.processes:
                return False
            if self.watch.stopping:
                self._call_back()
                going_on = [trial for trial in going_on if trial.stopped != "failed"]
                if not going_on:  # none of them came back
                    continue
                self.watch.updated(going_on[0])  # who wants to stop can: all are between updates
            self._hand_out(going_on)
            self._hear(list(self.crew.processes), POLL_SECONDS)
            while self.back:
                self.watch.updated(self.back.pop())
        return True

    def _hand_out(self, going_on: list[Trial]) -> None:
        """Give every free process the member that is furthest behind."""
        waiting = [trial for trial in going_on if trial not in self.under_way.values()]
        for trial in sorted(waiting, key=lambda trial: trial.step)[: len(self.free)]:
            connection = self.free.pop()
            self.under_way[connection] = trial
            _send(connection, (trial.seed, trial.state()))

    def _hear(self, connections: list[Connection], seconds: float | None = None) -> None:
        """Wait for what processes have to say, and take note of it."""
        for connection in wait(connections, seconds):
            assert isinstance(connection, Connection)
            try:
                message = receive(connection)
            except (EOFError, ConnectionResetError):
                self._lost(connection)
                continue
            if message == "ready":
                self.free.append(connection)
            else:
                self._take(connection, message)

    def _take(self, connection: Connection, message: Any) -> None:
        """Tell the watcher what a process says of the member it trains."""
        trial = self.under_way[connection]
        if isinstance(message, Logged):
            then = copy.copy(trial)  # the trial itself stays as the last turn left it
            then.step, then.seconds = message.step, message.seconds
            then.telemetry = Telemetry()
            then.telemetry.latest = message.telemetry
            self.watch.logged(then, message.loss)
        elif isinstance(message, Looked):
            trial.load(message.state)
            self.watch.looked(trial, message.look, message.believed)
        elif isinstance(message, Failed):
            self._fail(trial, message.error)
        else:
            del self.under_way[connection]
            self.free.append(connection)
            if message.state is not None and trial.stopped != "failed":
                trial.load(message.state)
                self.back.append(trial)

    def _lost(self, connection: Connection) -> None:
        """A process has died: so has the run of its member, but not the others'."""
        how = self.crew.gone(connection)
        if connection in self.free:
            self.free.remove(connection)
        trial = self.under_way.pop(connection, None)
        if trial is not None and trial.stopped != "failed":
            self._fail(trial, RuntimeError(f"the process that trained it ended with {how}"))

    def _fail(self, trial: Trial, error: Exception) -> None:
        self.watch.failed(trial, error)
        trial.stopped = "failed"

    def _call_back(self) -> None:
        """End all turns that are under way."""
        for connection in self.under_way:
            _send(connection, "stop")
        while self.under_way:
            self._hear(list(self.under_way))
        self.back.clear()


def _send(connection: Connection, message: Any) -> None:
    """Send to a process; that it has died is found out when it is listened to."""
    with suppress(BrokenPipeError, ConnectionResetError):
        send(connection, message)
