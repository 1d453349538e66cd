"""Scores on splits: each string once, whatever the batches, and nothing dropped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.rir2023 import scores
from lrbench.protocols.rir2023.scores import batches_by_length, score_split, strings_at
from lrbench.runs.folder.examined import Examined
from lrbench.tasks.corpus.strings import Strings
from lrbench.training.examination import Kept
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
    rows, horizons = procedure.examine(trial, Kept(lambda rule: weights), unwatched)
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


def test_an_examination_goes_on_after_the_splits_that_are_scored(
    trial: Trial, tmp_path: Path
) -> None:
    look = {"step": 3, "validation_loss": 1.0, "validation_accuracy": 0.25, "validation_n": 24}
    trial.rules.kept = {"best": look, "last": {**look, "step": 5}}
    first = {name: value.clone() for name, value in trial.model.state_dict().items()}
    weights = {"best": first, "last": {name: value + 0.1 for name, value in first.items()}}
    procedure = procedure_for(trial.config)
    whole, _ = procedure.examine(trial, Kept(weights.__getitem__), unwatched)
    near, args = (int(scores.sizes_of(split_of(trial, n)).sum()) for n in ("near_iid", "args_10"))
    reads: list[int] = []

    def stopped(read: int = 0, planned: int = 0) -> None:
        reads.append(read)
        if sum(reads) > near + args + near:  # in the last split of the second checkpoint
            raise KeyboardInterrupt

    kept = Examined(weights.__getitem__, tmp_path / "examination.jsonl")
    with pytest.raises(KeyboardInterrupt):
        procedure.examine(trial, kept, stopped)

    told: list[tuple[int, int]] = []

    def noted(read: int = 0, planned: int = 0) -> None:
        told.append((read, planned))

    rows, _ = procedure.examine(
        trial, Examined(weights.__getitem__, tmp_path / "examination.jsonl"), noted
    )
    assert [{**row, "seconds": 0} for row in rows] == [{**row, "seconds": 0} for row in whole]
    assert sum(read for read, _ in told) == sum(planned for _, planned in told) == args


def test_other_strings_under_the_same_name_are_scored(
    trial: Trial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = {"step": 3, "validation_loss": 1.0, "validation_accuracy": 0.25, "validation_n": 24}
    trial.rules.kept = {"last": look}
    kept = Examined(lambda rule: trial.model.state_dict(), tmp_path / "examination.jsonl")
    procedure_for(trial.config).examine(trial, kept, unwatched)

    longer = made_up_corpora.write(tmp_path / "other", strings=30)
    monkeypatch.setenv("LRBENCH_DATA", str(longer))

    other = make_trial(trial.config, 0)
    other.rules.kept = {"last": look}
    rows, _ = procedure_for(other.config).examine(other, kept, unwatched)
    assert [row["n"] for row in rows if row["kind"] == "test"] == [30, 30]
