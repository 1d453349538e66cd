"""Training and examining a task that asks for numbers: the error and its direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.metrics import NRMSE
from lrbench.protocols.fan2024.examination import chance_levels, final_tests, test_plan
from lrbench.protocols.fan2024.rules import LengthRules
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.statistics import horizon
from lrbench.training.examination import Kept
from lrbench.training.loop import train_group
from lrbench.training.scoring import Score, pooled, score
from lrbench.training.trial import unwatched

test_plan.__test__ = False  # type: ignore[attr-defined]

NUMBERS = [
    *("task=mackey_glass", "model=lstm", "task.series=16", "task.horizon=2"),
    *("model.layers=1", "model.width=6", "optim.lr=0.03"),
    *("protocol.train_length=60", "protocol.test_lengths=[60]", "protocol.band=[60,60]"),
    *("protocol.batch_size=4", "protocol.max_steps=30", "protocol.look_every=10"),
]


def numbers(*arguments: str) -> Config:
    chosen = dict(argument.split("=", 1) for argument in [*NUMBERS, *arguments])
    return composed([f"{key}={value}" for key, value in chosen.items()])


@pytest.fixture(scope="module")
def trained() -> tuple[LengthTrial, list[dict[str, Any]]]:
    trial = LengthTrial(numbers(), 0)
    watch = Looks()
    train_group([trial], watch)
    return trial, watch.looks


class Looks:
    def __init__(self) -> None:
        self.looks: list[dict[str, Any]] = []

    def logged(self, trial: LengthTrial, loss: float) -> None:
        pass

    def looked(self, trial: LengthTrial, look: dict[str, Any], believed: list[str]) -> None:
        self.looks.append(look)

    def updated(self, trial: LengthTrial) -> None:
        pass

    def check(self, read: int = 0, planned: int = 0) -> None:
        pass


class Shift(nn.Module):
    """Foretells c times the last input."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor, state: Any = None, read: str = "all") -> tuple[Tensor, None]:
        return self.factor * x, None


def test_the_error_is_over_every_position_of_every_test_series() -> None:
    trial = LengthTrial(numbers(), 0)
    stream = trial.stream("test", 300)
    for model in (trial.model, Shift(0.7)):
        found = score(model, trial.task, stream, 300, 100, "cpu", with_loss=True, rows=3)
        whole = trial.task.sample(stream, 0, 8, 300, "cpu")
        with torch.no_grad():
            error = model(whole.tokens)[0][..., 0].double() - whole.targets.double()
        power = whole.targets.double().square().sum()
        assert found.n == 8
        assert found.value == pytest.approx(float((error.square().sum() / power).sqrt()), rel=1e-6)
        assert found.loss == pytest.approx(float(error.square().mean()), rel=1e-6)


def test_persistence_is_what_the_baseline_says() -> None:
    trial = LengthTrial(numbers(), 0)
    found = score(Shift(1.0), trial.task, trial.stream("test", 300), 300, 8, "cpu")
    assert found.value == pytest.approx(trial.task.baselines(300)["persistence"], rel=1e-6)


def test_scores_are_pooled_by_their_squares() -> None:
    parts = [Score(5, 2, 0, None, 0.0, (1.0, 4.0)), Score(5, 1, 0, None, 0.0, (3.0, 12.0))]
    assert pooled(parts) == pytest.approx(math.sqrt(4 / 16))
    assert pooled([Score(5, 2, 0, None, 0.0, (math.nan, 4.0))]) == math.inf
    assert pooled([Score(5, 4, 3, None, 0.0), Score(5, 4, 0, None, 0.0)]) == 3 / 8


def test_the_loss_is_the_squared_error_of_what_is_asked() -> None:
    for supervision, positions in (("all", slice(None)), ("last", slice(-1, None))):
        trial = LengthTrial(numbers(f"protocol.supervision={supervision}"), 0)
        batch = trial.batch(1)
        outputs = trial.model(batch.tokens)[0][..., 0]
        error = (outputs - batch.targets)[:, positions].square().mean()
        loss = trial.update()
        assert float(loss) == pytest.approx(float(error.detach()), rel=1e-5)


