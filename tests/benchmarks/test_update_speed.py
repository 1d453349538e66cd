"""The speed comparison alternates, counts every update and takes the ratio the right way round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import update_speed
from lrbench.bench.timing import Rounds
from lrbench.errors import UserError


def test_sides_alternate_after_a_warm_up() -> None:
    calls: list[str] = []
    measured = update_speed.compare(
        lambda: calls.append("r"), lambda: calls.append("o"), rounds=3, seconds=0.0, warm_up=2
    )
    assert "".join(calls) == "ro" + "ro" + "ro" * 3
    assert [len(seconds) for seconds in measured.seconds.values()] == [3, 3]


def test_ratio_is_ours_over_the_released() -> None:
    measured = Rounds({"released": [0.5, 0.25, 1.0], "ours": [0.05, 1 / 60, 1 / 30]})
    numbers = update_speed.summary(measured)
    assert numbers["ratio"] == pytest.approx({"median": 15, "min": 10, "max": 30})
    assert numbers["released"] == {"median": 2, "min": 1, "max": 4}


def test_fewer_than_three_rounds_are_refused() -> None:
    with pytest.raises(UserError, match="at least 3"):
        update_speed.main(["--rounds", "2", "--tasks", "sum"])


@pytest.mark.parametrize("write", [False, True])
def test_raw_numbers_are_written_on_request(
    write: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "results" / "update_speed_blockdiag.json"
    monkeypatch.setattr(update_speed, "RESULTS", path.parent)
    monkeypatch.setattr(update_speed, "our_update", lambda *_: lambda: None)
    monkeypatch.setattr(update_speed, "ReleasedStep", FakeStep)
    arguments = ["--tasks", "sum", "--warm-up", "1", "--rounds", "3", "--seconds", "0"]
    update_speed.main([*arguments, "--write"] if write else arguments)
    assert "ratio    median " in capsys.readouterr().out
    assert path.exists() is write
    if write:
        report = json.loads(path.read_text())
        assert len(report["tasks"]["sum"]["seconds"]["ours"]) == 3
        assert report["options"]["threads"] == 1


class FakeStep:
    def __init__(self, *_: object, **__: object) -> None: ...

    def update(self) -> None: ...
