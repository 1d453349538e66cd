"""Training on signals that end in a class: asked once, at the end, from made-up images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.protocols.fan2024.examination import chance_levels, final_tests, test_plan
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.examination import Kept
from lrbench.training.trial import unwatched
from tests import made_up_mnist

test_plan.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_mnist.write(tmp_path)))
    arguments = ["task=psmnist", "model=lstm", "model.width=6", "protocol.max_steps=4"]
    arguments += ["protocol.train_length=20", "protocol.test_lengths=[20]", "protocol.band=[20,20]"]
    return composed([*arguments, "protocol.batch_size=5", "protocol.look_every=2"])


def test_only_the_last_position_is_asked_and_made(config: Config) -> None:
    trial = LengthTrial(config, 0)
    batch = trial.batch(1)
    logits = trial.model(batch.tokens)[0][:, -1]
    expected = torch.nn.functional.cross_entropy(logits, batch.targets[:, -1])
    assert float(trial.update()) == pytest.approx(float(expected.detach()), rel=1e-5)
    reads = []
    forward = trial.model.forward

    def noted(*arguments: object, **named: object) -> object:
        reads.append(named["read"])
        return forward(*arguments, **named)

    trial.model.forward = noted  # type: ignore[method-assign, assignment]
    trial.update()
    assert reads == ["last"]


def test_it_is_examined_by_accuracy_without_a_horizon(config: Config) -> None:
    trial = LengthTrial(config, 0)
    trial.update()
    look = trial.look(unwatched)
    assert (look["test_n"], look["validation_n"]) == (20, 10)
    assert 0 <= look["test_accuracy"] <= 1
    trial.rules.consider(look)
    weights = {key: value.clone() for key, value in trial.model.state_dict().items()}
    rows, horizons = final_tests(trial, Kept(lambda rule: weights), unwatched)
    assert horizons == {}
    tests = [row for row in rows if row["kind"] == "test"]
    assert {(row["metric"], row["split"], row["n"]) for row in tests} == {("accuracy", "test", 20)}
    baselines, guessing = chance_levels(trial, unwatched)
    assert {row["baseline"] for row in baselines} == {"uniform", "majority"}
    assert (guessing[0]["strings"], guessing[0]["looks"]) == (20, 2)
