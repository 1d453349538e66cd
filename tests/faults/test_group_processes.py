"""A group whose members train in processes of their own: killed, stopped, and gone on with."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from .bits import content, differences
from .conftest import SMALL, Laboratory, run_folder

AT_ONCE = [["members_at_once", {}]]
GROUP = [*SMALL, "trials=3", "protocol.max_steps=200", "device=cpu"]


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in listed.split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture(scope="module")
def whole(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of a group that stayed in one process and that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    assert lab.start("train", *GROUP, f"output_dir={folder}").wait() == 0
    return folder


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_goes_on_with_the_same_bits_and_leaves_no_process(
    number: signal.Signals, whole: Path, lab: Laboratory, tmp_path: Path
) -> None:
    """Killed, it goes on in processes again; asked to stop, it goes on in a single one."""
    words = ("train", *GROUP, f"output_dir={tmp_path}")
    program = lab.start(*words, sabotage=AT_ONCE)
    deadline = time.monotonic() + 120
    while len(list(tmp_path.rglob("checkpoints/step-*.pt"))) < 2:
        assert alive(program.pid) and time.monotonic() < deadline
        time.sleep(0.02)
    workers = children(program.pid)
    os.kill(program.pid, number)
    assert program.wait(120) == (130 if number == signal.SIGTERM else -signal.SIGKILL)
    assert len(workers) == 2
    if number == signal.SIGTERM:
        assert program.err.splitlines()[-1].startswith("lrbench: SIGTERM: stopped at update")
    while any(alive(pid) for pid in workers):
        assert time.monotonic() < deadline
        time.sleep(0.02)

    again = AT_ONCE if number == signal.SIGKILL else None
    assert lab.start(*words, sabotage=again).wait(120) == 0

    for seed in (2, 3, 4):
        once, twice = (run_folder(where, f"s{seed}") for where in (whole, tmp_path))
        assert not differences(content(once), content(twice))
