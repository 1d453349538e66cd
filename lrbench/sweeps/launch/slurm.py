"""SLURM: what waits in its queue, and a checkpoint where it preempts a job.

A note beside each run's lease says under which job it was submitted. A lease is there as soon as a
run trains; from submission until then the note keeps a second sweep from submitting it again. A
note whose job has left the queue counts for nothing.

submitit answers USR2 (sent before the time limit, and where a partition preempts) at once, wherever
the training happens to be: it requeues the job and ends the process, and what was done since the
last checkpoint is lost. Here the loop gets a moment to keep what it has, before submitit's own
requeueing.
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from types import FrameType
from typing import Any

from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.folder.run import Run
from lrbench.runs.train.signals import request_everywhere

SECONDS = 5.0  # between two questions to SLURM, which serves others too
GRACE_SECONDS = 20  # for the checkpoint; a partition's GraceTime is often 30 s and more

_answer: tuple[float, frozenset[str] | None] | None = None


def note(run: Run, job: str) -> None:
    """Write down that this run was submitted as `job`."""
    run.lease_folder.mkdir(parents=True, exist_ok=True)
    files.write_json(run.lease_folder / "queued.json", {"slurm": job})


def queued_as(run: Run) -> str | None:
    """Return the SLURM job, in words, that waits or works for this run; None if there is none."""
    try:
        job = str(files.read_json(run.lease_folder / "queued.json").get("slurm"))
    except UnreadableFile:
        return None
    there = in_queue()
    return f"SLURM job {job}" if there is None or job in there else None


def in_queue() -> frozenset[str] | None:
    """Return our jobs that wait or run, as 12 or 12_3; None while SLURM does not answer.

    A machine without SLURM has none.
    """
    global _answer
    if _answer is None or time.monotonic() - _answer[0] > SECONDS:
        _answer = time.monotonic(), _ask()
    return _answer[1]


def forget_answer() -> None:
    """Ask SLURM anew the next time, for instance after submitting."""
    global _answer
    _answer = None


def cancel_waiting(jobs: Iterable[str]) -> None:
    """Take those of `jobs` that have not begun out of the queue.

    Without any, scancel would take away all that this user has waiting there, of other work too.
    """
    if named := [*jobs]:
        subprocess.run(["scancel", "--state=PENDING", *named], capture_output=True, timeout=60)


def _ask() -> frozenset[str] | None:
    if shutil.which("squeue") is None:
        return frozenset()
    command = ["squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    return frozenset(said.stdout.split()) if said.returncode == 0 else None


class Preemption:
    """Context of a submitit job in which its signal asks for a stop; elsewhere it does nothing."""

    def __init__(self) -> None:
        self.requested = False
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
        if not self.requested:
            return
        try:
            self._submitits(self._number, None)
        except subprocess.CalledProcessError as error:
            if error.returncode < 0:  # the requeueing killed `scontrol requeue` along with the job
                sys.exit(1)
            print(f"not requeued: {error}", file=sys.stderr)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        request_everywhere(signal.Signals(number).name)
        signal.signal(signal.SIGALRM, lambda *_: self.requeue())
        signal.alarm(GRACE_SECONDS)


def _signal_of_submitit() -> signal.Signals:
    return signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]
