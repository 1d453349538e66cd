"""Mamba-2: its equations written in numpy, its modes over long strings, its settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lrbench.contract import run_contract
from lrbench.mixers.mamba.mamba2 import RANGES, Mamba2Mixer
from tests.mixers.mamba.compared import draw, made, modes_agree, moved

WIDTH, BATCH, LENGTH = 6, 2, 11


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def layer(mixer: Mamba2Mixer, u: np.ndarray) -> np.ndarray:
    """Return y (T, D) of one string u (T, D), as the paper's equations have it."""
    w = {name: value.detach().numpy() for name, value in mixer.named_parameters()}
    heads, values, size = w["start"].shape
    inner = heads * values
    made_ = u @ w["project.weight"].T
    z, mixed, s = made_[:, :inner], made_[:, inner : inner + inner + 2 * size], made_[:, -heads:]
    if mixer.convolution is not None:
        kernel = w["convolution.weight"]
        reach = kernel.shape[1]
        before = np.concatenate([np.zeros((reach - 1, mixed.shape[1])), mixed])
        mixed = (
            np.stack([(before[t : t + reach] * kernel.T).sum(0) for t in range(len(u))])
            + w["convolution.bias"]
        )
    mixed = mixed * sigmoid(mixed)
    x, b, c = mixed[:, :inner], mixed[:, inner : inner + size], mixed[:, inner + size :]
    steps = np.log1p(np.exp(s + w["time_bias"]))
    state, outputs = w["start"].copy(), []
    for t in range(len(u)):
        y = np.zeros((heads, values))
        for h in range(heads):
            decay = np.exp(-np.exp(w["log_rate"][h]) * steps[t, h])
            if mixer.config.range == "signed":
                decay = 2 * decay - 1
            own = x[t].reshape(heads, values)[h]
            state[h] = decay * state[h] + steps[t, h] * np.outer(own, b[t])
            y[h] = state[h] @ c[t] + w["skip"][h] * own
        gated = y.reshape(-1) * z[t] * sigmoid(z[t])
        normal = gated / np.sqrt((gated**2).mean() + 1e-5) * w["norm.weight"]
        outputs.append(w["out.weight"] @ normal)
    return np.stack(outputs)


@torch.no_grad()
@pytest.mark.parametrize("conv", [0, 3])
@pytest.mark.parametrize("range_", RANGES)
def test_the_layer_is_its_equations(range_: str, conv: int) -> None:
    settings = {"heads": 3, "state_size": 5, "conv_size": conv, "learn_x0": True}
    mixer = moved(made("mamba2", WIDTH, range=range_, **settings))
    assert isinstance(mixer, Mamba2Mixer)
    u = draw(BATCH, LENGTH, WIDTH, seed=1)
    expected = torch.stack([torch.from_numpy(layer(mixer, row.numpy())) for row in u])
    for mode in mixer.modes:
        torch.testing.assert_close(mixer(u, mode=mode)[0], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("range_", RANGES)
@pytest.mark.parametrize("length", [1, 37, 500])
def test_modes_agree(range_: str, length: int) -> None:
    modes_agree(made("mamba2", WIDTH, range=range_, learn_x0=True), length)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [["range=signed", "conv_size=0"], ["heads=8", "expand=1"]])
def test_settings_keep_the_contract(settings: list[str]) -> None:
    findings = run_contract("mamba2", [f"model.mixer.{setting}" for setting in settings])
    assert [str(finding) for finding in findings if finding.passed is False] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, r"expand \* model\.width of 12 cannot be shared by model\.mixer\.heads=5"),
        ({"range": "[-1,1]"}, "model.mixer.range must be one of positive, signed"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made("mamba2", WIDTH, **settings)
