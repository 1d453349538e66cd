"""S4: three kernels, the recurrence and HiPPO-LegS discretised by scipy are one thing."""

from __future__ import annotations

import pytest
import torch
from scipy.signal import cont2discrete
from torch import Tensor

from lrbench.mixers.state_space.hippo import legs
from lrbench.mixers.state_space.s4 import (
    PIECE,
    LowRankSystem,
    S4Config,
    S4Mixer,
    dense_transition,
    series_response,
)
from lrbench.mixers.state_space.ssm import Response, as_rows, covector

WIDTH, SIZE = 2, 8
KERNELS = ("series", "krylov", "cauchy")


def make(**settings: object) -> S4Mixer:
    torch.manual_seed(0)
    settings = {"state_size": SIZE, **settings}
    return S4Mixer(S4Config(**settings), WIDTH).double()  # type: ignore[arg-type]


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("mode", KERNELS)
@pytest.mark.parametrize("size", [SIZE, 64])
@pytest.mark.parametrize("length", [1, 2, 7, 40])
def test_kernel_by_brute_force(mode: str, size: int, length: int) -> None:
    mixer = make(state_size=size)
    system = mixer.system()
    matrix, row, c = dense_transition(system), as_rows(system.b)[:, None], covector(system.c)
    kernel = mixer.response(length, False, mode).kernel
    for n in range(length):
        expected = (row[:, 0] * c).sum(-1) + (mixer.skip if n == 0 else 0)
        torch.testing.assert_close(kernel[:, n], expected, rtol=1e-9, atol=1e-9)
        row = row @ matrix


def test_scipy_discretises_the_dense_system_the_same() -> None:
    """Without the clip, impulse responses are those of HiPPO-LegS read out by B^T."""
    mixer = make(clip=0.0)
    with torch.no_grad():
        b = torch.view_as_complex(mixer.input)
        mixer.output.copy_(torch.view_as_real(b.conj().resolve_conj()))
        mixer.skip.zero_()
    a, b_dense, _ = legs(SIZE)
    read = b_dense[None].numpy(), torch.zeros(1, 1).numpy()
    kernel = mixer.response(12, False, "series").kernel
    for channel in range(WIDTH):
        step = mixer.log_step[channel].exp().item()
        continuous = a.numpy(), b_dense[:, None].numpy(), *read
        abar, bbar, *_ = map(torch.from_numpy, cont2discrete(continuous, step, "bilinear")[:2])
        x = bbar[:, 0]
        for n in range(12):
            # parameters are kept in single precision at first
            torch.testing.assert_close(kernel[channel, n], b_dense @ x, rtol=1e-5, atol=1e-5)
            x = abar @ x


@pytest.mark.parametrize("mode", KERNELS)
def test_long_kernel_has_the_short_one_as_prefix(mode: str) -> None:
    mixer = make()
    long, short = (mixer.response(n, False, mode).kernel for n in (500, 40))
    torch.testing.assert_close(long[:, :40], short, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length", [PIECE, PIECE + 1, 3 * PIECE, 200])
def test_pieces_and_transforms_are_the_recurrence(length: int) -> None:
    mixer, u = make(), draw(2, length, WIDTH)
    state = torch.view_as_complex(draw(2, WIDTH, SIZE // 2, 2))
    for before in (None, state):
        expected = mixer(u, before, "sequential")
        for mode in KERNELS:
            torch.testing.assert_close(mixer(u, before, mode), expected, rtol=1e-8, atol=1e-8)


def test_a_long_string_is_taken_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = []

    def noted(system: LowRankSystem, length: int, carried: bool) -> Response:
        lengths.append(length)
        return series_response(system, length, carried)

    monkeypatch.setattr("lrbench.mixers.state_space.s4.series_response", noted)
    make()(draw(2, 2 * PIECE + 5, WIDTH), None, "series")
    assert lengths == [PIECE, 5]


def test_spectral_radius_is_below_one() -> None:
    mixer = make(state_size=64, dt_max=1.0)
    radius = torch.linalg.eigvals(dense_transition(mixer.system())).abs().amax(-1)
    assert (radius < 1).all()


@pytest.mark.parametrize(("n_ssm", "systems"), [(None, 4), (1, 1), (2, 2)])
def test_channels_share_systems_in_runs(n_ssm: int | None, systems: int) -> None:
    mixer = S4Mixer(S4Config(state_size=SIZE, n_ssm=n_ssm), 4)
    assert mixer.log_decay.shape == (systems, SIZE // 2)
    with torch.no_grad():
        mixer.log_step.fill_(-3)
        mixer.frequency.add_(torch.arange(systems)[:, None])
    first = mixer.system().a[:, 0]
    assert len(torch.unique(torch.view_as_real(first), dim=0)) == systems
    assert torch.equal(first[0], first[1]) == (systems < 4)


def test_systems_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"mixer of width 4 is not a multiple of .*n_ssm 3"):
        S4Mixer(S4Config(n_ssm=3), 4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"n_ssm": 0}, "n_ssm must be at least 1"), ({"clip": -1.0}, "clip must be at least 0")],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        S4Config(**wrong)  # type: ignore[arg-type]
