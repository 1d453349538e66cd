"""A worker of a sweep ends when the process that runs the sweep is gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_a_worker_whose_sweep_died_before_its_first_job_ends(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WORKER, str(tmp_path)], capture_output=True, text=True, timeout=50
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
