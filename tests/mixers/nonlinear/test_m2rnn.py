"""M2RNN against its equation head by head, and parity written into it by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lrbench.contract import run_contract
from lrbench.kernels.choice import SWITCH, installed
from lrbench.mixers.nonlinear.m2rnn import M2RNN, M2RNNConfig, recur


@torch.no_grad()
def test_it_is_what_the_paper_says() -> None:
    torch.manual_seed(0)
    mixer = M2RNN(M2RNNConfig(heads=2, key_size=3, value_size=4), 6).double()
    u = torch.randn(3, 17, 6, generator=torch.Generator().manual_seed(1)).double()
    y = mixer(u)[0].numpy()
    w = {name: value.numpy() for name, value in mixer.state_dict().items()}
    for string, found in zip(u.numpy(), y, strict=True):
        states = [np.zeros((3, 4)) for _ in range(2)]
        for u_t, y_t in zip(string, found, strict=True):
            read, made = [], (w["project.weight"] @ u_t).reshape(2, -1)
            for head, (h, numbers) in enumerate(zip(states, made, strict=True)):
                q, k, v, f = np.split(numbers, [3, 6, 10])
                f = 1 / (1 + np.exp(-f))
                new = np.tanh(h @ w["recurrent"][head] + np.outer(k, v))
                states[head] = f * h + (1 - f) * new
                read.append(q @ states[head])
            assert np.abs(w["out.weight"] @ np.concatenate(read) - y_t).max() < 1e-12


def softplus(x: float) -> float:
    return float(np.log1p(np.exp(x)))


@torch.no_grad()
@pytest.mark.parametrize("size", [0, 3])
def test_the_released_layer_head_by_head(size: int) -> None:
    """The gate of two numbers a head, the skip, the second gate, one norm over all heads."""
    torch.manual_seed(0)
    heads, n_k, n_v = 2, 3, 4
    settings = M2RNNConfig(heads, key_size=n_k, value_size=n_v, layer="released", conv_size=size)
    mixer = M2RNN(settings, 6).double()
    for weight in mixer.parameters():
        weight.add_(0.1 * torch.randn_like(weight))  # nothing is one, zero or the identity
    u = torch.randn(3, 17, 6, generator=torch.Generator().manual_seed(1)).double()
    y = mixer(u)[0].numpy()
    w = {name: value.numpy() for name, value in mixer.state_dict().items()}
    read = 2 * n_k + n_v
    for string, found in zip(u.numpy(), y, strict=True):
        states = [np.zeros((n_k, n_v)) for _ in range(heads)]
        seen: list[np.ndarray] = []
        for u_t, y_t in zip(string, found, strict=True):
            numbers = (w["project.weight"] @ u_t).reshape(heads, -1)
            seen.append(numbers[:, :read].reshape(-1))
            made = seen[-1]
            if size:
                known = [np.zeros_like(made)] * size + seen
                made = sum(w["convolution.weight"][:, j] * known[j - size] for j in range(size))
                made = made / (1 + np.exp(-made))
            out = []
            for head, h in enumerate(states):
                q, k, v = np.split(made.reshape(heads, -1)[head], [n_k, 2 * n_k])
                rate = np.exp(w["log_rate"][head])
                f = np.exp(-rate * softplus(numbers[head, read] + w["time_bias"][head]))
                new = np.tanh(h @ w["recurrent"][head] + np.outer(k, v))
                states[head] = f * h + (1 - f) * new
                g = numbers[head, read + 1 :]
                out.append((q @ states[head] + w["skip"][head] * v) * g / (1 + np.exp(-g)))
            flat = np.concatenate(out)
            flat = w["norm.weight"] * flat / np.sqrt((flat**2).mean() + 1e-5)
            assert np.abs(w["out.weight"] @ flat - y_t).max() < 1e-12


@torch.no_grad()
def test_the_released_layer_begins_as_its_code_does() -> None:
    torch.manual_seed(0)
    mixer = M2RNN(M2RNNConfig(heads=64, key_size=2, value_size=3, layer="released"), 8)
    rates, steps = mixer.log_rate.exp(), torch.nn.functional.softplus(mixer.time_bias)
    assert 0 < float(rates.min()) < 1 and 15 < float(rates.max()) <= 16
    assert float(steps.min()) >= 1e-3 * 0.999 and float(steps.max()) <= 0.1 * 1.001
    assert torch.equal(mixer.recurrent, torch.eye(3).repeat(64, 1, 1))
    assert torch.equal(mixer.skip, torch.ones(64, 3))
    free = [name for name, rule in mixer.parameter_rules().items() if not rule.decay]
    assert free == ["log_rate", "time_bias", "skip"]


@torch.no_grad()
def test_parity_by_hand_over_ten_thousand_symbols() -> None:
    """One row of two units, tanh(L (x + s - 1/2)) and tanh(L (x + s - 3/2)), s half their gap."""
    gain, length, cut = 6.0, 10_000, 4_999
    mixer = M2RNN(M2RNNConfig(heads=1, key_size=1, value_size=2), 2)
    of_zero = [1.0, 1.0, -0.5 * gain, -1.5 * gain, -40.0]  # q, k, v, f
    of_one = [1.0, 1.0, 0.5 * gain, -0.5 * gain, -40.0]
    mixer.project.weight.copy_(torch.tensor([of_zero, of_one]).T)
    mixer.recurrent.copy_(gain * torch.tensor([[[0.5, 0.5], [-0.5, -0.5]]]))
    mixer.out.weight.copy_(torch.tensor([[0.5, -0.5], [0.0, 0.0]]))
    bits = torch.randint(2, (1, length), generator=torch.Generator().manual_seed(0))
    u = torch.nn.functional.one_hot(bits, 2).float()
    head, state = mixer(u[:, :cut])
    tail, _ = mixer(u[:, cut:], state)
    odd = torch.cat([head, tail], 1)[0, :, 0]
    right = bits[0].cumsum(0) % 2
    least = float((0.5 - (odd - right).abs()).min())
    print(f"margin {least:.3f} of 0.5")
    assert least > 0.49


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["model.mixer.layer=released", "model.mixer.conv_size=4"]])
def test_settings_keep_the_contract(more: list[str]) -> None:
    words = ["model.mixer.heads=2", "model.mixer.key_size=3", "model.mixer.value_size=5", *more]
    findings = run_contract("m2rnn", words)
    assert [str(finding) for finding in findings if finding.passed is False] == []


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.width of 10 cannot be shared.*heads=4"):
        M2RNN(M2RNNConfig(), 10)


@pytest.mark.skipif(not installed(), reason="needs numba: the extra `fast`")
@pytest.mark.parametrize(("keys", "values"), [(3, 4), (5, 8), (16, 16), (2, 48)])
def test_compiled_loops_are_the_loop(
    keys: int, values: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = torch.Generator().manual_seed(0)

    def draw(*shape: int, scale: float = 1.0) -> torch.Tensor:
        numbers = torch.randn(*shape, generator=drawn, dtype=torch.float64) * scale
        return numbers.requires_grad_()

    for length in (1, 7):
        leaves = [draw(2, values, values, scale=values**-0.5), draw(3, length, 2, keys)]
        leaves += [draw(3, length, 2, values), draw(3, length, 2, 1), draw(3, length, 2, keys)]
        leaves += [draw(3, 2, keys, values)]
        outputs, slopes = [], []
        for compiled in "10":
            monkeypatch.setenv(SWITCH, compiled)
            w, k, v, f, q, before = leaves
            y, last = recur(w, k, v, f.sigmoid(), q, before)
            torch.manual_seed(1)
            weights = [torch.randn(x.shape, dtype=x.dtype) for x in (y, last)]
            outputs.append([y, last])
            slopes.append(torch.autograd.grad([y, last], leaves, weights))
        torch.testing.assert_close(*outputs, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-10)


def test_a_state_of_another_type_is_not_taken_for_the_models() -> None:
    mixer = M2RNN(M2RNNConfig(heads=2), 16)
    with pytest.raises(RuntimeError, match=r"dtype|scalar type"):
        mixer(torch.randn(2, 3, 16), mixer.initial_state(2).double())
