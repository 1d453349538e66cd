"""The speed comparison alternates, counts every update and takes the ratio the right way round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import update_speed


def test_sides_alternate_after_a_warm_up() -> None:
    calls: list[str] = []
    entries = update_speed.compare(
        lambda: calls.append("r"), lambda: calls.append("o"), repetitions=3, seconds=0.0, warm_up=1
    )
    assert "".join(calls) == "ro" + "rrrooo" * 3
    assert [entry["released"]["updates"] for entry in entries] == [3, 3, 3]


def test_ratio_is_ours_over_the_released() -> None:
    def entry(released: float, ours: float) -> dict[str, object]:
        rates = {"released": released, "ours": ours}
        sides = {side: {"updates_per_second": rate} for side, rate in rates.items()}
        return {**sides, "ratio": ours / released}

    numbers = update_speed.summary([entry(2, 20), entry(4, 60), entry(1, 30)])
    assert numbers["ratio"] == {"median": 15, "min": 10, "max": 30}
    assert numbers["released"] == {"median": 2, "min": 1, "max": 4}


def test_fewer_than_three_repetitions_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        update_speed.parse(["--repetitions", "2"])
    assert "at least 3" in capsys.readouterr().err


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
    monkeypatch.setattr(update_speed, "timed", fake_timed)
    words = ["--tasks", "sum", "--warm-up", "0", "--repetitions", "3"]
    update_speed.main([*words, "--write"] if write else words)
    assert "ratio    median     1.00" in capsys.readouterr().out
    assert path.exists() is write
    if write:
        report = json.loads(path.read_text())
        assert len(report["tasks"]["sum"]["repetitions"]) == 3
        assert report["options"]["threads"] == 1


def fake_timed(update: object, seconds: float) -> dict[str, float]:
    return {"updates": 1, "seconds": 1.0, "updates_per_second": 1.0}
