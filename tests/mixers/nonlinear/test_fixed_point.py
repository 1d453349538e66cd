"""Iterations of linear scans: the prefix property, what they converge to, and what stops them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.mixers.nonlinear.elman import Elman
from lrbench.mixers.nonlinear.fixed_point import LARGEST, Limits, solve
from lrbench.mixers.nonlinear.fixed_point_surrogates import SURROGATES, surrogate_of
from lrbench.mixers.nonlinear.gru_seed import GatedUnit
from lrbench.mixers.nonlinear.recurrence import Recurrence

UNITS, LENGTH, BATCH = 5, 17, 3
EXACT = Limits(0.0, 0.0)


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def made(kind: str, scale: float = 1.0, **arguments: Any) -> tuple[Recurrence, Tensor, Tensor]:
    """Return a recurrence, u (T, B, M) and x_0 (B, N)."""
    start = 0.5 * draw(BATCH, UNITS, seed=1, **arguments)
    if kind == "elman":
        recurrence: Recurrence = Elman(scale * draw(UNITS, UNITS, seed=2, **arguments))
        return recurrence, draw(LENGTH, BATCH, UNITS, seed=3, **arguments), start
    gates, candidate = (
        draw(2 * UNITS, UNITS, seed=2, **arguments),
        draw(UNITS, UNITS, seed=4, **arguments),
    )
    recurrence = GatedUnit(scale * gates, scale * candidate)
    return recurrence, draw(LENGTH, BATCH, 3 * UNITS, seed=3, **arguments), start


@pytest.mark.parametrize("kind", ["elman", "gru"])
@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("algorithm", ["auto", "tree"])
def test_n_iterations_make_the_first_n_states_exact(kind: str, name: str, algorithm: str) -> None:
    recurrence, drive, start = made(kind)
    expected = recurrence.run(drive, start)[0]
    for n in (1, 2, 5, 11):
        found = solve(recurrence, SURROGATES[name], drive, start, Limits(0.0, 0.0, n), algorithm)
        assert found.iterations == n and not found.converged
        torch.testing.assert_close(found.states[:n], expected[:n], rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", ["elman", "gru"])
@pytest.mark.parametrize("name", SURROGATES)
def test_the_solution_is_the_loops(kind: str, name: str) -> None:
    recurrence, drive, start = made(kind)
    expected = recurrence.run(drive, start)[0]
    found = solve(recurrence, SURROGATES[name], drive, start, EXACT)
    assert found.converged and found.iterations <= LENGTH
    torch.testing.assert_close(found.states, expected, rtol=0, atol=1e-13)


def test_newton_needs_few_and_tolerances_spare_some() -> None:
    recurrence, drive, start = made("elman", 0.3)
    exact = solve(recurrence, SURROGATES["newton"], drive, start, EXACT)
    loose = solve(recurrence, SURROGATES["newton"], drive, start, Limits())
    assert loose.iterations < exact.iterations and loose.iterations <= 6
    torch.testing.assert_close(loose.states, exact.states, rtol=1e-4, atol=1e-6)


def test_matrices_that_grow_are_survived_and_cut_off() -> None:
    recurrence, drive, start = made("elman", 40.0, dtype=torch.float32)
    wild = solve(recurrence, SURROGATES["plain"], drive, start, Limits(most=LENGTH - 4))
    assert not wild.converged and bool((wild.states.abs() <= LARGEST).all())
    assert float(wild.states.abs().max()) > 1  # which no state of the network is
    whole = solve(recurrence, SURROGATES["plain"], drive, start, Limits())
    assert whole.converged and whole.iterations == LENGTH
    expected = recurrence.run(drive, start)[0]
    torch.testing.assert_close(whole.states, expected, rtol=0, atol=1e-3)


def test_what_is_not_a_number_is_set_to_zero() -> None:
    recurrence, drive, start = made("elman", 1e30, dtype=torch.float32)
    found = solve(recurrence, SURROGATES["plain"], drive, start, Limits(most=3), "tree")
    assert bool(torch.isfinite(found.states).all()) and not found.converged


def test_a_string_does_not_depend_on_those_beside_it() -> None:
    recurrence, drive, start = made("elman", 0.5)
    drive[:, 0] *= 0.01  # converges long before the others
    for name in SURROGATES:
        together = solve(recurrence, SURROGATES[name], drive, start, Limits())
        counts = []
        for k in range(BATCH):
            one = slice(k, k + 1)
            alone = solve(recurrence, SURROGATES[name], drive[:, one], start[one], Limits())
            torch.testing.assert_close(together.states[:, one], alone.states, rtol=0, atol=1e-12)
            counts.append(alone.iterations)
        assert together.iterations == max(counts)


def test_an_unknown_surrogate_is_reported() -> None:
    assert surrogate_of("newton").at == "iterate"
    with pytest.raises(UserError, match="surrogate 'newtn' unknown"):
        surrogate_of("newtn")
