"""Members in processes of their own: the same bits, a stop between updates, deaths of processes."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from multiprocessing import Pipe
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.errors import Interrupted, UserError
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.schema import config_from
from lrbench.training.group import processes
from lrbench.training.group.members import SideBySide
from lrbench.training.group.processes import Crew, train_apart
from lrbench.training.group.worker import Reporter, portable
from lrbench.training.loop import train_group
from tests.training.conftest import TINY
from tests.training.test_loop import Diary, without_time

Make = Callable[..., Config]


@pytest.fixture
def without_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave all to torch, here and in processes: each would import numba, for a second."""
    monkeypatch.setenv("LRBENCH_COMPILED", "0")


def group(config: Config, size: int) -> list[LengthTrial]:
    return [LengthTrial(config, seed) for seed in range(size)]


def test_a_turn_goes_on_until_it_is_time(tiny: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = Pipe()
    reporter, [trial] = Reporter(near), group(tiny(), 1)
    reporter.updated(trial)
    assert not reporter.ended
    far.send("something")
    reporter.updated(trial)
    assert reporter.ended
    monkeypatch.setattr("lrbench.training.group.worker.TURN_SECONDS", -1.0)
    near, far = Pipe()
    late = Reporter(near)
    late.updated(trial)
    assert late.ended


def test_a_failure_is_told_and_ends_the_turn(tiny: Make) -> None:
    near, far = Pipe()
    reporter, [trial] = Reporter(near), group(tiny(), 1)
    reporter.failed(trial, ValueError("broken"))
    assert reporter.ended
    assert str(far.recv().error) == "broken"


def same_weights(one: LengthTrial, other: LengthTrial) -> bool:
    pairs = zip(one.model.parameters(), other.model.parameters(), strict=True)
    return all(bool((a == b).all()) for a, b in pairs)


def test_a_configuration_survives_the_way(tiny: Make) -> None:
    config = tiny("model.width=16")
    settings = dataclasses.asdict(config)
    assert dataclasses.asdict(config_from(settings)) == settings


def test_each_ends_as_it_would_alone() -> None:
    """With noise on states, of each member's own stream, and a loss that pushes them outwards."""
    rnn = [word for word in TINY if "backbone" not in word and "model.mixer" not in word]
    own = ["model=rnn", "model.mixer.noise=0.1", "optim.saturate=0.5"]
    config = composed([*rnn, *own, "protocol.max_steps=110", "protocol.look_every=60"])
    trials, diary = group(config, 3), Diary()
    for _ in range(5):  # one that comes from a checkpoint further on than the others
        trials[2].update()
    trials[2].take_loss()

    assert train_apart(trials, diary, 2)

    assert sorted(diary.losses) == [(seed, step) for seed in range(3) for step in (60, 100, 110)]
    assert sorted(diary.looks) == [(seed, step) for seed in range(3) for step in (60, 110)]
    for member in trials:
        alone = LengthTrial(member.config, member.seed)
        train_group([alone], Diary())
        assert member.stopped == alone.stopped == "budget"
        assert same_weights(member, alone)
        assert without_time(member) == without_time(alone)
        assert member.seconds > 0


class Stopping(Diary):
    """Asks for a stop once both members have had a look, and stops when it may."""

    @property
    def stopping(self) -> bool:
        return len({seed for seed, _ in self.looks}) == 2

    def updated(self, trial: LengthTrial) -> None:
        if self.stopping:
            raise Interrupted("stopped")


@pytest.mark.usefixtures("without_loops")
def test_a_stop_leaves_every_member_between_two_updates(tiny: Make) -> None:
    config = tiny("protocol.max_steps=100000", "protocol.look_every=40")
    trials = group(config, 2)

    with pytest.raises(Interrupted, match="stopped"):
        train_apart(trials, Stopping(), 2)

    for member in trials:
        assert member.stopped is None and member.step >= 40
        alone = LengthTrial(config, member.seed)
        while alone.step < member.step:
            alone.update()
        assert same_weights(member, alone)


class Quitting(Diary):
    """Stops at once, and notes which trial it is told of."""

    stopping = True

    def __init__(self) -> None:
        super().__init__()
        self.told: list[int] = []

    def updated(self, trial: LengthTrial) -> None:
        self.told.append(trial.seed)
        raise Interrupted("stopped")


@pytest.mark.parametrize("lost", [{0}, {0, 1}])
def test_a_member_that_fails_while_all_are_called_back_is_not_kept(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, lost: set[int]
) -> None:
    """Its checkpoint would say that it has ended, and nobody would train it again."""
    trials, watch = group(tiny(), 2), Quitting()
    crew: Any = SimpleNamespace(processes={"a process": None})
    turns = processes._Turns(trials, watch, crew)

    def fail() -> None:
        for seed in lost:
            turns._fail(trials[seed], RuntimeError("killed"))

    monkeypatch.setattr(turns, "_call_back", fail)
    with pytest.raises(Interrupted) if len(lost) < len(trials) else nullcontext():
        turns.run()
    assert watch.told == [seed for seed in (1,) if seed not in lost]


class Killing(Diary):
    """Kills a process at its first look."""

    def looked(self, trial: LengthTrial, look: dict[str, Any], believed: list[str]) -> None:
        super().looked(trial, look, believed)
        if len(self.looks) == 1:
            os.kill(self.victim, signal.SIGKILL)

    victim = 0


@pytest.mark.usefixtures("without_loops")
@pytest.mark.parametrize("processes", [1, 2])
def test_a_process_that_dies_takes_its_member_with_it_only(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    diary, enter = Killing(), Crew.__enter__

    def entered(self: Crew) -> Crew:
        diary.victim = next(iter(self.processes.values())).pid
        return enter(self)

    monkeypatch.setattr(Crew, "__enter__", entered)
    trials = group(tiny("protocol.max_steps=300", "protocol.look_every=100"), 3)

    assert train_apart(trials, diary, processes) == (processes == 2)

    failed = [trial.seed for trial in trials if trial.stopped == "failed"]
    assert len(failed) <= 1  # none, if it died between two turns
    for seed, reported in diary.failures:
        assert [seed] == failed and "signal 9" in reported
    ended = [trial for trial in trials if trial.stopped == "budget"]
    assert len(ended) == (3 - len(failed) if processes == 2 else 0)


def test_where_no_process_comes_up_it_goes_on_here(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "PROGRAM", "lrbench.no_such_module")
    monkeypatch.setattr(SideBySide, "processes_for", lambda self, trials: self.workers - 1)
    trials, members = group(tiny(), 2), SideBySide(3)

    train_group(trials, Diary(), members)

    assert [trial.stopped for trial in trials] == ["budget", "budget"]
    assert members.workers == 1


@pytest.mark.usefixtures("without_loops")
def test_a_failure_is_reported_with_its_traceback(tiny: Make) -> None:
    trials, diary = group(tiny("protocol.max_steps=50"), 2), Diary()
    trials[1].model.register_parameter("unknown", torch.nn.Parameter(torch.zeros(1)))

    train_apart(trials, diary, 1)

    assert [trial.stopped for trial in trials] == ["budget", "failed"]
    assert "unknown" in diary.failures[0][1]


class Odd(Exception):
    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def test_exceptions_travel() -> None:
    same = portable(UserError("reported"))
    assert isinstance(same, UserError) and str(same) == "reported"
    odd = portable(Odd(1, 2))
    assert str(odd) == "Odd: 1 and 2"
    assert any("in the process of this member" in note for note in odd.__notes__)
