"""The schema: ranges that hold without any task or model, and the way back from config.json."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from lrbench.checks import at_least, between, nearest, one_of, shown
from lrbench.config import Config, ModelConfig, OptimConfig, StackConfig, config_from
from lrbench.errors import UserError
from lrbench.protocols import ProtocolConfig
from lrbench.tasks.mod_arith import ModArithConfig


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (Config, {"seed": -1}, "seed must be at least 0, not -1"),
        (Config, {"seed": 2**63}, "seed must be at most 9,223,372,036,854,775,807"),
        (Config, {"seed": 2**63 - 1}, r"seed \+ trials must be at most"),
        (Config, {"data_seed": -1}, "data_seed must be at least 0"),
        (Config, {"trials": 0}, "trials must be at least 1"),
        (Config, {"threads": 2000}, "threads must be at most 1,024"),
        (Config, {"output_dir": " "}, "output_dir must name a folder"),
        (Config, {"output_dir": "a\0b"}, r"output_dir must name a folder, not 'a\\x00b'"),
        (StackConfig, {"layers": 0}, "model.layers must be at least 1"),
        (ModelConfig, {"width": -1}, "model.width must be at least 1"),
        (ProtocolConfig, {"batch_size": 0}, "protocol.batch_size must be at least 1"),
        (ProtocolConfig, {"max_steps": 10**10}, "protocol.max_steps must be at most"),
        (ProtocolConfig, {"look_every": 3}, "more than 10,000 looks"),
        (ProtocolConfig, {"test_lengths": []}, "name at least one length"),
        (ProtocolConfig, {"test_lengths": [0]}, "protocol.test_lengths must be at least 1"),
        (ProtocolConfig, {"band": [2, 1]}, "shortest, longest"),
        (ProtocolConfig, {"band": [1, 2, 3]}, "shortest, longest"),
        (ProtocolConfig, {"stop": "later"}, "protocol.stop must be one of"),
        (OptimConfig, {"lr": 0.0}, "optim.lr must be a positive number, not 0.0"),
        (OptimConfig, {"lr": float("nan")}, "optim.lr must be a positive number, not nan"),
        (OptimConfig, {"clip": 0.0}, "optim.clip must be a positive number"),
        (OptimConfig, {"weight_decay": float("inf")}, "optim.weight_decay must be at least 0"),
        (OptimConfig, {"betas": [0.9, 1.0]}, "optim.betas must be two numbers in"),
        (OptimConfig, {"betas": [0.9, float("nan")]}, "optim.betas must be two numbers in"),
        (OptimConfig, {"label_smoothing": 1.0}, "optim.label_smoothing must be in"),
        (OptimConfig, {"warmup": -1}, "optim.warmup must be at least 0"),
    ],
)
def test_ranges(kind: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind(**settings)


def test_what_is_not_set_yet_passes() -> None:
    for check in (lambda v: at_least("k", v, 1), lambda v: between("k", v, 1, 2)):
        check(None)
        check("???")
    one_of("k", "???", ["a"])


def test_numbers_at_the_edge() -> None:
    between("k", 1, 1, 2)
    between("k", 2, 1, 2)
    at_least("k", 0.0, 0)
    for wrong in (0, 3, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="k must be at"):
            between("k", wrong, 1, 2)


def test_the_nearest_word() -> None:
    assert nearest("moduls", ["modulus", "name"]) == " Did you mean 'modulus'?"
    assert nearest("SEED", ["seed"]) == " Did you mean 'seed'?"
    assert nearest("x" * 10_000, ["seed"]) == ""


def test_values_are_shown_on_one_short_line() -> None:
    assert shown("größe") == "größe"
    assert shown("a\nb\x1b[1m\ud800") == r"a\nb\x1b[1m\ud800"
    long = shown("x" * 10_000)
    assert len(long) < 80 and "..." in long


def as_written(**changes: Any) -> dict[str, Any]:
    """Return a configuration as config.json holds it."""
    from lrbench.cli.planning import composed

    settings = json.loads(json.dumps(dataclasses.asdict(composed(["task=mod_arith"]))))
    return {**settings, **changes}


def test_there_and_back() -> None:
    written = as_written(seed=4, output_dir="there")
    config = config_from(written)
    assert dataclasses.asdict(config) == written
    assert config.task.name == "mod_arith"
    assert isinstance(config.task, ModArithConfig)


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
