"""A process is alive, dead, or another one with the same id."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from lrbench.runs import processes


def test_this_process_lives_under_its_start_time_only() -> None:
    started = processes.start_ticks(os.getpid())
    assert processes.alive(os.getpid())
    assert processes.alive(os.getpid(), started)
    if started is None:
        pytest.skip("no /proc: a recycled process id cannot be told from the old one")
    assert not processes.alive(os.getpid(), started - 1)


def test_dead_process_and_zombie() -> None:
    child = subprocess.Popen(["sleep", "60"])
    assert processes.alive(child.pid)
    child.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while processes.alive(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)  # until the signal has been delivered; not waited for, so a zombie
    assert os.path.exists("/proc") and not processes.alive(child.pid)
    child.wait()
    assert not processes.alive(child.pid)


@pytest.mark.parametrize("pid", [0, -1, 2**40])
def test_impossible_process_ids_are_dead(pid: int) -> None:
    assert not processes.alive(pid)


def test_process_of_another_user_lives() -> None:
    assert processes.alive(1)


def test_start_seconds_is_a_recent_time() -> None:
    before = time.time()
    child = subprocess.Popen(["sleep", "60"])
    try:
        started = processes.start_seconds(child.pid)
    finally:
        child.kill()
        child.wait()
    assert started is None or before - 2 < started < time.time() + 2  # the kernel counts in ticks
    assert processes.start_seconds(child.pid) is None
