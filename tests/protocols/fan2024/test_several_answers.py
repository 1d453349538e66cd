"""Tasks with several answers a string: what is trained on, and what is scored."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.protocols.fan2024.examination import chance_levels, final_tests
from lrbench.protocols.fan2024.procedure import Fan2024Procedure
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.records import POSITIONS
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE
from lrbench.training import scoring
from lrbench.training.examination import Kept
from lrbench.training.procedure import EvaluationRequest
from lrbench.training.scoring import pooled, score
from lrbench.training.trial import unwatched


def config_of(*arguments: str) -> Config:
    small = ["model=lstm", "model.width=6", "protocol.max_steps=4", "protocol.look_every=2"]
    small += ["protocol.train_length=5", "protocol.test_lengths=[9]", "protocol.band=[6,7]"]
    small += ["protocol.further_lengths=[12]", "protocol.batch_size=16", "protocol.test_size=50"]
    small += ["protocol.validation_size=20", "protocol.look_size=20"]
    return composed(["task=nnch_stack_manipulation", *small, *arguments])


class Answering(nn.Module):
    """Gives prepared answers (N, T) to the strings of a test, which come in their order."""

    def __init__(self, answers: Tensor, classes: int) -> None:
        super().__init__()
        self.answers, self.classes, self.row, self.read = answers, classes, 0, 0

    def forward(self, tokens: Tensor, state: Any, read: str = "all") -> tuple[Tensor, int]:
        if state is None:
            self.row, self.read = self.row + self.read, 0
        self.read = len(tokens)
        start = state or 0
        stop = start + tokens.shape[1]
        piece = self.answers[self.row : self.row + len(tokens), start:stop]
        return one_hot(piece.clamp(min=0), self.classes).float(), stop


@pytest.mark.parametrize("symbols", [7, 1000])
def test_accuracy_is_the_share_of_scored_answers(
    symbols: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong answers behind the end cost nothing, others do; a loop over strings says how much."""
    monkeypatch.setattr(scoring, "SYMBOLS", symbols)
    task = make_task(config_of().task)
    stream, length, n = task.stream(0, "test"), 9, 40
    batch = task.sample(stream, 0, n, length, "cpu")
    wrong = torch.rand(batch.targets.shape, generator=torch.Generator().manual_seed(0)) < 0.1
    answers = torch.where(wrong | ~batch.counted, (batch.targets + 1) % 3, batch.targets)
    answers[20:] = torch.where(batch.counted, batch.targets, 0)[20:]
    right = scored = whole = 0
    for given, wanted in zip(answers.tolist(), batch.targets.tolist(), strict=True):
        mine = wanted[length : wanted.index(2) + 1]
        hits = [a == b for a, b in zip(given[length:], mine, strict=False)]
        right, scored, whole = right + sum(hits), scored + len(mine), whole + all(hits)
    found = score(Answering(answers, 3), task, stream, length, n, "cpu", rows=16)
    assert found.averaged
    assert found.accuracy == found.value == right / scored
    assert found.correct == right * n // scored
    assert found.positions is not None
    assert found.positions.sequence == whole / n
    assert 20 <= whole < n
    perfect = torch.where(batch.counted, batch.targets, 0)
    best = score(Answering(perfect, 3), task, stream, length, n, "cpu", rows=16)
    assert (best.accuracy, best.correct) == (1.0, n)
    weights = found.positions.scored, best.positions.scored  # type: ignore[union-attr]
    assert pooled([found, best]) == (right + weights[1]) / sum(weights)


def test_all_slots_are_trained_on() -> None:
    trial = LengthTrial(config_of(), 0)
    batch = trial.batch(1)
    assert ((batch.targets != IGNORE).sum(1) == 6).all()
    assert (batch.counted.sum(1) < 6).any()
    logits, _ = trial.model(batch.tokens)
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.targets.flatten())
    assert float(trial.update()) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_results_tell_exact_strings_beside_the_average() -> None:
    trial = LengthTrial(config_of(), 0)
    trial.update()
    look = trial.look(unwatched)
    trial.rules.consider(look)
    weights = {key: value.clone() for key, value in trial.model.state_dict().items()}
    rows, horizons = final_tests(trial, Kept(lambda rule: weights), unwatched)
    last = [row for row in rows if row["kind"] == "test" and row["which"] == "last"]
    exact = {row["length"]: row["value"] for row in last if row["metric"] == "exact"}
    accuracy = {row["length"]: row["value"] for row in last if row["metric"] == "accuracy"}
    assert set(exact) == set(accuracy) == {5, 9, 12}
    assert all(exact[length] <= accuracy[length] for length in exact)
    assert {row["split"] for row in last if row["metric"] == "exact"} == {POSITIONS}
    assert {row["metric"] for row in last} == {"exact", "accuracy"}
    assert horizons["last"]["lower"] is None
    baselines, guessing = chance_levels(trial, unwatched)
    assert {row["length"] for row in baselines} == {5, 9, 12}
    assert guessing[0]["length"] == 9


def test_an_evaluation_tells_exact_strings() -> None:
    procedure = Fan2024Procedure(config_of())
    trial = procedure.trial(0)
    request = EvaluationRequest("7,11", 30, "")
    rows = procedure.evaluate(trial, request, "last", unwatched, "evaluate")
    assert [(row["length"], row["n"]) for row in rows] == [(7, 30), (11, 30)]
    assert all(0 <= row["exact"] <= row["value"] <= 1 for row in rows)


def test_one_answer_of_several_is_no_supervision() -> None:
    with pytest.raises(UserError, match=r"supervision=last trains on one answer a string; task"):
        Fan2024Procedure(config_of("protocol.supervision=last")).validate()
    one = config_of("task=nnch_parity_check", "protocol.supervision=last")
    Fan2024Procedure(one).validate()
