"""The gated unit memorises a mixture of its input and a map of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.legendre.lmu_gated import LMUGated, LMUGatedConfig

WIDTH, BATCH, ORDER = 4, 2, 3


def make(**settings: Any) -> LMUGated:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LMUGated(LMUGatedConfig(order=ORDER, theta=5.0, **settings), WIDTH).double()


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def by_formula(mixer: LMUGated, x: Tensor) -> Tensor:
    """Return o (B, T, d_o): numbers one at a time, f1 = tanh, f2 = ReLU."""
    a, b = mixer.network.matrices(x)
    outputs = []
    for string in x:
        memory = [torch.zeros(ORDER, dtype=torch.float64) for _ in range(WIDTH)]
        for at in string:
            gate = 1 / (1 + torch.exp(-(mixer.gate.weight @ at + mixer.gate.bias)))
            candidate = torch.tanh(mixer.encoder.weight @ at + mixer.encoder.bias)
            for c in range(WIDTH):
                u = candidate[c] * gate[c] + at[c] * (1 - gate[c])
                memory[c] = a @ memory[c] + b * u
            z = mixer.memory.weight @ torch.cat(memory) + mixer.skip.weight @ at + mixer.skip.bias
            outputs.append(z.clamp(min=0))
    return torch.stack(outputs).view(*x.shape[:2], -1)


def test_formula_in_every_mode() -> None:
    mixer = make(f1="tanh", outputs=5)
    x = draw(BATCH, 70, WIDTH).requires_grad_()
    wanted = by_formula(mixer, x)
    weight = torch.linspace(-1, 1, wanted.numel()).to(x).view(wanted.shape)
    leaves = [x, *mixer.parameters()]
    slopes = torch.autograd.grad((wanted * weight).sum(), leaves)
    for mode in mixer.modes:
        y, _ = mixer(x, None, mode)
        torch.testing.assert_close(y, wanted, rtol=1e-9, atol=1e-9)
        found = torch.autograd.grad((y * weight).sum(), leaves)
        torch.testing.assert_close(found, slopes, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(mixer.last(x)[0], wanted[:, -1], rtol=1e-9, atol=1e-9)


def test_gate_starts_nearly_closed() -> None:
    mixer = make()
    assert torch.equal(mixer.gate.bias, torch.full_like(mixer.gate.bias, -1))
    with torch.no_grad():
        mixer.gate.weight.zero_()
        mixer.encoder.weight.zero_()
    x = draw(BATCH, 3, WIDTH)
    torch.testing.assert_close(mixer.encode(x), x * torch.sigmoid(torch.tensor(1.0)).double())


def test_a_memory_for_each_feature() -> None:
    mixer = make()
    assert mixer.state_size == WIDTH * ORDER == mixer.initial_state(1).numel()
    assert (mixer.channels, mixer.out_width) == (WIDTH, WIDTH)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"order": 0}, "mixer.order must be at least 1"),
        ({"theta": float("nan")}, "mixer.theta must be at least 1"),
        ({"outputs": 0}, "mixer.outputs must be at least 1"),
        ({"f1": "sine"}, "mixer.f1 must be one of identity, relu, tanh, sigmoid"),
        ({"f2": ""}, "mixer.f2 must be one of identity, relu, tanh, sigmoid"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LMUGatedConfig(**wrong)
