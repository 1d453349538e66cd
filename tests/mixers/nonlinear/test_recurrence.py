"""The networks themselves: their Jacobians against autograd, their loops, their gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import jacrev

from lrbench.mixers.nonlinear.elman import Elman
from lrbench.mixers.nonlinear.gru_seed import GatedUnit
from lrbench.mixers.nonlinear.recurrence import Recurrence, run_loop
from lrbench.scan.linearised import linearised_adjoint, linearised_scan

N, T, B = 4, 5, 2
SHAPES = {"elman": (Elman, 1, ((N, N),)), "gru": (GatedUnit, 3, ((2 * N, N), (N, N)))}


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=SHAPES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(kind: str) -> tuple[Recurrence, Tensor, Tensor]:
    """Return a recurrence, u (T, B, M) and x (T, B, N) to linearise at."""
    cls, drives, shapes = SHAPES[kind]
    weights = [draw(*shape, seed=place) for place, shape in enumerate(shapes)]
    return cls(*weights), draw(T, B, drives * N, seed=8), draw(T, B, N, seed=9)


@pytest.mark.parametrize("at_zero", [False, True])
def test_jacobians_are_those_of_autograd(kind: str, at_zero: bool) -> None:
    recurrence, drive, x = made(kind)
    before = None if at_zero else x
    jacobians = recurrence.jacobians(before, *recurrence.evaluate(before, drive))
    matrices = jacobians.matrices()
    torch.testing.assert_close(jacobians.diagonal(), matrices.diagonal(dim1=-2, dim2=-1))
    for k in range(T):
        for b in range(B):
            there = torch.zeros(N, dtype=x.dtype) if at_zero else x[k, b]
            found = jacrev(lambda v, k=k, b=b: recurrence.evaluate(v[None], drive[k, b][None])[0])(
                there
            )
            torch.testing.assert_close(matrices[k, b], found[0])


def test_products_are_those_of_the_matrices(kind: str) -> None:
    recurrence, drive, x = made(kind)
    jacobians = recurrence.jacobians(x, *recurrence.evaluate(x, drive))
    inputs, start = draw(T, B, N, seed=5), draw(B, N, seed=6)
    by_loop = linearised_scan(jacobians, inputs, start, "sequential")
    torch.testing.assert_close(by_loop, linearised_scan(jacobians, inputs, start, "tree"))
    back = linearised_adjoint(jacobians, inputs, "sequential")
    torch.testing.assert_close(back, linearised_adjoint(jacobians, inputs, "chunked"))
    # <l, r> = <g, d> for d = scan(r), l = adjoint(g): what makes one the other's adjoint
    zero, other = torch.zeros_like(start), draw(T, B, N, seed=7)
    states = linearised_scan(jacobians, other, zero, "sequential")
    torch.testing.assert_close((back * other).sum(), (inputs * states).sum())


def test_the_loop_and_its_gradient(kind: str) -> None:
    cls, _, shapes = SHAPES[kind]
    recurrence, drive, _ = made(kind)
    start, states = draw(B, N, seed=3), []
    x = start
    for u in drive:
        x = recurrence.evaluate(x, u)[0]
        states.append(x)
    weights = [draw(*shape, seed=place) for place, shape in enumerate(shapes)]
    torch.testing.assert_close(run_loop(cls, drive, start, *weights), torch.stack(states))
    leaves = [leaf.requires_grad_() for leaf in (drive, start, *weights)]
    assert gradcheck(lambda *given: run_loop(cls, *given), leaves)


def test_the_gated_unit_is_the_one_of_the_document() -> None:
    recurrence, drive, x = made("gru")
    u_z, u_r = recurrence.gates.chunk(2)
    h, u = x[0, 0], drive[0, 0]
    z, r = torch.sigmoid(u[:N] + u_z @ h), torch.sigmoid(u[N : 2 * N] + u_r @ h)
    c = torch.tanh(u[2 * N :] + recurrence.candidate @ (r * h))
    found = recurrence.evaluate(h[None], u[None])[0][0]
    torch.testing.assert_close(found, (1 - z) * h + z * c)
    origin = recurrence.jacobians(None, *recurrence.evaluate(None, torch.zeros_like(drive)))
    plain = (torch.eye(N, dtype=x.dtype) + recurrence.candidate / 2) / 2
    torch.testing.assert_close(origin.matrices()[0, 0], plain)
