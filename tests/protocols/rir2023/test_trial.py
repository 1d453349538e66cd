"""Runs over a corpus: every string once an epoch, batches of similar length, and when they end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.protocols.rir2023.scores import strings_at
from lrbench.protocols.rir2023.trial import EpochTrial
from lrbench.training.loop import train_group
from lrbench.training.procedure import make_trial
from tests import made_up_corpora
from tests.training.test_loop import Diary

Make = Callable[..., EpochTrial]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_corpora.write(tmp_path_factory.mktemp("data"))


@pytest.fixture
def trial(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A function from extra overrides to a trial of 24 strings, 4 updates an epoch."""
    monkeypatch.setenv("LRBENCH_DATA", str(corpora))
    return made_up_corpora.small_trial


def test_other_tasks_are_trained_as_ever() -> None:
    made = make_trial(composed(["task=sum", "model.width=8", "model.mixer.block_size=4"]), 0)
    assert type(made) is LengthTrial


def test_an_epoch_has_every_string_once(trial: Make) -> None:
    made = trial()
    assert (made.updates_per_epoch, made.steps) == (4, 12)
    for epoch in range(3):
        batches = [made.rows(4 * epoch + place) for place in (1, 2, 3, 4)]
        assert sorted(map(len, batches)) == [3, 7, 7, 7]
        assert sorted(np.concatenate(batches)) == list(range(24))
    assert list(made.rows(1)) != list(made.rows(5))
    assert list(made.rows(6)) == list(trial().rows(6))
    assert list(made.rows(1)) != list(trial(seed=1).rows(1))
    assert list(made.rows(1)) == list(trial("data_seed=0", seed=1).rows(1))


def test_strings_of_a_batch_are_neighbours_in_length(trial: Make) -> None:
    made = trial("protocol.bucket=4")  # one bucket: the whole epoch is sorted
    lengths = made.train.lengths
    spans = sorted(
        (lengths[rows].min(), lengths[rows].max()) for rows in map(made.rows, range(1, 5))
    )
    assert all(last <= first for (_, last), (first, _) in pairwise(spans))


def test_batches_of_a_bucket_follow_one_another(trial: Make) -> None:
    """Each bucket of 2 batches has a shorter and a longer one, in random order."""
    eight = "protocol.batch_size=3"
    made, other = trial(eight, "protocol.order=bucket"), trial(eight)
    lengths = made.train.lengths
    first_is_longer = set()
    for epoch in range(4):
        steps = range(8 * epoch + 1, 8 * epoch + 9)
        batches = [made.rows(step) for step in steps]
        for first, second in zip(batches[::2], batches[1::2], strict=True):
            one, two = lengths[first], lengths[second]
            assert one.max() <= two.min() or two.max() <= one.min()
            first_is_longer.add(bool(one.sum() > two.sum()))
        same = sorted(tuple(other.rows(step)) for step in steps)
        assert sorted(map(tuple, batches)) == same
        assert [tuple(rows) for rows in batches] != [tuple(other.rows(step)) for step in steps]
    assert first_is_longer == {False, True}


def test_pieces_add_up_to_the_gradient_of_the_batch(trial: Make) -> None:
    still = ("model.framework.in_dropout=0.0", "model.framework.out_dropout=0.0")
    arguments = (*still, "model.encoder.dropout=0.0", "optim.clip=null")
    whole, pieces = trial(*arguments), trial(*arguments, "protocol.micro_batch=3")
    rows = whole.rows(1)
    assert [len(piece) for piece in pieces._pieces(rows)] == [3, 3, 1]
    assert float(whole.update()) == pytest.approx(float(pieces.update()), rel=1e-5)
    for a, b in zip(whole.model.parameters(), pieces.model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_long_pairs_are_halved(trial: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trial("task=logic")
    assert [len(piece) for piece in made._pieces(np.arange(7))] == [7]
    monkeypatch.setattr("lrbench.protocols.rir2023.trial.LONG_PAIR", 5)
    assert [len(piece) for piece in made._pieces(np.arange(7))] == [4, 3]


def test_both_sides_of_a_pair_are_read(trial: Make) -> None:
    made = trial("task=logic")
    (first, ends, second, other_ends), labels = strings_at(made.train, np.array([1, 8]), "cpu")
    assert (first.shape[0], len(ends), second.shape[0], len(other_ends)) == (2, 2, 2, 2)
    for row, label in enumerate(labels.tolist()):
        sides = first[row, : ends[row]].tolist(), second[row, : other_ends[row]].tolist()
        assert made.task.answer(*sides) == label


def test_a_look_follows_each_epoch(trial: Make) -> None:
    made, diary = trial(), Diary()
    train_group([made], diary)
    assert diary.looks == [(0, 4), (0, 8), (0, 12)]
    assert made.stopped == "budget"
    assert made.rules.steps()["last"] == 12


def test_a_budget_of_updates_ends_with_a_look(trial: Make) -> None:
    made, diary = trial("protocol.max_steps=6"), Diary()
    train_group([made], diary)
    assert diary.looks == [(0, 4), (0, 6)]
    assert (made.stopped, made.step) == ("budget", 6)


def dev_losses(monkeypatch: pytest.MonkeyPatch, *losses: float) -> None:
    """Let the looks of a run have these losses, one after the other."""
    left = iter(losses)

    def look(trial: EpochTrial, check: Any) -> dict[str, Any]:
        loss = next(left)
        return {"step": trial.step, "validation_loss": loss, "validation_accuracy": 0.5}

    monkeypatch.setattr(EpochTrial, "look", look)


def test_patience_ends_a_run(trial: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    dev_losses(monkeypatch, 1.0, 0.5, 0.6, 0.49995, 0.7)
    made = trial("protocol.epochs=9", "protocol.patience=2")
    train_group([made], Diary())
    assert (made.stopped, made.step) == ("patience", 5 * 4)
    assert made.rules.steps() == {"best": 8, "last": 20}


def test_the_rate_falls_on_a_plateau(trial: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    dev_losses(monkeypatch, 1.0, *[2.0] * 6)
    made = trial("protocol.epochs=7", "protocol.patience=9", "optim.lr=1e-3")
    rates: list[float] = []
    update = EpochTrial.update

    def noted(self: EpochTrial) -> torch.Tensor:
        rates.append(self.rate)
        return update(self)

    monkeypatch.setattr(EpochTrial, "update", noted)
    train_group([made], Diary())
    assert rates == [1e-3] * 16 + [5e-4] * 12  # the third look that is no better is too many


def test_divergence_ends_a_run(trial: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    dev_losses(monkeypatch, 1.0, float("nan"))
    made = trial()
    train_group([made], Diary())
    assert made.stopped == "diverged"


def test_state_and_back(trial: Make) -> None:
    straight, begun = trial(), trial()
    for _ in range(6):
        begun.update()
        straight.update()
    begun.heed({"step": 4, "validation_loss": 0.3, "validation_accuracy": 0.9})
    straight.heed({"step": 4, "validation_loss": 0.3, "validation_accuracy": 0.9})
    resumed = trial()
    resumed.load(begun.state())
    for _ in range(5):
        assert float(resumed.update()) == float(straight.update())
    assert resumed.rules.state() == straight.rules.state()
