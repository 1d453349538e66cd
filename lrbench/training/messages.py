"""What a process that trains a member says of it to the process that keeps its records.

They are pickled by value: `Connection.send` would have torch pass on open files instead of numbers.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any


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
    look: dict[str, Any]
    believed: list[str]


@dataclass(frozen=True)
class Failed:
    """The exception that ended a trial."""

    error: Exception


@dataclass(frozen=True)
class Ended:
    """The end of a leg and the state there; None if it was given up in the middle of a look."""

    state: dict[str, Any] | None


def send(connection: Connection, message: Any) -> None:
    """Send an object."""
    connection.send_bytes(pickle.dumps(message))


def receive(connection: Connection) -> Any:
    """Wait for an object; EOFError or ConnectionResetError if the other end is gone."""
    return pickle.loads(connection.recv_bytes())
