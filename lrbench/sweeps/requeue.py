"""Preemption of a SLURM job: a checkpoint first, then submitit's own requeueing.

submitit answers USR2 (sent before the time limit, and where a partition preempts) at once, wherever
the training happens to be: it requeues the job and ends the process, and what was done since the
last checkpoint is lost. Here the loop gets a moment to keep what it has.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from types import FrameType
from typing import Any

from lrbench.runs.train.signals import request_everywhere

GRACE_SECONDS = 20  # for the checkpoint; a partition's GraceTime is often 30 s and more


class Preemption:
    """Context of a submitit job in which its signal asks for a stop; elsewhere it does nothing."""

    def __init__(self) -> None:
        self.asked = False
        self._number = _signal_of_submitit()
        self._submitits: Any = None

    def __enter__(self) -> Preemption:
        handler = signal.getsignal(self._number) if "SUBMITIT_EXECUTOR" in os.environ else None
        if callable(handler):
            self._submitits = handler
            signal.signal(self._number, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._submitits is not None:
            signal.alarm(0)
            signal.signal(self._number, self._submitits)

    def requeue(self) -> None:
        """Let submitit requeue the job and end this process, if that was asked for.

        Where SLURM refuses, nothing happens: the sweep submits the job again.
        """
        if not self.asked:
            return
        try:
            self._submitits(self._number, None)
        except subprocess.CalledProcessError as error:
            if error.returncode < 0:  # the requeueing killed `scontrol requeue` along with the job
                sys.exit(1)
            print(f"not requeued: {error}", file=sys.stderr)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        request_everywhere(signal.Signals(number).name)
        signal.signal(signal.SIGALRM, lambda *_: self.requeue())
        signal.alarm(GRACE_SECONDS)


def _signal_of_submitit() -> signal.Signals:
    return signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]
