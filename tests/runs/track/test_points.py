"""A run's numbers by name: from lines of metrics.jsonl and rows of result.json, written by hand."""

from __future__ import annotations

from typing import Any

from lrbench.runs.track.points import TrackedPoint, points_of, scores_of

LOSS = {"step": 100, "loss": 1.5, "lr": 1e-3, "seconds": 2.0, "iterations": 7}
LOOK = {"step": 100, "seconds": 2.0, "test_length": 500, "test_n": 64, "test_accuracy": 0.25}


def test_lines_are_points_and_notices_are_not() -> None:
    look = {"step": 100, "look": {**LOOK, "validation_loss": None}, "believed": ["best"]}
    found = list(points_of([LOSS, {"step": 100, "notice": "!"}, look], None))
    train = {"train/loss": 1.5, "train/lr": 1e-3, "train/seconds": 2.0, "train/iterations": 7.0}
    looked = {"look/seconds": 2.0, "look/test_accuracy": 0.25}
    assert found == [TrackedPoint("train", 100, train), TrackedPoint("look", 100, looked)]


def row(split: str, length: int, value: float | None, **more: Any) -> dict[str, Any]:
    named = {"split": split, "length": length, "value": value, "which": "best"}
    return {"metric": "accuracy", "kind": "test", **named, **more}


def test_scores_are_by_length_or_by_split() -> None:
    rows = [row("test", 500, 0.75), row("further", 503, None), row("positions", 40, 1.0)]
    rows += [row("by_length", 41, 1.0), row("test", 500, 0.5, kind="look")]
    result: Any = {"protocol": "fan2024", "steps": 6, "evaluations": rows}
    assert scores_of(result) == TrackedPoint("test", 6, {"test/best/accuracy/500": 0.75})
    result |= {"protocol": "rir2023", "evaluations": [row("near_iid", 100, 0.5)]}
    assert scores_of(result) == TrackedPoint("test", 6, {"test/best/accuracy/near_iid": 0.5})
