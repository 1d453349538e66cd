"""The examination at the end: which lengths, which checkpoints, and what chance is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lrbench.config import Config
from lrbench.protocols.fan2024.examination import chance_levels, final_tests, test_plan
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.tasks import make_task
from lrbench.training.examination import Kept
from lrbench.training.trial import unwatched

test_plan.__test__ = False  # type: ignore[attr-defined]
Make = Callable[..., Config]


def test_plan_has_each_length_once_and_valid(tiny: Make) -> None:
    config = tiny("protocol.further_lengths=[12,9]")
    assert test_plan(make_task(config.task), config.protocol) == [
        (6, "train_length", 20),
        (9, "test", 20),
        (12, "further", 2),
    ]
    odd = tiny("task=mod_arith", "protocol.train_length=5", "protocol.further_lengths=[12]")
    assert (11, "further", 2) in test_plan(make_task(odd.task), odd.protocol)


def test_checkpoints_that_coincide_are_examined_once(tiny: Make) -> None:
    trial = LengthTrial(tiny(), 0)
    weights: dict[int, Any] = {}
    for step in (1, 2):
        trial.update()
        look = trial.look(unwatched)
        look["test_accuracy"], look["validation_loss"] = 1 / step, 1 / step
        look["band_accuracy"] = 1 / step
        trial.rules.consider(look)
        weights[step] = {k: v.clone() for k, v in trial.model.state_dict().items()}
    loads = []

    def load(rule: str) -> dict[str, Any]:
        loads.append(rule)
        return weights[trial.rules.steps()[rule]]

    rows, horizons = final_tests(trial, Kept(load), unwatched)
    assert trial.rules.steps() == {"best": 1, "id": 2, "band": 1, "last": 2}
    assert loads == ["best", "id"]
    assert set(horizons) == {"best", "id", "band", "last"}
    tests = {(r["which"], r["length"]): r["value"] for r in rows if r["kind"] == "test"}
    assert len(tests) == 4 * 3
    assert tests["best", 9] == tests["band", 9]
    assert tests["id", 9] == tests["last", 9]


def test_every_symbol_that_is_read_was_planned(tiny: Make) -> None:
    trial = LengthTrial(tiny(), 0)
    trial.update()
    trial.rules.consider(trial.look(unwatched))
    seen = {"read": 0, "planned": 0}

    def check(read: int = 0, planned: int = 0) -> None:
        seen["read"] += read
        seen["planned"] += planned

    final_tests(trial, Kept(lambda _: trial.model.state_dict()), check)
    assert seen["read"] == seen["planned"] > 0


def test_guessing_is_told_where_looks_are_taken(tiny: Make) -> None:
    trial = LengthTrial(tiny("protocol.test_lengths=[9,12]", "protocol.further_lengths=[]"), 0)
    baselines, guessing = chance_levels(trial, unwatched)
    assert {row["length"] for row in baselines} == {6, 9, 12}
    assert [row["length"] for row in guessing] == [trial.look(unwatched)["test_length"]] == [9]


def test_chance_of_sum_and_guessing(tiny: Make) -> None:
    trial = LengthTrial(tiny("protocol.look_size=128", "protocol.max_steps=160"), 0)
    baselines, guessing = chance_levels(trial, unwatched)
    assert {b["length"] for b in baselines} == {6, 9, 12}
    assert all(b["value"] == pytest.approx(0.2, abs=0.02) for b in baselines)
    assert guessing[0]["looks"] == 40
    assert guessing[0]["value"] == pytest.approx(0.28, abs=0.02)
