"""What is timed is what is said: one update, a group's, its data, and a look."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import group_speed
from lrbench.bench.timing import Rounds


def test_each_part_does_its_work() -> None:
    calls = group_speed.parts("sum", "blockdiag", "cpu")
    assert list(calls) == ["update", "data", "look"]
    for call in calls.values():
        call()


def test_groups_are_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_speed, "UPDATES", {"sum": 2})
    calls = group_speed.groups("sum", "blockdiag", 2, "cpu")
    assert list(calls) == ["one", "group"]
    calls["group"]()  # raises where the command does not end well


def test_multiples_are_of_one_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = Rounds({"update": [1.0, 2.0, 1.0], "data": [0.02] * 3, "look": [5.0] * 3})
    group = Rounds({"one": [1.0, 2.0, 1.0], "group": [3.0, 6.0, 4.0]})
    found = iter([parts, group])
    monkeypatch.setattr(group_speed, "parts", lambda *_: {})
    monkeypatch.setattr(group_speed, "alternate", lambda *_: next(found))
    monkeypatch.setattr(group_speed, "RESULTS", tmp_path)
    group_speed.main(["--tasks", "sum", "--write"])
    assert "5 trials  3.00 x one (3.00..4.00)" in capsys.readouterr().out
    assert json.loads((tmp_path / "group_speed.json").read_text())["tasks"]["sum"]["one"][1] == 2
