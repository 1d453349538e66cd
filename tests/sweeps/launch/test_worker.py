"""A worker of a sweep ends when the process that runs the sweep is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

WORKER = """
import subprocess, sys, time
from pathlib import Path
from lrbench import machine
from lrbench.sweeps.launch.worker import JobFunction, Parent

dead = subprocess.Popen([sys.executable, "-c", ""])
dead.wait()
parent = Parent(dead.pid, None, machine.identity(), Path(sys.argv[1]) / "stop")
JobFunction(to_config=None, parent=parent)(None)
time.sleep(60)  # as a pool of workers waits for another job
"""

SWEEP = """
import sys, time
from pathlib import Path
from joblib import Parallel, delayed
from lrbench.sweeps.launch.worker import Parent, tell_workers

tell_workers(Parent.here(Path(sys.argv[1], "stop")))
Parallel(n_jobs=2, backend="loky")(delayed(time.sleep)(300) for _ in range(1))
"""


def test_a_worker_whose_sweep_died_before_its_first_job_ends(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WORKER, str(tmp_path)], capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr


def _children(pid: int) -> list[int]:
    """Return the joblib workers that this process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            words = (folder / "cmdline").read_text()
        except OSError:  # it has ended
            continue
        if parent == pid and "LokyProcess" in words:
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_worker_without_a_job_ends_with_the_sweep(tmp_path: Path) -> None:
    pytest.importorskip("joblib", reason="needs the extra 'parallel'")
    sweep = subprocess.Popen([sys.executable, "-c", SWEEP, str(tmp_path)], start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        workers: list[int] = []
        while len(workers) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)
            workers = _children(sweep.pid)
        assert len(workers) == 2
        sweep.kill()
        sweep.wait()
        while any(map(_lives, workers)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(_lives, workers))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(sweep.pid, signal.SIGKILL)


def _lives(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty: nobody has waited for it
    except OSError:
        return False
