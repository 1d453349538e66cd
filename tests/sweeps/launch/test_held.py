"""Who is at a run, as its folder tells."""

from __future__ import annotations

import json
import os
import time

import pytest

from lrbench import machine
from lrbench.sweeps.launch.held import Taken, claimed, held_by, left_behind


def lease(run, **record: object) -> None:
    run.lease_folder.mkdir(parents=True, exist_ok=True)
    here = {"host": machine.host(), "machine": machine.identity()}
    (run.lease_folder / "lease.json").write_text(json.dumps({**here, **record}))


@pytest.fixture
def run(plan_of):
    (planned,) = plan_of("seed=0").runs
    return planned.run


def test_nobody(run) -> None:
    assert held_by(run) is None
    assert not left_behind(run)


def test_a_living_process_of_this_machine(run) -> None:
    lease(run, pid=os.getppid(), started=machine.start_ticks(os.getppid()))
    assert f"process {os.getppid()}" in str(held_by(run))
    assert not left_behind(run)
    with pytest.raises(Taken, match="process"), claimed([run]):
        pass


def test_a_dead_process(run) -> None:
    lease(run, pid=os.getppid(), started=-1)
    assert held_by(run) is None
    assert left_behind(run)


@pytest.mark.parametrize(("age", "held"), [(0, True), (3600, False)])
def test_another_machine_until_it_is_silent(run, age: float, held: bool) -> None:
    lease(run, pid=1, started=1, host="elsewhere")
    os.utime(run.lease_folder / "lease.json", (time.time() - age,) * 2)
    assert (held_by(run) is not None) == held


def test_of_two_sweeps_one_has_the_job(run) -> None:
    with claimed([run]), pytest.raises(Taken, match="another sweep"), claimed([run]):
        pass
    with claimed([run]):
        pass
