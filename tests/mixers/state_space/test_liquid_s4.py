"""Liquid-S4: the recurrence of Eq. 4 and the two correlation kernels, as sums written out."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from lrbench.checks import from_a_user
from lrbench.mixers.state_space.liquid_s4 import LiquidS4Config, LiquidS4Mixer

WIDTH, SIZE, LENGTH = 4, 6, 7
BOUNDS = {
    "none": lambda c: c,
    "tanh": math.tanh,
    "lecun": lambda c: 1.7159 * math.tanh(2 * c / 3),
}


def make(**settings: object) -> LiquidS4Mixer:
    torch.manual_seed(0)
    settings = {"state_size": SIZE, "dt_min": 0.1, "dt_max": 1.0, **settings}
    return LiquidS4Mixer(LiquidS4Config(**settings), WIDTH).double()  # type: ignore[arg-type]


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("contract", BOUNDS)
def test_exact_is_equation_4(contract: str) -> None:
    mixer, u, bound = make(contract=contract), draw(1, LENGTH, WIDTH), BOUNDS[contract]
    system = mixer.system()
    found = {mode: mixer(u, None, mode)[0] for mode in mixer.modes}
    for d in range(WIDTH):
        x = [0j] * (SIZE // 2)
        for k in range(LENGTH):
            now, y = u[0, k, d].item(), mixer.skip[d].item() * u[0, k, d].item()
            for n in range(SIZE // 2):
                a, b, c = (v[d, n].item() for v in (system.a, system.b, system.c))
                x[n] = (a + b * bound(now)) * x[n] + b * now
                y += 2 * (c * x[n]).real
            for outputs in found.values():
                assert outputs[0, k, d].item() == pytest.approx(y, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kernel", ["kb", "pb"])
@pytest.mark.parametrize("degree", [2, 4])
@pytest.mark.parametrize("contract", BOUNDS)
def test_correlation_kernels_are_their_sums(kernel: str, degree: int, contract: str) -> None:
    mixer, bound = make(kernel=kernel, degree=degree, contract=contract), BOUNDS[contract]
    u = draw(1, LENGTH, WIDTH)
    system = mixer.system()
    a, b, c = system.a, system.b, system.c
    expected = mixer.skip * u[0]
    for k in range(LENGTH):
        for p in range(1, degree + 1):
            for lag in range(k + 1 if p == 1 or kernel == "kb" else 1):
                j = k - lag
                power = a**lag if p == 1 or kernel == "kb" else 1
                gain = 2 * (c * power * b**p).sum(-1).real
                for d in range(WIDTH):
                    product = math.prod(u[0, j - i, d].item() if j >= i else 0.0 for i in range(p))
                    term = product if p == 1 else bound(product)
                    expected[k, d] = expected[k, d] + gain[d] * term
    for mode in mixer.modes:
        torch.testing.assert_close(mixer(u, None, mode)[0][0], expected)


def test_exact_is_kb_where_only_two_neighbours_are_not_zero() -> None:
    """All other products of inputs, which `exact` has and `kb` leaves out, are zero then."""
    exact, kb = make(), make(kernel="kb")
    u = torch.zeros(1, LENGTH, WIDTH, dtype=torch.float64)
    u[:, 2:4] = draw(1, 2, WIDTH)
    torch.testing.assert_close(exact(u)[0], kb(u)[0])
    u[:, 5] = 1
    assert (exact(u)[0] - kb(u)[0]).abs().max() > 1e-3


@pytest.mark.parametrize("kernel", ["exact", "kb", "pb"])
def test_causal_and_cut_anywhere(kernel: str) -> None:
    mixer, u = make(kernel=kernel, degree=3), draw(2, LENGTH, WIDTH)
    pushed = u.clone()
    pushed[:, 4] += 10
    for mode in mixer.modes:
        whole, last = mixer(u, None, mode)
        assert torch.equal(mixer(pushed, None, mode)[0][:, :4], whole[:, :4])
        head, state = mixer(u[:, :1], None, mode)
        tail, after = mixer(u[:, 1:], state, mode)
        torch.testing.assert_close(torch.cat([head, tail], 1), whole)
        torch.testing.assert_close(after, last)


def test_liquid_term_is_no_contraction_unless_bounded() -> None:
    mixer = make(init="real")
    with torch.no_grad():
        a, b = mixer.system().a, mixer.system().b
    assert ((a + b * 10.0).abs() > 1).any()
    assert ((a + b * math.tanh(10.0)).abs() <= a.abs() + b.abs()).all()


@pytest.mark.parametrize(
    ("settings", "numbers"),
    [({}, SIZE), ({"kernel": "kb"}, SIZE + 1), ({"kernel": "pb", "degree": 4}, SIZE + 3)],
)
def test_state_size(settings: dict[str, object], numbers: int) -> None:
    assert make(**settings).state_size == WIDTH * numbers


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"kernel": "fft"}, "kernel must be one of exact, kb, pb"),
        ({"degree": 1}, "degree must be at least 2"),
        ({"contract": "relu"}, "contract must be one of none, tanh, lecun"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LiquidS4Config(**wrong)  # type: ignore[arg-type]


def test_a_degree_that_nothing_reads_is_refused() -> None:
    with from_a_user(), pytest.raises(ValueError, match=r"degree=5 is for model.mixer.kernel=kb"):
        LiquidS4Config(degree=5)
    with from_a_user():
        assert LiquidS4Config(kernel="pb", degree=5).degree == 5
