"""What is finished and what is to do, each run once, in jobs of the right size."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.cli.hydra.sharing import SharedComposition
from lrbench.errors import UserError
from lrbench.runs.folder.cell import Cell
from lrbench.sweeps.plan.expansion import expand
from lrbench.sweeps.plan.expected import Estimate
from lrbench.sweeps.plan.plan import make_plan


def test_one_job_a_run_and_nothing_is_written(plan_of) -> None:
    plan = plan_of("task=sum,even_pair", "trials=2")
    assert [run.name for run in plan.runs] == [
        "sum · blockdiag · seed 0",
        "sum · blockdiag · seed 1",
        "even_pair · blockdiag · seed 0",
        "even_pair · blockdiag · seed 1",
    ]
    assert [len(job.runs) for job in plan.jobs] == [1] * 4
    assert not list(Path().iterdir())


def test_a_job_alone_has_the_folder_of_its_cell(plan_of) -> None:
    for job in plan_of("trials=3", "seed=4").jobs:
        cell = Cell.of(composed(list(job.overrides)))
        assert [cell.folder / f"s{seed}" for seed in cell.seeds] == [
            run.run.final_folder for run in job.runs
        ]


def test_seeds_that_follow_one_another_go_together_where_asked(plan_of, train) -> None:
    train(plan_of("seed=2").jobs[0].overrides)
    plan = plan_of("task=sum,even_pair", "seed=0,1,2,3,4", groups=True)
    assert [[run.seed for run in job.runs] for job in plan.jobs] == [
        [0, 1],
        [3, 4],
        [0, 1, 2, 3, 4],
    ]
    for job in plan.jobs:
        cell = Cell.of(composed(list(job.overrides)))
        assert cell.seeds == [run.seed for run in job.runs]
        assert {run.cell.folder for run in job.runs} == {cell.folder}
    rates = plan_of("optim.lr=1e-3,1e-4", "trials=2", groups=True)
    assert [[run.seed for run in job.runs] for job in rates.jobs] == [[0, 1], [0, 1]]


def test_a_cell_with_a_data_seed_stays_whole(plan_of) -> None:
    (job,) = plan_of("trials=3", "data_seed=1", groups=True).jobs
    cell = Cell.of(composed(list(job.overrides)))
    assert {run.cell.fingerprint for run in job.runs} == {cell.fingerprint}
    assert [run.seed for run in job.runs] == [0, 1, 2]


def test_every_run_has_the_cell_that_it_has_alone(plan_of) -> None:
    """Cells that differ in their seed share a fingerprint; a `data_seed` can name that seed."""
    for data_seed in ("null", "1"):
        settings = "optim.lr=1e-3,1e-4", "seed=0,1,2", f"data_seed={data_seed}"
        plan = plan_of(*settings)
        assert len(plan.runs) == 6
        for run, job in zip(plan.runs, plan.jobs, strict=True):
            assert run.cell == Cell.of(composed(list(job.overrides)))
    assert len({run.cell.fingerprint for run in plan.runs}) == 4  # seed 1 is its own data seed


def test_cells_composed_together_are_those_composed_alone() -> None:
    words = ("optim.lr=1e-3,1e-4", "device=cpu,auto", "trials=1,2", "seed=0,1,5")
    cells = expand((*words, "model=lstm"))
    alone, together = (make_plan(cells, way) for way in (composed, SharedComposition(composed)))
    assert [run.cell for run in together.runs] == [run.cell for run in alone.runs]
    assert [job.overrides for job in together.jobs] == [job.overrides for job in alone.jobs]


def test_the_same_run_spelt_twice_is_one(plan_of) -> None:
    assert len(plan_of("trials=2", "seed=0,1").runs) == 3
    assert len(plan_of("optim.lr=1e-3,0.001").runs) == 1


def test_what_is_finished_is_no_job_but_with_force_it_is(plan_of, train) -> None:
    train(plan_of("seed=1").jobs[0].overrides)
    plan = plan_of("seed=0,1")
    assert [run.seed for run in plan.finished] == [1]
    assert [run.seed for run in plan.to_do] == [0]
    assert len(plan_of("seed=0,1", "force=true").jobs) == 2


def test_every_cell_is_checked(plan_of) -> None:
    with pytest.raises(UserError, match="only odd lengths"):
        plan_of("task=sum,mod_arith", "protocol.test_lengths=[500]")
    with pytest.raises(UserError, match=r"optim\.lr"):
        plan_of("optim.lr=1e-3,-1")
    assert not list(Path().iterdir())


def test_cost_is_that_of_past_runs_of_the_same_sizes(plan_of, train, monkeypatch) -> None:
    monkeypatch.setattr("lrbench.sweeps.plan.expected.published_costs", lambda: ())
    plan = plan_of("seed=0")
    assert Estimate(plan).of(plan.runs[0]) is None
    train(plan.jobs[0].overrides)
    longer = plan_of("seed=1", "protocol.max_steps=400")
    result = plan_of("seed=0").finished[0].result
    examined = result["examination_seconds"]
    assert examined > 0
    expected = result["train_seconds"] / 4 * 400
    found = Estimate(longer).of(longer.runs[0])
    assert found.seconds == pytest.approx(expected + examined)
    assert found.whole and not found.published
    tested = plan_of("seed=1", "protocol.test_size=30")  # of such an examination nothing is known
    found = Estimate(tested).of(tested.runs[0])
    assert found.seconds == pytest.approx(result["train_seconds"]) and not found.whole
    wider = plan_of("seed=1", "model.width=12")
    assert Estimate(wider).of(wider.runs[0]) is None
