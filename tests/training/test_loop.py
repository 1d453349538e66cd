"""The loop: looks when due, endings, groups in step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.loop import train_group

Make = Callable[..., Config]


class Diary:
    """A watcher that writes everything down."""

    def __init__(self) -> None:
        self.losses: list[tuple[int, int]] = []
        self.looks: list[tuple[int, int]] = []
        self.updates: list[tuple[int, int]] = []
        self.failures: list[tuple[int, str]] = []

    @property
    def stopping(self) -> bool:
        return False

    def logged(self, trial: LengthTrial, loss: float) -> None:
        self.losses.append((trial.seed, trial.step))

    def looked(self, trial: LengthTrial, look: dict[str, Any], believed: list[str]) -> None:
        assert look["step"] == trial.step
        self.looks.append((trial.seed, trial.step))

    def updated(self, trial: LengthTrial) -> None:
        self.updates.append((trial.seed, trial.step))

    def failed(self, trial: LengthTrial, error: Exception) -> None:
        self.failures.append((trial.seed, str(error)))

    def check(self, read: int = 0, planned: int = 0) -> None:
        pass


def test_members_share_the_time_of_an_update(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(perf_counter=count().__next__)  # an update takes one second
    monkeypatch.setattr("lrbench.training.loop.time", clock)
    members = [LengthTrial(tiny(), seed) for seed in range(2)]
    train_group(members, Diary())
    assert [trial.seconds for trial in members] == [5.0, 5.0]  # of ten updates


def test_looks_come_when_due_and_at_the_end(tiny: Make) -> None:
    trial, diary = LengthTrial(tiny(), 0), Diary()
    train_group([trial], diary)
    assert diary.looks == [(0, 4), (0, 8), (0, 10)]
    assert trial.stopped == "budget"
    assert trial.rules.steps()["last"] == 10


def test_a_group_keeps_in_step_and_waits_for_one_behind(tiny: Make) -> None:
    ahead, behind, diary = LengthTrial(tiny(), 0), LengthTrial(tiny(), 1), Diary()
    for _ in range(2):
        ahead.update()
    train_group([ahead, behind], diary)
    assert diary.updates[:4] == [(1, 1), (1, 2), (0, 3), (1, 3)]
    assert ahead.step == behind.step == 10


def test_each_of_a_group_equals_a_single_run(tiny: Make) -> None:
    group = [LengthTrial(tiny(), seed) for seed in (0, 1)]
    train_group(group, Diary())
    for member in group:
        alone = LengthTrial(tiny(), member.seed)
        train_group([alone], Diary())
        pairs = zip(member.model.parameters(), alone.model.parameters(), strict=True)
        assert all(bool((a == b).all()) for a, b in pairs)
        assert without_time(member) == without_time(alone)


def without_time(trial: LengthTrial) -> dict[str, dict[str, Any]]:
    return {
        rule: {key: value for key, value in look.items() if key != "seconds"}
        for rule, look in trial.rules.kept.items()
    }


@pytest.mark.parametrize(
    ("stop", "ended", "step"), [("perfect", "perfect", 4), ("never", "budget", 10)]
)
def test_a_perfect_look_ends_a_run_unless_the_settings_say_no(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, stop: str, ended: str, step: int
) -> None:
    real = LengthTrial.look

    def perfect(trial: LengthTrial, check: Any) -> dict[str, Any]:
        return {**real(trial, check), "test_accuracy": 1.0}

    monkeypatch.setattr(LengthTrial, "look", perfect)
    trial = LengthTrial(tiny(f"protocol.stop={stop}"), 0)
    train_group([trial], Diary())
    assert (trial.stopped, trial.step) == (ended, step)
    assert trial.perfect_look is not None
    assert trial.perfect_look["step"] == 4


def test_divergence_ends_a_run(tiny: Make) -> None:
    trial = LengthTrial(tiny("optim.lr=1e38"), 0)
    train_group([trial], Diary())
    assert trial.stopped == "diverged"
    assert trial.step <= 10
