"""What solvers tell of training: means a log and over the run, kept by checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.telemetry import Telemetry

OVERRIDES = ["task=sum", "model.width=8", "protocol.batch_size=4", "protocol.train_length=6"]


def trial(*arguments: str) -> LengthTrial:
    return LengthTrial(composed([*OVERRIDES, *arguments]), 0)


def test_means_since_the_last_log_and_over_the_run() -> None:
    one = trial("model=elman_plain_solve", "model.mixer.max_iterations=2", "model.layers=2")
    for _ in range(3):
        one.update()
    one.take_loss()
    assert one.telemetry.latest == {"iterations": 2.0, "converged": 0.0}
    one.take_loss()
    assert one.telemetry.latest == {}
    for mixer in one.model.mixers:
        mixer.limits = type(mixer.limits)()  # as many as it takes
    one.update()
    one.take_loss()
    assert one.telemetry.latest["converged"] == 1.0
    reported = one.telemetry.summary()
    assert reported["converged"] == pytest.approx(1 / 4) and reported["failed_at"] == 3


def test_a_checkpoint_keeps_it() -> None:
    arguments = ["model=elman_newton_solve"]
    whole, first, second = trial(*arguments), trial(*arguments), trial(*arguments)
    for _ in range(4):
        whole.update()
    for _ in range(2):
        first.update()
        second.update()  # updates that the state loaded knows nothing of
    second.load(first.state())
    for _ in range(2):
        second.update()
    for each in (whole, second):
        each.take_loss()
    assert second.telemetry.latest == whole.telemetry.latest
    assert second.telemetry.summary() == whole.telemetry.summary()
    assert second.telemetry.summary()["failed_at"] is None


def test_other_models_tell_nothing() -> None:
    one = trial("model=elman")
    one.update()
    one.take_loss()
    assert (one.telemetry.latest, one.telemetry.summary()) == ({}, {})


def test_checkpoints_of_before_are_read() -> None:
    one = trial("model=elman")
    state: dict[str, Any] = one.state()
    del state["telemetry"]
    one.load(state)
    assert one.telemetry.summary() == Telemetry().summary() == {}
