"""Trackers beside training: given each number once, and never the end of a run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.runs.folder import files
from lrbench.runs.folder.cell import Cell
from lrbench.runs.track import live, tracker
from lrbench.runs.track.points import TrackedPoint, points_of
from lrbench.runs.track.tracker import Remembering, open_tracker
from lrbench.runs.train import validate
from lrbench.runs.train.job import run_cell
from lrbench.training.trial import Trial

Tiny = Callable[..., Config]


class Told(Remembering):
    """A server that outlives runs, in memory; `broken` says in what it fails."""

    name = "wandb"
    points: dict[str, list[TrackedPoint]] = {}  # noqa: RUF012 -- one server for all
    closed: list[bool] = []  # noqa: RUF012
    broken = ""

    def log(self, point: TrackedPoint) -> None:
        if self.broken == "log" and point.step >= 4:
            raise ConnectionError("no network")
        self.points.setdefault(self.id, []).append(point)

    def close(self, ended: bool) -> None:
        self.closed.append(ended)
        if self.broken == "close":
            raise ConnectionError("no network")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> type[Told]:
    for name, value in (("points", {}), ("closed", []), ("broken", "")):
        monkeypatch.setattr(Told, name, value)
    module: Any = ModuleType("wandb")
    module.TRACKER = Told
    monkeypatch.setitem(sys.modules, "lrbench.runs.track.wandb", module)
    monkeypatch.setattr(validate, "require_tracker", lambda name: None)
    return Told


@pytest.mark.slow
def test_numbers_are_those_of_the_files(tiny: Tiny, told: type[Told]) -> None:
    outcomes = run_cell(tiny(track="wandb", trials=2))
    assert [one.status for one in outcomes] == ["finished", "finished"]
    assert told.closed == [True, True] and len(told.points) == 2
    files_say = []
    for one in outcomes:
        lines = files.read_lines(one.folder / "metrics.jsonl")
        files_say.append(list(points_of(lines, one.result)))
        assert "track" not in (one.result or {})["config"]
    assert sorted(map(str, told.points.values())) == sorted(map(str, files_say))
    assert Cell.of(tiny(track="wandb")).fingerprint == Cell.of(tiny()).fingerprint


@pytest.mark.slow
def test_a_run_that_goes_on_is_told_nothing_twice(
    tiny: Tiny, told: type[Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    [whole] = run_cell(tiny())
    expected = list(points_of(files.read_lines(whole.folder / "metrics.jsonl"), whole.result))
    shutil.rmtree(whole.folder)
    update = Trial.update

    def cut(trial: Trial) -> Any:
        if trial.step == 4:
            raise RuntimeError("the power went out")
        return update(trial)

    with monkeypatch.context() as patch:
        patch.setattr(Trial, "update", cut)
        assert [one.status for one in run_cell(tiny(track="wandb"))] == ["failed"]
    assert told.closed == [False]
    shutil.rmtree(whole.folder / "checkpoints")  # so it begins again at the first update
    [again] = run_cell(tiny(track="wandb"))
    [points] = told.points.values()  # under one id
    untimed = [[(p.kind, p.step) for p in some] for some in (points, expected)]
    assert untimed[0] == untimed[1]
    for ours, theirs in zip(points, expected, strict=True):
        timeless = [k for k in theirs.values if not k.endswith("/seconds")]
        assert [ours.values[k] for k in timeless] == [theirs.values[k] for k in timeless]
    assert again.status == "finished"


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["log", "close"])
def test_a_tracker_that_fails_is_told_of_once(
    broken: str, tiny: Tiny, told: type[Told], capsys: pytest.CaptureFixture[str]
) -> None:
    told.broken = broken
    [outcome] = run_cell(tiny(track="wandb"))
    assert outcome.status == "finished"
    lines = [line for line in capsys.readouterr().err.splitlines() if "tracking" in line]
    assert len(lines) == 1 and "ConnectionError: no network" in lines[0]
    assert f"lrbench export {outcome.folder} --to wandb" in lines[0]
    assert "tracking by wandb failed" in (outcome.folder / "run.log").read_text()


def test_a_package_that_does_not_import_loses_no_run(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(validate, "require_tracker", lambda name: None)
    monkeypatch.setattr(live, "open_tracker", lambda *run: open_tracker("missing", *run))
    [outcome] = run_cell(tiny(track="trackio"))
    assert outcome.status == "finished"
    assert "tracking by trackio failed and is left: ModuleNotFoundError" in capsys.readouterr().err


def test_a_missing_package_is_told_before_anything_is_written(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'lrbench-extrapolation\[tensorboard\]'"):
        run_cell(tiny(track="tensorboard"))
    assert not Cell.of(tiny()).folder.exists()
    with pytest.raises(ValueError, match="track must be one of tensorboard, wandb, trackio"):
        Config(track="tensorbord")
