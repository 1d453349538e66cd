"""What becomes of jobs whose worker dies, that others are at, or that fail: without processes."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import Interrupted, UserError
from lrbench.runs.folder.run import Run
from lrbench.runs.lease import Lease
from lrbench.sweeps.launch import drive
from lrbench.sweeps.launch.drive import Drive
from lrbench.sweeps.launch.worker import JobEnd, Parent
from lrbench.sweeps.plan.ledger import End, Ledger
from lrbench.sweeps.plan.plan import Plan, stamp


@dataclass
class Returned:
    """As Hydra's JobReturn."""

    _return_value: Any


@dataclass
class Driven:
    """A drive with what it told and launched."""

    plan: Plan
    parent: Parent
    reported: list[End] = field(default_factory=list)
    launched: list[list[str]] = field(default_factory=list)

    def __call__(self, act: Callable[[str], Any]) -> dict[str, str]:
        """Drive with a launcher that calls `act` with the seed of each job; return the ends."""
        ledger = Ledger(self.plan, lambda end, k, n: self.reported.append(end))

        def launch(jobs: Sequence[Sequence[str]], on_queued: object) -> list[Returned]:
            seeds = [next(w for w in job if w.startswith("seed=")) for job in jobs]
            self.launched.append(seeds)
            return [Returned(act(seed)) for seed in seeds]

        Drive(self.plan, ledger, self.parent, list)(launch)
        return {f"seed={end.run.seed}": end.status for end in ledger.ends.values()}


@pytest.fixture
def driven(plan_of, tmp_path: Path) -> Callable[..., Driven]:
    def make(*arguments: str) -> Driven:
        return Driven(plan_of(*arguments), Parent.here(tmp_path / "stop"))

    return make


@pytest.fixture
def run_here(train) -> Callable[[Driven, str], JobEnd]:
    def run(drive: Driven, seed: str) -> JobEnd:
        train(next(job.overrides for job in drive.plan.jobs if seed in job.overrides))
        return JobEnd("done")

    return run


def test_all_ends_are_reported_once(driven, run_here) -> None:
    drive = driven("seed=0,1")
    assert drive(lambda seed: run_here(drive, seed)) == {"seed=0": "finished", "seed=1": "finished"}
    assert [end.run.seed for end in drive.reported] == [0, 1]
    assert drive.launched == [["seed=0", "seed=1"]]


def test_a_forced_run_that_was_killed_before_it_took_its_place_takes_it(
    driven, run_here, train
) -> None:
    """The result beside it is the old one, which says nothing of how this run ended."""
    drive = driven("seed=0")
    train(drive.plan.jobs[0].overrides)
    folder = drive.plan.runs[0].run.final_folder
    shutil.copytree(folder, folder.with_name("s0.new"))
    result = json.loads((folder / "result.json").read_text())
    forced = json.dumps(result | {"train_seconds": 7.0})
    (folder.with_name("s0.new") / "result.json").write_text(forced)
    drive = driven("seed=0")
    assert [run.seed for run in drive.plan.to_do] == [0]
    assert drive(lambda seed: run_here(drive, seed)) == {"seed=0": "finished"}
    assert drive.launched == [["seed=0"]]
    assert drive.reported[0].result["train_seconds"] == 7.0
    assert not folder.with_name("s0.new").exists()


def test_with_force_the_result_that_was_there_is_no_end(driven, run_here, train) -> None:
    train(driven("seed=0").plan.jobs[0].overrides)
    drive = driven("seed=0", "force=true")
    assert drive(lambda seed: JobEnd("failed", "no memory")) == {"seed=0": "failed"}
    assert drive.reported[0].message == "no memory" and drive.reported[0].result is None
    drive = driven("seed=0", "force=true")
    old = drive.plan.runs[0].old_result
    assert drive(lambda seed: run_here(drive, seed)) == {"seed=0": "finished"}
    assert drive.launched == [["seed=0"]]
    assert stamp(drive.plan.runs[0].run, "result.json") != old


def test_a_failure_without_a_trace_is_reported_and_stops_nothing(driven, run_here) -> None:
    drive = driven("seed=0,1")
    ends = drive(
        lambda seed: JobEnd("failed", "no plugin") if seed == "seed=0" else run_here(drive, seed)
    )
    assert ends == {"seed=0": "failed", "seed=1": "finished"}
    assert "no plugin" in [end.message for end in drive.reported]


def test_what_hydra_could_not_do_is_a_failure(driven) -> None:
    drive = driven("seed=0")
    assert drive(lambda seed: ValueError("composition")) == {"seed=0": "failed"}
    assert "composition" in drive.reported[0].message


