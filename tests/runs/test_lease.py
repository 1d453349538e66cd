"""Two processes never train one run: real processes that wait, die, hang and race."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lrbench import machine
from lrbench.disk import locked
from lrbench.errors import Interrupted, UserError
from lrbench.runs.folder import files
from lrbench.runs.lease import Lease, Sighting, Watch, is_held

LONG = 60.0  # an expiry no test lives to see

HOLDER = """
import sys, time
from pathlib import Path
from lrbench.runs.lease import Lease
lease = Lease(Path(sys.argv[1]), expiry=float(sys.argv[2]), beat=0.05)
print(lease.acquire(), flush=True)
deadline = time.monotonic() + (20 if sys.stdin.readline().strip() == "until lost" else 0)
while not lease.lost and time.monotonic() < deadline:
    time.sleep(0.01)
print("lost" if lease.lost else "kept", lease.verify(), flush=True)
lease.release()
"""


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def forge(folder: Path) -> None:
    """Put another owner's lease in the place of ours."""
    files.write_json(folder / "lease.json", {"token": "forged", "pid": 7, "host": "elsewhere"})


def owner_of(folder: Path) -> int:
    return int(files.read_json(folder / "lease.json")["pid"])


@contextmanager
def holder(folder: Path, expiry: float = LONG) -> Iterator[subprocess.Popen[str]]:
    """Run another process that holds the lease until it is sent a line."""
    command = [sys.executable, "-c", HOLDER, str(folder), str(expiry)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "free\n"
            yield child
        finally:
            child.kill()


def test_free_lease_is_taken_and_given_back(tmp_path: Path) -> None:
    messages: list[str] = []
    with Lease(tmp_path, on_wait=messages.append) as lease:
        record = files.read_json(tmp_path / "lease.json")
        assert (record["pid"], record["host"]) == (os.getpid(), machine.host())
        assert record["started"] == machine.start_ticks(os.getpid())
        assert abs(record["beat"] - time.time()) < 10
        assert lease.how == "free"
        assert lease.verify()
    assert not (tmp_path / "lease.json").exists()
    assert not lease.lost
    assert messages == []


def test_given_back_after_an_error_too(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Lease(tmp_path):
        raise ZeroDivisionError
    with Lease(tmp_path) as lease:
        assert lease.how == "free"


def test_twice_in_one_process_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(tmp_path)
    with Lease(tmp_path) as lease:
        with pytest.raises(UserError, match="already being trained by this process"):
            Lease(tmp_path / "alias").acquire()
        assert lease.verify()
    with Lease(tmp_path) as lease:
        assert lease.how == "free"


def test_lease_this_process_failed_to_keep_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Lease(tmp_path).acquire()
    monkeypatch.undo()
    assert (tmp_path / "lease.json").exists()
    with Lease(tmp_path, stop=lambda: True) as lease:  # at once
        assert lease.how == "taken over"


def test_waits_for_a_living_owner_and_names_it(tmp_path: Path) -> None:
    messages: list[str] = []
    with holder(tmp_path) as child:

        def on_wait(message: str) -> None:
            messages.append(message)
            assert child.stdin is not None
            child.stdin.write("\n")
            child.stdin.flush()

        with Lease(tmp_path, on_wait=on_wait, beat=0.1) as lease:
            assert lease.how == "waited"
            assert owner_of(tmp_path) == os.getpid()
        assert child.stdout is not None
        assert child.stdout.readline() == "kept True\n"
    assert len(messages) == 1
    assert f"process {child.pid} on {machine.host()}" in messages[0]


def test_killed_owner_is_taken_over_at_once(tmp_path: Path) -> None:
    messages: list[str] = []
    with holder(tmp_path) as child:
        child.send_signal(signal.SIGKILL)
        child.wait()
    start = time.monotonic()
    with Lease(tmp_path, expiry=LONG, on_wait=messages.append) as lease:
        assert lease.how == "taken over"
    assert time.monotonic() - start < LONG, "it waited for the lease to expire"
    assert messages == [f"taking over {tmp_path}: process {child.pid} on {machine.host()} is gone"]


def test_owner_killed_while_we_wait(tmp_path: Path) -> None:
    messages: list[str] = []
    with holder(tmp_path) as child:

        def on_wait(message: str) -> None:
            messages.append(message)
            child.kill()

        with Lease(tmp_path, expiry=LONG, beat=0.1, on_wait=on_wait) as lease:
            assert lease.how == "taken over"
    assert [message.split()[0] for message in messages] == ["waiting", "taking"]


def test_hanging_owner_is_taken_over_and_finds_out(tmp_path: Path) -> None:
    with holder(tmp_path) as child:
        child.send_signal(signal.SIGSTOP)
        wait_for(lambda: "T" in Path(f"/proc/{child.pid}/stat").read_text().split()[2])
        with Lease(tmp_path, expiry=0.5, beat=0.1) as lease:
            assert lease.how == "taken over"
            child.send_signal(signal.SIGCONT)
            assert child.stdin is not None
            child.stdin.write("until lost\n")
            child.stdin.flush()
            assert child.stdout is not None
            assert child.stdout.readline() == "lost False\n"
            child.wait()
            assert lease.verify()  # it did not remove what is ours


def test_heartbeat_goes_on(tmp_path: Path) -> None:
    with Lease(tmp_path, beat=0.02) as lease:
        first = files.read_json(tmp_path / "lease.json")
        wait_for(lambda: files.read_json(tmp_path / "lease.json")["beat"] > first["beat"])
        assert not lease.lost
        assert lease.trouble is None


def test_full_disk_does_not_end_the_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, obj: object, durable: bool) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "lease.json"
    with Lease(tmp_path, beat=0.02) as lease:
        with monkeypatch.context() as patch:
            patch.setattr(files, "write_json", full)
            wait_for(lambda: lease.trouble is not None)
            before = path.stat().st_mtime_ns
            wait_for(lambda: path.stat().st_mtime_ns > before)
            assert "No space left" in str(lease.trouble)
        wait_for(lambda: lease.trouble is None)
        assert lease.verify()


def test_stolen_or_removed_lease_is_lost(tmp_path: Path) -> None:
    with Lease(tmp_path, beat=0.02) as lease:
        forge(tmp_path)
        wait_for(lambda: lease.lost)
    assert files.read_json(tmp_path / "lease.json")["token"] == "forged"
    (tmp_path / "lease.json").unlink()
    with Lease(tmp_path, beat=LONG / 2, expiry=LONG) as lease:
        (tmp_path / "lease.json").unlink()
        assert not lease.lost
        assert not lease.verify()
        assert lease.lost


def test_run_folder_removed_under_us(tmp_path: Path) -> None:
    folder = tmp_path / "s0"
    folder.mkdir()
    with Lease(folder, beat=0.02) as lease:
        folder.rename(tmp_path / "moved")
        wait_for(lambda: lease.lost)


def test_damaged_by_nobody_is_mended(tmp_path: Path) -> None:
    with Lease(tmp_path, beat=0.02) as lease:
        with locked(tmp_path / "lease.lock", patience=LONG):
            (tmp_path / "lease.json").write_bytes(b"{")
        wait_for(lambda: (tmp_path / "lease.json").stat().st_size > 1)
        wait_for(lambda: lease.trouble is None)
        assert lease.verify()


def test_forked_child_does_not_give_the_lease_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Lease(tmp_path) as lease:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 2**22 + 1)
            lease.release()
        assert lease.verify()


