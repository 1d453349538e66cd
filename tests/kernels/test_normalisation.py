"""Compiled layer normalisation equals torch's, gradients included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck
from torch.func import functional_call, grad, vmap

from lrbench.kernels.choice import SWITCH
from lrbench.kernels.normalisation import LayerNorm, unit_length


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def pair(width: int) -> tuple[nn.LayerNorm, nn.LayerNorm]:
    ours, theirs = LayerNorm(width).double(), nn.LayerNorm(width).double()
    state = {"weight": draw(width, seed=1), "bias": draw(width, seed=2)}
    for norm in (ours, theirs):
        norm.load_state_dict(state)
    return ours, theirs


@pytest.mark.parametrize("width", [16, 64, 24])  # 24 is not compiled
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 5), (0, 4)])
def test_equals_torch(width: int, shape: tuple[int, ...]) -> None:
    ours, theirs = pair(width)
    x = (10 + 3 * draw(*shape, width)).requires_grad_()
    weight = draw(*shape, width, seed=3)
    found = []
    for norm in (ours, theirs):
        y = norm(x)
        found.append((y, *torch.autograd.grad(y, (x, *norm.parameters()), weight)))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_gradients_are_derivatives() -> None:
    ours, _ = pair(16)
    assert gradcheck(ours, draw(2, 3, 16).requires_grad_())


def test_transposed_numbers_and_gradients() -> None:
    ours, theirs = pair(16)
    x = draw(16, 3, 5).permute(2, 1, 0).requires_grad_()
    for norm in (ours, theirs):
        norm(x).transpose(0, 1).contiguous().pow(3).sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_result_may_be_changed_in_place() -> None:
    ours, theirs = pair(16)
    x = draw(4, 16).requires_grad_()
    for norm in (ours, theirs):
        y = norm(x)
        with torch.no_grad():
            y.add_(1)
        y.sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_groups_equal_a_loop() -> None:
    ours, _ = pair(16)
    weights, x = draw(3, 16, seed=4), draw(3, 5, 16)

    def loss(weight: Tensor, x: Tensor) -> Tensor:
        return functional_call(ours, {"weight": weight}, (x,)).pow(3).sum()

    apart = torch.stack([grad(loss)(w, one) for w, one in zip(weights, x, strict=True)])
    torch.testing.assert_close(vmap(grad(loss))(weights, x), apart)


def test_off_is_torch_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    ours, theirs = pair(64)
    assert torch.equal(ours(draw(7, 64)), theirs(draw(7, 64)))


def test_vectors_of_length_one_and_the_zero_vector() -> None:
    x = draw(4, 6)
    torch.testing.assert_close(unit_length(x, 0.0), torch.nn.functional.normalize(x, dim=-1))
    assert unit_length(torch.zeros(2, 6)).abs().max() == 0
    small = torch.full((1, 4), 0.5e-3, dtype=torch.float64)  # as long as the root of epsilon
    torch.testing.assert_close(unit_length(small).norm(), torch.tensor(0.5**0.5).double())
