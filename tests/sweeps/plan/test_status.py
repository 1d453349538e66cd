"""How runs stand, read from folders made by hand: leases, losses, results and failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lrbench import machine
from lrbench.errors import UserError
from lrbench.sweeps.plan.status import RunStatus, statuses

CONFIG = {
    "task": {"name": "sum"},
    "model": {"name": "lru"},
    "protocol": {"name": "fan2024", "max_steps": 1000},
}


@pytest.fixture
def owner() -> Iterator[int]:
    """The id of another process of this machine, alive as long as the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.kill()


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "sum" / "lru" / "fan2024" / "0123456789ab"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


def _begun(cell: Path, seed: int, **others: Any) -> None:
    """Losses at 100, 200 and 300: twenty seconds of compiling, then fifty updates a second."""
    run = cell / f"s{seed}"
    run.mkdir()
    losses = [{"step": step, "seconds": 20 + step / 50} for step in (100, 200, 300)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in losses))
    for name, content in others.items():
        (run / f"{name}.json").write_text(json.dumps(content))


def _leased(cell: Path, seed: int, record: dict[str, Any], age: float = 0.0) -> None:
    lease = cell / ".leases" / f"s{seed}" / "lease.json"
    lease.parent.mkdir(parents=True)
    lease.write_text(json.dumps(record))
    os.utime(lease, (time.time() - age,) * 2)


def _states(cell: Path) -> dict[int, RunStatus]:
    return {run.seed: run for run in statuses(cell.parents[3], print)}


def test_each_state(cell: Path, owner: int) -> None:
    _begun(cell, 0)
    _leased(cell, 0, {"pid": owner, "host": machine.host()}, age=500)
    _begun(cell, 1, result={"status": "finished"})
    _begun(cell, 2, result={"status": "diverged"})
    _begun(cell, 3, failure={"error": "ValueError: no"})
    _begun(cell, 4)
    (cell / "s5").mkdir()
    found = _states(cell)
    states = ["running", "finished", "diverged", "failed", "stopped", "stopped"]
    assert [found[seed].state for seed in range(6)] == states
    running = found[0]
    assert (running.update, running.updates, running.rate) == (300, 1000, pytest.approx(50))
    assert running.left == pytest.approx(14) and found[4].left == pytest.approx(14)
    assert found[5].update is None and found[5].left == pytest.approx(20)  # by its cell's rate
    assert found[1].left is None and found[3].message == "ValueError: no"


def test_a_lease_elsewhere_holds_as_long_as_it_beats(cell: Path) -> None:
    for seed, age in ((0, 1.0), (1, 500.0)):
        _begun(cell, seed)
        _leased(cell, seed, {"pid": 1, "host": "another-machine"}, age)
    assert [run.state for run in _states(cell).values()] == ["running", "stopped"]


def test_a_forced_run_is_running_beside_its_old_result(cell: Path, owner: int) -> None:
    _begun(cell, 0, result={"status": "finished"})
    (cell / "s0.new").mkdir()
    assert _states(cell)[0].state == "finished"
    _leased(cell, 0, {"pid": owner, "host": machine.host()})
    (run,) = _states(cell).values()
    assert (run.state, run.update) == ("running", None) and run.folder.endswith("s0.new")


def test_the_first_run_of_a_cell_that_was_forced_and_failed(cell: Path) -> None:
    """It has no older run beside it, and what is known of it lies where it was trained."""
    _begun(cell, 0, failure={"error": "ValueError: no"})
    (cell / "s0").rename(cell / "s0.new")
    run = _states(cell)[0]
    assert (run.state, run.update, run.message) == ("failed", 300, "ValueError: no")


def test_what_is_damaged_costs_no_other_run_its_status(cell: Path) -> None:
    _begun(cell, 0)
    (cell / "s2" / "metrics.jsonl").mkdir(parents=True)
    log = cell / "s0" / "metrics.jsonl"
    log.write_text('no json\n{"step": "x"}\n[]\n' + log.read_text() + '{"step": 400, "look": 7}\n')
    assert (_states(cell)[0].state, _states(cell)[0].update) == ("stopped", 400)
    for name, content in (("a", {**CONFIG, "task": None}), ("b", {**CONFIG, "protocol": "x"})):
        other = cell.with_name(name * 12)
        (other / "s1").mkdir(parents=True)
        (other / "config.json").write_text(json.dumps(content))
    assert list(_states(cell)) == [0, 2]


@pytest.mark.parametrize("said", [{}, {"status": "done"}, {"status": ["finished"]}])
def test_a_result_that_does_not_say_how_it_ended_is_none(cell: Path, said: dict[str, Any]) -> None:
    """Its state was 'None' or 'done': no state that docs/json.md has."""
    _begun(cell, 0, result=said)
    _begun(cell, 1, result=said, failure={})
    found = _states(cell)
    assert [found[0].state, found[1].state] == ["stopped", "failed"]
    assert found[1].message is None  # it was 'None'


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder"):
        statuses(tmp_path / "nowhere", print)
