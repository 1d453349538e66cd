"""`lru` is the equations of its docstring, from its initialisation on."""

from __future__ import annotations

from cmath import exp
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.state_space.lru import LRU, LRUConfig

WIDTH, SIZE = 6, 5


def make(seed: int = 0, width: int = WIDTH, **options: Any) -> LRU:
    torch.manual_seed(seed)
    return LRU(LRUConfig(**{"state_size": SIZE, **options}), width).double()


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_equation() -> None:
    mixer, u = make().requires_grad_(False), draw(1, 4, WIDTH)
    b, c = mixer.input.tolist(), mixer.output.tolist()
    decay, phase = mixer.nu_log.exp().tolist(), mixer.theta_log.exp().tolist()
    gamma, skip = mixer.gamma_log.exp().tolist(), mixer.skip.tolist()
    x = [0j] * SIZE
    for now in u[0].tolist():
        for n in range(SIZE):
            drive = sum(complex(*b[n][d]) * now[d] for d in range(WIDTH))
            x[n] = exp(complex(-decay[n], phase[n])) * x[n] + gamma[n] * drive
    outputs = [
        sum((complex(*c[d][n]) * x[n]).real for n in range(SIZE)) + skip[d] * now[d]
        for d in range(WIDTH)
    ]
    y, state = mixer(u)
    assert y[0, -1].tolist() == pytest.approx(outputs)
    assert state[0].tolist() == pytest.approx(x)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.4, 0.9), (0.9, 0.999)])
def test_eigenvalues_start_on_the_ring(low: float, high: float) -> None:
    values = make(state_size=2000, r_min=low, r_max=high, max_phase=0.314).eigenvalues()
    radius = values.abs()
    assert low <= radius.min() and radius.max() <= high
    assert radius.max() < 1
    assert values.angle().min() >= 0 and values.angle().max() <= 0.314
    # uniform on the ring: half of the area lies within the radius that halves it
    half = ((low**2 + high**2) / 2) ** 0.5
    assert abs(float((radius < half).double().mean()) - 0.5) < 0.05


def test_state_keeps_unit_variance() -> None:
    """Gamma makes the variance of a state independent of |lambda|: that of B u, here one."""
    mixer = make(state_size=400, r_min=0.5, r_max=0.95, width=40)
    _, state = mixer(draw(50, 200, 40))
    torch.testing.assert_close(
        state.abs().square().mean(0).mean(), torch.tensor(1.0).double(), rtol=0.05, atol=0
    )
    gamma = mixer.gamma_log.exp().square()
    torch.testing.assert_close(gamma, 1 - mixer.eigenvalues().abs().square(), rtol=1e-5, atol=0)


def test_gamma_is_learnt_and_not_recomputed() -> None:
    mixer, u = make(), draw(1, 3, WIDTH)
    before = mixer.gamma_log.clone()
    with torch.no_grad():
        mixer.nu_log += 1
    mixer(u)
    assert torch.equal(mixer.gamma_log, before)
    mixer(u)[0].sum().backward()
    assert mixer.gamma_log.grad is not None and mixer.gamma_log.grad.abs().min() > 0


def test_transition_is_a_contraction_whatever_is_learnt() -> None:
    mixer = make(state_size=100)
    with torch.no_grad():
        mixer.nu_log.copy_(torch.linspace(-30, 30, 100))
    assert mixer.eigenvalues().abs().max() < 1


def test_initial_variances() -> None:
    mixer = make(state_size=300, width=200)
    found = [float(p.detach().var()) for p in (mixer.input, mixer.output, mixer.skip)]
    assert found == pytest.approx([1 / 400, 1 / 300, 1], rel=0.2)


def test_dynamics_are_not_decayed() -> None:
    rules = make(dynamics_lr=0.5).parameter_rules()
    assert set(rules) == {"nu_log", "theta_log", "gamma_log", "input", "skip"}
    assert not any(rule.decay for rule in rules.values())
    assert rules["nu_log"].lr == 0.5 and rules["skip"].lr == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"r_min": 0.9, "r_max": 0.9}, "r_max must be above r_min = 0.9 and at most 1, not 0.9"),
        ({"r_max": 1.1}, "r_max must be above"),
        ({"state_size": 0}, "state_size must be at least 1"),
        ({"max_phase": 0.0}, "max_phase must be at least"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LRUConfig(**wrong)