def test_stuck_lock_is_reported(tmp_path: Path) -> None:
    waiting = Lease(tmp_path, expiry=0.2, beat=0.05)
    with (
        locked(tmp_path / "lease.lock", patience=1),
        pytest.raises(TimeoutError, match="does not go on"),
    ):
        waiting.acquire()
    assert waiting.acquire() == "free"
    waiting.release()


def test_beat_must_be_shorter_than_expiry(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 < beat < expiry"):
        Lease(tmp_path, expiry=1.0, beat=1.0)


RACER = """
import os, signal, sys, time
from pathlib import Path
from lrbench.runs.folder import files
from lrbench.runs.lease import Lease
folder, me = Path(sys.argv[1]), int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
with Lease(folder, expiry=60, beat=0.05) as lease:
    files.append_line(folder / "log.jsonl", {"start": me})
    time.sleep(0.03)
    assert lease.verify()
    files.append_line(folder / "log.jsonl", {"end": me})
    if me % 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_eight_processes_race_and_half_of_them_die(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path), str(me)],
            stdin=pipe, stdout=pipe, text=True,
        )
        for me in range(8)
    ]  # fmt: skip
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    for racer in racers:
        racer.communicate(timeout=30)
    assert [racer.returncode for racer in racers] == [0, -9] * 4
    log = files.read_lines(tmp_path / "log.jsonl")
    order = [line["start"] for line in log[::2]]
    assert sorted(order) == list(range(8))
    assert log == [{word: me} for me in order for word in ("start", "end")]


def test_lease_file_is_plain_json(tmp_path: Path) -> None:
    with Lease(tmp_path):
        record = json.loads((tmp_path / "lease.json").read_text())
    assert {"token", "pid", "host", "started", "beat"} <= set(record)


def left_behind(folder: Path, age: float = 0.0, **record: Any) -> None:
    """Put a lease there that was last renewed `age` seconds ago."""
    path = folder / "lease.json"
    files.write_json(path, {"token": "forged", "pid": 1, "started": 1, "beat": 0.0, **record})
    os.utime(path, (time.time() - age,) * 2)


def test_recycled_process_id_does_not_count_as_alive(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        started = machine.start_ticks(child.pid)
        assert started is not None
        left_behind(tmp_path, pid=child.pid, host=machine.host(), started=started - 1)
        with Lease(tmp_path, expiry=LONG) as lease:
            assert lease.how == "taken over"
        left_behind(tmp_path, pid=child.pid, host=machine.host(), started=started)
        with pytest.raises(Interrupted):
            Lease(tmp_path, expiry=LONG, stop=lambda: True).acquire()
        child.kill()


def test_same_host_name_in_another_container_is_elsewhere(tmp_path: Path) -> None:
    left_behind(tmp_path, pid=2**30, host=machine.host(), machine="another boot")
    with pytest.raises(Interrupted):
        Lease(tmp_path, expiry=LONG, stop=lambda: True).acquire()


def test_old_heartbeat_from_elsewhere_is_taken_over(tmp_path: Path) -> None:
    messages: list[str] = []
    left_behind(tmp_path, age=100, pid=7, host="elsewhere")
    with Lease(tmp_path, on_wait=messages.append) as lease:
        assert lease.how == "taken over"
    assert "process 7 on elsewhere gave no sign of life for 100 s" in messages[0]


@pytest.mark.parametrize("age", [0.0, -1000.0])
def test_silence_from_elsewhere_is_waited_out(tmp_path: Path, age: float) -> None:
    """Also when its clock is ahead of ours."""
    messages: list[str] = []
    left_behind(tmp_path, age=age, pid=7, host="elsewhere", beat=time.time() - 10**6)
    start = time.monotonic()
    with Lease(tmp_path, expiry=0.4, beat=0.05, on_wait=messages.append) as lease:
        assert lease.how == "taken over"
    assert time.monotonic() - start > 0.3
    assert [message.split()[0] for message in messages] == ["waiting", "taking"]


@pytest.mark.slow
def test_heartbeats_from_elsewhere_keep_us_waiting(tmp_path: Path) -> None:

    def still_beating() -> bool:
        left_behind(tmp_path, pid=7, host="elsewhere", beat=time.time())
        return time.monotonic() - start > 1.0

    left_behind(tmp_path, pid=7, host="elsewhere")
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


def test_a_lease_that_may_not_be_read_is_not_told_as_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's refusal is made up: root may read everything."""
    left_behind(tmp_path, pid=7, host="elsewhere", beat=time.time())
    assert is_held(tmp_path / "lease.json")

    def refusing(path: Path, **_: bool) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "stat", refusing)
    assert not is_held(tmp_path / "lease.json")


def test_record_with_nonsense_in_it_is_taken_over(tmp_path: Path) -> None:
    left_behind(tmp_path, pid="x", host=machine.host())
    with Lease(tmp_path, expiry=LONG) as lease:
        assert lease.how == "taken over"


def test_only_an_owner_elsewhere_is_judged_by_the_age_of_its_lease() -> None:
    """One of this machine that lives may have been asleep: it is watched for as long first."""
    record = {"pid": os.getppid(), "started": machine.start_ticks(os.getppid())}
    record |= {"host": machine.host(), "machine": machine.identity()}
    assert Watch(LONG).verdict(Sighting(record, 1, LONG * 10)) is None
    reason = Watch(LONG).verdict(Sighting(record | {"host": "elsewhere"}, 1, LONG * 10))
    assert str(reason).endswith("on elsewhere gave no sign of life for 600 s")
