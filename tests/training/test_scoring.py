"""Scores do not depend on how the strings are cut up, and count what they should."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lrbench.config import Config
from lrbench.models.build import build_model
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.registry import TASKS
from lrbench.schema import model_node
from lrbench.tasks import make_task
from lrbench.training import scoring
from lrbench.training.scoring import Score, pooled, score
from tests.named_layers import named


@pytest.fixture
def trial(tiny: Callable[..., Config]) -> LengthTrial:
    return LengthTrial(tiny(), seed=0)


def test_equals_one_whole_forward_pass(trial: LengthTrial) -> None:
    stream = trial.stream("test")
    result = score(trial.model, trial.task, stream, 9, 50, "cpu", with_loss=True)
    batch = trial.task.sample(stream, 0, 50, 9, "cpu")
    with torch.no_grad():
        logits, _ = trial.model(batch.tokens)
    right = (logits[:, -1].argmax(-1) == batch.targets[:, -1]).sum()
    assert result.correct == int(right)
    assert result.accuracy == int(right) / 50
    loss = cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
    assert result.loss == pytest.approx(float(loss), rel=1e-5)


@pytest.mark.parametrize("rows", [1, 7, 50])
@pytest.mark.parametrize("symbols", [1, 20, 10_000])
def test_cutting_changes_nothing(
    trial: LengthTrial, rows: int, symbols: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = score(trial.model, trial.task, trial.stream("test"), 9, 50, "cpu")
    monkeypatch.setattr(scoring, "SYMBOLS", symbols)
    parts = score(trial.model, trial.task, trial.stream("test"), 9, 50, "cpu", rows=rows)
    assert parts.correct == whole.correct


class Dropping(nn.Module):
    """Answers at random, unless it is evaluated; a part of it is never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.kept = nn.Dropout(0.5), nn.Dropout(0.5).eval()

    def forward(self, tokens: Tensor, state: object, read: str = "all") -> tuple[Tensor, None]:
        logits = torch.arange(5.0).expand(len(tokens), 1, 5) + 1
        return self.drop(logits), None


def test_a_model_is_evaluated_while_it_is_scored(trial: LengthTrial) -> None:
    model = Dropping()
    counts = {score(model, trial.task, trial.stream("test"), 9, 50, "cpu").correct for _ in "123"}
    assert len(counts) == 1
    assert (model.training, model.drop.training, model.kept.training) == (True, True, False)
    with pytest.raises(ZeroDivisionError):
        scoring.evaluating(lambda model: 1 / 0)(model)
    assert (model.training, model.drop.training, model.kept.training) == (True, True, False)


class Overflowing(nn.Module):
    """Answers NaN everywhere."""

    def forward(self, tokens: Tensor, state: object, read: str = "all") -> tuple[Tensor, None]:
        return torch.full((len(tokens), 5), torch.nan), None


def test_a_state_that_overflowed_is_wrong(trial: LengthTrial) -> None:
    assert score(Overflowing(), trial.task, trial.stream("test"), 9, 50, "cpu").correct == 0


def test_check_is_asked_between_pieces(trial: LengthTrial) -> None:
    def stop(read: int = 0, planned: int = 0) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(trial.model, trial.task, trial.stream("test"), 9, 50, "cpu", check=stop)


def test_a_layer_without_a_state_reads_each_string_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's GRU as `foreign` scores what `gru` does with its weights, and each symbol once."""
    task = make_task(TASKS.get("sum").config())
    models = []
    for name in ("foreign", "gru"):
        node = named(model_node(name, "lrnn_release")(width=8))
        models.append(build_model(Config(model=node), 5, 5, seed=0).eval())
    whole, carried = models
    carried.mixers[0].network.load_state_dict(whole.mixers[0].layer.state_dict())
    rest = {name: p for name, p in whole.state_dict().items() if not name.startswith("mixers")}
    carried.load_state_dict(rest, strict=False)
    monkeypatch.setattr("lrbench.training.scoring.SYMBOLS", 60)
    monkeypatch.setattr("lrbench.training.scoring.WHOLE_SYMBOLS", 150)
    read = []
    whole.mixers[0].layer.register_forward_hook(lambda layer, u, y: read.append(u[0].shape[:2]))
    stream = task.stream(0, "test")
    found, expected = (
        score(model, task, stream, 37, 10, "cpu", with_loss=True) for model in (whole, carried)
    )
    assert read == [(4, 37), (4, 37), (2, 37)]
    assert found.correct == expected.correct
    assert found.loss == pytest.approx(expected.loss, rel=1e-5)


def test_errors_are_pooled_by_their_squares() -> None:
    def scored(*squares: tuple[float, float]) -> float:
        return pooled([Score(5, 1, 0, None, 0.0, one) for one in squares])

    assert scored((0.01, 0.2), (0.03, 0.2)) == pytest.approx(0.1**0.5)
    assert scored((0.01, 0.0)) == scored((float("nan"), 1.0)) == float("inf")
