"""A whole run of every model as a user would do it: train, train again, evaluate, report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.programs import lrbench

SMALL = [
    "protocol.max_steps=6",
    "protocol.look_every=3",
    "protocol.look_size=8",
    "protocol.validation_size=16",
    "protocol.test_size=20",
    "protocol.further_lengths=[43]",
    "protocol.batch_size=4",
    "output_dir=runs",
]


@pytest.mark.parametrize(
    ("task", "model", "parameters"),
    [("even_pair", "blockdiag", None), ("mod_arith", "blockdiag_release", 918_469)],
)
def test_from_nothing_to_a_table(task: str, model: str, parameters: int | None) -> None:
    trained = lrbench("train", f"task={task}", f"model={model}", *SMALL)
    assert trained.returncode == 0, trained.stderr
    (result_file,) = Path("runs").glob(f"{task}/{model}/fan2024/*/s0/result.json")
    result = json.loads(result_file.read_text())
    assert result["status"] == "finished"
    assert result["steps"] == 6
    assert result["parameters"] == parameters or parameters is None
    assert "horizon" in trained.stdout
    assert "update 6/6" in trained.stderr

    again = lrbench("train", f"model={model}", f"task={task}", *reversed(SMALL))
    assert again.returncode == 0
    assert "nothing to do" in again.stderr
    assert again.stdout == trained.stdout
    assert json.loads(result_file.read_text()) == result

    run = result_file.parent
    length = 1003
    evaluated = lrbench("evaluate", str(run), "--lengths", f"7,{length}", "--strings", "16")
    assert evaluated.returncode == 0, evaluated.stderr
    assert "1,003" in evaluated.stdout
    (kept,) = (run / "evaluations").glob("*.json")
    rows = json.loads(kept.read_text())["evaluations"]
    assert [row["length"] for row in rows] == [7, length]

    reported = lrbench("report", "--runs", "runs")
    assert reported.returncode == 0, reported.stderr
    assert model in reported.stdout


def test_trials_are_seeds_in_folders_of_their_own_and_json_has_each() -> None:
    words = [*SMALL, "trials=2", "seed=5", "model.width=8", "--json"]
    trained = lrbench("train", *words)
    assert trained.returncode == 0, trained.stderr
    files = sorted(Path("runs").rglob("result.json"))
    assert [path.parent.name for path in files] == ["s5", "s6"]
    said = json.loads(trained.stdout)["runs"]
    assert [(one["seed"], one["status"]) for one in said] == [(5, "finished"), (6, "finished")]
    assert [one["result"] for one in said] == [json.loads(path.read_text()) for path in files]
    assert [Path(one["folder"]).resolve() for one in said] == [
        path.parent.resolve() for path in files
    ]
    assert "all numbers" in trained.stderr
    again = json.loads(lrbench("train", *words).stdout)["runs"]
    assert [one["status"] for one in again] == ["skipped", "skipped"]
    refused = lrbench("train", *words, "--cfg", "job")
    assert (refused.returncode, refused.stdout) == (2, "")


def test_an_even_length_of_mod_arith_is_an_error() -> None:
    run = lrbench("train", *SMALL, "task=mod_arith", "protocol.test_lengths=[500]")
    assert run.returncode == 1
    assert "odd" in run.stderr
    assert not Path("runs").exists()
