"""The first sentence of a run's report: it claims no more than what was scored and searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lrbench.report.output.verdict_sentence import against_chance, holds, verdict_sentence
from lrbench.report.runs.columns import Answer

Make = Callable[..., dict[str, Any]]
SPLITS = {40: "train_length", 500: "test"}


def scored(result: Make, values: dict[int, float], n: int = 1000) -> dict[str, Any]:
    rows = [
        {
            **{"length": length, "split": SPLITS.get(length, "further"), "metric": "accuracy"},
            **{"value": value, "n": n, "which": "best", "kind": "test"},
        }
        for length, value in values.items()
    ]
    chance = [
        {"baseline": "uniform", "length": length, "value": 0.2, "n": 10_000} for length in values
    ]
    return result(evaluations=rows, baselines=chance)


def answer(verdict: str, length: int | None = None, string: str = "") -> Answer:
    return Answer("best", 2000, verdict, length, True, string, 8, "", "")


@pytest.mark.parametrize(
    ("values", "found", "sentence"),
    [
        (
            {40: 1.0, 500: 1.0, 4999: 1.0},
            None,
            "Holds on random strings to 4,999, the longest tested; other strings were not searched",
        ),
        (
            {40: 1.0, 500: 1.0},
            answer("open"),
            "Holds on random strings to 500, the longest tested; no failure found among all strings"
            " to 8",
        ),
        (
            {40: 1.0, 500: 1.0},
            answer("open")._replace(complete_to=0),
            "Holds on random strings to 500, the longest tested; no failure found among the strings"
            " that were searched",
        ),
        (
            {40: 1.0, 500: 1.0},
            answer("wrong", 12, "300000000002"),
            "Holds on random strings to 500, the longest tested; but wrong on `300000000002`, 12"
            " symbols",
        ),
        (
            {40: 1.0, 500: 1.0},
            answer("wrong", 131, "0" * 131),
            "Holds on random strings to 500, the longest tested; but wrong on one of 131 symbols",
        ),
        (
            {40: 1.0, 500: 1.0},
            answer("certified"),
            "Certified: right on every string of every length",
        ),
        (
            {40: 1.0, 500: 0.0},
            None,
            "Learnt length 40, not the rule: 0.0000, below chance (0.20) at 500",
        ),
        (
            {40: 1.0, 43: 0.5, 500: 0.21},
            answer("wrong", 1, "3"),
            "Learnt length 40, not the rule: 0.2100, at chance (0.20) at 500; the shortest failure"
            " known is `3`, 1 symbol",
        ),
        (
            {40: 1.0, 500: 1.0, 503: 1.0, 997: 0.93},
            None,
            "Holds on random strings to 503, not the rule: 0.9300 (chance 0.20) at 997",
        ),
        (
            {40: 1.0, 211: 1.0, 500: 0.71, 997: 1.0},
            None,
            "Holds on random strings to 211, not the rule: 0.7100 (chance 0.20) at 500",
        ),
        (
            {40: 1.0, 500: 1.0, 503: 0.93, 997: 0.5},
            None,
            "Holds on random strings to 500, not the rule: 0.9300 (chance 0.20) at 503",
        ),
        (
            {40: 0.45, 500: 1.0},
            answer("wrong", 1, "3"),
            "Did not learn length 40: 0.4500 (chance 0.20)",
        ),
        ({500: 0.3}, None, "Learnt some strings, not the rule: 0.3000 (chance 0.20) at 500"),
        ({500: 0.2}, None, "Did not learn length 500: 0.2000, at chance (0.20)"),
        ({500: 0.0}, None, "Did not learn length 500: 0.0000, below chance (0.20)"),
        ({}, None, ""),
    ],
)
def test_at_lengths(
    result: Make, values: dict[int, float], found: Answer | None, sentence: str
) -> None:
    assert verdict_sentence(scored(result, values), "best", found) == sentence


def test_a_rule_that_was_not_scored_says_nothing(result: Make) -> None:
    assert verdict_sentence(scored(result, {40: 1.0}), "band") == ""


def test_a_task_that_a_baseline_solves_shows_nothing(result: Make) -> None:
    content = scored(result, {40: 1.0, 500: 1.0})
    for row in content["baselines"]:
        row["value"] = 1.0
    assert verdict_sentence(content, "best") == (
        "Nothing to learn: the baseline uniform is right on 1.0000 at 500"
    )


def test_errors_have_no_such_sentence(result: Make) -> None:
    content = scored(result, {40: 0.05, 500: 0.06})
    for row in content["evaluations"]:
        row["metric"] = "nrmse"
    assert verdict_sentence(content, "best") == ""


def test_at_chance_is_what_the_interval_allows() -> None:
    assert against_chance(0.22, 1000, 0.2) == "0.2200, at chance (0.20)"
    assert against_chance(0.22, 100_000, 0.2) == "0.2200 (chance 0.20)"
    assert against_chance(0.15, 1000, 0.2) == "0.1500, at chance (0.20)"  # chance is measured
    assert against_chance(0.0, 1000, 0.2) == "0.0000, below chance (0.20)"
    assert against_chance(0.0, 4, 0.2) == "0.0000, at chance (0.20)"
    assert against_chance(0.5, 1000, None) == "0.5000"


def test_few_strings_hold_by_their_share_alone() -> None:
    assert holds(1.0, 100)
    assert not holds(0.98, 100)
    assert not holds(0.991, 1000)  # its lower bound is below 0.99
    assert holds(1.0, 1000)


def test_on_splits(result: Make) -> None:
    def on(values: dict[str, float]) -> str:
        rows = [
            {
                **{"length": 0, "split": split, "metric": "accuracy", "value": value},
                **{"n": 1000, "which": "best", "kind": "test"},
            }
            for split, value in values.items()
        ]
        levels = [
            {"baseline": "majority", "split": split, "value": 0.5, "n": 1000} for split in values
        ]
        content = result(protocol="rir2023", evaluations=rows, baselines=levels)
        return verdict_sentence(content | {"task": "listops"}, "best")

    assert on({"near_iid": 1.0, "lra_test": 1.0}) == (
        "Holds on random strings of every split that was tested: near_iid, lra_test"
    )
    assert on({"near_iid": 0.9, "args_10": 0.6, "lra_test": 0.48}) == (
        "Right on 0.9000 of near_iid (baseline 0.500); on 0.4800 of lra_test (no better than the"
        " baseline, 0.500)"
    )
