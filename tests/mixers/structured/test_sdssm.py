"""SD-SSM against its equations in numpy, and the norm of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from lrbench.contract import run_contract
from lrbench.mixers.structured.sdssm import SDSSM, SDSSMConfig

WIDTH, SIZE, BATCH, LENGTH = 6, 5, 3, 17


def made(**settings: Any) -> SDSSM:
    torch.manual_seed(0)
    return SDSSM(SDSSMConfig(**settings), WIDTH).double()


def by_the_paper(mixer: SDSSM, u: np.ndarray, p: float) -> np.ndarray:
    """Return the states (T, N) of one string u (T, D), position by position."""
    w = {name: value.detach().numpy() for name, value in mixer.state_dict().items()}
    x, states = w["start"], []
    for u_k in u:
        scores = np.exp(w["select.weight"] @ u_k + w["select.bias"])
        a = sum(s * m for s, m in zip(scores / scores.sum(), w["dictionary"], strict=True))
        for j in range(a.shape[1]):
            a[:, j] = a[:, j] / (np.abs(a[:, j]) ** p).sum() ** (1 / p)
        x = a @ x + w["value.weight"] @ u_k
        states.append(x)
    return np.stack(states)


@torch.no_grad()
@pytest.mark.parametrize("p", [1.1, 1.4])
def test_it_is_what_the_paper_says(p: float) -> None:
    mixer = made(p=p, dictionary=3)
    u = torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1)).double()
    expected = np.stack([by_the_paper(mixer, string, p) for string in u.numpy()])
    for mode in mixer.modes:
        y, _ = mixer(u, mode=mode)
        assert np.abs(y.numpy() - expected).max() < 1e-12, mode
    narrow = made(p=p, dictionary=3, state_size=SIZE)
    states = np.stack([by_the_paper(narrow, string, p) for string in u.numpy()])
    out = states @ narrow.out.weight.numpy().T + narrow.out.bias.numpy()
    assert np.abs(narrow(u)[0].numpy() - out).max() < 1e-12


@pytest.mark.slow
def test_settings_keep_the_contract() -> None:
    settings = ["learn_x0=true", "state_size=9", "dictionary=3", "p=1.4"]
    findings = run_contract("sdssm", [f"model.mixer.{setting}" for setting in settings])
    assert [str(finding) for finding in findings if finding.passed is False] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p": 0.5}, "model.mixer.p must be at least 1"),
        ({"dictionary": 0}, "dictionary must be at"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**settings)
