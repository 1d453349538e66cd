"""Two programs on one run: one trains, the other waits or takes over, and says which."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lrbench.disk import locked
from lrbench.runs.folder import files

from .bits import content, differences
from .conftest import KILLED, Laboratory, Program, Reference, run_folder

Eventually = Callable[[Callable[[], bool]], None]
SOON = ["lease_times", {"expiry": 1.0, "beat": 0.1}]


@contextmanager
def one_that_holds(
    lab: Laboratory, folder: Path, eventually: Eventually, *faults: list[object]
) -> Iterator[tuple[Program, Path]]:
    """Start a program that stands still before update 33; it goes on when the path is made."""
    gate = folder / "gate"
    hold = ["act_at", {"step": 33, "name": "hold", "until": str(gate)}]
    program = lab.train(folder, sabotage=[hold, *faults])
    eventually(lambda: Path(f"{gate}.reached").exists())
    try:
        yield program, gate
    finally:
        gate.touch()


def put_to_sleep(program: Program, folder: Path, eventually: Eventually) -> None:
    """Stop a program outside its heartbeat: in it, it has a lock that nobody may take from it."""
    (lock,) = folder.rglob("lease.lock")
    with locked(lock, patience=30):
        os.kill(program.pid, signal.SIGSTOP)
        status = Path(f"/proc/{program.pid}/status")
        eventually(lambda: "\nState:\tT" in status.read_text())


def test_the_second_waits_and_tells_the_same_result(
    lab: Laboratory, reference: Reference, tmp_path: Path, eventually: Eventually
) -> None:
    with one_that_holds(lab, tmp_path, eventually) as (first, gate):
        second = lab.train(tmp_path)
        eventually(lambda: "waiting for" in second.err)
        gate.touch()

        assert (first.wait(), second.wait()) == (0, 0)

    assert f"process {first.pid} on" in second.err
    assert "update" not in second.err
    assert "seed 2: already finished, nothing to do" in second.err
    assert second.out == first.out
    assert not differences(content(run_folder(tmp_path)), content(reference.folder))


def test_the_second_goes_on_when_the_first_is_killed(
    lab: Laboratory, reference: Reference, tmp_path: Path, eventually: Eventually
) -> None:
    with one_that_holds(lab, tmp_path, eventually) as (first, _):
        second = lab.train(tmp_path)
        eventually(lambda: "waiting for" in second.err)
        os.kill(first.pid, signal.SIGKILL)

        assert (first.wait(), second.wait()) == (KILLED, 0)

    assert "taking over" in second.err
    assert f"process {first.pid} on" in second.err.partition("taking over")[2]
    assert "going on from update 30" in second.err
    assert not differences(content(run_folder(tmp_path)), content(reference.folder))


def test_a_run_left_by_a_dead_process_is_taken_over_at_once(
    lab: Laboratory, reference: Reference, tmp_path: Path, eventually: Eventually
) -> None:
    with one_that_holds(lab, tmp_path, eventually) as (first, _):
        os.kill(first.pid, signal.SIGKILL)
        assert first.wait() == KILLED

    second = lab.train(tmp_path)

    assert second.wait() == 0
    assert "waiting for" not in second.err
    assert f"process {first.pid} on" in second.err.partition("taking over")[2]
    assert not differences(content(run_folder(tmp_path)), content(reference.folder))


@pytest.mark.parametrize("age", [-4.0, 3600.0])  # seconds; a program may take some to get there
def test_a_silent_owner_on_another_machine_is_waited_for_until_its_lease_expires(
    age: float, lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    leases = tmp_path / reference.folder.relative_to(reference.folder.parents[4]).parent / ".leases"
    lease = leases / "s2" / "lease.json"
    lease.parent.mkdir(parents=True)
    record = {"token": "x", "pid": os.getpid(), "host": "elsewhere", "machine": "x", "started": 1}
    lease.write_text(json.dumps(record))
    os.utime(lease, (time.time() - age,) * 2)

    program = lab.train(tmp_path, sabotage=[SOON])

    assert program.wait() == 0
    assert ("waiting for" in program.err) == (age < 0)
    assert "elsewhere gave no sign of life for" in program.err.partition("taking over")[2]
    assert not differences(content(run_folder(tmp_path)), content(reference.folder))


def test_an_owner_that_wakes_up_after_it_was_replaced_writes_nothing(
    lab: Laboratory, reference: Reference, tmp_path: Path, eventually: Eventually
) -> None:
    with one_that_holds(lab, tmp_path, eventually, SOON) as (first, gate):
        put_to_sleep(first, tmp_path, eventually)
        second = lab.train(tmp_path, sabotage=[SOON])
        assert second.wait() == 0, second.err
        assert "gave no sign of life for" in second.err.partition("taking over")[2]
        folder = run_folder(tmp_path)
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        gate.touch()
        os.kill(first.pid, signal.SIGCONT)

        assert first.wait() == 1

    assert "another process has taken over" in first.err
    assert "Traceback" not in first.err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert not differences(content(folder), content(reference.folder))


def test_one_of_two_that_start_together_trains(
    lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    programs = [lab.train(tmp_path) for _ in range(2)]

    assert [program.wait() for program in programs] == [0, 0]
    assert sum("examining on fresh strings" in program.err for program in programs) == 1
    folder = run_folder(tmp_path)
    assert len(files.read_lines(folder / "metrics.jsonl")) == 12
    assert not differences(content(folder), content(reference.folder))


def test_a_waiting_program_can_be_stopped(
    lab: Laboratory, tmp_path: Path, eventually: Eventually
) -> None:
    with one_that_holds(lab, tmp_path, eventually) as (first, _):
        second = lab.train(tmp_path)
        eventually(lambda: "waiting for" in second.err)
        os.kill(second.pid, signal.SIGINT)

        assert second.wait() == 130
        assert "stopped while waiting" in second.err
        os.kill(first.pid, signal.SIGKILL)
        assert first.wait() == KILLED
