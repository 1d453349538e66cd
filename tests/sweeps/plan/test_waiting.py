"""Which runs a sweep has not begun: by its plan on disk, through `lrbench status`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lrbench.sweeps.plan.ledger import Ledger
from lrbench.sweeps.plan.plan import Plan
from lrbench.sweeps.plan.status import statuses
from lrbench.sweeps.plan.waiting import planned, waiting

PlanOf = Callable[..., Plan]


def test_what_is_not_begun_waits_until_the_sweep_has_ended(
    plan_of: PlanOf, train: Callable[..., None]
) -> None:
    plan = plan_of("seed=0,1,2")
    ledger = Ledger(plan, lambda *end: None)
    with planned(plan, ledger, print):
        train(plan.jobs[0].overrides)
        found = statuses(Path("outputs"), print)
        assert [(run.seed, run.state) for run in found] == [
            *((0, "finished"), (1, "waiting"), (2, "waiting"))
        ]
        done, left = found[0], found[1]
        assert left.cell == done.cell and left.updates == 4 and left.update is None
        assert done.rate is not None and left.left == pytest.approx(4 / done.rate)
        assert left.folder == str(Path(done.folder).with_name("s1"))
        for job in plan.jobs[1:]:
            train(job.overrides)
        ledger.look()
    assert not Path("outputs", ".sweeps").exists()
    assert [run.state for run in statuses(Path("outputs"), print)] == ["finished"] * 3


def test_of_a_sweep_that_was_killed_one_sees_what_is_left(plan_of: PlanOf) -> None:
    for _ in range(2):  # the same sweep again writes the same file
        plan = plan_of("seed=0,1")
        with (
            pytest.raises(KeyboardInterrupt),
            planned(plan, Ledger(plan, lambda *end: None), print),
        ):
            raise KeyboardInterrupt
    [path] = Path("outputs", ".sweeps").iterdir()
    assert sorted(run.seed for run in waiting(Path("outputs"), print)) == [0, 1]
    Path("outputs").rename("moved")
    assert [run.folder.split("/")[0] for run in waiting(Path("moved"), print)] == ["moved"] * 2
    assert json.loads(Path("moved", *path.parts[1:]).read_text())["runs"][0]["task"] == "sum"


@pytest.mark.parametrize("content", [{"runs": {}}, {"runs": [{"folder": 3}]}, {"plan": []}])
def test_what_is_no_plan_is_named(plan_of: PlanOf, content: object) -> None:
    Path("outputs", ".sweeps").mkdir(parents=True)
    Path("outputs", ".sweeps", "plan-0.json").write_text(json.dumps(content))
    told: list[str] = []
    assert list(waiting(Path("outputs"), told.append)) == []
    assert len(told) == 1 and "'outputs/.sweeps/plan-0.json' is no plan of a sweep" in told[0]


def test_a_plan_that_cannot_be_written_is_told(plan_of: PlanOf) -> None:
    Path("outputs").mkdir()
    Path("outputs", ".sweeps").write_text("in the way")
    told: list[str] = []
    plan = plan_of()
    with planned(plan, Ledger(plan, lambda *end: None), told.append):
        pass
    assert len(told) == 1 and "could not be written" in told[0]
