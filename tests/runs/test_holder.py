"""Whose lease counts as abandoned: old, silent, corrupt or a recycled process id's."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import Interrupted
from lrbench.runs import processes
from lrbench.runs.folder import files
from lrbench.runs.lease import Lease

LONG = 60.0  # an expiry no test lives to see


def forge(folder: Path, age: float = 0.0, **record: Any) -> None:
    """Put a lease there that was last renewed `age` seconds ago."""
    path = folder / "lease.json"
    files.write_json(path, {"token": "forged", "pid": 1, "started": 1, "beat": 0.0, **record})
    os.utime(path, (time.time() - age,) * 2)


def test_recycled_process_id_does_not_count_as_alive(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        started = processes.start_ticks(child.pid)
        assert started is not None
        forge(tmp_path, pid=child.pid, host=processes.host(), started=started - 1)
        with Lease(tmp_path, expiry=LONG) as lease:
            assert lease.how == "taken over"
        forge(tmp_path, pid=child.pid, host=processes.host(), started=started)
        with pytest.raises(Interrupted):
            Lease(tmp_path, expiry=LONG, stop=lambda: True).acquire()
        child.kill()


def test_same_host_name_in_another_container_is_elsewhere(tmp_path: Path) -> None:
    forge(tmp_path, pid=2**30, host=processes.host(), machine="another boot")
    with pytest.raises(Interrupted):
        Lease(tmp_path, expiry=LONG, stop=lambda: True).acquire()


def test_old_heartbeat_from_elsewhere_is_taken_over(tmp_path: Path) -> None:
    messages: list[str] = []
    forge(tmp_path, age=100, pid=7, host="elsewhere")
    with Lease(tmp_path, on_wait=messages.append) as lease:
        assert lease.how == "taken over"
    assert "process 7 on elsewhere gave no sign of life for 100 s" in messages[0]


@pytest.mark.parametrize("age", [0.0, -1000.0])
def test_silence_from_elsewhere_is_waited_out(tmp_path: Path, age: float) -> None:
    """Also when its clock is ahead of ours."""
    messages: list[str] = []
    forge(tmp_path, age=age, pid=7, host="elsewhere", beat=time.time() - 10**6)
    start = time.monotonic()
    with Lease(tmp_path, expiry=0.4, beat=0.05, on_wait=messages.append) as lease:
        assert lease.how == "taken over"
    assert time.monotonic() - start > 0.3
    assert [message.split()[0] for message in messages] == ["waiting", "taking"]


def test_heartbeats_from_elsewhere_keep_us_waiting(tmp_path: Path) -> None:

    def still_beating() -> bool:
        forge(tmp_path, pid=7, host="elsewhere", beat=time.time())
        return time.monotonic() - start > 1.0

    forge(tmp_path, pid=7, host="elsewhere")
    start = time.monotonic()
    with pytest.raises(Interrupted):
        Lease(tmp_path, expiry=0.5, beat=0.05, stop=still_beating).acquire()
    assert files.read_json(tmp_path / "lease.json")["token"] == "forged"


@pytest.mark.parametrize("content", [b"", b'{"tok', b"[]", b"\xff\xfe"])
def test_corrupt_lease_ages_like_any_other(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lease.json"
    path.write_bytes(content)
    with pytest.raises(Interrupted):
        Lease(tmp_path, expiry=LONG, stop=lambda: True).acquire()
    os.utime(path, (time.time() - 2 * LONG,) * 2)
    with Lease(tmp_path, expiry=LONG) as lease:
        assert lease.how == "taken over"


def test_record_with_nonsense_in_it_is_taken_over(tmp_path: Path) -> None:
    forge(tmp_path, pid="x", host=processes.host())
    with Lease(tmp_path, expiry=LONG) as lease:
        assert lease.how == "taken over"
