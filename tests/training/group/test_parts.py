"""Batches in parts: the whole batch's gradient, the same bits in any number of processes, ends."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.protocols.rir2023.trial import EpochTrial
from lrbench.training.group.parts import Order, Together, answer
from lrbench.training.loop import train_group
from tests import made_up_corpora
from tests.training.test_loop import Diary

Make = Callable[..., EpochTrial]


STILL = ["model.framework.in_dropout=0", "model.framework.out_dropout=0", "model.encoder.dropout=0"]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up_corpora.write(tmp_path_factory.mktemp("data"))


@pytest.fixture
def trial(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A function from more overrides to a trial of 24 strings: batches of 7, 7, 7 and 3."""
    monkeypatch.setenv("LRBENCH_DATA", str(corpora))
    monkeypatch.setenv("LRBENCH_COMPILED", "0")  # each process would import numba, for a second
    return made_up_corpora.small_trial


def gradients(trial: EpochTrial) -> list[Tensor]:
    """Return those of the next update, and leave the weights as they are."""
    trial.step += 1
    trial.optimiser.zero_grad(set_to_none=True)
    trial.descend()
    return [weight.grad for weight in trial.model.parameters() if weight.grad is not None]


@pytest.mark.parametrize("extra", [[], ["protocol.micro_batch=2"], ["task=logic"]])
def test_parts_add_up_to_the_batch(trial: Make, extra: list[str]) -> None:
    whole, divided = trial(*STILL, *extra), trial(*STILL, "protocol.parts=5", *extra)
    for made in (whole, divided):
        made.model.double()
    for _ in range(2):
        both = gradients(whole), gradients(divided)
        assert len(both[0]) == len(both[1]) > 5
        for one, other in zip(*both, strict=True):
            assert torch.allclose(one, other, rtol=1e-12, atol=1e-15)


def test_any_number_of_processes_gives_the_same_bits(trial: Make) -> None:
    """With dropout; the last batch, of 3 strings, has parts without any."""
    found = []
    for threads in (1, 3):
        words = "protocol.parts=4", f"threads={threads}", "protocol.epochs=1"
        made, diary = trial(*words), Diary()
        train_group([made], diary)
        assert diary.looks == [(0, 4)] and not diary.failures and made.stopped == "budget"
        found.append((made.rules.kept["last"]["validation_loss"], made.model.state_dict()))
    loss, weights = found[0]
    for other_loss, other in found[1:]:
        assert other_loss == loss
        assert all(torch.equal(other[name], weight) for name, weight in weights.items())


def test_what_is_dropped_depends_on_seed_update_and_part_alone(trial: Make) -> None:
    one = trial("protocol.parts=2")
    one.step = 1
    shares = [one.share(part) for part in (1, 0, 1)]
    assert torch.equal(shares[0].loss, shares[2].loss)
    again = trial("protocol.parts=2", "data_seed=0", seed=1)
    again.model.load_state_dict(one.model.state_dict())
    again.step = 1
    assert list(again.rows(1)) == list(one.rows(1))
    assert not torch.equal(again.share(1).loss, shares[0].loss)


def test_processes_end_with_the_training_and_with_the_trial(trial: Make) -> None:
    made = trial("protocol.parts=2", "threads=2")
    made.update()
    assert made._together is not None
    [process] = made._together.crew.processes.values()
    assert process.poll() is None
    train_group([made], Diary())
    assert made.stopped == "budget" and made._together is None
    assert process.poll() == -signal.SIGKILL

    made = trial("protocol.parts=2", "threads=2")
    made.update()
    [process] = made._together.crew.processes.values()
    del made
    gc.collect()
    assert process.poll() == -signal.SIGKILL


def test_what_fails_there_is_raised_here_and_a_death_is_told_of(trial: Make) -> None:
    made = trial("protocol.parts=2", "threads=2")
    made.step = 1
    made._together = Together(made, 2)
    [process] = made._together.crew.processes.values()
    made.model.extra = torch.nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match=r"Unexpected key.*extra\.weight"):
        made._together.shares(made, 2)

    del made.model.extra
    process.kill()
    diary = Diary()
    train_group([made], diary)
    [(_, told)] = diary.failures
    assert told == "a process that computes parts of updates ended with signal 9"


def test_an_order_is_of_its_update_and_weights(trial: Make) -> None:
    made, other = trial("protocol.parts=3"), trial("protocol.parts=3")
    made.update()
    made.optimiser.zero_grad(set_to_none=True)
    made.step += 1
    [share] = answer(other, Order(0, made.step, (1,), made.model.state_dict()))
    mine = made.share(1)
    assert torch.equal(share.loss, mine.loss)
    assert all(weight.grad is None for weight in made.model.parameters())
    for one, two in zip(share.gradients, mine.gradients, strict=True):
        assert (one is None) == (two is None)
        assert one is None or two is None or torch.equal(one, two)


def test_more_parts_than_strings_are_refused() -> None:
    with pytest.raises(UserError, match=r"protocol\.parts is 8, more than .*\.batch_size=7"):
        made_up_corpora.small_trial("protocol.parts=8")
