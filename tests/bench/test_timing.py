"""Turns are taken in order, medians and ratios are those of rounds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lrbench.bench import timing
from lrbench.bench.timing import Rounds, alternate, keep, time_of
from lrbench.errors import UserError


def test_each_round_times_everything_in_turn() -> None:
    made: list[str] = []
    reported: list[str] = []
    calls = {"a": lambda: made.append("a"), "b": lambda: made.append("b")}
    measured = alternate(calls, 3, 0.0, reported.append)
    assert made == ["a", "b"] * 4  # once unheeded, then three rounds
    assert reported == ["round 1 of 3", "round 2 of 3", "round 3 of 3"]
    assert all(len(times) == 3 for times in measured.seconds.values())


def test_a_call_is_made_until_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))  # a tick a look: the first begins, then one after each call
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(timing, "_settle", lambda: False)
    made: list[int] = []
    assert time_of(lambda: made.append(1), 4) == 1.0
    assert len(made) == 4
    monkeypatch.setattr(timing, "_settle", lambda: bool(made))  # a GPU, which is waited for
    assert time_of(lambda: made.append(1), 4) == 1.25


def test_medians_are_of_rounds() -> None:
    measured = Rounds({"a": [2.0, 40.0, 6.0], "b": [1.0, 10.0, 2.0]})
    assert measured.time("a") == 6.0
    assert measured.ratio("a", "b") == 3.0  # of 2, 4 and 3


def test_fewer_rounds_than_three_are_refused() -> None:
    with pytest.raises(UserError, match="--rounds must be at least 3, not 2"):
        alternate({}, 2, 0.0)


def test_raw_numbers_are_kept_with_what_they_ran_on(tmp_path: Path) -> None:
    keep(tmp_path / "new" / "raw.json", "a test", {"rounds": 3}, {"costs": [1.5]})
    kept = json.loads((tmp_path / "new" / "raw.json").read_text())
    assert (kept["what"], kept["options"], kept["costs"]) == ("a test", {"rounds": 3}, [1.5])
    assert kept["environment"]["torch"]


def test_a_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--output"):
        keep(tmp_path / "file" / "raw.json", "a test", {}, {})


def test_memory_cannot_be_measured_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "CLEAR", tmp_path / "clear_refs")
    with pytest.raises(UserError, match="fix: measure on Linux, or on a GPU"):
        timing.forget_peak()
