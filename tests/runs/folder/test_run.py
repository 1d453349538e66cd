"""What a run folder keeps and what comes back from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.report.runs.files import read_object
from lrbench.report.runs.schema import failure_complaint
from lrbench.runs.folder import checkpoints, files
from lrbench.runs.folder.cell import Cell
from lrbench.runs.folder.run import Run

Tiny = Callable[..., Config]


@pytest.fixture
def cell(tiny: Tiny) -> Cell:
    """An opened cell."""
    made = Cell.of(tiny())
    made.open()
    return made


@pytest.fixture
def run(cell: Cell) -> Run:
    """Its opened run of seed 0."""
    made = Run(cell, 0)
    made.open()
    return made


def a_result(cell: Cell, **changes: Any) -> dict[str, Any]:
    head = {"schema": 1, "task": "sum", "model": "blockdiag", "protocol": "fan2024"}
    rest = {"seed": 0, "fingerprint": cell.fingerprint, "config": {}, "evaluations": []}
    return {**head, **rest, "status": "finished", "steps": 6, **changes}


def trained(run: Run, updates: int, looks: dict[int, list[str]]) -> LengthTrial:
    """Train and save after each update; `looks` says which rules believe a look after it."""
    trial = LengthTrial(run.cell.config, run.seed)
    for step in range(1, updates + 1):
        trial.update()
        for rule in looks.get(step, []):
            trial.rules.kept[rule] = {"step": step}
        run.save(trial, looks.get(step))
    return trial


def names(run: Run) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_a_finished_run_has_a_result_and_no_failure(run: Run) -> None:
    run.fail(ValueError("first"), 3)
    failure = files.read_json(run.folder / "failure.json")
    assert failure_complaint(failure) is None
    assert (failure["step"], failure["error"], failure["type"]) == (3, "first", "ValueError")
    assert run.result() is None

    run.finish(a_result(run.cell))

    assert not (run.folder / "failure.json").exists()
    assert run.result() == a_result(run.cell)
    assert "finished after 6 updates" in (run.folder / "run.log").read_text()


def test_a_failure_that_names_a_file_which_is_not_utf8_is_kept(run: Run) -> None:
    """Its log could not be written, so the run seemed to be stopped and its siblings died too."""
    run.fail(FileNotFoundError("no file caf\udce9.txt"), 3)
    told = run.folder / "failure.json"
    problems: list[tuple[Path, str]] = []
    failure = read_object(told, problems, failure_complaint)  # as `lrbench report` reads it
    assert failure is not None, problems
    assert failure["error"] == r"no file caf\udce9.txt"
    assert "no file caf\\udce9.txt" in (run.folder / "run.log").read_text()


def test_a_result_that_could_not_be_read_back_is_not_written(run: Run) -> None:
    """Of a task whose baselines are NaN, which JSON has as null."""
    none = {"baseline": "majority", "length": 40, "value": math.nan, "n": 9}
    result = a_result(run.cell, baselines=[none])
    with pytest.raises(ValueError, match=r"could not be read back: 'baselines\[0\].value' is None"):
        run.finish(result)
    assert not (run.folder / "result.json").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": 2}, "schema 2"),
        ({"fingerprint": "0" * 12}, "it is of 000000000000, seed 0"),
        ({"seed": 1}, "seed 1"),
        ({"status": "running"}, "'status'"),
        ({"evaluations": None}, "'evaluations'"),
    ],
)
def test_a_result_that_is_not_this_runs_is_set_aside_with_its_bytes(
    changes: dict[str, Any], reason: str, run: Run
) -> None:
    path = run.folder / "result.json"
    for _ in range(2):  # the second does not overwrite the first
        files.write_json(path, a_result(run.cell, **changes))
        bad = path.read_bytes()
        assert run.result() is None
        assert path.read_bytes() == bad
        run.open()
        assert not path.exists()
    kept = list(run.folder.glob("result.json.unreadable-*"))
    assert [aside.read_bytes() for aside in kept] == [bad, bad]
    assert reason in (run.folder / "run.log").read_text()


def test_the_copy_of_the_newest_look_stands_in_for_a_damaged_step_file(run: Run) -> None:
    trial = trained(run, 4, {4: ["last"]})
    (run.checkpoints / checkpoints.step_name(4)).write_bytes(b"")  # that of update 3 is sound
    again = LengthTrial(run.cell.config, run.seed)
    assert Run(run.cell, 0).restore(again) and again.step == trial.step == 4


def test_a_trial_comes_back_as_it_was(run: Run) -> None:
    trial = trained(run, 4, {2: ["best", "last"], 4: ["last"]})
    run.record({"step": 4, "loss": 1.0})
    run.record({"step": 5, "loss": 1.0})

    again, second = LengthTrial(run.cell.config, 0), Run(run.cell, 0)
    assert second.restore(again)

    assert checkpoints.plain(again.state()).keys() == checkpoints.plain(trial.state()).keys()
    for mine, theirs in zip(trial.model.parameters(), again.model.parameters(), strict=True):
        assert mine.equal(theirs)
    assert again.rules.steps() == {"best": 2, "last": 4}
    assert names(run) == ["best.pt", "last.pt", "step-00000003.pt", "step-00000004.pt"]
    assert [line["step"] for line in files.read_lines(run.metrics)] == [4]
    assert second.saved_step == 4


def test_nothing_to_come_back_from_starts_the_record_anew(run: Run) -> None:
    run.record({"step": 5, "loss": 1.0})
    trial = LengthTrial(run.cell.config, 0)
    assert not run.restore(trial)
    assert trial.step == 0
    assert files.read_lines(run.metrics) == []


def test_a_crash_before_the_rules_copies_is_mended(run: Run) -> None:
    trained(run, 4, {2: ["best"], 4: ["best", "last"]})
    (run.checkpoints / "last.pt").unlink()
    (run.checkpoints / "best.pt").write_bytes(b"half")
    assert run.restore(LengthTrial(run.cell.config, 0))
    assert checkpoints.load(run.checkpoints / "best.pt")["step"] == 4
    assert checkpoints.load(run.checkpoints / "last.pt")["step"] == 4


def test_the_copy_of_the_last_look_stands_in_for_damaged_steps(run: Run) -> None:
    trained(run, 4, {4: ["best", "last"]})
    for step in (3, 4):
        (run.checkpoints / checkpoints.step_name(step)).write_bytes(b"")
    trial = LengthTrial(run.cell.config, 0)
    assert run.restore(trial)
    assert trial.step == 4
    assert "step-00000004.pt.unusable" in names(run)
    assert "went on from last.pt" in (run.folder / "run.log").read_text()


@pytest.mark.slow
def test_the_checkpoint_of_another_seed_is_not_taken(run: Run) -> None:
    other = Run(run.cell, 1)
    other.open()
    trained(other, 2, {})
    source = other.checkpoints / checkpoints.step_name(2)
    (run.checkpoints / source.name).write_bytes(source.read_bytes())
    assert not run.restore(LengthTrial(run.cell.config, 0))


@pytest.mark.parametrize(
    ("present", "swapped", "left"),
    [
        ({"s0": "old", "s0.new": None}, False, {"s0": "old", "s0.new": None}),
        ({"s0": "old", "s0.new": "new"}, True, {"s0": "new"}),
        ({"s0.old": "old", "s0.new": "new"}, True, {"s0": "new"}),
        ({"s0": "new", "s0.old": "old"}, True, {"s0": "new"}),
        ({"s0.old": "old"}, False, {"s0": "old"}),
        ({"s0": None, "s0.old": "old"}, False, {"s0": None, "s0.old": "old"}),
    ],
)
def test_a_swap_cut_off_anywhere_is_finished_or_undone(
    present: dict[str, str | None], swapped: bool, left: dict[str, str | None], cell: Cell
) -> None:
    """Folders with the name of their result, None for none."""
    for name, label in present.items():
        (cell.folder / name).mkdir()
        if label:
            files.write_json(cell.folder / name / "result.json", a_result(cell, task=label))

    assert Run(cell, 0).open() == swapped

    found = {path.name: path / "result.json" for path in cell.folder.iterdir() if path.is_dir()}
    assert {
        name: files.read_json(result)["task"] if result.exists() else None
        for name, result in found.items()
    } == left


def test_temporary_files_of_the_dead_are_swept(run: Run, tmp_path: Path) -> None:
    name = f".best.pt.{2**22 + 1}.{files._host_tag()}00000000.tmp"
    (run.checkpoints / name).write_bytes(b"half")
    run.open()
    assert not (run.checkpoints / name).exists()
