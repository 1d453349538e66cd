"""Speeds and time left in progress: of the newest updates, so that compilation does not count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lrbench.runs.train import watch
from lrbench.runs.train.watch import Display, Pace


def test_a_pace_is_that_of_the_newest_points() -> None:
    pace = Pace()
    assert pace.rate is None
    pace.add(100.0, 100)  # compiled
    assert pace.rate is None
    for step in range(200, 3000, 100):
        pace.add(100.0 + step / 50, step)
    assert pace.rate == pytest.approx(50)
    for step in range(3000, 5000, 100):  # half as fast, for longer than a window
        pace.add(160.0 + (step - 3000) / 25, step)
    assert pace.rate == pytest.approx(25)


def test_plain_lines_say_speed_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = [0.0]
    monkeypatch.setattr(watch, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    trials: Any = [
        SimpleNamespace(seed=seed, step=0, steps=1000, seconds=0.0, stopped=None) for seed in (0, 1)
    ]
    display = Display(trials)
    for step in (100, 200, 300):
        clock[0] += 20.0
        for trial in trials:
            trial.step, trial.seconds = step, 500.0 + step / 10
            display.logged(trial, 0.25)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "seed 0  update 100/1,000  loss 0.2500"
    # by the clock 200 updates of both in 20 s, from the first loss on: 1,400 are left
    last = "seed 0  update 300/1,000  loss 0.2500  10.0 updates/s  at most "
    assert lines[-1].startswith(last) and lines[-1].endswith(" left")
    trials[1].stopped = "perfect"
    assert display.pace.rate == pytest.approx(500 / 40)
    assert display._left() == "at most 56 s left"
