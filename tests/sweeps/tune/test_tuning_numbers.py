"""The choice of a tuning run where a task is scored by an error: the lowest wins."""

from __future__ import annotations

import math
from io import StringIO
from types import SimpleNamespace
from typing import Any

from rich.console import Console

from lrbench.metrics import NRMSE
from lrbench.sweeps.plan.report import accuracy
from lrbench.sweeps.tune.choice import Point, attempt, winner
from lrbench.sweeps.tune.table import row_of, study_table, validation


def result(error: float, loss: float = 1.0, status: str = "finished") -> dict[str, Any]:
    look = {"length": 50, "split": "train_length", "kind": "look", "which": "id", "n": 8}
    test = {"length": 50, "split": "test", "kind": "test", "which": "id", "n": 64}
    return {
        "protocol": "fan2024",
        "config": {"protocol": {"test_lengths": [50]}},
        "status": status,
        "checkpoints": {"id": 70},
        "evaluations": [
            {**look, "metric": "nrmse", "value": error},
            {**look, "metric": "loss", "value": loss},
            {**test, "metric": "nrmse", "value": 0.123},
        ],
    }


def point(*results: dict[str, Any] | None, lr: float = 0.1) -> Point:
    attempts = tuple(attempt(seed, content) for seed, content in enumerate(results))
    return Point((("optim.lr", lr),), attempts)


DIVERGED = result(0.0, 0.0, "diverged")


def test_the_lowest_mean_error_wins_then_the_lowest_loss() -> None:
    assert winner([point(result(0.3)), point(result(0.1)), point(result(0.2))]) == 1
    assert winner([point(result(0.1), result(0.5)), point(result(0.2), result(0.2))]) == 1
    assert winner([point(result(0.1, 0.3)), point(result(0.1, 0.2))]) == 1


def test_a_lost_run_counts_as_infinitely_wrong() -> None:
    for lost in (None, DIVERGED):
        assert point(result(0.1), lost).accuracy == math.inf
        assert winner([point(result(0.1), lost), point(result(0.9), result(0.9))]) == 1
    assert winner([point(None), point(DIVERGED)]) is None


def test_what_is_printed() -> None:
    points = [point(result(0.25), lr=0.01), point(DIVERGED, lr=0.1)]
    assert row_of(points[0], NRMSE).accuracy == "0.2500"
    assert row_of(points[1], NRMSE).accuracy == "inf"
    assert validation(result(0.25)) == "validation NRMSE 0.250"
    assert accuracy(result(0.25), "id") == "0.123 at 50"
    console = Console(file=StringIO(), width=80)
    study = SimpleNamespace(task="t", model="m", protocol="p", budget=lambda: "2 settings")
    study_table(console, study, points, winner(points))  # type: ignore[arg-type]
    out = console.file.getvalue()  # type: ignore[attr-defined]
    assert "NRMSE" in out and "accuracy" not in out and "lower is better" in out
    assert next(line for line in out.splitlines() if "chosen" in line).split()[:2] == [
        *("0.01", "0.2500")
    ]
