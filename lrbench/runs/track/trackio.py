"""A run in Trackio: its database on this machine, or the server that TRACKIO_SERVER_URL names.

The project is lrbench. Trackio knows runs by their names, which therefore end with an id.
"""

from __future__ import annotations

import contextlib
import contextvars
import io
import threading

import trackio

from lrbench.runs.track.points import TrackedPoint
from lrbench.runs.track.tracker import PROJECT, Remembering, TrackedRun

_quiet = threading.Lock()  # redirecting is of the whole process


class Trackio(Remembering):
    """Metrics by update; a run that is taken up goes on under its name.

    Trackio prints to stdout, which is for results, and ends the run of its context when another
    begins; so it is kept silent, and each run has a context of its own.
    """

    name = "trackio"

    def __init__(self, run: TrackedRun, afresh: bool = False) -> None:
        super().__init__(run, afresh)
        with _quiet, contextlib.redirect_stdout(io.StringIO()):
            self._run = contextvars.Context().run(
                trackio.init,
                PROJECT,
                name=f"{run.name} {self.id}",
                group=run.cell,
                config=run.settings,
                resume="allow",
                embed=False,
                auto_log_gpu=False,
                auto_log_cpu=False,
            )

    def log(self, point: TrackedPoint) -> None:
        self._run.log(point.values, step=point.step)

    def close(self, ended: bool) -> None:
        with _quiet, contextlib.redirect_stdout(io.StringIO()):
            self._run.finish()


TRACKER = Trackio
