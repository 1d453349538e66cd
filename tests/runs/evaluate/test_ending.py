"""The search that ends a training: what it says, when there is none, and what it never costs."""

from __future__ import annotations

import json
import math
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from lrbench.certificates.record import search_record
from lrbench.certificates.witness import SearchBudget, search
from lrbench.errors import Interrupted, UserError
from lrbench.protocols.base import declared
from lrbench.report.runs.certificates import EXTENT
from lrbench.runs.evaluate import ending
from lrbench.runs.evaluate.ending import search_after_training, sentence
from lrbench.runs.train.result import Outcome
from lrbench.schema import config_from
from lrbench.tasks.symbols.cyclic import Parity, ParityConfig
from tests.certificates.exact import exact_rnn

SETTINGS: dict[str, Any] = {
    "task": {"name": "parity"},
    "model": {"name": "rnn"},
    "protocol": {"name": "fan2024"},
}


def outcome(status: str = "finished") -> Outcome:
    return Outcome(3, Path("runs/s3"), status)


def test_what_is_not_searched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr(ending, "certify_run", never)
    config = config_from(SETTINGS | {"protocol": {"name": "fan2024", "certify": "never"}})
    search_after_training(config, [outcome()])
    config = config_from(SETTINGS)
    for status in ("skipped", "diverged", "failed"):
        search_after_training(config, [outcome(status)])
    capsys.readouterr()
    for certify, reported in (("auto", ""), ("always", "task mackey_glass is no finite automaton")):
        protocol = {"name": "fan2024", "certify": certify}
        config = config_from(SETTINGS | {"task": {"name": "mackey_glass"}, "protocol": protocol})
        search_after_training(config, [outcome()])
        assert (reported in (err := capsys.readouterr().err)) and bool(err) == bool(reported)
    with pytest.raises(UserError, match=r"protocol\.certify"):
        config_from(SETTINGS | {"protocol": {"name": "fan2024", "certify": "sometimes"}})


def test_a_training_that_was_cut_off_in_its_search_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same command finds the result and searches on, once; Ctrl-C ends it in a line."""
    searched: list[Path] = []

    def cut_off(folder: Path, *_: object, **__: object) -> None:
        searched.append(folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(ending, "certify_run", cut_off)
    config = config_from(SETTINGS)
    finished = {"status": "finished"}
    with pytest.raises(Interrupted, match=r"seed 3 was searched .* every run has its result"):
        search_after_training(config, [Outcome(3, tmp_path, "finished", finished)])
    again = [Outcome(3, tmp_path, "skipped", finished)]
    search_after_training(config, again)  # its checkpoint has been removed
    assert len(searched) == 1
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.pt").touch()
    with pytest.raises(Interrupted):
        search_after_training(config, again)
    search_after_training(config, [Outcome(3, tmp_path, "skipped", {"status": "diverged"})])
    (tmp_path / "certificates").mkdir()
    (tmp_path / "certificates" / "last.json").touch()
    search_after_training(config, again)
    assert len(searched) == 2


def test_a_suite_is_searched_by_counts_and_again_where_that_was_less(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No clock decides what stands in a suite; `always` goes further than it asks."""
    budgets: list[SearchBudget] = []

    def noted(_: Path, __: str, budget: SearchBudget, *___: object, **____: object) -> None:
        budgets.append(budget)
        raise UserError("enough")

    monkeypatch.setattr(ending, "certify_run", noted)
    suite = config_from(SETTINGS | {"protocol": {"name": "suite_v1"}})
    result = {"status": "finished", "checkpoints": {"last": 5000, "id": 5000}}
    for name in ("checkpoints/last.pt", "certificates/last.json"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    skipped = [Outcome(3, tmp_path, "skipped", result)]
    extent = declared("suite_v1").search
    assert extent == (100_000, 2000, 5, 500)
    asked = dict(zip(EXTENT, extent, strict=True))
    searched = {"complete_to": 9, "out_of_time": [], **asked}
    known = {"format": "lrbench-certificate", "verdict": "open", "which": "last", "step": 5000}
    for record, times in ((searched, 0), (searched | {"beam": 4}, 1), ({"complete_to": 9}, 1)):
        (tmp_path / "certificates/last.json").write_text(json.dumps(known | {"searched": record}))
        search_after_training(suite, skipped)
        assert budgets == [SearchBudget(*extent)] * times
        budgets.clear()
    search_after_training(config_from(SETTINGS), skipped)  # of another protocol: it was searched
    assert not budgets
    search_after_training(
        config_from(SETTINGS | {"protocol": {"name": "suite_v1", "certify": "always"}}), skipped
    )
    (budget,) = budgets
    assert budget.seconds == math.inf
    assert all(most >= asked for most, asked in zip(astuple(budget), extent, strict=False))


def test_a_search_that_fails_costs_no_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(ending, "certify_run", broken)
    search_after_training(config_from(SETTINGS), [outcome()])
    reported = capsys.readouterr().err
    assert "seed 3: not searched for wrong strings: ZeroDivisionError: by zero" in reported
    assert "lrbench certify runs/s3 shows where" in reported


def test_a_search_ends_when_its_seconds_have_passed() -> None:
    task = Parity(ParityConfig())
    machine = task.machine()
    model, _ = exact_rnn(machine, gain=4.0)
    found = search(model, machine, SearchBudget(seconds=0.0))
    assert found.out_of_time == ["complete", "families", "beam"] and found.witness is None
    assert found.complete_to == found.families_to == found.beam_to == 0
    whole = search(model, machine, SearchBudget(complete=100, beam=2, longest=20))
    assert not whole.out_of_time and whole.complete_to > 0


def test_a_part_of_a_search_that_tried_nothing_is_not_named() -> None:
    """Of a model that is right everywhere: the extent of each part, and the time limit if hit."""
    task = Parity(ParityConfig())
    machine = task.machine()
    model, _ = exact_rnn(machine, gain=4.0)

    def said(budget: SearchBudget) -> str:
        found = search(model, machine, budget)
        record: Any = {"searched": search_record(task, found), "witness": None}
        return sentence(task, record)

    whole = said(SearchBudget(complete=100, beam=2, longest=20))
    assert whole.startswith("no wrong string found: all strings of up to 6 symbols are right; ")
    assert "patterns were tried to 20 symbols; strings with narrow margins to 20 (" in whole
    assert "limit" not in whole
    nothing = said(SearchBudget(seconds=0.0))
    assert "patterns" not in nothing and "narrow" not in nothing
    assert nothing.startswith("no wrong string found: no length was searched whole (")
    assert nothing.endswith(" s, stopped by its time limit)")
