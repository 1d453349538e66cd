"""The way back from config.json, checked like any configuration."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.registry import MIXERS
from lrbench.schema import config_from, model_node
from lrbench.tasks.symbols.mod_arith import ModArithConfig


def as_written(**changes: Any) -> dict[str, Any]:
    """Return a configuration as config.json holds it."""
    from lrbench.cli.hydra.compose import composed

    settings = json.loads(json.dumps(dataclasses.asdict(composed(["task=mod_arith"]))))
    return {**settings, **changes}


def test_there_and_back() -> None:
    written = as_written(seed=4, output_dir="there")
    config = config_from(written)
    assert dataclasses.asdict(config) == written
    assert config.task.name == "mod_arith"
    assert isinstance(config.task, ModArithConfig)


def test_each_has_a_configuration_of_its_own() -> None:
    written = as_written()
    first, second = config_from(written), config_from(written)
    first.optim.lr = first.seed = 7
    assert dataclasses.asdict(second) == dataclasses.asdict(config_from(written)) == written
    faster = config_from(as_written(optim={**written["optim"], "lr": 1}))
    assert type(faster.optim.lr) is float and faster.optim.lr == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"seed": "four"},
        {"seed": -1},
        {"colour": "red"},
        {"optim": {"lr": 1e-3, "momentum": 0.9}},
        {"task": {"name": "of_another_version"}},
        {"protocol": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_configuration_of_another_version(change: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        config_from(as_written(**change))


def test_a_mixer_that_wants_what_its_stack_has_not_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = replace(MIXERS.get("blockdiag"), backbone={"name": "bare", "emb": "one_hot"})
    monkeypatch.setitem(MIXERS._entries, "mine", entry)
    with pytest.raises(UserError, match=r"mixer mine is registered with settings .*'bare'.*'emb'"):
        model_node("mine")
