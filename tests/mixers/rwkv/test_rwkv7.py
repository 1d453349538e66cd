"""RWKV-7 against the equations written in numpy, and what its transitions cannot do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lrbench.mixers.rwkv.rwkv7 import Rwkv7ChannelMixer, Rwkv7Config, Rwkv7Mixer

WIDTH, HEADS, BATCH = 12, 3, 2
Array = NDArray[np.float64]


def made(seed: int = 0, scale: float = 1.0, **settings: Any) -> Rwkv7Mixer:
    """Return a mixer none of whose weights is zero, in float64."""
    torch.manual_seed(seed)
    mixer = Rwkv7Mixer(Rwkv7Config(heads=HEADS, rank=4, **settings), WIDTH).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.add_(scale * torch.randn_like(parameter))
    return mixer


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def time_mixing(w: dict[str, Array], z: Array, a_scale: float) -> tuple[Array, Array]:
    """Return y (T, D) and the last S (H, V, K) of one string z (T, D), a position at a time."""
    size = WIDTH // HEADS
    s, last, outputs = np.zeros((HEADS, size, size)), np.zeros(WIDTH), []
    for x in z:
        mixed = [x + mu * (last - x) for mu in w["shares"]]
        r, k, v = (w[f"{n}.weight"] @ mixed[i] for n, i in
                   (("receptance", 0), ("key", 2), ("value", 3)))  # fmt: skip
        low = w["decay_out.weight"] @ np.tanh(w["decay_in.weight"] @ mixed[1])
        decay = np.exp(-sigmoid(w["decay"] + low) / np.sqrt(np.e))
        a = a_scale * sigmoid(
            w["erase"] + w["erase_out.weight"] @ (w["erase_in.weight"] @ mixed[4])
        )
        g = w["gate_out.weight"] @ sigmoid(w["gate_in.weight"] @ mixed[5])
        kappa, k = k * w["removal"], k + k * (a - 1) * w["replacement"]
        y = np.zeros((HEADS, size))
        for h in range(HEADS):
            here = slice(h * size, (h + 1) * size)
            unit = kappa[here] / np.linalg.norm(kappa[here])
            moved = np.diag(decay[here]) - np.outer(unit, a[here] * unit)
            s[h] = s[h] @ moved + np.outer(v[here], k[here])
            out = s[h] @ r[here]
            normal = (out - out.mean()) / np.sqrt(out.var() + 64e-5)
            y[h] = normal * w["norm.weight"][here] + w["norm.bias"][here]
            y[h] += (r[here] * k[here] * w["bonus"][h]).sum() * v[here]
        outputs.append(w["out.weight"] @ (y.flatten() * g))
        last = x
    return np.stack(outputs), s


def channel_mixing(w: dict[str, Array], z: Array) -> Array:
    last, outputs = np.zeros(WIDTH), []
    for x in z:
        key = w["key.weight"] @ (x + w["share"] * (last - x))
        outputs.append(w["value.weight"] @ np.maximum(key, 0) ** 2)
        last = x
    return np.stack(outputs)


@pytest.mark.parametrize("a_scale", [1.0, 2.0])
@pytest.mark.parametrize("mode", Rwkv7Mixer.modes)
def test_equals_the_equations(mode: str, a_scale: float) -> None:
    mixer = made(a_scale=a_scale, scale=0.5)
    u = torch.randn(BATCH, 37, WIDTH, dtype=torch.float64)
    y, (state, last) = mixer(u, mode=mode)
    weights = {name: value.numpy() for name, value in mixer.state_dict().items()}
    for n in range(BATCH):
        expected, s = time_mixing(weights, u[n].numpy(), a_scale)
        np.testing.assert_allclose(y[n].detach(), expected, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(state[n].detach(), s, rtol=1e-9, atol=1e-10)
    assert torch.equal(last, u[:, -1])


def test_the_channel_mix_equals_the_equations() -> None:
    torch.manual_seed(0)
    mixer = made().channel_mixer().double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_()
    u = torch.randn(BATCH, 9, WIDTH, dtype=torch.float64)
    weights = {name: value.numpy() for name, value in mixer.state_dict().items()}
    for n, y in enumerate(mixer(u)[0].detach()):
        np.testing.assert_allclose(y, channel_mixing(weights, u[n].numpy()), rtol=1e-10)


def eigenvalues(mixer: Rwkv7Mixer, count: int = 200) -> torch.Tensor:
    """Return the eigenvalues of transitions on random inputs."""
    inputs = (3 * torch.randn(1, count, WIDTH, dtype=torch.float64) for _ in range(3))
    with torch.no_grad():
        blocks = mixer.transition(*inputs)[0].written().blocks
    return torch.linalg.eigvals(blocks)


@pytest.mark.parametrize("seed", range(4))
def test_decays_lie_between_a_half_and_one_and_signs_cost_half(seed: int) -> None:
    """No parity for all lengths: w > 0.545, and an eigenvalue below zero is above w - 1.

    What changes its sign at a symbol keeps less than half of its size.
    """
    mixer = made(seed, scale=3.0)
    u = 3 * torch.randn(1, 200, WIDTH, dtype=torch.float64)
    decay = mixer.transition(u, u, u)[0].log_decay
    assert decay is not None
    w = decay.detach().exp()
    assert np.exp(-np.exp(-0.5)) <= float(w.min()) and float(w.max()) <= 1
    found = eigenvalues(mixer)
    assert float(found.abs().max()) <= 1 + 1e-9 and float(found.imag.abs().max()) < 1e-6
    assert float(found.real.min()) > np.exp(-np.exp(-0.5)) - 1


def test_a_scale_of_two_reflects() -> None:
    """As a goes to 2 and w to 1 an eigenvalue goes to -1, the others stay at 1."""
    mixer = made(a_scale=2.0, scale=0.5)
    with torch.no_grad():
        mixer.decay.fill_(-40)
        mixer.erase.fill_(40)
        mixer.erase_out.weight.zero_()
    found = eigenvalues(mixer).real.sort(-1).values
    torch.testing.assert_close(found[..., 0], torch.full_like(found[..., 0], -1.0))
    torch.testing.assert_close(found[..., 1:], torch.ones_like(found[..., 1:]))


def test_decays_of_a_head_zigzag_between_its_ends() -> None:
    decay = Rwkv7Mixer(Rwkv7Config(heads=HEADS), WIDTH).decay.detach().numpy()
    ends = np.linspace(-1, 1, WIDTH // HEADS)
    zigzag = np.tile(ends * np.abs(ends), HEADS)
    np.testing.assert_allclose(decay, -5.5 + 6 * np.linspace(0, 1, WIDTH) + 2.5 * zigzag, atol=1e-5)


def test_the_channel_mix_begins_with_keys_alone() -> None:
    mixer = Rwkv7ChannelMixer(Rwkv7Config(heads=1), 64)
    key, bound = mixer.key.weight.detach(), 0.5 / 8
    assert 0.95 * bound < float(key.max()) <= bound and -bound <= float(key.min()) < -0.95 * bound
    assert not mixer.value.weight.any()


def test_deeper_layers_are_placed_otherwise_and_heads_must_divide() -> None:
    mixer, deep = made(), Rwkv7Mixer(Rwkv7Config(heads=HEADS), WIDTH)
    deep.place(2, 3)
    first = Rwkv7Mixer(Rwkv7Config(heads=HEADS), WIDTH)
    assert (deep.shares <= first.shares + 1e-7).all() and not torch.equal(deep.decay, first.decay)
    assert mixer.state_size == WIDTH * (WIDTH // HEADS) + WIDTH
    with pytest.raises(ValueError, match=r"model\.width of 12 cannot be shared"):
        Rwkv7Mixer(Rwkv7Config(heads=5), WIDTH)


def test_gains_of_the_group_norm_begin_smaller_below() -> None:
    """As in the released training code: (l / L)^0.7 in layer l of L."""
    mixer = Rwkv7Mixer(Rwkv7Config(heads=HEADS), WIDTH)
    gains = []
    for layer in range(4):
        mixer.place(layer, 4)
        gains.append(mixer.norm.weight.tolist())
    expected = np.repeat([[0.25**0.7], [0.5**0.7], [0.75**0.7], [1.0]], WIDTH, 1)
    np.testing.assert_allclose(gains, expected, rtol=1e-6)


def test_only_the_matrices_of_whole_rank_decay() -> None:
    """In the released training code what is called `weight` alone; its low ranks are w1, w2, .."""
    mixer = Rwkv7Mixer(Rwkv7Config(heads=HEADS), WIDTH)
    kept = {name for name, rule in mixer.parameter_rules().items() if not rule.decay}
    decayed = {name for name, _ in mixer.named_parameters()} - kept
    assert decayed == {f"{name}.weight" for name in ("receptance", "key", "value", "out")}
