"""S4D is the equations of its docstring; scipy discretises as it does."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import cont2discrete
from torch import Tensor

from lrbench.mixers.state_space.s4d import INITS, S4DConfig, S4DMixer, first_modes
from lrbench.mixers.state_space.ssm import expm1

WIDTH, SIZE = 3, 8


def make(**settings: object) -> S4DMixer:
    torch.manual_seed(0)
    return S4DMixer(S4DConfig(state_size=SIZE, **settings), WIDTH).double()  # type: ignore[arg-type]


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("discretisation", ["zoh", "bilinear"])
@pytest.mark.parametrize("init", INITS)
def test_scipy_discretises_the_same(discretisation: str, init: str) -> None:
    mixer = make(init=init, discretisation=discretisation)
    system, channel = mixer.system(), 1
    a = torch.complex(-mixer.log_decay.exp(), mixer.frequency)[channel]
    b = torch.view_as_complex(mixer.input)[channel]
    dense = torch.diag(a).detach().numpy(), b[:, None].detach().numpy()
    rest = torch.eye(1, SIZE // 2).numpy(), torch.zeros(1, 1).numpy()
    step = mixer.log_step[channel].exp().item()
    abar, bbar, *_ = cont2discrete((*dense, *rest), step, discretisation)
    torch.testing.assert_close(torch.diag(system.a[channel]), torch.from_numpy(abar))
    torch.testing.assert_close(system.b[channel], torch.from_numpy(bbar[:, 0]))


@pytest.mark.parametrize("init", INITS)
def test_kernel_is_the_sum_of_modes(init: str) -> None:
    mixer = make(init=init)
    system = mixer.system()
    kernel = mixer.response(6, False, "convolution").kernel
    for n in range(6):
        expected = 2 * (system.c * system.a**n * system.b).sum(-1).real
        torch.testing.assert_close(kernel[:, n], expected + (mixer.skip if n == 0 else 0))


def test_long_kernel_has_the_short_one_as_prefix() -> None:
    mixer = make()
    long, short = (mixer.response(n, False, "convolution").kernel for n in (500, 40))
    torch.testing.assert_close(long[:, :40], short)


@pytest.mark.parametrize("length", [1, 40, 300])
def test_modes_agree_beyond_the_change_to_transforms(length: int) -> None:
    mixer, u = make(), draw(2, length, WIDTH)
    state = torch.view_as_complex(draw(2, WIDTH, SIZE // 2, 2))
    expected = mixer(u, state, "sequential")
    for mode in ("convolution", "scan"):
        torch.testing.assert_close(mixer(u, state, mode), expected, rtol=1e-8, atol=1e-8)


@settings(max_examples=20, deadline=None)
@given(st.floats(-1e3, 1e3), st.floats(1e-6, 10), st.sampled_from(["zoh", "bilinear"]))
def test_stable_whatever_is_learnt(decay: float, step: float, how: str) -> None:
    mixer = make(discretisation=how)
    with torch.no_grad():
        mixer.log_decay.fill_(max(-10.0, min(10.0, decay)))
        mixer.log_step.fill_(math.log(step))
        assert (mixer.system().a.abs() < 1).all()


def test_first_modes() -> None:
    a, b = first_modes("lin", 4)
    torch.testing.assert_close(a.imag, torch.tensor([0, math.pi], dtype=torch.float64))
    assert (b == 1).all()
    a, _ = first_modes("inv", 4)
    expected = torch.tensor([4 / math.pi * 3, 4 / math.pi * (4 / 3 - 1)], dtype=torch.float64)
    torch.testing.assert_close(a.imag, expected)
    assert first_modes("real", 4)[0].tolist() == [-1, -2]
    assert first_modes("legs", 4)[0].real.tolist() == [-0.5, -0.5]


def test_real_stays_real() -> None:
    mixer = make(init="real")
    assert not mixer.frequency.requires_grad
    assert (mixer.system().a.imag == 0).all()
    assert make(init="lin").frequency.requires_grad


def test_first_steps_lie_in_their_range() -> None:
    torch.manual_seed(0)
    steps = S4DMixer(S4DConfig(dt_min=0.01, dt_max=0.02), 200).log_step.exp()
    assert steps.min() >= 0.01 - 1e-6 and steps.max() <= 0.02 + 1e-6
    assert steps.min() < 0.0101 and steps.max() > 0.0198


def test_dynamics_are_slower_and_not_decayed() -> None:
    mixer = make(dynamics_lr=0.5)
    rules = mixer.parameter_rules()
    assert set(rules) == {"log_step", "log_decay", "frequency", "input", "skip"}
    assert not any(rule.decay for rule in rules.values())
    assert rules["log_step"].lr == 0.5
    assert rules["skip"].lr == 1


def test_expm1_keeps_small_numbers() -> None:
    z = torch.tensor([1e-12 + 3e-12j, 0.3 - 2j, -4 + 100j], dtype=torch.complex128)
    found = expm1(z)
    torch.testing.assert_close(found[1:], z[1:].exp() - 1)
    torch.testing.assert_close(found[:1], z[:1], rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"state_size": 7}, "state_size must be even, not 7"),
        ({"state_size": 0}, "state_size must be at least 2"),
        ({"init": "hippo"}, "init must be one of lin, inv, legs, real"),
        ({"discretisation": "euler"}, "discretisation must be one of zoh, bilinear"),
        ({"dt_min": 0.2}, r"dt_max must be at least 0\.2"),
        ({"dynamics_lr": -1.0}, "dynamics_lr must be at least 0"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        S4DConfig(**wrong)  # type: ignore[arg-type]
