"""rnn, gru and lstm against torch's cells run position by position, and by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lrbench.contract import run_contract
from lrbench.mixers.base import Mixer
from lrbench.mixers.nonlinear.cells import GruConfig, LstmConfig, RnnConfig
from lrbench.registry import MIXERS

WIDTH, BATCH, LENGTH = 5, 3, 11
CELLS: dict[str, Any] = {
    "tanh": ("rnn", RnnConfig(), lambda w, n: nn.RNNCell(w, n)),
    "relu": ("rnn", RnnConfig(nonlinearity="relu"), lambda w, n: nn.RNNCell(w, n, True, "relu")),
    "gru": ("gru", GruConfig(), lambda w, n: nn.GRUCell(w, n)),
    "lstm": ("lstm", LstmConfig(), lambda w, n: nn.LSTMCell(w, n)),
    "narrow lstm": ("lstm", LstmConfig(units=4), lambda w, n: nn.LSTMCell(w, n)),
    "wide gru": ("gru", GruConfig(units=7), lambda w, n: nn.GRUCell(w, n)),
}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pair(name: str) -> tuple[Mixer, nn.Module]:
    """Return a mixer and torch's cell with the same weights."""
    kind, config, make_cell = CELLS[name]
    torch.manual_seed(0)
    mixer: Mixer = MIXERS.get(kind).cls(config, WIDTH).double()
    cell: nn.Module = make_cell(WIDTH, mixer.out_width).double()
    cell.load_state_dict({f"{k[:-3]}": v for k, v in mixer.network.state_dict().items()})
    return mixer, cell


@pytest.mark.parametrize("name", CELLS)
def test_a_string_is_the_cell_position_by_position(name: str) -> None:
    mixer, cell = pair(name)
    u, state, outputs = draw(BATCH, LENGTH, WIDTH), None, []
    for position in u.unbind(1):
        state = cell(position) if state is None else cell(position, state)
        outputs.append(state[0] if isinstance(state, tuple) else state)
    y, last = mixer(u)
    torch.testing.assert_close(y, torch.stack(outputs, 1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(last, state, rtol=1e-12, atol=1e-12)
    assert y.shape == (BATCH, LENGTH, mixer.out_width)


@pytest.mark.parametrize("name", CELLS)
def test_the_state_has_the_declared_size_and_starts_at_zero(name: str) -> None:
    mixer, _ = pair(name)
    state = mixer.initial_state(BATCH)
    tensors = state if isinstance(state, tuple) else (state,)
    assert sum(t[0].numel() for t in tensors) == mixer.state_size
    assert not any(t.any() for t in tensors)


def test_the_step_of_a_relu_network_is_not_that_of_tanh() -> None:
    u = torch.full((1, WIDTH), 9.0, dtype=torch.float64)
    for name, bounded in (("tanh", True), ("relu", False)):
        mixer, _ = pair(name)
        nn.init.ones_(mixer.network.weight_ih_l0)
        assert bool((mixer.step(u, mixer.initial_state(1))[0] <= 1).all()) is bounded


def test_gru_resets_after_the_matrix() -> None:
    mixer, _ = pair("gru")
    h, u = draw(1, WIDTH, seed=1), draw(1, WIDTH)
    w, m, b, c = (p.chunk(3) for p in mixer.weights())
    r, z = (torch.sigmoid(u @ w[i].T + b[i] + h @ m[i].T + c[i]) for i in (0, 1))
    n = torch.tanh(u @ w[2].T + b[2] + r * (h @ m[2].T + c[2]))
    torch.testing.assert_close(mixer.step(u, h)[0], (1 - z) * n + z * h)


@pytest.mark.parametrize("units", [None, 3])
def test_forget_bias_is_the_gate_at_zero_input_and_state(units: int | None) -> None:
    mixer: Any = MIXERS.get("lstm").cls(LstmConfig(units=units, forget_bias=1.5), WIDTH)
    with torch.no_grad():
        for bias in (mixer.network.bias_ih_l0, mixer.network.bias_hh_l0):
            bias[: mixer.out_width].fill_(-1e9)  # input gate shut: c' = sigmoid(forget bias) c
    ones = torch.ones(1, mixer.out_width)
    _, (_, c) = mixer.step(torch.zeros(1, WIDTH), (torch.zeros_like(ones), ones))
    torch.testing.assert_close(c, torch.sigmoid(torch.tensor(1.5)).expand_as(c))


def test_without_a_forget_bias_the_weights_are_torchs() -> None:
    torch.manual_seed(1)
    mixer: Any = MIXERS.get("lstm").cls(LstmConfig(), WIDTH)
    torch.manual_seed(1)
    theirs = nn.LSTM(WIDTH, WIDTH)
    assert all(
        torch.equal(a, b)
        for a, b in zip(mixer.network.parameters(), theirs.parameters(), strict=True)
    )


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        (RnnConfig, {"nonlinearity": "sigmoid"}),
        (RnnConfig, {"units": 0}),
        (LstmConfig, {"forget_bias": float("nan")}),
    ],
)
def test_wrong_settings_are_refused(config: type, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"model.mixer.{next(iter(wrong))}"):
        config(**wrong)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rnn", []),
        ("rnn", ["model.mixer.nonlinearity=relu"]),
        ("gru", []),
        ("lstm", []),
        ("lstm", ["model.mixer.forget_bias=1"]),
    ],
)
def test_the_contract_is_kept(name: str, arguments: list[str]) -> None:
    findings = run_contract(name, ["model.width=6", *arguments])
    assert [str(f) for f in findings if f.passed is False] == []
