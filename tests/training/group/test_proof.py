"""Copies show that one program for several trials makes the updates of single runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from lrbench.config import Config
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.training.group.members import OneProgram, SideBySide, members_for
from lrbench.training.group.proof import proves_itself
from lrbench.training.group.stacked import Stacked
from lrbench.trust import decision

Make = Callable[..., Config]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Checks are on; what they found."""
    monkeypatch.setenv(decision.SWITCH, "1")
    monkeypatch.setattr(decision._process, "programs", [])
    return decision._process.programs


@pytest.mark.parametrize("size", [1, 3])
def test_it_is_trusted_and_the_trials_are_as_before(
    tiny: Make, programs: list[Any], size: int
) -> None:
    trials = [LengthTrial(tiny("model.backbone.noise=0.5"), seed) for seed in range(size)]
    before = [trial.generator.get_state() for trial in trials]
    weights = [[p.clone() for p in trial.model.parameters()] for trial in trials]
    assert proves_itself(trials)
    assert [str(one.kernel) for one in programs] == [
        f"stacked_update[blockdiag, {size}] in float32 on cpu"
    ]
    for trial, state, mine in zip(trials, before, weights, strict=True):
        assert trial.step == 0 and torch.equal(trial.generator.get_state(), state)
        assert all(map(torch.equal, trial.model.parameters(), mine))
        assert not trial.optimiser.state


def off(stack: Stacked, *batch: Any) -> None:
    stack.loss_sums += 0.01


def not_a_number(stack: Stacked, *batch: Any) -> None:
    stack.loss_sums += float("nan")


def waits(stack: Stacked, *batch: Any) -> None:
    if stack.made == 3:
        raise RuntimeError("operation not permitted when stream is capturing\nand more")


@pytest.mark.parametrize(
    ("fault", "words"),
    [(off, "instead of"), (not_a_number, "loss nan instead of"), (waits, "stream is capturing;")],
)
def test_a_faulty_program_is_not_used_and_named(
    tiny: Make,
    programs: list[Any],
    fault: Callable[..., None],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = Stacked._compute

    def compute(stack: Stacked, *batch: Any) -> None:
        plain(stack, *batch)
        fault(stack)

    monkeypatch.setattr(Stacked, "_compute", compute)
    trials = [LengthTrial(tiny(), seed) for seed in range(2)]
    assert not proves_itself(trials)
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith("not used: stacked_update[blockdiag, 2] in float32 on cpu: ")
    assert words in told and told.endswith("each trial is trained by itself")
    assert decision.told()[-1].reason


@pytest.mark.parametrize("proven", [True, False])
def test_it_decides_how_a_group_is_trained(
    tiny: Make, proven: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lrbench.training.group.members.proves_itself", lambda trials: proven)
    trials = [LengthTrial(tiny(), seed) for seed in range(2)]
    members_for(trials, pytest.fail)
    assert decision._process.programs == []  # those of the cell before are forgotten
    trials[0].device = torch.device("cuda")
    assert type(members_for(trials, pytest.fail)) is (OneProgram if proven else SideBySide)
