"""How a group is trained: cores side by side on a CPU, one program on a GPU, and why not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.group import members as module
from lrbench.training.group.members import OneProgram, SideBySide, members_for
from lrbench.training.group.stacked import Stacked
from lrbench.training.loop import train_group
from tests.training.test_loop import Diary, without_time

Make = Callable[..., Config]


def group(tiny: Make, size: int = 3) -> list[LengthTrial]:
    made = [LengthTrial(tiny(), seed) for seed in range(size)]
    for trial in made:
        trial.model.double()
    return made


def test_cpu_and_gpu(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    trials, reported = group(tiny), list[str]()
    assert type(members_for(trials, reported.append)) is SideBySide
    trials[0].device = torch.device("cuda")
    assert type(members_for(trials, reported.append)) is OneProgram
    monkeypatch.setattr(module, "stackable", lambda trial: "it is odd")
    assert type(members_for(trials[:1], reported.append)) is SideBySide
    assert reported == []
    assert type(members_for(trials, reported.append)) is SideBySide
    assert reported == ["trained one after the other: it is odd"]


def test_one_program_gives_the_looks_of_single_runs(tiny: Make) -> None:
    together, alone, diary = group(tiny), group(tiny), Diary()
    train_group(together, diary, OneProgram())
    for trial in alone:
        train_group([trial], Diary())
    assert diary.looks[:3] == [(0, 4), (1, 4), (2, 4)]
    for one, other in zip(together, alone, strict=True):
        assert one.stopped == other.stopped == "budget"
        for rule, look in without_time(one).items():
            assert look == pytest.approx(without_time(other)[rule], rel=1e-6)


def test_the_others_go_on_when_one_has_ended(tiny: Make) -> None:
    together, alone = group(tiny), group(tiny)
    members = OneProgram()
    for _ in range(2):
        assert members.update(together) == [None] * 3
    together[1].stopped = "perfect"
    for _ in range(3):
        members.update([together[0], together[2]])
    for trial, updates in zip(alone, (5, 2, 5), strict=True):
        for _ in range(updates):
            trial.update()
        mine = together[trial.seed]
        assert mine.step == trial.step
        for a, b in zip(mine.model.parameters(), trial.model.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def test_a_program_that_fails_fails_for_all(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Stacked) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Stacked, "update", broken)
    trials, diary = group(tiny), Diary()
    train_group(trials, diary, OneProgram())
    assert [trial.stopped for trial in trials] == ["failed"] * 3
    assert diary.failures == [(0, "broken"), (1, "broken"), (2, "broken")]


def test_a_checkpoint_holds_one_member_only(tiny: Make) -> None:
    trials = group(tiny)
    OneProgram().update(trials)
    for part in ("model", "optimiser"):
        for tensor in tensors(trials[1].state()[part]):
            assert tensor.untyped_storage().size() == tensor.numel() * tensor.element_size()


def tensors(value: object) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [tensor for part in parts for tensor in tensors(part)]
