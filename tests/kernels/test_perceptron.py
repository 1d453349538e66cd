"""The perceptron in pieces equals the plain layers, in gradients too."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.func import functional_call, grad, vmap

from lrbench.kernels import perceptron as module
from lrbench.kernels.perceptron import COMPILED_TWO_LAYERS, TWO_LAYERS, perceptron
from tests.both_ways import both_ways, close, draw, needs_numba


def layers(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 3)).double()


def inputs(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, 6, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("shape", [(5,), (2, 9), (4, 1), (1, 1)])
@pytest.mark.parametrize("piece", [7, 28, 10_000])
def test_equals_the_layers(
    shape: tuple[int, ...], piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", piece)
    ours, theirs = layers(), copy.deepcopy(layers())
    results, gradients = [], []
    for model, call in ((ours, perceptron), (theirs, nn.Sequential.__call__)):
        x = inputs(*shape).requires_grad_()
        y = call(model, x)
        weight = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).view(y.shape)
        results.append(y)
        gradients.append(torch.autograd.grad((y * weight).sum(), [x, *model.parameters()]))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_may_start_inside_a_longer_sequence() -> None:
    longer = nn.Sequential(nn.LayerNorm(6).double(), *layers())
    x = inputs(2, 4)
    torch.testing.assert_close(perceptron(longer, longer[0](x), start=1), longer(x))


def test_groups_equal_a_loop() -> None:
    members = [dict(layers(seed).named_parameters()) for seed in range(3)]
    stacked = {name: torch.stack([m[name].detach() for m in members]) for name in members[0]}
    x = inputs(3, 2, 4)
    skeleton = layers()

    class Call(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = skeleton

        def forward(self, x: Tensor) -> Tensor:
            return perceptron(self.layers, x)

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        named = {f"layers.{name}": value for name, value in parameters.items()}
        value: Tensor = functional_call(Call(), named, (x,)).square().sum()
        return value

    together = vmap(grad(loss))(stacked, x)
    for k in range(3):
        alone = grad(loss)({name: value[k] for name, value in stacked.items()}, x[k])
        for name in alone:
            torch.testing.assert_close(together[name][k], alone[name])


def leaves_of(hidden: int, outputs: int, rows: int, dtype: torch.dtype) -> list[Tensor]:
    shapes = [(hidden, 6), (hidden,), (outputs, hidden), (outputs,), (rows, 2, 6)]
    return [draw(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]


@needs_numba
@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_compiled_half_equals_torch(
    rows: int, outputs: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE", 16 * 9)  # pieces of nine rows, and a smaller last one
    leaves = leaves_of(16, outputs, rows, dtype)
    ours, _ = both_ways(COMPILED_TWO_LAYERS, leaves)
    theirs, _ = both_ways(TWO_LAYERS, leaves)
    close(ours, theirs)


@needs_numba
def test_gradients_are_derivatives() -> None:
    leaves = [leaf.requires_grad_() for leaf in leaves_of(16, 3, 2, torch.float64)]
    assert gradcheck(COMPILED_TWO_LAYERS, leaves, fast_mode=True)


@needs_numba
def test_which_perceptrons_are_compiled() -> None:
    x = torch.ones(2, 3, 8)
    layers = nn.Linear(8, 32), nn.Linear(32, 5)
    assert module._compiles(*layers, x)
    assert not module._compiles(nn.Linear(8, 30), nn.Linear(30, 5), x)
    assert not module._compiles(nn.Linear(8, 32), nn.Linear(32, 17), x)


@needs_numba
def test_weights_may_lie_in_any_order() -> None:
    """A transposed weight had a gradient of zero."""
    leaves = list(leaves_of(16, 3, 7, torch.float64))
    ours, _ = both_ways(COMPILED_TWO_LAYERS, leaves)
    turned = list(leaves)
    for k in (0, 2):
        turned[k] = leaves[k].detach().T.contiguous().T
    close(both_ways(COMPILED_TWO_LAYERS, turned)[0], ours)
