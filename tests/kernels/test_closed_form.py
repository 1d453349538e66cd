"""Functions with gradients of their own: what is differentiable, once, and in a group."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, _Forward, one_by_one


def square(x: Tensor, factor: Tensor) -> tuple[Tensor, ...]:
    return factor * x**2, 2 * factor * x, x.sign()


def slope(
    x: Tensor, factor: Tensor, result: Tensor, twice: Tensor, sign: Tensor, gradient: Tensor
) -> tuple[Tensor, ...]:
    return gradient * twice, (gradient * x**2).sum()


FORM = ClosedForm(square, slope, one_by_one)
X, FACTOR = torch.tensor([[1.0, -2.0], [0.5, 3.0]]), torch.tensor(3.0)


def test_values_and_gradients() -> None:
    x, factor = X.clone().requires_grad_(), FACTOR.clone().requires_grad_()
    result = FORM(x, factor)
    assert torch.equal(result, 3 * X**2)
    dx, dfactor = torch.autograd.grad(result.sum(), (x, factor))
    assert torch.equal(dx, 6 * X)
    assert dfactor == X.square().sum()
    with torch.no_grad():
        assert torch.equal(FORM(x, factor), 3 * X**2)


def test_second_derivatives_are_refused() -> None:
    x = X.clone().requires_grad_()
    [dx] = torch.autograd.grad(FORM(x, FACTOR).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="backward or vjp"):
        dx.sum().backward()


def test_inside_torch_func() -> None:
    """What only the backward needs has no gradient there either, and members are their own."""

    def loss(x: Tensor, factor: Tensor) -> Tensor:
        return FORM(x, factor).sum()

    dx, dfactor = torch.func.grad(loss, argnums=(0, 1))(X, FACTOR)
    assert torch.equal(dx, 6 * X) and dfactor == X.square().sum()
    factors = torch.tensor([1.0, -2.0])
    each = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1)), in_dims=(None, 0))(X, factors)
    assert torch.equal(each[0], torch.stack([2 * X, -4 * X]))
    assert torch.equal(each[1], X.square().sum().expand(2))


def test_what_is_kept_for_the_backward_is_not_differentiable() -> None:
    x = X.clone().requires_grad_()
    results = _Forward.apply(FORM, x, FACTOR)
    assert [one.requires_grad for one in results] == [True, False, False]
