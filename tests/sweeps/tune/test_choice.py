"""The choice of a tuning run, on results made by hand: nothing here was trained."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lrbench.sweeps.tune.choice import Point, attempt, score_of, winner
from lrbench.sweeps.tune.table import row_of, validation


def result(
    accuracy: float | None = 0.5, loss: float | None = 1.0, step: int = 100, **changes: Any
) -> dict[str, Any]:
    """A result.json as far as it matters; every other number is better, and must not count."""

    def row(metric: str, value: float | None, **other: Any) -> dict[str, Any]:
        usual = {"length": 40, "split": "train_length", "kind": "look", "which": "id", "n": 1024}
        return {**usual, "metric": metric, "value": value, **other}

    evaluations = [
        row("accuracy", 1.0, split="test", length=500),
        row("accuracy", 1.0, split="band", length=120),
        row("loss", 0.0, split="band", length=120),
        row("accuracy", accuracy),
        row("loss", loss),
        row("accuracy", 1.0, which="best"),
        row("loss", 0.0, which="best"),
        row("accuracy", 1.0, kind="test", n=10_000),
        row("accuracy", 1.0, kind="test", split="test", length=500),
    ]
    checkpoints = {"best": 1, "id": step, "band": 1, "last": 1}
    usual = {"status": "finished", "evaluations": evaluations, "checkpoints": checkpoints}
    return {**usual, **changes}


def point(*results: dict[str, Any] | None, lr: float = 0.1) -> Point:
    attempts = tuple(attempt(seed, content) for seed, content in enumerate(results))
    return Point((("optim.lr", lr),), attempts)


DIVERGED = result(1.0, 0.0, 1, status="diverged")


def test_only_the_look_of_the_rule_id_at_the_training_length_is_read() -> None:
    score = score_of(result(0.25, 2.0, 300))
    assert score is not None
    assert (score.accuracy, score.loss, score.step) == (0.25, 2.0, 300)
    assert validation(result(0.25)) == "validation 0.250"
    assert validation(DIVERGED) == ""


def test_the_lowest_mean_loss_over_seeds_wins() -> None:
    steady = point(result(0.8, 0.5), result(0.8, 0.5))
    lucky = point(result(1.0, 0.1), result(0.9, 1.0))
    assert winner([lucky, steady]) == 1
    assert steady.accuracy == pytest.approx(0.8)


def test_of_models_at_chance_the_one_that_learns_wins() -> None:
    """Numbers of a real search: final positions of 1,024 strings at chance, losses far apart."""
    tried = [(0.2012, 1.599), (0.2061, 1.540), (0.1982, 1.402), (0.1924, 1.223)]
    assert winner([point(result(*numbers)) for numbers in tried]) == 3


def test_equal_loss_goes_to_the_higher_accuracy_then_to_fewer_updates_then_to_the_first() -> None:
    assert winner([point(result(0.9, 0.2, 1)), point(result(1.0, 0.2, 9))]) == 1
    assert winner([point(result(1.0, 0.2, 9)), point(result(1.0, 0.2, 8))]) == 1
    assert winner([point(result(1.0, 0.2, 8)), point(result(1.0, 0.2, 8))]) == 0
    assert winner([point(result(1.0, 0.2, 8)), point(result(0.1, 0.2 - 1e-9, 99))]) == 1


def test_the_mean_does_not_depend_on_the_order_of_seeds() -> None:
    values = [0.1, 0.7, 0.3, 1.0, 0.9]
    one = point(*(result(value, 1.0, 5) for value in values))
    other = point(*(result(value, 1.0, 4) for value in reversed(values)))
    assert one.accuracy == other.accuracy
    assert winner([one, other]) == 1


@pytest.mark.parametrize("lost", [None, DIVERGED], ids=["failed", "diverged"])
def test_a_lost_run_counts_before_any_loss(lost: dict[str, Any] | None) -> None:
    half = point(result(1.0, 0.1), lost)
    assert half.accuracy == 0.5
    assert half.step == math.inf
    assert winner([half, point(result(0.2, 9.0), result(0.2, 9.0))]) == 1
    assert winner([half, point(result(1.0, 0.2), lost)]) == 0
    assert winner([point(lost, lost), point(result(0.0, 50.0))]) == 1


def test_where_every_run_is_lost_there_is_no_winner() -> None:
    assert winner([point(None), point(DIVERGED), point(result(None, None))]) is None
    assert winner([]) is None


def test_a_finished_run_without_the_numbers_is_distinguished_from_a_failed_one() -> None:
    assert attempt(0, result(loss=None)).status == "not measured"
    assert attempt(0, result(checkpoints={})).status == "not measured"
    assert attempt(0, None).status == "failed"


def test_every_point_is_shown_with_how_its_runs_ended() -> None:
    row = row_of(point(result(0.5, 0.25, 1500), DIVERGED, None, lr=1e-4))
    assert row.settings == "optim.lr=0.0001"
    assert (row.accuracy, row.loss, row.step) == ("0.1667", "0.25", "1,500")
    assert (row.runs, row.status) == ("1 of 3", "1 finished, 1 diverged, 1 failed")
    row = row_of(point(result(1.0), result(1.0)))
    assert (row.accuracy, row.runs, row.status) == ("1.0000", "2", "finished")
    row = row_of(point(DIVERGED))
    assert (row.accuracy, row.loss, row.step, row.status) == ("0.0000", "-", "-", "diverged")
