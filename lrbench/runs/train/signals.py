"""Stop signals: each sets a flag, and the loop stops where it can be resumed.

SIGUSR2 belongs to submitit (it requeues a preempted job), and inside a submitit job so does
SIGTERM, which precedes the requeueing. SIGHUP is a terminal that was closed. A signal that was
ignored, as Ctrl-C is for a background job of a script or SIGHUP under nohup, stays ignored.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_active: list[StopRequest] = []


def request_everywhere(name: str) -> None:
    """Ask whatever runs in this process, from any thread, for a stop as signal `name` would."""
    for one in list(_active):
        one.request(name)


class StopRequest:
    """Context in which SIGTERM, SIGINT and SIGHUP ask for a stop; a Ctrl-C after that insists.

    `name` is the first signal's name, None as long as nobody asked. In a thread other than the
    main one no handler can be installed: then only `request` sets the flag.
    """

    def __init__(self) -> None:
        self.name: str | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether somebody has asked for a stop."""
        return self.name is not None

    def request(self, name: str) -> None:
        """Ask for a stop as a signal of this name would; the first request is kept."""
        if self.name is None:
            self.name = name

    def __enter__(self) -> StopRequest:
        _active.append(self)
        if threading.current_thread() is threading.main_thread():
            for number in _ours():
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _active.remove(self)
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.request(signal.Signals(number).name)


def _ours() -> list[signal.Signals]:
    in_submitit = "SUBMITIT_EXECUTOR" in os.environ
    if in_submitit:
        return [signal.SIGINT]
    return [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
