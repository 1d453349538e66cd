"""`s5` is the equations of its docstring: discretisation, conjugate pairs, initialisation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.state_space.hippo import legs
from lrbench.mixers.state_space.s5 import S5, S5Config, discretise, first_modes

WIDTH, SIZE = 5, 8


def make(seed: int = 0, **options: Any) -> S5:
    torch.manual_seed(seed)
    return S5(S5Config(**{"state_size": SIZE, **options}), WIDTH).double()


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def continuous(mixer: S5) -> tuple[Tensor, Tensor]:
    return torch.complex(mixer.decay, mixer.frequency), torch.view_as_complex(mixer.input)


@pytest.mark.parametrize("how", ["zoh", "bilinear"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_equation(how: str, symmetric: bool) -> None:
    mixer = make(discretisation=how, conjugate_symmetry=symmetric)
    u, (a, b) = draw(1, 4, WIDTH), continuous(mixer)
    step, c = mixer.log_step.exp(), torch.view_as_complex(mixer.output)
    x = torch.zeros(mixer.kept, dtype=torch.complex128)
    for k in range(4):
        if how == "zoh":
            moved = torch.exp(step * a)
            x = moved * x + (moved - 1) / a * (b @ u[0, k].to(b))
        else:
            below = 1 - step * a / 2
            x = (1 + step * a / 2) / below * x + step / below * (b @ u[0, k].to(b))
    y = (2 if symmetric else 1) * (c @ x).real + mixer.skip * u[0, -1]
    torch.testing.assert_close(mixer(u)[0][0, -1], y)


@pytest.mark.parametrize("how", ["zoh", "bilinear"])
def test_discretisation_is_scipys(how: str) -> None:
    signal = pytest.importorskip("scipy.signal")
    mixer = make(discretisation=how, conjugate_symmetry=False)
    mixer.requires_grad_(False).log_step.fill_(-3.0)
    (a, b), (abar, bbar) = continuous(mixer), mixer.system()
    eye = torch.eye(SIZE).numpy()
    step = float(torch.tensor(-3.0).double().exp())
    theirs = signal.cont2discrete(
        (torch.diag(a).numpy(), b.numpy(), eye, 0 * b.real.numpy()), step, how
    )
    torch.testing.assert_close(torch.diag(abar), torch.from_numpy(theirs[0]))
    torch.testing.assert_close(bbar, torch.from_numpy(theirs[1]))


def test_discretisation_is_precise_near_zero() -> None:
    """For A -> 0 a step adds Delta B; the plain (exp(z) - 1) / z loses half the digits here."""
    a, step = torch.tensor([-1e-12 + 1e-12j, 0j]), torch.tensor([0.1, 0.1])
    abar, gain = discretise(a, step, "zoh")
    torch.testing.assert_close(gain, torch.full((2,), 0.1 + 0j), rtol=1e-6, atol=0)
    torch.testing.assert_close(abar, torch.ones(2) + 0j)


def test_modes_are_those_of_normal_hippo() -> None:
    values, vectors = first_modes(SIZE, 1, half=False)
    a, _, p = legs(SIZE)
    normal = (a + torch.outer(p, p)).to(values)
    torch.testing.assert_close(normal @ vectors, vectors * values)
    torch.testing.assert_close(vectors.mH @ vectors, torch.eye(SIZE).to(values))


def test_blocks_lie_side_by_side() -> None:
    values, vectors = first_modes(12, 3, half=True)
    one, small = first_modes(4, 1, half=True)
    torch.testing.assert_close(values, one.repeat(3))
    torch.testing.assert_close(vectors, torch.block_diag(small, small, small))
    assert (values.imag > 0).all()


def test_half_of_the_pairs_does_for_all() -> None:
    """With all states at their conjugate values, twice the real part of half of them is y."""
    half, whole = make(), make(conjugate_symmetry=False)
    with torch.no_grad():
        for name in ("decay", "frequency", "log_step"):
            value = getattr(half, name)
            partner = -value if name == "frequency" else value
            getattr(whole, name).copy_(torch.cat([value, partner]))
        turned = torch.tensor([1.0, -1.0])
        whole.input.copy_(torch.cat([half.input, half.input * turned]))
        whole.output.copy_(torch.cat([half.output, half.output * turned], 1))
        whole.skip.copy_(half.skip)
    u = draw(2, 9, WIDTH)
    torch.testing.assert_close(half(u)[0], whole(u)[0])


def test_real_system_behind_the_modes() -> None:
    """With `lecun` outputs the mixer is a real system (A, B', C') in other coordinates."""
    mixer, u = make(), draw(1, 6, WIDTH)
    _, v = first_modes(SIZE, 1, half=True)
    a, b = continuous(mixer)
    whole = torch.cat([v, v.conj()], 1)
    values = torch.cat([a, a.conj()])
    dense = whole @ torch.diag(values) @ whole.mH
    assert dense.imag.abs().max() < 1e-5
    step = 0.05
    with torch.no_grad():
        mixer.log_step.fill_(torch.tensor(step).double().log())
    moved = torch.linalg.matrix_exp(step * dense.real)
    drive = 2 * (v @ b).real
    gain = torch.linalg.solve(dense.real, (moved - torch.eye(SIZE)) @ drive)
    read = 2 * (torch.view_as_complex(mixer.output) @ v.mH).real
    x = torch.zeros(SIZE, dtype=torch.float64)
    for k in range(6):
        x = moved @ x + gain @ u[0, k]
    torch.testing.assert_close(
        mixer(u)[0][0, -1], read @ x + mixer.skip * u[0, -1], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("clipped", [True, False])
def test_clipped_eigenvalues_stay_inside_the_circle(clipped: bool) -> None:
    mixer = make(clip_eigs=clipped)
    with torch.no_grad():
        mixer.decay.copy_(torch.linspace(-1, 1, mixer.kept))
    largest = mixer.system()[0].abs().max()
    assert (largest < 1) if clipped else (largest > 1)


@pytest.mark.parametrize("how", ["zoh", "bilinear"])
def test_first_transitions_and_steps(how: str) -> None:
    mixer = make(state_size=64, blocks=2, discretisation=how)
    assert mixer.system()[0].abs().max() < 1
    steps = mixer.log_step.exp()
    assert 1e-3 <= steps.min() < 5e-3 and 2e-2 < steps.max() <= 1e-1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"state_size": 7}, "state_size must be a multiple of 2, not 7"),
        ({"state_size": 8, "blocks": 3}, "must be a multiple of 6, not 8"),
        ({"discretisation": "euler"}, "must be one of zoh, bilinear"),
        ({"output_init": "zero"}, "must be one of lecun, complex_normal"),
        ({"dt_min": 0.2}, "dt_max must be at least 0.2"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        S5Config(**wrong)
