"""Crashes that cost what a process was at alone: in small real programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lrbench.cli.commands.run.sweep import has_workers
from lrbench.sweeps.launch import crashes

START = """
import os, signal, sys, time
from pathlib import Path
from lrbench.sweeps.launch.crashes import at, died_at, survive_crashes
survive_crashes()
print("child", os.getpid(), flush=True)
"""
WORK = """
for name in ("first", "second", "third"):
    if died := died_at(Path(name)):
        print(name, "died of", died)
        continue
    with at([Path(name)]):
        if name != "second":
            os.kill(os.getpid(), signal.SIGSEGV if name == "first" else signal.SIGABRT)
        print(name, "done")
sys.exit(3)
"""
WAIT = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("ready", flush=True)
for _ in range(6000):  # a signal just before one long sleep would wait for its end
    time.sleep(0.01)
"""


def program(body: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START + body], stdout=subprocess.PIPE, text=True, bufsize=1
    )


def test_a_crash_costs_what_the_process_was_at() -> None:
    running = program(WORK)
    said = running.communicate(timeout=60)[0].splitlines()
    assert running.returncode == 3
    children = [line for line in said if line.startswith("child ")]
    assert len(set(children)) == len(children) == 3
    assert [line for line in said if line not in children] == [
        *("first died of SIGSEGV", "second done"),  # the second child, which died at the third
        *("first died of SIGSEGV", "second done", "third died of SIGABRT"),
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("os.abort()", 128 + signal.SIGABRT),  # at nothing: it would only happen again
        ("with at([Path('a')]):\n    os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
        ("with at([Path('a')]):\n    raise SystemExit(7)", 7),
        ("with at([Path('a')]):\n    pass\nos.abort()", 128 + signal.SIGABRT),
    ],
)
def test_other_ends_are_the_programs_own(body: str, code: int) -> None:
    running = program(body)
    assert running.communicate(timeout=60)[0].count("child") == 1
    assert running.returncode == code


def test_a_signal_for_the_parent_goes_to_the_child() -> None:
    with program(WAIT) as running:
        assert running.stdout is not None
        while running.stdout.readline() != "ready\n":
            pass
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=60) == 5


def test_a_child_ends_with_its_parent() -> None:
    with program(WAIT) as running:
        assert running.stdout is not None
        child = int(running.stdout.readline().split()[1])
        assert running.stdout.readline() == "ready\n"
        running.kill()
    for _ in range(600):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the child lives on")


def test_nothing_is_forked_where_torch_is_there() -> None:
    before = os.getpid()
    crashes.survive_crashes()  # torch, or a thread, is in a process that runs tests
    assert os.getpid() == before and "torch" in sys.modules


EXITS = """
if died := died_at(Path("first")):
    print("first died of", died)
    sys.exit(3)
with at([Path("first")]):
    os._exit(0)
"""


def test_a_process_that_ends_itself_costs_what_it_was_at() -> None:
    """os._exit(0) in a layer is no end of a sweep, and nothing that succeeded."""
    running = program(EXITS)
    said = running.communicate(timeout=60)[0].splitlines()
    assert (running.returncode, said[-1]) == (3, "first died of os._exit(0)")


@pytest.mark.parametrize(
    ("overrides", "workers"),
    [
        ("task=sum", False),
        ("hydra/launcher=basic", False),
        ("hydra/launcher=joblib hydra.launcher.n_jobs=1", False),
        ("hydra/launcher=joblib hydra.launcher.n_jobs=2", True),
        ("hydra/launcher=submitit_local", True),
        ("devices=0,1", True),
    ],
)
def test_a_sweep_without_workers_survives_by_a_child(overrides: str, workers: bool) -> None:
    assert has_workers(overrides.split()) is workers
