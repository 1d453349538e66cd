"""Kills of sweeps that are programs of their own: without a launcher, or through a real SLURM.

    python -m tests.faults.fresh_sweeps --kills 40 --seed 0
    python -m tests.faults.fresh_sweeps --kills 20 --slurm     where sinfo shows a node

The programs of the campaign (campaign.py) are forked from one that has imported torch. These are
not: without a launcher a sweep is two processes, and each is killed; under SLURM its jobs are
others', and each is killed too. What the same command leaves afterwards is compared to the bit.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .bits import differences
from .campaign import state, survivors
from .scenarios import QUIET, SEEDLESS

WORDS = (*SEEDLESS, QUIET, "seed=0,1", "device=cpu")
SLURM = "hydra/launcher=submitit_slurm"
LONGEST = 300.0  # seconds

Kill = Callable[[subprocess.Popen[str]], bool]  # of a sweep's; whether there was something to kill


def started(out: Path, launcher: str) -> subprocess.Popen[str]:
    """Return a sweep that leads a session."""
    words = [*WORDS, *([launcher] if launcher else []), f"output_dir={out}"]
    command = [sys.executable, "-m", "lrbench", "sweep", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def of_parent(sweep: subprocess.Popen[str]) -> bool:
    sweep.kill()
    return True


def of_child(sweep: subprocess.Popen[str]) -> bool:
    """Kill the process that trains; its parent ends as it did."""
    children = Path(f"/proc/{sweep.pid}/task/{sweep.pid}/children").read_text().split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    return bool(children)


def of_job(sweep: subprocess.Popen[str]) -> bool:
    """Kill a job that SLURM runs."""
    listed = ["squeue", "--noheader", "--states=RUNNING", "--format=%i"]
    jobs = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    if jobs:
        subprocess.run(["scancel", "--full", "--signal=KILL", jobs[0]], check=True)
    return bool(jobs)


def ended(sweep: subprocess.Popen[str]) -> tuple[int, str]:
    """Return exit code and words of a sweep, which may not outlive its time."""
    out, err = sweep.communicate(timeout=LONGEST)
    return sweep.returncode, out + err


def attempt(kills: list[Kill], launcher: str, known: dict[str, Any], seconds: float, draw: Any):
    """Kill one sweep, give it again, and return (what happened, what was wrong)."""
    out = Path(tempfile.mkdtemp())
    kill, moment = draw.choice(kills), draw.uniform(0.1, seconds)
    sweep = started(out, launcher)
    time.sleep(moment)
    happened = sweep.poll() is None and kill(sweep)
    _, said = ended(sweep)
    wrong = [f"processes left: {left}"] if (left := survivors(sweep.pid)) else []
    code, again = ended(started(out, launcher))
    wrong += [f"exit code {code}: {again[-300:]}"] if code else []
    wrong += ["a traceback"] if "Traceback" in said + again else []
    wrong += differences(_answers(out), known)[:3]
    wrong += [f"unfinished file {path.name}" for path in out.rglob("*.tmp")]
    shutil.rmtree(out)
    return f"{kill.__name__} at {moment:.1f} s" if happened else "", wrong


def _answers(out: Path) -> dict[str, Any]:
    """What a sweep leaves, without the files of submitit."""
    return {where: one for where, one in state(out).items() if not where.startswith(".submitit")}


def main() -> int:
    """Kill until there were enough kills; return 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slurm", action="store_true")
    given = parser.parse_args()
    launcher = SLURM if given.slurm else ""
    kills: list[Kill] = [of_parent, of_job if given.slurm else of_child]
    os.environ["LRBENCH_SELFCHECK"] = "0"
    for _ in range(2):  # the first one compiles
        out = Path(tempfile.mkdtemp())
        begun = time.monotonic()
        code, said = ended(started(out, launcher))
        assert code == 0, said
        seconds = time.monotonic() - begun
        known = _answers(out)
        shutil.rmtree(out)
    number, done, bad = 0, {one.__name__: 0 for one in kills}, 0
    while sum(done.values()) < given.kills:
        draw = random.Random(f"{given.seed} {number}")
        happened, wrong = attempt(kills, launcher, known, seconds, draw)
        if happened:
            done[happened.split()[0]] += 1
        bad += bool(wrong)
        for words in wrong:
            print(f"{number} {happened}: {words}", flush=True)
        number += 1
    told = ", ".join(f"{count} {name}" for name, count in done.items())
    print(f"seed {given.seed}: {told}; {number} sweeps of {seconds:.1f} s; {bad} wrong")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
