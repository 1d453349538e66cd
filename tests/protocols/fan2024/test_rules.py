"""Which look each rule believes."""

from __future__ import annotations

from typing import Any

from lrbench.protocols.fan2024.rules import LengthRules


def look(step: int, test: float, loss: float, band: float, band_loss: float) -> dict[str, Any]:
    return {
        "step": step,
        "test_accuracy": test,
        "validation_loss": loss,
        "band_accuracy": band,
        "band_loss": band_loss,
    }


def test_each_rule_believes_its_own_look() -> None:
    rules = LengthRules()
    assert rules.consider(look(1, 0.5, 0.9, 0.5, 0.9)) == ["best", "id", "band", "last"]
    assert rules.consider(look(2, 0.9, 1.0, 0.4, 0.1)) == ["best", "last"]
    assert rules.consider(look(3, 0.8, 0.1, 0.5, 0.8)) == ["id", "band", "last"]
    assert rules.consider(look(4, 0.9, 1.1, 0.5, 0.9)) == ["last"]
    assert rules.consider(look(5, 0.9, 0.2, 0.5, 0.9)) == ["best", "last"]
    assert rules.steps() == {"best": 5, "id": 3, "band": 3, "last": 5}


def test_the_earlier_of_equal_looks_stays() -> None:
    rules = LengthRules()
    rules.consider(look(1, 1.0, 0.1, 1.0, 0.1))
    assert rules.consider(look(2, 1.0, 0.1, 1.0, 0.1)) == ["last"]


def test_state_brings_back_the_same_beliefs() -> None:
    rules = LengthRules()
    rules.consider(look(1, 0.5, 0.9, 0.5, 0.9))
    again = LengthRules(rules.state())
    assert again.steps() == rules.steps()
    assert again.consider(look(2, 0.4, 1.0, 0.4, 1.0)) == ["last"]
    assert rules.steps()["last"] == 1
