"""How runs end, and what the same or another command does after that."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from lrbench.runs.folder import files

from .bits import content, differences
from .conftest import KILLED, Laboratory, Reference, run_folder


def everything(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Return each file below a folder with its content and time."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".leases" not in path.parts)
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


@pytest.fixture
def finished(reference: Reference, tmp_path: Path) -> Path:
    """The output folder of a finished run."""
    shutil.copytree(reference.folder.parents[4], tmp_path / "runs")
    return tmp_path / "runs"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["optim.lr=1e-1", "protocol.test_lengths=[ 6 ]", "model.layers=1"],
        ["data_seed=2"],
        ["threads=1", "trials=1", "device=auto"],
    ],
)
def test_the_same_configuration_however_spelt_does_nothing_and_says_so(
    arguments: list[str], finished: Path, lab: Laboratory, reference: Reference
) -> None:
    before = everything(finished)

    program = lab.train(finished, *arguments)

    assert program.wait() == 0
    assert program.err.strip() == (
        "seed 2: already finished, nothing to do (force=true trains it again)"
    )
    assert program.out.replace(str(finished), "") == reference.out.replace(
        str(reference.folder.parents[4]), ""
    )
    assert everything(finished) == before


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [(["optim.lr=0.2"], []), ([], [["task_version", {"name": "sum", "version": 2}]])],
    ids=["configuration", "task version"],
)
def test_a_change_of_meaning_gets_a_folder_of_its_own(
    arguments: list[str], fault: list[object], finished: Path, lab: Laboratory
) -> None:
    before = everything(finished)

    program = lab.train(finished, *arguments, sabotage=fault)

    assert program.wait() == 0
    assert len(list(finished.glob("*/*/*/*/s2/result.json"))) == 2
    after = everything(finished)
    assert {path: after[path] for path in before} == before


def test_a_failure_is_recorded_and_tried_again(
    lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    explode = ["act_at", {"step": 25, "name": "explode", "message": "too many cooks"}]

    failed = lab.train(tmp_path, sabotage=[explode])

    assert failed.wait() == 1
    folder = run_folder(tmp_path)
    assert failed.err.splitlines()[-2].endswith("ArithmeticError: too many cooks")
    assert str(folder / "run.log") in failed.err.splitlines()[-1]
    failure = files.read_json(folder / "failure.json")
    assert (failure["type"], failure["error"]) == ("ArithmeticError", "too many cooks")
    assert failure["step"] == 24
    assert "in explode" in failure["traceback"]
    assert "in explode" in (folder / "run.log").read_text()
    assert not (folder / "result.json").exists()

    again = lab.train(tmp_path)

    assert again.wait() == 0
    assert "going on from update 20" in again.err
    assert not (folder / "failure.json").exists()
    assert not differences(content(folder), content(reference.folder))


@pytest.mark.parametrize(
    "arguments", [["optim.lr=1e30"], ["optim.lr=1e30", "protocol.look_every=30"]]
)
def test_a_run_that_diverges_has_a_result_that_says_so(
    arguments: list[str], lab: Laboratory, tmp_path: Path
) -> None:
    program = lab.train(tmp_path, *arguments)

    assert program.wait() == 0, program.err
    result = files.read_json(run_folder(tmp_path) / "result.json")
    assert (result["status"], result["stopped"]) == ("diverged", "diverged")
    assert "diverged" in program.out

    before = everything(tmp_path)
    again = lab.train(tmp_path, *arguments)
    assert again.wait() == 0
    assert "seed 2: already diverged, nothing to do" in again.err
    assert everything(tmp_path) == before


def test_trials_are_single_runs_to_the_bit_even_if_killed(
    lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    alone = lab.train(tmp_path / "alone", "seed=3")
    assert alone.wait() == 0
    kill = {"step": 33, "name": "send", "numbers": [int(signal.SIGKILL)]}
    group = tmp_path / "group"
    assert lab.train(group, "trials=3", sabotage=[["act_at", kill]]).wait() == KILLED

    program = lab.train(group, "trials=3")

    assert program.wait() == 0, program.err
    assert not differences(content(run_folder(group, "s2")), content(reference.folder))
    third = content(run_folder(tmp_path / "alone", "s3"))
    assert not differences(content(run_folder(group, "s3")), third)
    assert run_folder(group, "s4").is_dir()


def test_only_what_is_missing_of_a_group_is_trained(
    finished: Path, lab: Laboratory, reference: Reference
) -> None:
    before = everything(run_folder(finished))

    program = lab.train(finished, "trials=2")

    assert program.wait() == 0
    assert "seed 2: already finished" in program.err
    assert "seed 3: examining" in program.err
    assert everything(run_folder(finished)) == before
    assert run_folder(finished, "s3").is_dir()
