"""The process that trains one member of a group, turn by turn, or computes parts of its updates.

`python -m lrbench.training.group.worker FD` serves the process at the other end of socket FD. Given
a seed and the state of its trial, it trains until the next look or for some seconds, and sends what
a `Watcher` would get on the way. Given an `Order` (`parts.py`) it sends what parts of an update
add. It computes what the other process would: same code, same state, same number of threads. It
ends when the other end is closed, so also if that end is killed.
"""

from __future__ import annotations

import pickle
import signal
import sys
import time
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import cast

import torch

from lrbench.errors import Interrupted
from lrbench.plugins import load_plugins
from lrbench.records import Look
from lrbench.schema import config_from
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.group.members import SideBySide
from lrbench.training.group.parts import Order, PartTrial, answer
from lrbench.training.group.processes import Ended, Failed, Logged, Looked, receive, send
from lrbench.training.loop import advance
from lrbench.training.memory import keep_freed_memory
from lrbench.training.procedure import make_trial
from lrbench.training.trial import Trial

TURN_SECONDS = 10.0  # at most; looks end a turn, too


class Reporter:
    """The `Watcher` of a turn: tells the other end, and stops when it asks for that."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.ends_at = time.monotonic() + TURN_SECONDS
        self.ended = False

    @property
    def stopping(self) -> bool:
        """Whether the other end has something to say, or is no longer there."""
        return self.connection.poll()

    def logged(self, trial: Trial, loss: float) -> None:
        """Tell a mean loss."""
        send(self.connection, Logged(trial.step, trial.seconds, loss, trial.telemetry.latest))

    def looked(self, trial: Trial, look: Look, believed: list[str]) -> None:
        """Tell of a look; the turn ends with it."""
        send(self.connection, Looked(trial.state(), look, believed))
        self.ended = True

    def updated(self, trial: Trial) -> None:
        """End the turn when it is time, and when asked to."""
        if trial.stopped is not None or self.stopping or time.monotonic() > self.ends_at:
            self.ended = True

    def failed(self, trial: Trial, error: Exception) -> None:
        """Tell of a failure."""
        send(self.connection, Failed(portable(error)))
        self.ended = True

    def check(self, read: int = 0, planned: int = 0) -> None:
        """Give up a look when asked to stop."""
        if self.stopping:
            raise Interrupted("asked to stop")


def portable(error: Exception) -> Exception:
    """Return an exception that another process can raise, with the traceback of this one."""
    text = "".join(traceback.format_exception(error))
    try:
        same = pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its constructor or its parts object to
        same = RuntimeError(f"{type(error).__name__}: {error}")
    same.add_note(f"in the process of this member:\n{text}")
    assert isinstance(same, Exception)
    return same


def take_turn(trial: Trial, connection: Connection) -> None:
    """Train until a look, an end, or for TURN_SECONDS."""
    reporter, members = Reporter(connection), SideBySide(1)
    try:
        while not reporter.ended:
            advance([trial], reporter, members)
    except Interrupted:
        send(connection, Ended(None))
        return
    send(connection, Ended(trial.state()))


def serve(connection: Connection) -> None:
    """Answer until the other end is closed."""
    path, settings, threads = receive(connection)
    sys.path[:] = path
    torch.set_num_threads(threads)
    keep_freed_memory()
    load_plugins()
    config = config_from(settings)
    trials: dict[int, Trial] = {}
    send(connection, "ready")
    while True:
        message = receive(connection)
        if message == "stop":
            continue  # it came when the turn had ended already
        try:
            seed = message.seed if isinstance(message, Order) else message[0]
            if seed not in trials:
                trials[seed] = make_trial(config, seed)
            if isinstance(message, Order):
                send(connection, answer(cast(PartTrial, trials[seed]), message))
                continue
            trials[seed].load(message[1])
        except Exception as error:
            send(connection, Failed(portable(error)))
            if not isinstance(message, Order):
                send(connection, Ended(None))
            continue
        take_turn(trials[seed], connection)


def main() -> None:
    """Serve the socket that the command line names."""
    # Ctrl-C and a closed terminal reach all processes: the one that was started by hand decides
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # at its end the other end has what it wanted, or has died
    with suppress(EOFError, BrokenPipeError, ConnectionResetError), run_arithmetic():
        serve(Connection(int(sys.argv[1])))


if __name__ == "__main__":
    main()