def test_after_a_dead_worker_the_rest_goes_on_and_the_culprit_alone_is_blamed(
    driven, run_here
) -> None:
    drive = driven("seed=0,1,2,3")
    begun: list[str] = []

    def act(seed: str) -> JobEnd:
        if seed in ("seed=1", "seed=2") and seed not in begun:
            begun.append(seed)
            _leave_a_lease(drive, seed)
            if seed == "seed=2":
                raise RuntimeError("a worker was killed")
            return None  # type: ignore[return-value]
        if seed == "seed=2":
            raise RuntimeError("a worker was killed")
        return run_here(drive, seed)

    ends = drive(act)
    assert ends == {
        "seed=0": "finished",
        "seed=1": "finished",
        "seed=2": "failed",
        "seed=3": "finished",
    }
    assert drive.launched[1] == ["seed=3"]
    assert drive.launched[2:] in ([["seed=1"], ["seed=2"]], [["seed=2"], ["seed=1"]])


def test_a_launcher_that_does_nothing_is_an_error(driven) -> None:
    def act(seed: str) -> JobEnd:
        raise ValueError("n_jobs == 0 has no meaning")

    with pytest.raises(UserError, match="n_jobs == 0"):
        driven("seed=0,1")(act)


def test_a_run_held_by_another_is_left_to_the_end_and_counts_as_done_by_it(
    driven, run_here, train, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = driven("seed=0,1")
    held = drive.plan.jobs[0]

    def holder(run: Run) -> str | None:
        mine = run is held.runs[0].run
        return "process 1" if mine and run.result() is None else None

    monkeypatch.setattr("lrbench.sweeps.launch.drive.held_by", holder)
    later = threading.Timer(0.8, lambda: train(held.overrides))
    later.start()
    ends = drive(lambda seed: run_here(drive, seed))
    later.join()
    assert drive.launched == [["seed=1"]]
    assert ends == {"seed=0": "elsewhere", "seed=1": "finished"}


def test_a_failure_of_before_is_tried_again_and_one_of_another_process_stays_one(
    driven, run_here, monkeypatch: pytest.MonkeyPatch
) -> None:
    for planned in driven("seed=0,1").plan.runs:
        planned.run.open()
        planned.run.fail(ValueError("before"), 3)
    drive = driven("seed=0,1")
    held = drive.plan.runs[0].run
    monkeypatch.setattr(
        "lrbench.sweeps.launch.drive.held_by", lambda run: "process 1" if run is held else None
    )
    later = threading.Timer(0.8, lambda: held.fail(ValueError("elsewhere"), 4))
    later.start()
    ends = drive(lambda seed: run_here(drive, seed))
    later.join()
    assert drive.launched == [["seed=1"]]
    assert ends == {"seed=0": "failed", "seed=1": "finished"}
    (told,) = (end.message for end in drive.reported if end.status == "failed")
    assert told == "ValueError: elsewhere (update 4)"


def test_the_stop_file_ends_it(driven) -> None:
    drive = driven("seed=0,1")

    def act(seed: str) -> JobEnd:
        drive.parent.ask_to_stop()
        return JobEnd("stopped")

    with pytest.raises(Interrupted, match="goes on"):
        drive(act)
    assert len(drive.launched) == 1


def _leave_a_lease(drive: Driven, seed: str) -> None:
    """As a process that died while it trained would."""
    (run,) = [run.run for run in drive.plan.runs if f"seed={run.seed}" == seed]
    run.lease_folder.mkdir(parents=True, exist_ok=True)
    lease = Lease(run.lease_folder)
    lease.acquire()
    record = (run.lease_folder / "lease.json").read_text()
    lease.release()
    (run.lease_folder / "lease.json").write_text(record)


def test_of_many_that_are_waited_for_three_are_named(
    driven: Callable[..., Driven], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = driven("seed=range(0,6)").plan.jobs
    monkeypatch.setattr(drive, "_held", lambda job: f"SLURM job 6_{job.runs[0].seed}")
    names = "SLURM job 6_0, SLURM job 6_1, SLURM job 6_2"
    assert drive._waiting_for(jobs) == f"waiting for 6 runs of {names} and 3 more"
    assert drive._waiting_for(jobs[:1]) == "waiting for 1 run of SLURM job 6_0"


def test_what_an_earlier_process_died_at_has_failed(driven, monkeypatch) -> None:
    jobs = driven("seed=0,1,2")
    first = jobs.plan.runs[0].run.final_folder
    monkeypatch.setattr("lrbench.sweeps.launch.crashes._crashed", {str(first): "SIGSEGV"})
    ends = jobs(lambda seed: JobEnd("failed", "tried"))
    assert [one for round in jobs.launched for one in round] == ["seed=1", "seed=2"]
    assert ends == {"seed=0": "failed", "seed=1": "failed", "seed=2": "failed"}
    assert jobs.reported[0].message == "its process died of SIGSEGV"
