"""Normalisation over features: of layers, compiled if possible, and of vectors to length one."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable

WIDE = 16  # the compiled loop takes so many features at a time


class LayerNorm(nn.LayerNorm):
    """torch's layer normalisation over the last axis, faster on a CPU with numba."""

    def forward(self, x: Tensor) -> Tensor:
        plain = self.bias is not None and self.normalized_shape == x.shape[-1:]
        fits = plain and x.shape[-1] % WIDE == 0 and self.weight.dtype == x.dtype
        if not (fits and usable(x, "layer_norm", x.shape[-1])):
            result: Tensor = super().forward(x)
            return result
        return compiled_norm(self.eps)(self.weight, self.bias, x)


@cache
def compiled_norm(epsilon: float) -> ClosedForm:
    """Return the function (weight, bias, x) -> y that adds `epsilon` to the variance."""

    def forward(weight: Tensor, bias: Tensor, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        from lrbench.scan.compiled.layers.norm import forward_loop

        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        mean, scale = x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1])
        loop = forward_loop(x.shape[-1], DTYPES[x.dtype])
        loop(
            *map(array, (rows(x), weight, bias, rows(y), mean.flatten(), scale.flatten())), epsilon
        )
        return y, mean, scale

    return ClosedForm(forward, _backward, one_by_one, needs_result=False)


def _backward(
    weight: Tensor,
    bias: Tensor,
    x: Tensor,
    mean: Tensor,
    scale: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    from lrbench.scan.compiled.layers.norm import backward_loop

    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    dweight, dbias = torch.zeros_like(weight), torch.zeros_like(bias)
    loop = backward_loop(x.shape[-1], DTYPES[x.dtype])
    tensors = rows(x), weight, mean.flatten(), scale.flatten(), rows(gradient), rows(dx)
    loop(*map(array, (*tensors, dweight, dbias)))
    return dweight, dbias, dx


def unit_length(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Return x / sqrt(|x|^2 + epsilon) over the last axis of x (..., D)."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + epsilon)


def rows(x: Tensor) -> Tensor:
    """Return x (..., D) as (N, D)."""
    return x.flatten(0, -2)
