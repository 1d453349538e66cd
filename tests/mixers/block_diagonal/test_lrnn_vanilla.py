"""`lrnn_vanilla` is one matrix applied over and over."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.block_diagonal.lrnn_vanilla import LrnnVanillaConfig, VanillaMixer

WIDTH = 6


def make(width: int = WIDTH, **options: Any) -> VanillaMixer:
    torch.manual_seed(0)
    return VanillaMixer(LrnnVanillaConfig(**options), width).double()


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("size", [None, 4])
def test_equation_of_the_paper(size: int | None) -> None:
    mixer, u = make(state_size=size), draw(1, 5, WIDTH)
    x = torch.zeros(mixer.state_size, dtype=torch.float64)
    for k in range(5):
        x = mixer.matrix @ x + mixer.value.weight @ u[0, k]
    torch.testing.assert_close(mixer(u)[0][0, -1], mixer.out(x))


def test_states_are_powers_on_the_first_input() -> None:
    mixer = make()
    u = torch.zeros(1, 40, WIDTH, dtype=torch.float64)
    u[0, 0] = 1
    first = mixer.value.weight.sum(1)
    expected = torch.linalg.matrix_power(mixer.matrix, 39) @ first
    for mode in mixer.modes:
        torch.testing.assert_close(mixer(u, mode=mode)[0][0, -1], expected)


def test_first_matrix() -> None:
    orthogonal, identity = make(), make(init="identity", gain=1.0)
    eye = torch.eye(WIDTH, dtype=torch.float64)
    torch.testing.assert_close(
        orthogonal.matrix @ orthogonal.matrix.T, 0.99**2 * eye, rtol=1e-6, atol=1e-6
    )
    assert not torch.allclose(orthogonal.matrix, 0.99 * eye, atol=0.1)
    assert torch.equal(identity.matrix, eye)


def test_spectral_clip_bounds_the_matrix() -> None:
    free, clipped = make(), make(spectral_clip=True)
    for mixer in (free, clipped):
        with torch.no_grad():
            mixer.matrix.mul_(1.5)
    sizes = [float(torch.linalg.matrix_norm(m.transition().detach(), 2)) for m in (free, clipped)]
    assert sizes == pytest.approx([0.99 * 1.5, 1.0])
    with torch.no_grad():
        clipped.matrix.mul_(0.1)
    assert torch.equal(clipped.transition(), clipped.matrix)


def test_without_a_clip_states_may_explode() -> None:
    free, clipped = make(), make(spectral_clip=True)
    u = draw(1, 500, WIDTH)
    sizes = []
    for mixer in (free, clipped):
        with torch.no_grad():
            mixer.matrix.mul_(1.2)
        sizes.append(float(mixer(u)[1].abs().max().detach()))
    assert sizes[0] > 1e20 and sizes[1] < 1e3


def test_counts_exactly_with_a_rotation() -> None:
    """Position modulo 5, which depends on no input: a turn by a fifth, kept for 10,000 steps."""
    mixer = make(width=2, gain=1.0)
    angle = torch.tensor(2 * torch.pi / 5, dtype=torch.float64)
    with torch.no_grad():
        turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)
        mixer.matrix.copy_(turn)
        mixer.value.weight.copy_(torch.eye(2))
    u = torch.zeros(1, 10_000, 2)
    u[0, 0, 0] = 1
    y = mixer.float()(u)[0][0]
    expected = (torch.arange(10_000) % 5) * 2 * torch.pi / 5
    found = torch.atan2(y[:, 1], y[:, 0]) % (2 * torch.pi)
    off = (found - expected + torch.pi) % (2 * torch.pi) - torch.pi
    assert off.abs().max() < 0.05 and (y.norm(dim=1) - 1).abs().max() < 0.01


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"init": "normal"}, "init must be one of orthogonal, identity"),
        ({"gain": -1.0}, "gain must be at least 0"),
        ({"state_size": 0}, "state_size must be at least 1"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LrnnVanillaConfig(**wrong)
