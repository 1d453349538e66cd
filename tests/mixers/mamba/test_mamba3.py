"""Mamba-3: a state that turns itself, written in numpy; its modes, angles and settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lrbench.contract import run_contract
from lrbench.mixers.mamba.mamba3 import Mamba3Mixer, angles
from tests.mixers.mamba.compared import draw, made, modes_agree, moved

WIDTH, BATCH, LENGTH = 6, 2, 11


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def rms(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean() + 1e-5) * weight


def turn(size: int, change: np.ndarray) -> np.ndarray:
    """Return the rotation (N, N) of each pair (j, R + j) by an angle."""
    matrix, count = np.eye(size), len(change)
    for j, angle in enumerate(change):
        other = count + j
        matrix[j, j] = matrix[other, other] = np.cos(angle)
        matrix[other, j], matrix[j, other] = np.sin(angle), -np.sin(angle)
    return matrix


def layer(mixer: Mamba3Mixer, u: np.ndarray) -> np.ndarray:
    """Return y (T, D) of one string u (T, D): no key turns, the state does.

    S' = S R(angle) is what a query reads that does not turn. It is turned by each step's change,
    with what is left of the write before, so no angle is ever added up.
    """
    w = {name: value.detach().numpy() for name, value in mixer.named_parameters()}
    heads, values, size = w["start"].shape
    z, x, b, c, s, fall, share, change = np.split(
        u @ w["project.weight"].T, np.cumsum(mixer.parts)[:-1], axis=1
    )
    state, outputs = w["start"].copy(), []
    write = np.zeros_like(state)  # x k^T of the position before
    for t in range(len(u)):
        y = np.zeros((heads, values))
        key, query = rms(b[t], w["key_norm.weight"]), rms(c[t], w["query_norm.weight"])
        for h in range(heads):
            step = softplus(s[t, h] + w["time_bias"][h])
            decay = np.exp(-step * max(softplus(fall[t, h]), 1e-4))
            rotation = turn(size, step * np.pi * np.tanh(change[t]))
            lam = sigmoid(share[t, h])
            own = x[t].reshape(heads, values)[h]
            state[h] = decay * (state[h] + (1 - lam) * step * write[h]) @ rotation
            write[h] = np.outer(own, key + w["key_bias"][h])
            state[h] += lam * step * write[h]
            y[h] = state[h] @ (query + w["query_bias"][h]) + w["skip"][h] * own
        outputs.append(w["out.weight"] @ (y.reshape(-1) * z[t] * sigmoid(z[t])))
    return np.stack(outputs)


@torch.no_grad()
@pytest.mark.parametrize("share", ["half", "all"])
def test_the_layer_is_its_equations(share: str) -> None:
    settings = {"heads": 3, "state_size": 8, "rotated": share, "learn_x0": True}
    mixer = moved(made("mamba3", WIDTH, **settings))
    assert isinstance(mixer, Mamba3Mixer)
    mixer.project.weight.mul_(4)  # steps and angles that are not small
    u = draw(BATCH, LENGTH, WIDTH, seed=1)
    expected = torch.stack([torch.from_numpy(layer(mixer, row.numpy())) for row in u])
    for mode in mixer.modes:
        torch.testing.assert_close(mixer(u, mode=mode)[0], expected, rtol=1e-9, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 37, 500])
def test_modes_agree(length: int) -> None:
    modes_agree(made("mamba3", WIDTH, state_size=8, learn_x0=True), length)


def test_angles_of_long_strings_are_not_rounded_away() -> None:
    """In single precision the sum of 20,000 changes, 8,000 turns, is off by 0.0002 of one."""
    change = 0.4
    found = angles(torch.full((1, 20_000, 1, 1), change), torch.zeros(1, 1, 1))
    exact = 20_000 * float(torch.tensor(change)) % 1
    assert float(found.max()) <= 1 and float(found.min()) >= 0
    assert abs(float(found[0, -1]) - exact) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("settings", [["rotated=all"], ["heads=8", "state_size=6", "expand=1"]])
def test_settings_keep_the_contract(settings: list[str]) -> None:
    findings = run_contract("mamba3", [f"model.mixer.{setting}" for setting in settings])
    assert [str(finding) for finding in findings if finding.passed is False] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, r"expand \* model\.width of 12 cannot be shared by model\.mixer\.heads=5"),
        ({"rotated": "some"}, "model.mixer.rotated must be one of half, all"),
        ({"state_size": 3}, "model.mixer.state_size must be at least 4"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made("mamba3", WIDTH, **settings)
