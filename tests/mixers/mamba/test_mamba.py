"""Mamba: its settings, its modes over long strings, and what its decays can be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from lrbench.contract import run_contract
from lrbench.mixers.mamba.mamba import RANGES, MambaMixer
from lrbench.models.build import build_model
from lrbench.schema import model_node
from tests.mixers.mamba.compared import draw, made, modes_agree

WIDTH, BATCH = 12, 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("mamba", ["range=signed", "learn_x0=true", "conv_size=0"]),
        ("mamba", ["expand=1", "state_size=3", "rank=2", "conv_size=2"]),
    ],
)
def test_settings_keep_the_contract(name: str, settings: list[str]) -> None:
    findings = run_contract(name, [f"model.mixer.{setting}" for setting in settings])
    assert [str(finding) for finding in findings if finding.passed is False] == []


@pytest.mark.parametrize("range_", RANGES)
@pytest.mark.parametrize("length", [1, 37, 500])
def test_modes_agree(range_: str, length: int) -> None:
    modes_agree(made("mamba", WIDTH, range=range_, learn_x0=True), length)


@torch.no_grad()
@pytest.mark.parametrize("range_", RANGES)
def test_decays_are_in_their_range(range_: str) -> None:
    """What forbids parity to the positive range: no number of the state changes its sign."""
    mixer = made("mamba", WIDTH, range=range_)
    assert isinstance(mixer, MambaMixer)
    x = draw(BATCH, 50, mixer.channels, scale=20)
    steps = softplus(mixer.step_size(mixer.selection(x)[..., : mixer.rank]))
    decays = (-mixer.log_rate.exp() * steps[:, :, None]).exp()
    decays = RANGES[range_] * decays - (RANGES[range_] - 1)
    lowest = 0.0 if range_ == "positive" else -1.0
    assert float(decays.min()) >= lowest
    assert float(decays.max()) <= 1
    assert (float(decays.min()) < -0.9) == (range_ == "signed")


@pytest.mark.parametrize(("width", "rank"), [(16, 1), (17, 2), (64, 4), (272, 17)])
def test_a_step_has_a_number_for_every_sixteen_of_the_width(width: int, rank: int) -> None:
    mixer = made("mamba", width)
    assert isinstance(mixer, MambaMixer)
    assert mixer.rank == rank


def test_steps_begin_as_different_as_their_rank_allows() -> None:
    weight = made("mamba", 64, rank=4).get_parameter("step_size.weight").detach()
    assert 0.45 < float(weight.max()) <= 0.5 and -0.5 <= float(weight.min()) < -0.45


def test_signs_as_it_begins() -> None:
    """A few in a hundred transitions are negative at first, so that training can find more."""
    mixer = made("mamba", 64, range="signed")
    assert isinstance(mixer, MambaMixer)
    seen: list[Tensor] = []
    mixer.step_size.register_forward_hook(lambda module, given, made: seen.append(made))
    mixer(draw(8, 40, 64))
    decays = 2 * (-mixer.log_rate.exp() * softplus(seen[0])[:, :, None]).exp() - 1
    share = float((decays < 0).double().mean())
    assert 0.02 < share < 0.15


def test_a_longest_state_is_counted() -> None:
    mixer = made("mamba", WIDTH)
    _, state = mixer(draw(2, 30, WIDTH))
    assert sum(part[0].numel() for part in state) == mixer.state_size == 16 * 24 + 3 * 24


def test_the_stack_has_mixers_alone() -> None:
    model: Any = build_model(
        type("Config", (), {"model": model_node("mamba")(width=8, layers=2)}), 5, 3, seed=0
    )
    assert isinstance(model.mixers[0], MambaMixer)
    assert all(isinstance(layer, torch.nn.Identity) for layer in model.channels)
    tokens = torch.arange(5).repeat(2, 2)
    a = model.embedding.weight[tokens]
    for mixer, norm in zip(model.mixers, model.mixer_norms, strict=True):
        a = a + mixer(norm(a))[0]
    rms = a / (a.square().mean(-1, keepdim=True) + 1e-5).sqrt() * model.norm.weight
    torch.testing.assert_close(model(tokens)[0], model.head(rms))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"range": "[-1,1]"}, "model.mixer.range must be one of positive, signed"),
        ({"conv_size": -1}, "model.mixer.conv_size must be at least 0"),
        ({"state_size": 0}, "model.mixer.state_size must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made("mamba", WIDTH, **settings)
