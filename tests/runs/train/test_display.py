"""Progress: speeds of the newest updates, time left, and how far examinations are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from lrbench.errors import Interrupted
from lrbench.runs.train import display
from lrbench.runs.train.display import Display, ExaminationDisplay, Pace
from lrbench.training.trial import unwatched


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
    monkeypatch.setattr(display, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    trials: Any = [
        SimpleNamespace(seed=seed, step=0, steps=1000, seconds=0.0, stopped=None) for seed in (0, 1)
    ]
    shown = Display(trials)
    for step in (100, 200, 300):
        clock[0] += 20.0
        for trial in trials:
            trial.step, trial.seconds = step, 500.0 + step / 10
            shown.logged(trial, 0.25)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "seed 0  update 100/1,000  loss 0.2500"
    # by the clock 200 updates of both in 20 s, from the first loss on: 1,400 are left
    last = "seed 0  update 300/1,000  loss 0.2500  10.0 updates/s  up to about "
    assert lines[-1].startswith(last) and lines[-1].endswith(" of training left")
    trials[1].stopped = "perfect"
    assert shown.pace.rate == pytest.approx(500 / 40)
    assert shown._left() == "up to about 56 s of training left"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(display, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    return now


def test_plain_lines_say_how_far_an_examination_is(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with ExaminationDisplay("examining", ["sum seed 0"]) as shown:
        part = shown.part("sum seed 0", unwatched)
        part(planned=1000)
        for _ in range(5):
            clock[0] += 6.0
            part(read=100)
        part.end()
    assert capsys.readouterr().err.splitlines() == [
        "sum seed 0  examining: 20%  about 48 s left",
        "sum seed 0  examining: 40%  about 36 s left",
    ]


def test_a_group_tells_of_all_its_examinations(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"sum seed {seed}" for seed in range(3)]
    with ExaminationDisplay("examining", names) as shown:
        parts = [shown.part(name, unwatched) for name in names[:2]]  # the third waits
        for part in parts:
            part(planned=500)
        for _ in range(3):
            clock[0] += 6.0
            for part in parts:
                part(read=100)
    # 300 of 1,500 at 200 in 6 s, once the second has begun to read
    line, *more = capsys.readouterr().err.splitlines()
    assert line == "3 runs  examining: 20%  about 36 s left" and not more


def test_parts_of_one_examination_add_up(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ExaminationDisplay("scoring again", ["run (1 of 1)"])
    first, second = (shown.part("run (1 of 1)", unwatched) for _ in range(2))
    first(planned=300)
    first(read=300)
    first.end()
    second(planned=700)
    for _ in range(2):
        clock[0] += 11.0
        second(read=100)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("  about")[0] for line in lines] == [
        "run (1 of 1)  scoring again: 40%",
        "run (1 of 1)  scoring again: 50%",
    ]


def test_nobody_said_how_much_there_is(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = ExaminationDisplay("examining", ["theirs"])
    part = shown.part("theirs", unwatched)
    for _ in range(5):
        clock[0] += 6.0
        part()
    assert capsys.readouterr().err == ""


def test_a_bar_follows_what_is_read_and_is_full_in_the_end(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "interactive", lambda: True)
    monkeypatch.setattr(display, "messages", lambda: Console(quiet=True))
    shown = ExaminationDisplay("examining", ["sum seed 0"])
    assert shown.bar is not None
    (row,) = shown.bar.tasks
    part = shown.part("sum seed 0", unwatched)
    clock[0] += 1.0
    part(planned=1000)
    assert (row.total, row.completed) == (1000, 0)
    clock[0] += 0.01
    part(read=300)
    assert row.completed == 0  # not at each piece: that costs time
    clock[0] += 1.0
    part(read=300)
    assert (row.total, row.completed) == (1000, 600)
    part.end()
    assert row.finished


def test_it_may_be_stopped(clock: list[float]) -> None:
    def stop(read: int = 0, planned: int = 0) -> None:
        raise Interrupted("stop")

    with pytest.raises(Interrupted):
        ExaminationDisplay("examining", ["sum seed 0"]).part("sum seed 0", stop)(read=1)
