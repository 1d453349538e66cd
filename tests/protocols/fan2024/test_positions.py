"""Tests of a task that asks at every position also tell tokens, sequences and prefixes."""

from __future__ import annotations

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.examination import _examine
from lrbench.protocols.fan2024.procedure import Fan2024Procedure
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.records import POSITIONS
from lrbench.training.procedure import EvaluationRequest
from lrbench.training.trial import unwatched

OVERRIDES = [
    "model=lstm",
    "model.width=8",
    "protocol.train_length=10",
    "protocol.test_lengths=[20]",
    "protocol.further_lengths=[]",
    "protocol.test_size=60",
]


def test_rows_of_every_position_stand_beside_the_usual_ones() -> None:
    trial = LengthTrial(composed(["task=group", "task.group=S3", *OVERRIDES]), seed=0)
    rows, _ = _examine(trial, unwatched)
    usual = [row for row in rows if row["split"] != POSITIONS]
    assert [(row["length"], row["metric"]) for row in usual] == [(10, "accuracy"), (20, "accuracy")]
    found = {(row["metric"], row["length"]): row["value"] for row in rows if row not in usual}
    assert {key for key in found if key[0] != "prefix"} == {
        (metric, length) for metric in ("token", "sequence") for length in (10, 20)
    }
    assert [t for metric, t in found if metric == "prefix"] == [1, 2, 3, 4, 6, 8, 12, 16, 20]
    batch = trial.task.sample(trial.stream("test", 20), 0, 60, 20, "cpu")
    with torch.no_grad():
        right = trial.model(batch.tokens)[0].argmax(-1) == batch.targets
    assert found["token", 20] == pytest.approx(right.double().mean().item())
    for length in (1, 2, 3, 20):
        expected = right[:, :length].all(1).double().mean().item()
        assert found["prefix", length] == pytest.approx(expected)
    assert usual[1]["value"] == pytest.approx(right[:, -1].double().mean().item())


def test_other_tasks_have_no_such_rows() -> None:
    trial = LengthTrial(
        composed(["task=group", "task.group=S3", "task.ask=last", *OVERRIDES]), seed=0
    )
    assert {row["split"] for row in _examine(trial, unwatched)[0]} == {"train_length", "test"}


def test_an_evaluation_tells_them_too() -> None:
    procedure = Fan2024Procedure(composed(["task=group", "task.group=S3", *OVERRIDES]))
    trial = procedure.trial(0)
    request = EvaluationRequest("7,12", 50, "")
    rows = procedure.evaluate(trial, request, "last", unwatched, "evaluate")
    assert [(row["length"], row["metric"], row["n"]) for row in rows] == [
        (7, "accuracy", 50),
        (12, "accuracy", 50),
    ]
    batch = trial.task.sample(trial.stream("evaluate", 12), 0, 50, 12, "cpu")
    with torch.no_grad():
        right = trial.model(batch.tokens)[0].argmax(-1) == batch.targets
    assert rows[1]["token"] == pytest.approx(right.double().mean().item())
    assert rows[1]["sequence"] == pytest.approx(right.all(1).double().mean().item())
    assert [t for t, _ in rows[1]["prefix"]] == [1, 2, 3, 4, 6, 8, 12]
    for t, share in rows[1]["prefix"]:
        assert share == pytest.approx(right[:, :t].all(1).double().mean().item())


def test_a_start_symbol_moves_no_position() -> None:
    """The curve ends where the string does, at the length that tokens and sequences are of."""
    started = ["task=group", "task.group=S3", "task.start_symbol=true", *OVERRIDES]
    rows, _ = _examine(LengthTrial(composed(started), seed=0), unwatched)
    found = {(row["metric"], row["length"]): row["value"] for row in rows}
    assert max(length for metric, length in found if metric == "prefix") == 20
    assert found["prefix", 20] == found["sequence", 20]
