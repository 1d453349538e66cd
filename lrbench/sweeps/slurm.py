"""What waits in SLURM's queue: a note beside each run's lease says under which job.

A lease is there as soon as a run trains; from submission until then the note keeps a second sweep
from submitting it again. A note whose job has left the queue counts for nothing.
"""

from __future__ import annotations

import getpass
import shutil
import subprocess
import time
from collections.abc import Iterable

from lrbench.runs.folder import files
from lrbench.runs.folder.files import UnreadableFile
from lrbench.runs.folder.run import Run

SECONDS = 5.0  # between two questions to SLURM, which serves others too

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
    """Take jobs that have not begun out of the queue."""
    subprocess.run(["scancel", "--state=PENDING", *jobs], capture_output=True, timeout=60)


def _ask() -> frozenset[str] | None:
    if shutil.which("squeue") is None:
        return frozenset()
    command = ["squeue", "--noheader", "--array", "--format=%i", f"--user={getpass.getuser()}"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    return frozenset(said.stdout.split()) if said.returncode == 0 else None
