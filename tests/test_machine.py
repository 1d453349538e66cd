"""What /proc/cpuinfo says, if it can be read."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lrbench import machine
from lrbench.machine import processor_says

TOLD = b"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: A \xff: B\n\nvendor_id\t: Other\n"


def test_the_first_processor_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpuinfo").write_bytes(TOLD)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    assert processor_says("vendor_id") == "AuthenticAMD"
    assert processor_says("model name") == "A \ufffd: B"
    assert processor_says("name") is None


def test_nothing_is_known_where_nothing_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "CPUINFO", tmp_path)
    assert processor_says("vendor_id") is None


def test_this_process_lives_under_its_start_time_only() -> None:
    started = machine.start_ticks(os.getpid())
    assert machine.alive(os.getpid())
    assert machine.alive(os.getpid(), started)
    if started is None:
        pytest.skip("no /proc: a recycled process id cannot be told from the old one")
    assert not machine.alive(os.getpid(), started - 1)


def test_dead_process_and_zombie() -> None:
    child = subprocess.Popen(["sleep", "60"])
    assert machine.alive(child.pid)
    child.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 10
    while machine.alive(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)  # until the signal has been delivered; not waited for, so a zombie
    assert os.path.exists("/proc") and not machine.alive(child.pid)
    child.wait()
    assert not machine.alive(child.pid)


@pytest.mark.parametrize("pid", [0, -1, 2**40])
def test_impossible_process_ids_are_dead(pid: int) -> None:
    assert not machine.alive(pid)


def test_process_of_another_user_lives() -> None:
    assert machine.alive(1)


def test_start_seconds_is_a_recent_time() -> None:
    before = time.time()
    child = subprocess.Popen(["sleep", "60"])
    try:
        started = machine.start_seconds(child.pid)
    finally:
        child.kill()
        child.wait()
    assert started is None or before - 2 < started < time.time() + 2  # the kernel counts in ticks
    assert machine.start_seconds(child.pid) is None
