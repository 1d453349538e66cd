"""The compiled head equals norm and linear map, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from lrbench.kernels.choice import SWITCH
from lrbench.kernels.normed_head import normed_head

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4}


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("classes", [1, 5, 40])  # 40 are not compiled
@pytest.mark.parametrize(("shape", "width"), [((3,), 16), ((2, 5), 64), ((2, 5), 24), ((0, 4), 16)])
def test_equals_torch(
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    width: int,
    classes: int,
    dtype: torch.dtype,
) -> None:
    norm, head = nn.LayerNorm(width).to(dtype), nn.Linear(width, classes).to(dtype)
    parameters = *norm.parameters(), *head.parameters()
    with torch.no_grad():
        for seed, parameter in enumerate(parameters):
            parameter.copy_(draw(*parameter.shape, seed=seed))
    x = (2 + 3 * draw(*shape, width, seed=7)).to(dtype).requires_grad_()
    weight, found = draw(*shape, classes, seed=8).to(dtype), []
    for switch in ("1", "0"):
        monkeypatch.setenv(SWITCH, switch)
        y = normed_head(norm, head, x)
        found.append((y, *torch.autograd.grad(y, (x, *parameters), weight)))
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(*found, rtol=tolerance, atol=tolerance)


def test_weights_may_lie_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transposed weight, such as a tied one, had a gradient of zero."""
    norm, head, found = nn.LayerNorm(16).double(), nn.Linear(16, 5).double(), []
    head.weight = nn.Parameter(draw(16, 5).T)
    x, weight = draw(3, 16, seed=1), draw(3, 5, seed=2)
    for switch in ("1", "0"):
        monkeypatch.setenv(SWITCH, switch)
        y = normed_head(norm, head, x)
        found.append(torch.autograd.grad(y, (head.weight, norm.weight), weight))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("place", ["norm", "head"])
def test_hooks_of_both_layers_are_called(place: str) -> None:
    layers = {"norm": nn.LayerNorm(16), "head": nn.Linear(16, 5)}
    layers[place].register_forward_hook(lambda *_: torch.zeros(3, 16 if place == "norm" else 5))
    y = normed_head(layers["norm"], layers["head"], torch.ones(3, 16))  # type: ignore[arg-type]
    expected = layers["head"].bias if place == "norm" else torch.zeros(5)
    torch.testing.assert_close(y, expected.expand(3, 5))  # type: ignore[operator]
