"""M2RNN against its equation head by head, and parity written into it by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lrbench.contract import run_contract
from lrbench.mixers.nonlinear.m2rnn import M2RNN, M2RNNConfig


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


def test_settings_keep_the_contract() -> None:
    words = ["model.mixer.heads=2", "model.mixer.key_size=3", "model.mixer.value_size=5"]
    findings = run_contract("m2rnn", words)
    assert [str(finding) for finding in findings if finding.passed is False] == []


def test_a_width_that_heads_cannot_share_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model\.width of 10 cannot be shared.*heads=4"):
        M2RNN(M2RNNConfig(), 10)
