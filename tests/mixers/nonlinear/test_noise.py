"""Noise on carried states: before every symbol, of the update's own generator, and of no other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.nonlinear.noise import NoisyMixer, StateNoise
from lrbench.registry import MIXERS

BATCH, LENGTH, WIDTH = 3, 6, 4
NOISY = ("rnn", "gru", "lstm", "elman", "gru_seed")


def made(name: str) -> NoisyMixer:
    torch.manual_seed(0)
    entry = MIXERS.get(name)
    mixer: NoisyMixer = entry.cls(entry.config(), WIDTH).double()
    return mixer


def strings() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, LENGTH, WIDTH, generator=generator, dtype=torch.float64)


def noise(scale: float) -> StateNoise:
    return StateNoise(scale, torch.Generator().manual_seed(2))


def gradients(mixer: NoisyMixer, y: Tensor) -> list[Tensor]:
    return list(torch.autograd.grad(y.square().sum(), list(mixer.parameters())))


@pytest.mark.parametrize("name", NOISY)
def test_noise_of_no_size_is_none(name: str) -> None:
    """Steps with autograd give what the loops and kernels of plain training give."""
    mixer, u = made(name), strings()
    y, last = mixer(u)
    plain = gradients(mixer, y)
    mixer.noise = noise(0.0)
    z, end = mixer(u)
    torch.testing.assert_close(z, y, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(end, last, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(gradients(mixer, z), plain, rtol=1e-8, atol=1e-10)


def test_every_symbol_is_read_from_a_disturbed_state() -> None:
    """h = tanh(W u + b + U (h + n) + c), n normal, by hand."""
    mixer, u = made("rnn"), strings()
    w, m, b, c = mixer.network.parameters()
    generator, h, expected = noise(0.3).generator, torch.zeros(BATCH, WIDTH).double(), []
    for k in range(LENGTH):
        n = 0.3 * torch.empty_like(h).normal_(generator=generator)
        h = torch.tanh(u[:, k] @ w.T + b + (h + n) @ m.T + c)
        expected.append(h)
    mixer.noise = noise(0.3)
    torch.testing.assert_close(mixer(u)[0], torch.stack(expected, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["elman", "gru_seed"])
def test_symbols_of_a_table_are_read_alike(name: str) -> None:
    mixer, index = made(name), torch.tensor([[0, 1, 1, 2], [2, 2, 0, 1], [1, 0, 2, 2]])
    table = strings()[0]
    mixer.noise = noise(0.3)
    y, _ = mixer(table[index])
    mixer.noise = noise(0.3)
    torch.testing.assert_close(mixer(table, index=index)[0], y, rtol=1e-12, atol=1e-12)


def test_both_parts_of_a_state_are_disturbed() -> None:
    state: Any = (torch.zeros(100, 50), torch.ones(100, 50))
    h, c = noise(0.5).added(state)
    for part, mean in ((h, 0.0), (c, 1.0)):
        assert float(part.mean()) == pytest.approx(mean, abs=0.05)  # seven standard errors
        assert float(part.std()) == pytest.approx(0.5, abs=0.05)
    assert not torch.equal(h, c - 1)
