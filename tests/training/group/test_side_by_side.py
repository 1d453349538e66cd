"""Members side by side compute what each would alone, and one that fails stops no other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import torch

from lrbench.config import Config
from lrbench.errors import Interrupted
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.group import members as module
from lrbench.training.group.members import SideBySide, cores_for
from lrbench.training.loop import train_group
from tests.training.test_loop import Diary, without_time

Make = Callable[..., Config]


def group(tiny: Make, size: int) -> list[LengthTrial]:
    return [LengthTrial(tiny(), seed) for seed in range(size)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_trials(tiny: Make, workers: int) -> None:
    with SideBySide(workers) as members:
        assert members.each(lambda trial: trial.seed, group(tiny, 3)) == [0, 1, 2]


def test_two_go_at_the_same_time(tiny: Make) -> None:
    both = threading.Barrier(2, timeout=60)
    with SideBySide(2) as members:
        arrived = members.each(lambda trial: both.wait(), group(tiny, 2))
    assert sorted(map(str, arrived)) == ["0", "1"]


def test_each_computes_with_its_own_threads(tiny: Make) -> None:
    with SideBySide(2, threads=1) as members:
        assert members.each(lambda trial: torch.get_num_threads(), group(tiny, 2)) == [1, 1]


@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_is_that_of_its_trial(tiny: Make, workers: int) -> None:
    def do(trial: LengthTrial) -> int:
        if trial.seed == 1:
            raise ValueError("no")
        return trial.seed

    with SideBySide(workers) as members:
        first, second, third = members.each(do, group(tiny, 3))
    assert (first, third) == (0, 2)
    assert isinstance(second, ValueError)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_request_to_stop_stops_them_all(tiny: Make, workers: int) -> None:
    def do(trial: LengthTrial) -> None:
        raise Interrupted("stop")

    with SideBySide(workers) as members, pytest.raises(Interrupted, match="stop"):
        members.each(do, group(tiny, 2))


def test_weights_and_looks_are_those_of_single_runs(tiny: Make) -> None:
    trials = group(tiny, 3)
    with SideBySide(2) as members:
        train_group(trials, Diary(), members)
    for member in trials:
        alone = LengthTrial(tiny(), member.seed)
        train_group([alone], Diary())
        pairs = zip(member.model.parameters(), alone.model.parameters(), strict=True)
        assert all(bool((a == b).all()) for a, b in pairs)
        assert without_time(member) == without_time(alone)


@pytest.mark.parametrize("workers", [1, 2])
def test_one_that_fails_leaves_the_group(
    tiny: Make, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    trials, diary = group(tiny, 3), Diary()
    update = LengthTrial.update

    def breaking(self: LengthTrial) -> torch.Tensor:
        if self.seed == 1 and self.step == 5:
            raise RuntimeError("broken")
        return update(self)

    monkeypatch.setattr(LengthTrial, "update", breaking)
    with SideBySide(workers) as members:
        train_group(trials, diary, members)
    assert [trial.stopped for trial in trials] == ["budget", "failed", "budget"]
    assert diary.failures == [(1, "broken")]
    assert (1, 6) not in diary.updates and (2, 10) in diary.updates


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "available_cores", lambda: 8)
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert cores_for(5, 1, cpu) == 5
    assert cores_for(20, 1, cpu) == 8
    assert cores_for(20, 3, cpu) == 2
    assert cores_for(20, 16, cpu) == 1
    assert cores_for(20, 1, gpu) == 1


def test_processes_are_for_groups_that_earn_them(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def update(trial: LengthTrial) -> None:
        trial.step += 1
        time.sleep(0.002)

    monkeypatch.setattr(LengthTrial, "update", update)
    monkeypatch.setattr(module, "START_SECONDS", 1.0)
    few, many = (
        group(tiny, 3),
        [LengthTrial(tiny("protocol.max_steps=2000"), seed) for seed in range(3)],
    )
    with SideBySide(2) as members, SideBySide(1) as single:
        for _ in range(module.TIMED):
            assert members.processes_for(many) == 0  # not known yet
            assert members.update(many) == single.update(many) == [None] * 3
        assert members.processes_for(many) == 2
        assert members.processes_for(few) == members.processes_for(many[:1]) == 0
        assert single.processes_for(many) == 0
        members.stay()
        assert members.processes_for(many) == 0
