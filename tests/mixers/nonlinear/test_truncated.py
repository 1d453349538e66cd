"""Truncated layers: the n-th iterate by scans, position by position, and as it is written down."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.base import Mixer
from lrbench.mixers.nonlinear.elman_pq_iter import ElmanPQIter
from lrbench.registry import MIXERS

TRUNCATED = [name for name in MIXERS.names() if name.endswith("_iter")]
WIDTH, LENGTH, BATCH = 6, 9, 3


def make(name: str, **settings: Any) -> Mixer:
    entry = MIXERS.get(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer: Mixer = entry.cls(entry.config(**settings), WIDTH).double()
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_names_are_there() -> None:
    elman = [f"elman_{name}_iter" for name in ("plain", "pq", "taylor")]
    assert sorted(TRUNCATED) == [*elman, "gru_plain_iter"]


@pytest.mark.parametrize("taylor", [False, True])
@pytest.mark.parametrize("n", [1, 3])
def test_elman_iterates_as_written_down(taylor: bool, n: int) -> None:
    mixer = make("elman_taylor_iter" if taylor else "elman_plain_iter", iterations=n)
    u = draw(BATCH, LENGTH, WIDTH)
    a, drive = mixer.matrix, mixer.input(u)
    x = torch.zeros(BATCH, LENGTH + 1, WIDTH, dtype=u.dtype)
    for _ in range(n):
        new = torch.zeros_like(x)
        for k in range(LENGTH):
            scale = 1 / torch.cosh(drive[:, k]) ** 2 if taylor else 1.0
            change = scale * ((new[:, k] - x[:, k]) @ a.T)
            new[:, k + 1] = torch.tanh(x[:, k] @ a.T + drive[:, k]) + change
        x = new
    torch.testing.assert_close(mixer(u)[0], x[:, 1:])


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_scans_steps_and_carried_states_agree(name: str, n: int) -> None:
    mixer, u = make(name, iterations=n), draw(BATCH, LENGTH, WIDTH)
    y, last = mixer(u)
    assert last.shape == (BATCH, n, WIDTH) and mixer.state_size == n * WIDTH
    state, outputs = mixer.initial_state(BATCH), []
    for k in range(LENGTH):
        out, state = mixer.step(u[:, k], state)
        outputs.append(out)
    torch.testing.assert_close(torch.stack(outputs, 1), y, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(state, last, rtol=1e-10, atol=1e-12)
    head, carried = mixer(u[:, :4])
    tail, end = mixer(u[:, 4:], carried)
    torch.testing.assert_close(torch.cat([head, tail], 1), y, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(end, last, rtol=1e-10, atol=1e-12)


def test_enough_iterations_are_the_network() -> None:
    for name, network in (("elman_taylor_iter", "elman"), ("gru_plain_iter", "gru_seed")):
        iterated, loop = make(name, iterations=LENGTH), make(network)
        loop.load_state_dict(iterated.state_dict())
        u = draw(BATCH, LENGTH, WIDTH)
        torch.testing.assert_close(iterated(u)[0], loop(u)[0], rtol=1e-9, atol=1e-10)


def test_pq_begins_as_the_linear_recurrence_that_it_is_named_for() -> None:
    mixer = make("elman_pq_iter")
    assert isinstance(mixer, ElmanPQIter)
    rows = (mixer.out_of @ mixer.into).detach()  # Lambda as it acts on (re, im)
    lam = mixer.eigenvalues().detach()
    expected = torch.zeros_like(rows)
    for j, value in enumerate(lam):
        block = [[value.real, -value.imag], [value.imag, value.real]]
        expected[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = torch.tensor(block)
    torch.testing.assert_close(rows, expected, rtol=0, atol=1e-6)
    assert bool((lam.abs() < 1).all())


def test_pq_iterates_as_written_down() -> None:
    mixer = make("elman_pq_iter", iterations=3, state_size=4)
    assert isinstance(mixer, ElmanPQIter)
    u = draw(BATCH, LENGTH, WIDTH)
    drive, lam = mixer.input(u), mixer.eigenvalues()
    p = torch.complex(mixer.out_of[0::2], mixer.out_of[1::2])
    q = torch.complex(mixer.into[:, 0::2], -mixer.into[:, 1::2]) / 2
    y = torch.zeros(BATCH, LENGTH + 1, 2, dtype=torch.complex128)
    for _ in range(3):
        new = torch.zeros_like(y)
        for k in range(LENGTH):
            inner = torch.tanh(2 * (y[:, k] @ q.T).real + drive[:, k])
            new[:, k + 1] = lam * (new[:, k] - y[:, k]) + inner.to(p.dtype) @ p.T
        y = new
    torch.testing.assert_close(mixer(u)[0], torch.view_as_real(y[:, 1:]).flatten(2))


def test_bad_settings_are_reported() -> None:
    with pytest.raises(ValueError, match=r"model\.mixer\.iterations"):
        make("elman_plain_iter", iterations=0)
    with pytest.raises(ValueError, match="must be even and at most the 6 units, not 8"):
        make("elman_pq_iter", state_size=8)
    with pytest.raises(ValueError, match="r_max must be above"):
        make("elman_pq_iter", r_max=0.0)
