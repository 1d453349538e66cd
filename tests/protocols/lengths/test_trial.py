"""Training on strings of several lengths: which strings, which answers, and coming back to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.mixers.states import leaves
from lrbench.protocols.lengths.trial import LengthsTrial
from lrbench.runs.folder.checkpoints import plain
from lrbench.tasks.base import IGNORE
from lrbench.training.procedure import procedure_for
from lrbench.training.trial import unwatched
from tests.mixers.kinds_of_state import KINDS, stack

Make = Callable[..., Config]


def weights(trial: LengthsTrial) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in trial.model.parameters()])


def test_by_step_an_update_has_one_length_and_all_lengths_come(small: Make) -> None:
    trial = LengthsTrial(small(), 0)
    seen = {tuple(trial.batch(step).lengths.unique().tolist()) for step in range(1, 80)}
    assert seen == {(length + 1,) for length in range(1, 7)}  # and a query


def test_by_row_lengths_are_of_the_row(small: Make) -> None:
    trial = LengthsTrial(small("protocol.mix=row", "protocol.batch_size=64"), 0)
    batch = trial.batch(3)
    assert set(batch.lengths.tolist()) == set(range(2, 8))
    asked = (batch.targets != IGNORE).long()
    assert torch.equal(asked.argmax(1) + 1, batch.lengths) and bool((asked.sum(1) == 1).all())


def test_the_last_answer_alone_is_asked(small: Make) -> None:
    every = ["task=group", "protocol=walker2025_short", "protocol.batch_size=16"]
    trial = LengthsTrial(small(*every), 0)
    free = LengthsTrial(small(*every, "protocol.ask=task"), 0)
    last, whole = trial.batch(1), free.batch(1)
    assert torch.equal(last.tokens, whole.tokens)
    assert (last.targets != IGNORE).sum(1).tolist() == [1] * 16
    rows = torch.arange(16)
    at = last.lengths - 1
    assert torch.equal(last.targets[rows, at], whole.targets[rows, at])


def test_fixed_strings_are_gone_through_once_a_pass(small: Make) -> None:
    trial = LengthsTrial(small("protocol.train_strings=12", "protocol.batch_size=8"), 0)
    rows = [row for step in (1, 2, 3) for row in trial._rows(step)]  # two passes
    assert sorted(rows[:12]) == sorted(rows[12:]) == list(range(12)) and rows[:12] != rows[12:]
    assert LengthsTrial(trial.config, 0)._rows(3) == tuple(rows[16:])  # no memory is needed


@pytest.mark.parametrize("protocol", ["merrill2024", "merrill2024_short"])
def test_fixed_strings_have_all_lengths_and_keep_them(protocol: str) -> None:
    words = ["task=group", "task.group=S3", "model=lstm", "model.width=8", f"protocol={protocol}"]
    trial = LengthsTrial(composed([*words, "protocol.train_strings=320"]), 0)
    seen: dict[int, set[int]] = {}
    for step in range(1, 31):  # three passes
        for row, length in zip(trial._rows(step), trial.batch(step).lengths.tolist(), strict=True):
            seen.setdefault(row, set()).add(length)
    assert set(map(len, seen.values())) == {1} and set.union(*seen.values()) == set(range(2, 17))


def test_fixed_strings_of_several_lengths_have_no_length_of_an_update(small: Make) -> None:
    with pytest.raises(UserError, match="mix=row"):
        procedure_for(small("protocol.train_strings=12")).validate()
    procedure_for(small("protocol.train_strings=12", "protocol.train_lengths=[6,6]")).validate()
    procedure_for(small("protocol.train_strings=12", "protocol.mix=row")).validate()


def test_a_curriculum_ends_within_the_run(small: Make) -> None:
    procedure_for(small("protocol.curriculum=8")).validate()
    with pytest.raises(UserError, match=r"never train on strings of 6\nwrite protocol.curric.*=8"):
        procedure_for(small("protocol.curriculum=9")).validate()


def test_a_curriculum_has_no_fixed_strings(small: Make) -> None:
    words = "protocol.mix=row", "protocol.curriculum=4"
    procedure_for(small(*words)).validate()
    with pytest.raises(UserError, match=r"curriculum=4 .*train_strings=12 keeps the same"):
        procedure_for(small(*words, "protocol.train_strings=12")).validate()


def test_no_state_of_filler_is_carried(small: Make) -> None:
    one_length = "protocol.train_lengths=[6,6]"
    procedure_for(small("protocol.carry=0.5")).validate()
    procedure_for(small("protocol.carry=0.5", "protocol.mix=row", one_length)).validate()
    with pytest.raises(UserError, match=r"carry=0\.5 .* filler.*\nwrite protocol\.mix=step"):
        procedure_for(small("protocol.carry=0.5", "protocol.mix=row")).validate()


def test_a_curriculum_begins_at_the_shortest(small: Make) -> None:
    trial = LengthsTrial(small("protocol.curriculum=10"), 0)
    assert [trial.span(step) for step in (0, 5, 10, 99)] == [(1, 1), (1, 3), (1, 6), (1, 6)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", ["protocol.carry=0.5", "protocol.state_noise=0.1", "protocol.curriculum=6"]
)
def test_it_comes_back_bit_for_bit_and_an_intervention_tells(small: Make, setting: str) -> None:
    whole, plain = LengthsTrial(small(setting), 0), LengthsTrial(small(), 0)
    first = LengthsTrial(small(setting), 0)
    for _ in range(6):
        whole.update()
        plain.update()
    for _ in range(3):
        first.update()
    again = LengthsTrial(small(setting), 0)
    again.load(first.state())
    for _ in range(3):
        again.update()
    assert torch.equal(weights(again), weights(whole))
    assert not torch.equal(weights(plain), weights(whole))


@pytest.mark.parametrize("model", ["lru", "s4d"])
@pytest.mark.parametrize("setting", ["protocol.carry=1", "protocol.state_noise=0.1"])
def test_complex_states_are_carried_and_noisy(small: Make, model: str, setting: str) -> None:
    trial, plain = (LengthsTrial(small(f"model={model}", *more), 0) for more in ((setting,), ()))
    for _ in range(3):  # a carried state that had a graph failed at the second
        trial.update()
        plain.update()
    assert not torch.equal(weights(trial), weights(plain))


def test_all_carried_states_are_where_the_strings_before_ended(small: Make) -> None:
    trial = LengthsTrial(small("protocol.carry=1", "optim.lr=1e-12"), 0)
    trial.update()
    before = trial.batch(1)
    with torch.no_grad():
        _, ended = trial.model(before.tokens)
    kept = trial._beginnings(8)
    for mine, theirs in zip(kept, ended, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert torch.allclose(a, b, atol=1e-6) and float(a.abs().max()) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_states_of_every_kind_are_carried_and_noisy(small: Make, kind: str) -> None:
    """From a checkpoint, too, which has plain tuples; a count of positions gets no noise."""
    settings = ("protocol.carry=1", "protocol.state_noise=0.1")
    trial, again = (LengthsTrial(small(*settings), 0) for _ in range(2))
    for one in (trial, again):
        one.model = stack(kind, counts=True)
    with torch.no_grad():
        _, after = trial.model(torch.tensor([[0, 1], [2, 1]]))
    again.carried = [plain(after[0])]
    state = again._beginnings(2)
    (found,), (ended,) = state, after
    assert type(found) is type(ended)
    (h, count), (before, _) = leaves(found), leaves(ended)
    assert count.tolist() == [[2], [2]]
    assert 0 < float((h - before).detach().abs().max()) < 1
    assert again.model(torch.tensor([[0], [1]]), state)[0].shape == (2, 1, 3)


def test_every_symbol_of_a_look_is_told(small: Make) -> None:
    """Whoever stops a run waits for one piece, in the second reading of whole strings as well."""

    def read(score: str) -> int:
        told = []
        trial = LengthsTrial(small("task=group", f"protocol.score={score}"), 0)
        trial.look(lambda read=0, planned=0: told.append(read))
        return sum(told)

    assert read("sequence") - read("pooled") == 12 * 9  # look.strings of the longest


def test_a_threshold_ends_it(small: Make) -> None:
    trial = LengthsTrial(small("protocol.stop=threshold", "protocol.stop_at=0.5"), 0)
    trial.step = 4
    look = trial.look(unwatched) | {"test_accuracy": 0.5}
    assert trial.ending(look) == "perfect"
    assert trial.ending(look | {"test_accuracy": 0.49}) is None
