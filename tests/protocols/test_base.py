"""What protocols declare: found by folder, read without torch, and of unknown ones the usual."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from lrbench.config import Config
from lrbench.protocols.base import Selection, declared, rule_names
from lrbench.records import evaluation
from lrbench.registry import PROTOCOLS


def test_they_are_found_by_their_folder_and_load_no_torch() -> None:
    program = (
        "import sys; from lrbench.protocols.base import rule_names; print(rule_names());"
        " assert 'torch' not in sys.modules and 'omegaconf' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(("best", "id", "band", "last"))
    assert {"fan2024", "rir2023"} <= set(PROTOCOLS.names())


def test_a_configuration_has_the_usual_one() -> None:
    assert Config().protocol == PROTOCOLS.get("fan2024").config()


@pytest.mark.parametrize("name", ["fan2024", "rir2023", "not-registered"])
def test_all_have_what_a_report_asks_for(name: str) -> None:
    protocol = declared(name)
    assert protocol.name == name and protocol.usual_rule in protocol.rules
    assert set(protocol.rules) <= set(rule_names())
    assert protocol.by_split == (name == "rir2023")
    assert protocol.most_updates({"max_steps": 7}, None) == 7


@pytest.mark.parametrize(
    ("settings", "look", "most"),
    [
        ({"epochs": 10}, {"step": 30, "epoch": 3.0}, 100),
        ({"epochs": 10, "max_steps": 40}, {"step": 30, "epoch": 3.0}, 40),
        ({"epochs": 10}, None, None),
        ({"epochs": "10"}, {"step": 30, "epoch": 3.0}, None),
        ({"epochs": 10}, {"step": 30, "epoch": float("nan")}, None),
    ],
)
def test_updates_of_epochs_follow_from_a_look(
    settings: dict[str, Any], look: dict[str, Any] | None, most: int | None
) -> None:
    assert declared("rir2023").most_updates(settings, look) == most


def test_looks_and_what_a_setting_is_chosen_by() -> None:
    fan, rir = declared("fan2024"), declared("rir2023")
    seen = {"test_length": 9, "test_n": 8, "test_accuracy": 0.5, "validation_accuracy": 0.25}
    assert (9, "test", "accuracy", 0.5, 8) in fan.look_values(seen, {})
    assert (None, "odd", "accuracy", 0.25, None) in rir.look_values(seen, {"dev_split": "odd"})
    assert fan.selection({}) == Selection("id", "train_length", "loss")
    assert rir.selection({"select_by": "accuracy"}) == Selection("best", "dev", "accuracy")


def test_a_row_keeps_the_order_of_its_details() -> None:
    row = evaluation(5, "test", "accuracy", 1.0, 8, kind="test", which="best")
    assert list(row) == ["length", "split", "metric", "value", "n", "kind", "which"]
