"""Both ways through the original Legendre memory unit are the same function, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.mixers.legendre import lmu
from lrbench.mixers.legendre.delay_network import DelayNetwork
from lrbench.mixers.legendre.lmu import LMU, LMUConfig, Weights, as_one_network, by_equations
from lrbench.mixers.legendre.nonlinearity import NONLINEARITIES

LENGTH, BATCH, UNITS, ORDER = 13, 3, 5, 4


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (0.4 * torch.randn(shape, generator=generator, dtype=torch.float64)).requires_grad_()


@pytest.mark.parametrize("f", NONLINEARITIES)
def test_both_are_one_function(f: str) -> None:
    both = UNITS + ORDER
    inputs = draw(LENGTH, BATCH, seed=1), draw(LENGTH, BATCH, UNITS, seed=2)
    start, kernels = draw(BATCH, both, seed=3), (draw(both, seed=4), draw(UNITS, UNITS, seed=5))
    weights = Weights(*kernels, draw(UNITS, ORDER, seed=6), DelayNetwork(ORDER, 6.0), f)
    leaves = [*inputs, start, *kernels, weights.memory]
    results = [run(*inputs, start, weights) for run in (by_equations, as_one_network)]
    torch.testing.assert_close(results[1], results[0], rtol=1e-12, atol=1e-12)
    slope = torch.linspace(-1, 1, results[0].numel(), dtype=torch.float64).view_as(results[0])
    slopes = [torch.autograd.grad(result, leaves, slope) for result in results]
    torch.testing.assert_close(slopes[1], slopes[0], rtol=1e-10, atol=1e-10)


def test_the_way_goes_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[str] = []
    for run in (by_equations, as_one_network):

        def noted(*inputs: Tensor, run=run) -> Tensor:  # type: ignore[no-untyped-def]
            ways.append(run.__name__)
            result: Tensor = run(*inputs)
            return result

        monkeypatch.setattr(lmu, run.__name__, noted)
    for order, batch in ((4, 8), (256, 1), (4, 512)):
        LMU(LMUConfig(order=order, theta=8.0, outputs=49), 2)(torch.zeros(batch, 1, 2))
    assert ways == ["as_one_network", "by_equations", "by_equations"]
