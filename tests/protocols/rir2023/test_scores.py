"""Scores on splits: each string once, whatever the batches, and nothing dropped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.rir2023 import scores
from lrbench.protocols.rir2023.scores import batches_by_length, score_split, strings_at
from lrbench.tasks.corpus.strings import Strings
from lrbench.training.procedure import make_trial, procedure_for
from lrbench.training.trial import Trial, unwatched
from tests import made_up_corpora


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trial:
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path)))
    arguments = ["task=listops", "model=bbt_grc", "model.width=8"]
    return make_trial(composed([*arguments, "protocol.test_splits=[near_iid,args_10]"]), 0)


def split_of(trial: Trial, name: str) -> Strings:
    return trial.task.load(name)  # type: ignore[attr-defined, no-any-return]


def test_batches_have_every_string_once_and_are_not_too_large() -> None:
    sizes = np.random.default_rng(0).integers(1, 900, 2_000)
    batches = list(batches_by_length(sizes))
    assert sorted(np.concatenate(batches)) == list(range(2_000))
    for rows in batches:
        assert len(rows) <= scores.MOST
        assert len(rows) == 1 or len(rows) * sizes[rows].max() <= scores.POSITIONS


def test_a_string_longer_than_a_batch_is_read_alone() -> None:
    huge = scores.POSITIONS * 2
    assert [list(rows) for rows in batches_by_length(np.array([huge, 3, huge]))] == [[1], [0], [2]]


def test_scores_are_those_of_one_string_after_the_other(trial: Trial) -> None:
    strings = split_of(trial, "near_iid")
    score = score_split(trial.model, strings, "cpu")
    right, loss = 0, 0.0
    for row in range(len(strings)):
        inputs, labels = strings_at(strings, np.array([row]), "cpu")
        logits = trial.model(*inputs)[0].detach()
        right += int(logits.argmax()) == int(labels[0])
        loss -= float(logits.double().log_softmax(0)[labels[0]])
    assert (score.n, score.correct) == (24, right)
    assert score.loss == pytest.approx(loss / 24, rel=1e-6)
    assert score.longest == strings.lengths.max()


def test_what_is_not_finite_is_wrong(trial: Trial) -> None:
    with torch.no_grad():
        next(trial.model.parameters()).fill_(float("nan"))
    score = score_split(trial.model, split_of(trial, "dev"), "cpu")
    assert score.correct == 0 and not np.isfinite(score.loss)


def test_final_rows_name_their_splits(trial: Trial) -> None:
    look = {"step": 3, "validation_loss": 1.0, "validation_accuracy": 0.25, "validation_n": 24}
    trial.rules.kept = {"best": look, "last": {**look, "step": 5}}
    weights = {name: value.clone() for name, value in trial.model.state_dict().items()}
    procedure = procedure_for(trial.config)
    rows, horizons = procedure.examine(trial, lambda rule: weights, unwatched)
    assert horizons == {}
    tests = [(row["which"], row["split"]) for row in rows if row["kind"] == "test"]
    assert tests == [
        (rule, split) for rule in ("best", "last") for split in ("near_iid", "args_10")
    ]
    looks = [row for row in rows if row["kind"] == "look" and row["metric"] == "accuracy"]
    assert {(row["split"], row["value"], row["n"]) for row in looks} == {("dev", 0.25, 24)}
    baselines, guessing = procedure.levels(trial, unwatched)
    assert guessing == []
    assert {row["split"] for row in baselines} == {"near_iid", "args_10"}
    assert {row["baseline"] for row in baselines} >= {"uniform", "majority", "root_digits"}
