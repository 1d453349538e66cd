"""`lrbench export` as it is typed: which folders are runs, and what it refuses."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lrbench import machine
from lrbench.runs.track import export, tracker
from lrbench.runs.track.points import TrackedPoint
from lrbench.runs.track.tracker import TrackedRun

Run = Callable[..., Any]
LINES = [{"step": 100, "loss": 1.5, "lr": 1e-3}, {"step": 200, "loss": 0.5, "lr": 1e-3}]


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    cell = tmp_path / "outputs" / "sum" / "lru" / "fan2024" / "0123456789ab"
    for seed in (0, 1):
        (cell / f"s{seed}").mkdir(parents=True)
        text = "".join(json.dumps(line) + "\n" for line in LINES)
        (cell / f"s{seed}" / "metrics.jsonl").write_text(text)
    named = {key: {"name": name} for key, name in (("task", "sum"), ("model", "lru"))}
    (cell / "config.json").write_text(json.dumps({**named, "protocol": {"name": "fan2024"}}))
    return cell


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Runs, points and ends, in the order in which a tracker was given them."""
    found: list[Any] = []

    class Listed(tracker.Remembering):
        name = "wandb"

        def __init__(self, run: TrackedRun, afresh: bool = False) -> None:
            super().__init__(run, afresh)
            found.append(run.name)

        def log(self, point: TrackedPoint) -> None:
            found.append((point.step, point.values))

        def close(self, ended: bool) -> None:
            found.append(ended)

    module: Any = ModuleType("wandb")
    module.TRACKER = Listed
    monkeypatch.setattr(tracker, "import_module", lambda name: module)
    monkeypatch.setattr(export, "require_tracker", lambda name: None)
    return found


def test_runs_below_a_folder_are_exported_once(lrbench: Run, cell: Path, given: list[Any]) -> None:
    ended = lrbench("export", "outputs", str(cell / "s1"), "--to", "wandb")
    assert (ended.code, ended.out) == (0, "2 runs given to wandb\n")
    assert len(ended.err.splitlines()) == 2 and "s0: 2 of 2 points to wandb" in ended.err
    points = [
        (100, {"train/loss": 1.5, "train/lr": 1e-3}),
        (200, {"train/loss": 0.5, "train/lr": 1e-3}),
    ]
    assert given[0] == "sum lru 0123456789ab s0"
    seeds = [[f"sum lru 0123456789ab s{seed}", *points, False] for seed in (0, 1)]
    assert given == [*seeds[0], *seeds[1]]
    given.clear()
    assert "s0: 0 of 2 points" in lrbench("export", str(cell / "s0"), "--to", "wandb").err
    assert given == [seeds[0][0], False]
    assert "s0: 2 of 2 points" in lrbench("export", str(cell / "s0"), "--to", "wandb", "--new").err


def test_what_is_refused(lrbench: Run, cell: Path, given: list[Any]) -> None:
    ended = lrbench("export", "elsewhere", "--to", "wandb")
    assert ended.code == 1 and "no run in 'elsewhere'" in ended.err
    (cell / "s0" / "metrics.jsonl").write_text("{\n{}\n")
    ended = lrbench("export", str(cell), "--to", "wandb")
    assert ended.code == 1 and "metrics.jsonl: line 1 is not a JSON object" in ended.err
    lease = cell / ".leases" / "s1" / "lease.json"
    lease.parent.mkdir(parents=True)
    beat = {"pid": os.getppid(), "host": machine.host(), "machine": machine.identity()}
    lease.write_text(json.dumps(beat))
    ended = lrbench("export", str(cell), "--to", "wandb")
    assert ended.code == 1 and "s1 is being trained now" in ended.err and given == []


def test_a_tracker_that_is_not_there(
    lrbench: Run, cell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = lrbench("export", "outputs", "--to", "tensorbord")
    assert ended.code == 2 and "Did you mean 'tensorboard'?" in ended.err
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    ended = lrbench("export", "outputs", "--to", "trackio")
    assert ended.code == 1 and "pip install 'lrbench-extrapolation[trackio]'" in ended.err


def test_what_a_package_raises_is_told_in_a_line(
    lrbench: Run, cell: Path, given: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str, run: TrackedRun, afresh: bool) -> None:
        raise PermissionError("no account")

    monkeypatch.setattr(export, "open_tracker", refuse)
    ended = lrbench("export", str(cell / "s0"), "--to", "wandb")
    assert ended.code == 1 and "wandb failed: PermissionError: no account" in ended.err
    assert "Traceback" not in ended.err
