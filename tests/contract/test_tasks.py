"""Checks of a task pass what is right and each catches what it is there for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lrbench.contract.tasks import TASK_CHECKS, first_broken, run_task_contract
from lrbench.errors import UserError
from lrbench.registry import TASKS, Entry
from lrbench.tasks import make_task
from lrbench.tasks.base import LabelledTask
from lrbench.tasks.machine import Machine
from lrbench.tasks.stream import Stream
from lrbench.tasks.symbols.cyclic import Sum, SumConfig

LABELLED = [name for name in TASKS.names() if issubclass(TASKS.get(name).cls, LabelledTask)]


@pytest.mark.parametrize("name", LABELLED)
def test_every_task_of_symbols_passes(name: str) -> None:
    findings = run_task_contract(TASKS.get(name).config())
    assert [finding.name for finding in findings] == list(TASK_CHECKS)
    assert [str(finding) for finding in findings if finding.passed is False] == []


class NoCarry(Sum):
    def _answer(self, tokens: Any, start: Any, carry: Any) -> Any:
        return super()._answer(tokens, start, None)


class OffByOne(Sum):
    def _answer(self, tokens: Any, start: Any, carry: Any) -> Any:
        answers, carried = super()._answer(tokens, start, carry)
        return (answers + 1) % self.modulus, carried


class GlobalStrings(Sum):
    def _tokens(
        self, stream: Stream, step: Any, rows: int, start: int, stop: int, device: Any
    ) -> Any:
        return torch.randint(self.modulus, (rows, stop - start))


class TogetherDrawn(Sum):
    """Row by row other strings than in a batch."""

    def _tokens(
        self, stream: Stream, step: Any, rows: int, start: int, stop: int, device: Any
    ) -> Any:
        drawn = super()._tokens(stream, step, rows, start, stop, device)
        return (drawn + rows // 2) % self.modulus


class Constant(Sum):
    def _tokens(
        self, stream: Stream, step: Any, rows: int, start: int, stop: int, device: Any
    ) -> Any:
        return torch.zeros(rows, stop - start, dtype=torch.int64)


class BeyondTheVocabulary(Sum):
    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.vocabulary = self.vocabulary[:-1]


class Floats(Sum):
    def _answer(self, tokens: Any, start: Any, carry: Any) -> Any:
        answers, carried = super()._answer(tokens, start, carry)
        return answers.double(), carried


class WrongMachine(Sum):
    def machine(self) -> Machine:
        right = super().machine()
        return Machine(right.names, 1, right.delta, right.answers)


class Always(Sum):
    """An answer that needs no reading."""

    uniform_walks = False

    def oracle(self, tokens: Any) -> list[int]:
        return [1] * len(tokens)

    def _answer(self, tokens: Any, start: Any, carry: Any) -> Any:
        return torch.ones_like(tokens), ()


class OftenTheSame(Sum):
    """Strings that are not the uniform ones that `uniform_walks` says they are."""

    uniform_walks = True

    def _tokens(self, *place: Any) -> Any:
        return super()._tokens(*place).clamp(max=1)


class Raises(Sum):
    def oracle(self, tokens: Any) -> list[int]:
        raise ArithmeticError("no oracle today")


@pytest.mark.parametrize(
    ("cls", "caught"),
    [
        (NoCarry, "pieces"),
        (OffByOne, "oracle"),
        (GlobalStrings, "purity"),
        (TogetherDrawn, "purity"),
        (Constant, "variety"),
        (BeyondTheVocabulary, "strings"),
        (Floats, "strings"),
        (WrongMachine, "machine"),
        (Always, "baselines"),
        (OftenTheSame, "baselines"),
        (Raises, "oracle"),
    ],
)
def test_each_fault_is_caught_by_its_check(
    cls: type, caught: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TASKS._entries, "sum", Entry("sum", cls, SumConfig, "a test"))
    found = {finding.name: finding for finding in run_task_contract(SumConfig())}
    assert found[caught].passed is False, found[caught]


def test_classes_that_tie_over_all_positions_are_no_fault() -> None:
    """Swaps alone reach one half of S3, then the other: which class is commonest is arbitrary."""
    config = TASKS.get("group").config(group="S3", letters="swaps", identity=False)
    assert [one for one in run_task_contract(config) if one.passed is False] == []


@pytest.mark.parametrize("name", LABELLED)
def test_no_task_of_symbols_breaks_the_short_check(name: str) -> None:
    assert first_broken(make_task(TASKS.get(name).config()), [40]) is None


@pytest.mark.parametrize(
    ("cls", "caught"),
    [
        *((NoCarry, "pieces"), (OffByOne, "oracle"), (GlobalStrings, "purity")),
        *((TogetherDrawn, "purity"), (BeyondTheVocabulary, "strings"), (Floats, "strings")),
        *((Raises, "oracle"), (Always, None), (Constant, None), (WrongMachine, None)),
    ],
)
def test_what_the_short_check_catches(
    cls: type, caught: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks that are wrong, and none that is merely odd."""
    monkeypatch.setitem(TASKS._entries, "sum", Entry("sum", cls, SumConfig, "a test"))
    found = first_broken(make_task(SumConfig()), [40])
    assert (None if found is None else found.name) == caught


class LongOnly(NoCarry):
    shortest = 50
    length_rule = "lengths >= 50"

    def valid_length(self, length: int) -> bool:
        return length >= self.shortest


def test_a_task_without_short_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    task = LongOnly(SumConfig())
    for used in ([60, 500], []):  # without a training's lengths those of the whole check
        found = first_broken(task, used)
        assert found is not None and found.name == "pieces"
    monkeypatch.setattr(LongOnly, "shortest", 1000)
    assert first_broken(task, [1000]) is not None
    assert first_broken(task, []) is None  # no length is known that it has


def test_tasks_without_an_oracle_are_refused() -> None:
    with pytest.raises(UserError, match="cannot be checked"):
        run_task_contract(TASKS.get("mackey_glass").config())