def test_training_lowers_the_error_and_the_lowest_is_best(
    trained: tuple[LengthTrial, list[dict[str, Any]]],
) -> None:
    trial, looks = trained
    values = [look["test_nrmse"] for look in looks]
    assert [look["step"] for look in looks] == [10, 20, 30]
    assert values[-1] < 0.9 * values[0]
    assert trial.rules.kept["best"]["test_nrmse"] == min(values)
    assert trial.stopped == "budget" and trial.perfect_look is None
    assert all(look["test_n"] == 8 and look["validation_n"] == 1 for look in looks)
    assert all(look["band_nrmse"] == look["validation_nrmse"] for look in looks)
    assert not any("accuracy" in key for look in looks for key in look)


def test_rules_want_less_of_an_error() -> None:
    def look(step: int, test: float, band: float) -> dict[str, Any]:
        return {
            **{"step": step, "test_nrmse": test, "validation_loss": 1.0},
            **{"band_nrmse": band, "band_loss": 1.0},
        }

    rules = LengthRules(metric=NRMSE)
    rules.consider(look(1, 0.5, 0.5))
    assert rules.consider(look(2, 0.4, 0.6)) == ["best", "last"]
    assert rules.consider(look(3, 0.45, 0.4)) == ["band", "last"]
    again = LengthRules(rules.state(), NRMSE)
    assert again.consider(look(4, 0.39, 0.5)) == ["best", "last"]


def test_a_resumed_trial_still_wants_less(
    trained: tuple[LengthTrial, list[dict[str, Any]]],
) -> None:
    trial, looks = trained
    again = LengthTrial(numbers(), 0)
    again.load(trial.state())
    worse = {**looks[-1], "step": 31, "test_nrmse": 99.0}
    assert "best" not in again.rules.consider(worse)


def test_a_look_of_one_is_not_perfect(monkeypatch: pytest.MonkeyPatch) -> None:
    real = LengthTrial.look

    def look(trial: LengthTrial, check: Callable[[], None]) -> dict[str, Any]:
        return {**real(trial, check), "test_nrmse": 1.0}

    monkeypatch.setattr(LengthTrial, "look", look)
    trial = LengthTrial(numbers("protocol.stop=perfect", "protocol.max_steps=2"), 0)
    train_group([trial], Looks())
    assert trial.stopped == "budget" and trial.perfect_look is None


def test_the_examination_is_of_the_test_series_and_has_no_horizon(
    trained: tuple[LengthTrial, list[dict[str, Any]]],
) -> None:
    trial, _ = trained
    weights = {key: value.clone() for key, value in trial.model.state_dict().items()}
    assert test_plan(trial.task, trial.config.protocol) == [(60, "test", 64)]
    rows, horizons = final_tests(trial, Kept(lambda rule: weights), unwatched)
    assert horizons == {}
    tests = [row for row in rows if row["kind"] == "test"]
    assert {(row["metric"], row["length"], row["split"], row["n"]) for row in tests} == {
        ("nrmse", 60, "test", 8)
    }
    looks = {(row["split"], row["metric"]) for row in rows if row["kind"] == "look"}
    assert looks == {
        (split, metric)
        for split in ("test", "train_length", "band")
        for metric in ("nrmse", "loss")
    } - {("test", "loss")}
    baselines, guessing = chance_levels(trial, unwatched)
    assert guessing == []
    assert {row["baseline"] for row in baselines} == {"mean", "persistence"}
    assert tests[0]["value"] < next(b["value"] for b in baselines if b["baseline"] == "mean")


def test_a_longer_prefix_is_a_further_length() -> None:
    config = numbers("protocol.further_lengths=[90]")
    trial = LengthTrial(config, 0)
    assert test_plan(trial.task, config.protocol) == [(60, "test", 64), (90, "further", 6)]


def test_a_horizon_is_of_right_answers_only() -> None:
    assert horizon([(5, 4, 4)])["text"] == "< 5"
