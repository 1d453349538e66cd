"""The compiled gate of an S4 block equals torch's, gradients and members of a group included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from lrbench.kernels.choice import SWITCH
from lrbench.kernels.gate import gated

TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}


def draw(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def symbols(*shape: int) -> Tensor:
    return torch.randint(5, shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("by_symbol", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("shape", "width"), [((3,), 16), ((2, 5), 48), ((7, 90), 16), ((2, 3), 24), ((0, 4), 16)]
)
def test_equals_torch(
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    width: int,
    dtype: torch.dtype,
    by_symbol: bool,
) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(width, 2 * width).to(dtype)
    x = (3 * draw(*shape, width, dtype=dtype)).requires_grad_()
    index = symbols(*shape) if by_symbol else None
    residual = draw(*((5,) if by_symbol else shape), width, dtype=dtype, seed=2).requires_grad_()
    weight, found = draw(*shape, width, dtype=dtype, seed=3), []
    for switch in ("1", "0"):
        monkeypatch.setenv(SWITCH, switch)
        y = gated(layer, x, residual, index)
        found.append((y, *torch.autograd.grad(y, (x, residual, *layer.parameters()), weight)))
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(*found, rtol=tolerance, atol=20 * tolerance)


def test_members_of_a_group_have_gates_of_their_own() -> None:
    layer = nn.Linear(16, 32).double()
    weights = {name: draw(3, *p.shape) for name, p in layer.named_parameters()}
    x, a = draw(2, 5, 16, seed=4), draw(5, 16, seed=5)
    index = symbols(2, 5)

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self) -> Tensor:
            return gated(self.layer, x, a, index)

    def loss(weights: dict[str, Tensor]) -> Tensor:
        named = {f"layer.{name}": w for name, w in weights.items()}
        return functional_call(Gated(), named, ()).square().sum()

    together = vmap(grad(loss))(weights)
    for k in range(3):
        alone = grad(loss)({name: w[k] for name, w in weights.items()})
        for name, gradient in alone.items():
            torch.testing.assert_close(together[name][k], gradient)


def test_a_symbol_outside_the_table_is_refused() -> None:
    layer = nn.Linear(16, 32).double()
    with pytest.raises(IndexError):
        gated(layer, draw(2, 16), draw(5, 16), torch.tensor([0, 5]))
