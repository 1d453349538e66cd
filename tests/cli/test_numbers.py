"""A task that asks for numbers, from training to a bundle that is verified."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
TINY = [
    *("task=mackey_glass", "model=lstm", "task.series=16", "model.layers=1", "model.width=4"),
    *("protocol.train_length=40", "protocol.test_lengths=[40]", "protocol.band=[40,40]"),
    *("protocol.batch_size=4", "protocol.max_steps=4", "protocol.look_every=2", "device=cpu"),
]


@pytest.fixture
def folder(lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run that was trained with the working folder at its runs' parent."""
    monkeypatch.chdir(tmp_path)
    ended = lrbench("train", *TINY, "output_dir=runs")
    assert ended.code == 0, ended.err
    assert "NRMSE at every position, lower is better" in ended.out
    assert "NRMSE" in ended.err
    return next(tmp_path.glob("runs/mackey_glass/lstm/fan2024/*/s0"))


def test_from_training_to_a_verified_bundle(lrbench: Run, folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    tests = [row for row in result["evaluations"] if row["kind"] == "test"]
    assert {(row["metric"], row["n"]) for row in tests} == {("nrmse", 8)}
    assert result["horizon"] == {} and result["guessing"] == []
    reported = next(row["value"] for row in tests if row["which"] == "last")

    evaluated = lrbench("evaluate", str(folder), "--which", "last", "--lengths", "40,100")
    assert evaluated.code == 0 and f"{reported:.4f}" in evaluated.out and "NRMSE" in evaluated.out
    [written] = (folder / "evaluations").iterdir()
    rows = json.loads(written.read_text())["evaluations"]
    assert [(row["metric"], row["length"], row["interval"]) for row in rows] == [
        *(("nrmse", 40, None), ("nrmse", 100, None))
    ]
    assert rows[0]["value"] == pytest.approx(reported, rel=1e-5)

    longer = lrbench("evaluate", str(folder), "--lengths", "5001")
    assert longer.code == 1 and "only lengths 1 to 5,000" in longer.err

    report = lrbench("report", "--runs", "runs")
    assert report.code == 0 and f"{reported:.4f}" in report.out and "lower is better" in report.out

    asked = ("bundle", "--rows", "lstm", "--columns", "mackey_glass", "--rule", "last")
    packed = lrbench(*asked, "--runs", "runs", "--output", "one.zip")
    assert packed.code == 0, packed.err
    verified = lrbench("verify", "one.zip", "--seed", "0", "--device", "cpu")
    assert verified.code == 0, verified.out + verified.err
    assert f"stated {reported:.4f} of 8, now {reported:.4f} of 8: within" in verified.out
    assert "differs" not in verified.out


def test_an_error_that_was_made_up_is_found(lrbench: Run, folder: Path) -> None:
    path = folder / "result.json"
    result = json.loads(path.read_text())
    for row in result["evaluations"]:
        row["value"] *= 0.9
    path.write_text(json.dumps(result))
    asked = ("bundle", "--rows", "lstm", "--columns", "mackey_glass", "--rule", "last")
    lrbench(*asked, "--runs", "runs", "--output", "one.zip")
    verified = lrbench("verify", "one.zip", "--seed", "0", "--device", "cpu")
    assert verified.code == 1
    assert "of 8: differs" in verified.out


def test_show_prints_the_signal_and_what_comes(lrbench: Run) -> None:
    shown = lrbench("show", "task=mackey_glass", "task.horizon=2", "length=6", "count=1")
    assert shown.code == 0
    string, answer = (
        line.split()[1:] for line in shown.out.splitlines() if line.startswith(("string", "answer"))
    )
    assert string[2:] == answer[:4] and len(answer) == 6


def test_settings_and_lengths_out_of_range_are_reported(lrbench: Run, tmp_path: Path) -> None:
    for arguments, why in (
        (["task.horizon=0"], "task.horizon must be at least 1"),
        (["protocol.test_lengths=[5001]"], "only lengths 1 to 5,000"),
        (["model.backbone.embed=one_hot"], "this one is a signal"),
    ):
        ended = lrbench("train", *TINY, *arguments, f"output_dir={tmp_path / 'none'}")
        assert ended.code == 1 and why in ended.err and "Traceback" not in ended.err
    assert not (tmp_path / "none").exists()
