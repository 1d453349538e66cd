"""Settings of the layers of the delta rule: what equals what, and what each of them changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.checks import from_a_user
from lrbench.contract import run_contract
from lrbench.mixers.delta.deltanet import DeltaNetMixer
from lrbench.registry import MIXERS

WIDTH, BATCH, LENGTH = 12, 3, 23


def made(name: str, seed: int = 0, **settings: Any) -> DeltaNetMixer:
    entry = MIXERS.get(name)
    torch.manual_seed(seed)
    mixer = entry.cls(entry.config(heads=2, **settings), WIDTH)
    assert isinstance(mixer, DeltaNetMixer)
    return mixer.double()


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@torch.no_grad()
def same(one: DeltaNetMixer, other: DeltaNetMixer) -> None:
    u = draw(BATCH, LENGTH, WIDTH)
    torch.testing.assert_close(one(u), other(u), rtol=1e-9, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("deltaproduct", ["conv_size=0", "qk_activation=identity", "learn_x0=true"]),
        ("gated_deltanet", ["decay=channel", "erase=channel", "range=signed", "value_size=6"]),
        (
            "gated_deltaproduct",
            ["erase=channel", "householders=3", "key_size=5", "value_size=4", "heads=3"],
        ),
    ],
)
def test_settings_keep_the_contract(name: str, settings: list[str]) -> None:
    findings = run_contract(name, [f"model.mixer.{setting}" for setting in settings])
    assert [str(finding) for finding in findings if finding.passed is False] == []


def test_the_four_names_are_settings_of_one_layer() -> None:
    """A name's defaults, asked of another name, make the same weights and the same function."""
    gated = made("deltaproduct", range="positive", householders=1, decay="scalar", output_gate=True)
    same(made("gated_deltanet"), gated)
    same(made("deltanet", range="signed", householders=2), made("deltaproduct"))


@torch.no_grad()
def test_equal_channels_are_one_number() -> None:
    """Kimi's decay and Gated DeltaNet-2's erasure are Gated DeltaNet where channels agree."""
    one = made("gated_deltanet")
    several = made("gated_deltanet", decay="channel", erase="channel")
    keys, values = one.keys, one.values
    state = one.state_dict()
    state["decay.weight"] = state["decay.weight"].repeat_interleave(keys, 0)
    state["time_bias"] = state["time_bias"].repeat_interleave(keys)
    strength = state["strength.weight"]
    erase, write = (strength.repeat_interleave(size, 0) for size in (keys, values))
    state["strength.weight"] = torch.cat([erase, write])
    several.load_state_dict(state)
    same(several, one)


@torch.no_grad()
def test_a_factor_that_is_not_used_changes_nothing() -> None:
    """n_h = 2 with the second strength at zero is n_h = 1."""
    one, two = made("deltanet", conv_size=0), made("deltanet", conv_size=0, householders=2)
    state = two.state_dict()
    q, k, v = one.project.weight.split(one.parts)
    noise = draw(*k.shape, seed=3)

    def beside(x: Tensor, size: int) -> Tensor:  # (H size, D) to (H 2 size, D)
        parts = x.unflatten(0, (2, size)), noise[: len(x)].unflatten(0, (2, size))
        return torch.stack(parts, 1).flatten(0, 2)

    state["project.weight"] = torch.cat([q, beside(k, one.keys), beside(v, one.values)])
    unused = torch.zeros_like(one.strength.weight)
    state["strength.weight"] = torch.stack([one.strength.weight, unused], 1).flatten(0, 1)
    for name in ("norm.weight", "out.weight", "start"):
        state[name] = one.state_dict()[name]
    two.load_state_dict(state)
    u = draw(BATCH, LENGTH, WIDTH)
    transition, values, queries, _ = two.coefficients(u, two.initial_state(BATCH)[1])
    transition.erased[:, :, 1] = 0  # a logit of zero is a strength of a half
    values[:, :, 1] = 0
    expected = one.coefficients(u, one.initial_state(BATCH)[1])
    torch.testing.assert_close(transition.written().blocks, expected[0].written().blocks)
    torch.testing.assert_close(
        transition.writes(values), expected[0].writes(expected[1]), rtol=1e-9, atol=1e-11
    )
    torch.testing.assert_close(queries, expected[2])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"range": "[-1,1]"}, "model.mixer.range must be one of positive, signed"),
        ({"decay": "vector"}, "model.mixer.decay must be one of none, scalar, channel"),
        ({"householders": 0}, "model.mixer.householders must be at least 1"),
        ({"gate": "sigmoid"}, "gate=sigmoid is for model.mixer.output_gate=true; leave it out"),
        ({"conv_size": -1}, "model.mixer.conv_size must be at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with from_a_user(), pytest.raises(ValueError, match=message):
        made("deltanet", **settings)


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    entry = MIXERS.get("deltanet")
    assert entry.cls(entry.config(heads=1), 10).state_size
    with pytest.raises(ValueError, match=r"model\.mixer\.heads must be at least 1"):
        entry.config(heads=0)
    with pytest.raises(ValueError, match=r"model\.width of 10 cannot be shared.*heads=4"):
        entry.cls(entry.config(), 10)
