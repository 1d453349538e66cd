"""Words on the command line become a checked model node, or an error of a few lines."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from lrbench.contract import run_contract
from lrbench.contract.subject import model_settings
from lrbench.errors import UserError
from lrbench.registry import MIXERS, Entry


def test_defaults_and_overrides() -> None:
    assert model_settings("blockdiag", []).width == 16
    arguments = [
        "model.width=8",
        "model.mixer.block_size=4",
        "model.mixer.p=1",
        "model.mixer.blocks=3",
    ]
    model = model_settings("blockdiag", arguments)
    assert (model.name, model.width) == ("blockdiag", 8)
    mixer = model.mixer
    assert (mixer.block_size, mixer.p, mixer.blocks) == (4, 1.0, 3)


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ("model.mixer.block_sise=4", "Did you mean 'model.mixer.block_size'"),
        ("model.mixer.p.q=4", "setting 'model.mixer.p.q' unknown"),
        ("model.width=wide", "model.width must be a whole number, not 'wide'"),
        ("model.width=", "model.width must be a whole number, not ''"),
        ("model.mixer.p=big", "model.mixer.p must be a number, not 'big'"),
        ("model.mixer.learn_x0=4x", "model.mixer.learn_x0 must be true or false, not '4x'"),
        ("model.mixer.blocks=x", r"model.mixer.blocks must be of type int \| None, not 'x'"),
        ("model.mixer.p={a: 1", "model.mixer.p must be a number"),
        ("model.mixer.p=0.5", "model.mixer.p must be at least 1, not 0.5"),
        ("model.mixer.g=conv", "model.mixer.g must be one of linear, mlp, not 'conv'"),
        ("model.width=0", "model.width must be at least 1"),
    ],
)
def test_wrong_settings(argument: str, text: str) -> None:
    with pytest.raises(UserError, match=text) as caught:
        model_settings("blockdiag", [argument])
    assert len(str(caught.value).splitlines()) <= 6


def test_unknown_model() -> None:
    with pytest.raises(UserError, match="Did you mean 'blockdiag'"):
        model_settings("blokdiag", [])


def test_settings_that_do_not_go_together_are_the_users_to_mend() -> None:
    with pytest.raises(UserError, match="width 10 is not a multiple"):
        run_contract("blockdiag", ["model.width=10"])


@dataclass
class NoDefault:
    hidden: int


@dataclass
class OddType:
    dtype: torch.dtype = torch.float32


@pytest.mark.parametrize(("config", "text"), [(NoDefault, "'hidden'"), (OddType, "dtype")])
def test_a_configuration_that_is_no_schema(
    config: type, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MIXERS._entries, "odd", Entry("odd", object, config, "a test"))
    with pytest.raises(UserError, match="configuration of model 'odd' cannot be used") as caught:
        model_settings("odd", [])
    assert text in str(caught.value)
    assert "each field needs a default" in str(caught.value)
