"""What is timed is compared first, and its ratios are told the right way round."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from benchmarks import delta_speed
from lrbench.bench.timing import Rounds


def test_what_does_not_agree_is_not_timed() -> None:
    found = {f"ours, {mode}": lambda *x, mode=mode: delta_speed.ours(mode, *x)
             for mode in delta_speed.MODES}  # fmt: skip
    found["their recurrence"] = found["ours, sequential"]
    delta_speed.check(found)
    found["another"] = lambda q, k, v, beta: delta_speed.ours("chunked", q, k, v, beta) + 0.01
    with pytest.raises(AssertionError):
        delta_speed.check(found)


def test_a_call_goes_both_ways() -> None:
    seen = []

    def function(*inputs: torch.Tensor) -> torch.Tensor:
        seen.append([x.requires_grad for x in inputs])
        return sum(x.sum() for x in inputs)  # type: ignore[return-value]

    delta_speed.both_ways(function)()
    assert seen == [[True] * 4]


def test_numbers_are_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = Rounds({"a": [0.2, 0.4, 0.6], "ours, chunked": [0.1, 0.1, 0.1]})
    first = " ".join(delta_speed.lines(measured, "ours, chunked")[0].split())
    assert first == "a 400.0 ms 4.00 times ours, chunked (2.00 to 6.00)"
    monkeypatch.setattr(delta_speed, "RESULTS", tmp_path)
    monkeypatch.setattr(delta_speed, "functions", lambda: {
        "their recurrence": lambda *x: delta_speed.ours("sequential", *x),
        "ours, chunked": lambda *x: delta_speed.ours("chunked", *x),
    })  # fmt: skip
    delta_speed.main(["--rounds", "3", "--seconds", "0", "--write"])
    assert "times ours, chunked" in capsys.readouterr().out
    kept = json.loads((tmp_path / "delta_speed.json").read_text())
    assert {name: len(seconds) for name, seconds in kept["rule"].items()} == {
        "their recurrence": 3, "ours, chunked": 3,
    }  # fmt: skip
