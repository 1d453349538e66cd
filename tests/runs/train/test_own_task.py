"""A task of one's own is looked at before it is trained on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.certificates.witness import SearchBudget, Witness, WitnessSearch
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.registry import TASKS, Entry
from lrbench.runs.evaluate import certify
from lrbench.runs.evaluate.certify import certify_run
from lrbench.runs.evaluate.diagnose import diagnose_run
from lrbench.runs.evaluate.ending import search_after_training
from lrbench.runs.train import own_task
from lrbench.runs.train.job import run_cell
from lrbench.runs.train.result import Outcome
from lrbench.sweeps.plan.plan import make_plan
from lrbench.tasks.machine import Machine, explored
from lrbench.tasks.symbols.cyclic import Sum

Tiny = Callable[..., Config]


@dataclass
class OwnConfig:
    name: str = "own_one"
    modulus: int = 5
    ends: list[int] = field(default_factory=list)
    how: str | None = None


class NoCarry(Sum):
    def _answer(self, tokens: Any, start: Any, carry: Any) -> Any:
        return super()._answer(tokens, start, None)


class Random(Sum):
    def _tokens(self, stream: Any, step: Any, rows: int, start: int, stop: int, device: Any) -> Any:
        return torch.randint(self.modulus, (rows, stop - start))


class OffByOne(Sum):
    def oracle(self, tokens: Any) -> list[int]:
        return [(answer + 1) % self.modulus for answer in super().oracle(tokens)]


class Counted(Sum):
    oracles = 0

    def oracle(self, tokens: Any) -> list[int]:
        type(self).oracles += 1
        return super().oracle(tokens)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[type], None]]:
    """Register a class as the task own_one, for the test."""

    def register(cls: type) -> None:
        monkeypatch.setitem(TASKS._entries, "own_one", Entry("own_one", cls, OwnConfig, "a test"))

    monkeypatch.delenv("LRBENCH_PLUGINS", raising=False)
    for known in (own_task._broken, own_task._broken_machine):
        known.cache_clear()
    yield register
    for known in (own_task._broken, own_task._broken_machine):
        known.cache_clear()


@pytest.mark.parametrize(
    ("cls", "line"),
    [
        (NoCarry, "FAILED          pieces         pieces of 1: targets differ at row 0, position"),
        (Random, "FAILED          purity         the same strings drawn again differ at row 0"),
        (OffByOne, "FAILED          oracle         of "),
    ],
)
def test_a_wrong_one_is_refused_before_anything_is_written(
    cls: type, line: str, own: Callable[[type], None], tiny: Tiny
) -> None:
    own(cls)
    config = tiny(task={"name": "own_one"})
    for _ in range(2):  # not forgotten
        with pytest.raises(UserError) as raised:
            run_cell(config)
        first, second, last = str(raised.value).splitlines()
        assert first == "task 'own_one' does not keep what a training relies on"
        assert second.startswith(line[:34])
        assert last == "all checks: lrbench check task=own_one"
    with pytest.raises(UserError, match="does not keep what a training relies on"):
        make_plan([()], lambda words: config)  # of a sweep
    assert not Path(config.output_dir).exists() or not list(Path(config.output_dir).iterdir())


def test_the_command_has_the_settings(
    own: Callable[[type], None], tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(NoCarry)
    monkeypatch.setenv("LRBENCH_PLUGINS", "mine,other one")
    task = {"name": "own_one", "modulus": 3, "ends": [1, 2], "how": "a b"}
    with pytest.raises(UserError) as raised:
        own_task.check_own_task(tiny(task=task))
    assert str(raised.value).endswith(
        "all checks: LRBENCH_PLUGINS='mine,other one' lrbench check task=own_one task.modulus=3"
        " 'task.ends=[1,2]' 'task.how=a b'"
    )


def test_a_right_one_is_looked_at_once_a_process(own: Callable[[type], None], tiny: Tiny) -> None:
    own(Counted)
    task = {"name": "own_one"}
    own_task.check_own_task(tiny(task=task))
    once = Counted.oracles
    assert once > 0
    own_task.check_own_task(tiny(task=task, seed=1))
    assert Counted.oracles == once
    own_task.check_own_task(tiny(task={**task, "modulus": 3}))
    assert Counted.oracles == 2 * once
    own_task.check_own_task(tiny())  # the task is sum, which is built in
    assert Counted.oracles == 2 * once


class WrongMachine(Sum):
    def machine(self) -> Machine:
        return explored(0, self.modulus, lambda state, symbol: symbol, int)


class ForgetfulMachine(Sum):
    """Right on every string of up to 19 symbols, and no longer."""

    def machine(self) -> Machine:
        return explored(
            (0, 0),
            self.modulus,
            lambda state, symbol: (
                ((state[0] + symbol) % 5 if state[1] < 19 else 0, state[1] + 1)
                if state[1] < 20
                else state
            ),
            lambda state: state[0],
        )


def test_a_wrong_string_is_put_to_the_oracle(
    own: Callable[[type], None], tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(ForgetfulMachine)
    (outcome,) = run_cell(tiny(task={"name": "own_one"}))
    sought = WitnessSearch(SearchBudget())
    monkeypatch.setattr(certify, "search", lambda *_: sought)
    for tokens, right in (((1,) * 21, 0), ((1,) * 19, 4)):
        sought.witness = Witness(tokens, 1, right, "families", False, 1)
        if right == 0:
            with pytest.raises(UserError, match=r"asks for 0 .* of 21 symbols, its oracle for 1"):
                certify_run(outcome.folder)
        else:
            assert certify_run(outcome.folder, foretell_to=0).verdict == "wrong"


class NoMachine(Sum):
    def machine(self) -> Machine:
        raise RuntimeError("it is broken")


def test_nothing_is_told_of_every_string_by_a_wrong_machine(
    own: Callable[[type], None], tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be trained on, and neither the search that ends a training nor `certify` trusts it."""
    own(WrongMachine)
    config = tiny(task={"name": "own_one"})
    outcomes = run_cell(config)
    search_after_training(config, outcomes)
    why = "other answers than the oracle's"
    assert why in capsys.readouterr().err
    for look in (certify_run, diagnose_run):
        with pytest.raises(UserError, match=why):
            look(outcomes[0].folder)
    assert not (outcomes[0].folder / "certificates").exists()


def test_a_machine_that_raises_costs_no_summary(
    own: Callable[[type], None], tiny: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    own(NoMachine)
    search_after_training(tiny(task={"name": "own_one"}), [Outcome(0, Path("s0"), "finished")])
    said = capsys.readouterr().err
    assert "not searched for wrong strings" in said
    assert "RuntimeError: it is broken" in said
