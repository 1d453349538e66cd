"""PD-SSM against its equations in numpy, and its gradient against a straight-through one."""

from __future__ import annotations

from math import erf, pi, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lrbench.contract import run_contract
from lrbench.mixers.structured.pdssm import PDSSM, PDSSMConfig

WIDTH, SIZE, BATCH, LENGTH = 6, 5, 3, 17


def made(**settings: Any) -> PDSSM:
    torch.manual_seed(0)
    return PDSSM(PDSSMConfig(state_size=SIZE, **settings), WIDTH).double()


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def sigmoid(z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-z))


def softmax(z: np.ndarray) -> np.ndarray:
    powers = np.exp(z - z.max())
    return powers / powers.sum()


def by_the_paper(mixer: PDSSM, u: np.ndarray, orientation: str) -> np.ndarray:
    """Return y (T, D) of one string u (T, D), position by position with dense matrices."""
    p = {name: value.detach().numpy() for name, value in mixer.state_dict().items()}
    gelu = np.vectorize(lambda z: z * (1 + erf(z / sqrt(2))) / 2)

    def perceptron(name: str, x: np.ndarray) -> np.ndarray:
        hidden = gelu(p[f"{name}.0.weight"] @ x + p[f"{name}.0.bias"])
        return p[f"{name}.2.weight"] @ hidden + p[f"{name}.2.bias"]

    x, outputs = np.eye(SIZE)[0].astype(complex), []
    for u_k in u:
        chosen = softmax(p["select.weight"] @ u_k)
        m = sum(weight * matrix for weight, matrix in zip(chosen, p["dictionary"], strict=True))
        ones = np.zeros((SIZE, SIZE))
        for j in range(SIZE):
            if orientation == "column":
                ones[m[:, j].argmax(), j] = 1
            else:
                ones[j, m[j].argmax()] = 1
        turned = np.exp(2j * pi * sigmoid(perceptron("phase", u_k)))
        d = np.diag(sigmoid(perceptron("magnitude", u_k)) * turned)
        a = ones @ d if orientation == "column" else d @ ones
        x = a @ x + (p["input"][..., 0] + 1j * p["input"][..., 1]) @ u_k
        read = np.stack([x.real, x.imag], 1).reshape(-1)
        outputs.append(p["out.weight"] @ read + p["out.bias"] + p["skip"] * u_k)
    return np.stack(outputs)


@torch.no_grad()
@pytest.mark.parametrize("orientation", ["column", "row"])
def test_it_is_what_the_paper_says(orientation: str) -> None:
    mixer, u = made(orientation=orientation), draw(BATCH, LENGTH, WIDTH)
    expected = [by_the_paper(mixer, string, orientation) for string in u.numpy()]
    for mode in mixer.modes:
        y, _ = mixer(u, mode=mode)
        assert np.abs(y.numpy() - np.stack(expected)).max() < 1e-12, mode


def test_its_gradient_is_that_of_a_softmax_over_columns() -> None:
    """dL/dM as backpropagation through a softmax of what lambda x^T would be, written out."""
    mixer, u = made(), draw(1, 2, WIDTH)
    y, _ = mixer(u)
    y[0, 1].sum().backward()
    x0 = mixer.initial_state(1)[0, 0]
    with torch.no_grad():
        states, _ = mixer.coefficients(u)[1], None
        chosen = mixer.select(u).softmax(-1)[0]
        m = torch.einsum("tk,kij->tij", chosen, mixer.dictionary)
        soft = m.softmax(1)
        hard = torch.nn.functional.one_hot(m.argmax(1), SIZE).mT.to(torch.complex128)
        d = mixer.coefficients(u)[0].values[0]
        x1 = hard[0] @ (d[0] * x0) + states[0, 0, 0]
        read = mixer.out.weight.sum(0).view(SIZE, 2)
        last = torch.complex(read[:, 0], read[:, 1])  # lambda of the last position
        first = (hard[1] * d[1]).mH @ last
        total = torch.zeros_like(mixer.dictionary)
        for t, (adjoint, before) in enumerate(((first, x0), (last, x1))):
            slope = torch.outer(adjoint, (d[t] * before).conj()).real
            pulled = soft[t] * (slope - (soft[t] * slope).sum(0))
            total += chosen[t][:, None, None] * pulled
    torch.testing.assert_close(mixer.dictionary.grad, total, rtol=1e-10, atol=1e-14)


@pytest.mark.slow
def test_settings_keep_the_contract() -> None:
    settings = ["orientation=row", "learn_x0=true", "state_size=9", "dictionary=3"]
    findings = run_contract("pdssm", [f"model.mixer.{setting}" for setting in settings])
    assert [str(finding) for finding in findings if finding.passed is False] == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"orientation": "columns"}, "model.mixer.orientation must be one of column, row"),
        ({"dictionary": 0}, "model.mixer.dictionary must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(**settings)
