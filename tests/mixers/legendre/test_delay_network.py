"""The delay network is the matrices of its papers, and its memory holds the window it says."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor

from lrbench.mixers.legendre.delay_network import (
    DelayNetwork,
    decoder,
    delay_matrices,
    discretised,
    transform_length,
)

LIKE = torch.zeros((), dtype=torch.float64)
SIZES = [(1, 25.0), (4, 4.0), (40, 50.0), (468, 784.0)]


def run(order: int, theta: float, signal: Tensor) -> Tensor:
    """Return the memory after each sample, position by position: (n, d)."""
    a, b = discretised(order, theta)
    m, states = torch.zeros(order, dtype=torch.float64), []
    for value in signal:
        m = a @ m + b * value
        states.append(m)
    return torch.stack(states)


def test_matrices_as_printed() -> None:
    a, b = delay_matrices(3, 2.0)
    # rows i: (2i + 1) / 2 times -1 above the diagonal, (-1)^(i-j+1) on and below it
    assert a.tolist() == [[-0.5, -0.5, -0.5], [1.5, -1.5, -1.5], [-2.5, 2.5, -2.5]]
    assert b.tolist() == [0.5, -1.5, 2.5]


@pytest.mark.parametrize(("order", "theta"), SIZES)
def test_zero_order_hold_is_scipys(order: int, theta: float) -> None:
    from scipy import linalg, signal

    a, b = (part.numpy() for part in delay_matrices(order, theta))
    ours, drive = (part.numpy() for part in discretised(order, theta))
    theirs = signal.cont2discrete(
        (a, b[:, None], np.eye(order), np.zeros((order, 1))), 1.0, method="zoh"
    )
    np.testing.assert_allclose(ours, theirs[0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(drive, theirs[1][:, 0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(ours, linalg.expm(a), rtol=0, atol=1e-11)
    # the inverse of the paper's footnote 3, and another exponential
    by_inverse = np.linalg.solve(a, (ours - np.eye(order)) @ b)
    np.testing.assert_allclose(drive, by_inverse, rtol=0, atol=1e-11)
    other = torch.linalg.matrix_exp(torch.from_numpy(a)).numpy()
    np.testing.assert_allclose(ours, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("order", "theta", "norm", "radius", "discrete_norm"),
    [(4, 4, 3.9, 0.448, 1.13), (40, 50, 30, 0.827, 1.51), (468, 784, 264, 0.970, 1.94)],
)
def test_stable_but_not_a_contraction(
    order: int, theta: float, norm: float, radius: float, discrete_norm: float
) -> None:
    a, bar = delay_matrices(order, theta)[0], discretised(order, theta)[0]
    assert float(torch.linalg.matrix_norm(a, 2)) == pytest.approx(norm, rel=0.02)
    assert float(torch.linalg.eigvals(bar).abs().max()) == pytest.approx(radius, abs=1e-3)
    assert float(torch.linalg.matrix_norm(bar, 2)) == pytest.approx(discrete_norm, abs=0.01)


def test_one_number_is_an_exponential_average() -> None:
    bar, drive = discretised(1, 25.0)
    assert float(bar) == pytest.approx(np.exp(-1 / 25), rel=1e-14)
    assert float(drive) == pytest.approx(1 - np.exp(-1 / 25), rel=1e-13)


def test_samples_stand_for_the_input_half_a_position_earlier() -> None:
    t = torch.arange(1000, dtype=torch.float64)
    rate = 0.154
    states = run(40, 50.0, torch.sin(rate * t))
    decoded = states @ decoder(40, torch.tensor(1.0))
    late = slice(200, None)
    error = (decoded - torch.sin(rate * (t - 50)))[late].abs().max()
    shifted = (decoded - torch.sin(rate * (t - 49.5)))[late].abs().max()
    assert float(error) == pytest.approx(rate / 2, rel=0.03)
    assert float(shifted) < 0.004


@pytest.mark.parametrize("fraction", [0.1, 0.25, 0.5, 0.9])
def test_any_delay_within_the_window_is_decoded(fraction: float) -> None:
    t = torch.arange(600, dtype=torch.float64)
    signal = torch.sin(0.05 * t) + 0.5 * torch.cos(0.031 * t)
    decoded = run(16, 80.0, signal) @ decoder(16, torch.tensor(fraction))
    then = t + 0.5 - 80 * fraction
    wanted = torch.sin(0.05 * then) + 0.5 * torch.cos(0.031 * then)
    assert float((decoded - wanted)[300:].abs().max()) < 0.01


def test_decoder_is_shifted_legendre_without_cancellation() -> None:
    from scipy import special

    fractions = torch.linspace(0, 1, 41, dtype=torch.float64)
    ours = decoder(60, fractions).numpy()
    theirs = np.stack([special.eval_legendre(i, 2 * fractions.numpy() - 1) for i in range(60)], -1)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)
    assert decoder(1, fractions).shape == (41, 1)


@pytest.mark.parametrize(("order", "theta", "length"), [(1, 5.0, 9), (6, 9.0, 37), (468, 784, 70)])
def test_response_is_what_an_impulse_leaves(order: int, theta: float, length: int) -> None:
    network = DelayNetwork(order, theta)
    response = network.response(length, LIKE)
    torch.testing.assert_close(response[0], discretised(order, theta)[1], rtol=0, atol=0)
    impulse = torch.zeros(length, dtype=torch.float64)
    impulse[0] = 1
    torch.testing.assert_close(response, run(order, theta, impulse), rtol=0, atol=1e-13)
    torch.testing.assert_close(network.response(3, LIKE), response[:3], rtol=0, atol=1e-15)


def test_memory_fades_by_powers() -> None:
    network = DelayNetwork(5, 9.0)
    bar, _ = discretised(5, 9.0)
    memory = torch.linspace(-1, 1, 10, dtype=torch.float64).view(2, 5)
    for steps in (0, 1, 6, 13):
        wanted = memory @ torch.linalg.matrix_power(bar, steps).T
        torch.testing.assert_close(network.fade(memory, steps), wanted, rtol=1e-12, atol=1e-14)


def test_constants_are_rounded_once_from_float64() -> None:
    network = DelayNetwork(40, 50.0)
    like = torch.zeros((), dtype=torch.float32)
    for name, arguments in (("response", (64,)), ("doubling", (3,))):
        exact, single = (getattr(network, name)(*arguments, x) for x in (LIKE, like))
        assert torch.equal(single, exact.float())
    assert network.spectrum(64, like).dtype == torch.complex64


def test_response_is_computed_anew_only_when_strings_grow() -> None:
    network = DelayNetwork(4, 8.0)
    first = network.response(60, LIKE)
    assert network.response(33, LIKE).data_ptr() == first.data_ptr()
    assert network.response(65, LIKE).data_ptr() != first.data_ptr()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))])
def test_copies_have_the_same_constants(copied: object) -> None:
    network = DelayNetwork(4, 8.0)
    wanted = network.response(5, LIKE)
    assert torch.equal(copied(network).response(5, LIKE), wanted)  # type: ignore[operator]


def test_constants_outlive_the_transform_they_were_first_asked_for_in() -> None:
    network = DelayNetwork(7, 11.0)  # sizes of its own: nothing of it is kept from other tests

    def total(x: Tensor) -> Tensor:
        return (network.fade(x, 5) + network.response(6, x).sum()).sum()

    x = torch.ones(3, 7, dtype=torch.float64)
    slopes = torch.func.vmap(torch.func.grad(total))(x)
    with torch.inference_mode():
        network.spectrum(8, x)
    spectrum = network.spectrum(8, x) * torch.ones((), requires_grad=True)
    spectrum.abs().sum().backward()
    fresh = DelayNetwork(7, 11.0)
    torch.testing.assert_close(slopes[0], fresh.fade(torch.eye(7, dtype=x.dtype), 5).sum(1))
    assert torch.equal(network.response(6, x), fresh.response(6, x))


def test_transforms_are_long_enough_and_not_much_longer() -> None:
    for length in range(1, 3000):
        size = transform_length(length)
        assert length <= size < max(2, 1.34 * length)
        while size % 2 == 0:
            size //= 2
        assert size in (1, 3, 5, 9)
