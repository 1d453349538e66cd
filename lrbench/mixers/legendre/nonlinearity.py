"""Elementwise functions that are applied in place and whose slope follows from their result."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

NONLINEARITIES: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda z: z,
    "relu": torch.Tensor.relu_,
    "tanh": torch.Tensor.tanh_,
    "sigmoid": torch.Tensor.sigmoid_,
}


def apply(name: str, z: Tensor) -> Tensor:
    """Return f(z) as a new tensor, for autograd."""
    return z if name == "identity" else getattr(torch, name)(z)


def pull_back(name: str, gradient: Tensor, result: Tensor) -> Tensor:
    """Return d(loss)/dz from d(loss)/df(z) and f(z)."""
    if name == "identity":
        return gradient
    slope: Tensor
    if name == "relu":
        slope = torch.ops.aten.threshold_backward(gradient, result, 0)
    elif name == "tanh":
        slope = torch.ops.aten.tanh_backward(gradient, result)
    else:
        slope = torch.ops.aten.sigmoid_backward(gradient, result)
    return slope
