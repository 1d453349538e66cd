"""What a line of a sweep says of a result."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lrbench.sweeps.plan.expected import Estimate, Expected
from lrbench.sweeps.plan.ledger import seconds_of
from lrbench.sweeps.plan.plan import Plan
from lrbench.sweeps.plan.report import accuracy, plan_table
from tests.made_up_results import make_split_result


@pytest.mark.parametrize(
    ("rule", "reported"),
    [("best", "0.591 on near_iid"), ("last", "0.541 on near_iid"), ("id", "0.591 on near_iid")],
)
def test_a_run_over_a_corpus_is_named_by_its_first_split(rule: str, reported: str) -> None:
    assert accuracy(make_split_result({"near_iid": 0.591, "args_10": 0.2}), rule) == reported


def test_a_run_at_lengths_is_named_by_its_first_length() -> None:
    row = {"split": "test", "metric": "accuracy", "which": "best", "kind": "test", "n": 10}
    rows = [{**row, "length": 997, "value": 0.5}, {**row, "length": 500, "value": 0.998}]
    result = {
        "protocol": "fan2024",
        "config": {"protocol": {"test_lengths": [500, 997]}},
        "evaluations": rows,
    }
    assert accuracy(result, "best") == "0.998 at 500"


def test_a_range_of_lengths_has_one_test_and_the_paper_s_rule() -> None:
    row = {"metric": "accuracy", "which": "last", "kind": "test", "n": 10, "length": 256}
    rows = [{**row, "split": "by_length", "value": 0.1}, {**row, "split": "test", "value": 0.75}]
    result = {"protocol": "grazzi2025", "config": {"protocol": {}}, "evaluations": rows}
    assert accuracy(result, "best") == "0.750 at 256"


def test_a_run_without_a_test_is_worth_no_word() -> None:
    assert accuracy({"protocol": "fan2024", "config": {}, "evaluations": []}, "best") == ""


def test_a_run_took_its_training_and_its_examination() -> None:
    result = make_split_result({"near_iid": 0.5})
    result["train_seconds"] = 20.0
    assert seconds_of(result) == 20.0  # an older result does not say more
    result["examination_seconds"] = 18.0
    assert seconds_of(result) == 38.0
    del result["train_seconds"]
    assert seconds_of(result) is None


@pytest.mark.parametrize(
    ("expected", "told", "more"),
    [
        (Expected(15.0, False, True), "one after the other up to about 30 s", False),
        (Expected(15.0, False, False), "one after the other up to about 30 s", True),
        (None, "no run like them tells how long they take", False),
    ],
)
def test_a_plan_tells_what_its_time_is_of(
    expected: Expected | None,
    told: str,
    more: bool,
    plan_of: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(Estimate, "of", lambda estimate, run: expected)
    plan_table(plan_of("seed=0,1"))
    text = capsys.readouterr().out
    assert told in text and "at most" not in text
    assert ("updates alone, where no run here tells" in text) == more
    assert "\n2 runs: 0 finished, 2 to do" in text
    plan_table(plan_of("seed=0"))
    assert "\n1 run: 0 finished, 1 to do" in capsys.readouterr().out


def test_runs_of_an_unknown_time_make_the_sum_a_lower_bound(
    plan_of: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plan = plan_of("seed=0,1")
    first = plan.runs[0]
    known = Expected(15.0, False, True)
    monkeypatch.setattr(Estimate, "of", lambda estimate, run: known if run is first else None)
    plan_table(plan)
    assert "; one after the other more than 15 s\n" in capsys.readouterr().out
