"""Normalisation over features: of layers, compiled if possible, and of vectors to length one.

    y = (x - mean) scale gamma + beta,   scale = 1 / sqrt(variance + epsilon)

With d = g gamma for an upstream gradient g and n = (x - mean) scale, over D features,

    dx = scale (d - sum(d) / D - n sum(d n) / D),   dgamma = sum g n,   dbeta = sum g.

The compiled loops go row by row, with everything about a row in registers. Shapes: x, y and their
gradients (N, D), D a multiple of WIDE; mean and scale (N,).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import add, every, fma, load, mul, store, sub, total, zero

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
        y = torch.empty_like(x, memory_format=torch.contiguous_format)
        mean, scale = x.new_empty(x.shape[:-1]), x.new_empty(x.shape[:-1])
        loop = forward_loop(x.shape[-1], DTYPES[x.dtype])
        loop(
            *map(array, (rows(x), weight, bias, rows(y), mean.flatten(), scale.flatten())), epsilon
        )
        return y, mean, scale

    return ClosedForm(forward, _backward, one_by_one, needs_result=False)


def _backward(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    weight, bias, x, mean, scale, gradient = tensors
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    dweight, dbias = torch.zeros_like(weight), torch.zeros_like(bias)
    loop = backward_loop(x.shape[-1], DTYPES[x.dtype])
    given = rows(x), weight, mean.flatten(), scale.flatten(), rows(gradient)
    loop(*map(array, (*given, rows(dx), dweight, dbias)))
    return dweight, dbias, dx


def unit_length(x: Tensor, epsilon: float = 1e-6) -> Tensor:
    """Return x / sqrt(|x|^2 + epsilon) over the last axis of x (..., D)."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + epsilon)


def rows(x: Tensor) -> Tensor:
    """Return x (..., D) as (N, D)."""
    return x.flatten(0, -2)


@cache
def forward_loop(features: int, dtype: str) -> Loop:
    """Return the loop (x, gamma, beta, y to fill, mean to fill, scale to fill, epsilon)."""

    @compiled(features, dtype)
    def norm_forward(x, gamma, beta, y, mean, scale, epsilon):  # type: ignore[no-untyped-def]
        nothing = zero(load(x, 0, WIDE))
        for row in range(x.shape[0]):
            start, summed, squares = row * features, nothing, nothing
            for j in range(0, features, WIDE):
                summed = add(summed, load(x, start + j, WIDE))
            mean[row] = total(summed) / features
            middle = every(mean[row], nothing)
            for j in range(0, features, WIDE):
                distance = sub(load(x, start + j, WIDE), middle)
                squares = fma(distance, distance, squares)
            scale[row] = 1 / np.sqrt(total(squares) / features + epsilon)
            factor = every(scale[row], nothing)
            for j in range(0, features, WIDE):
                normal = mul(sub(load(x, start + j, WIDE), middle), factor)
                store(y, start + j, fma(normal, load(gamma, j, WIDE), load(beta, j, WIDE)))

    return norm_forward


@cache
def backward_loop(features: int, dtype: str) -> Loop:
    """Return the loop (x, gamma, mean, scale, g, dx to fill, zeros for dgamma and dbeta)."""

    @compiled(features, dtype)
    def norm_backward(x, gamma, mean, scale, g, dx, dgamma, dbeta):  # type: ignore[no-untyped-def]
        nothing = zero(load(x, 0, WIDE))
        for row in range(x.shape[0]):
            start, first, second = row * features, nothing, nothing
            middle, factor = every(mean[row], nothing), every(scale[row], nothing)
            for j in range(0, features, WIDE):
                upstream = load(g, start + j, WIDE)
                normal = mul(sub(load(x, start + j, WIDE), middle), factor)
                store(dgamma, j, fma(upstream, normal, load(dgamma, j, WIDE)))
                store(dbeta, j, add(load(dbeta, j, WIDE), upstream))
                slope = mul(upstream, load(gamma, j, WIDE))
                first, second = add(first, slope), fma(slope, normal, second)
            shift = every(total(first) / features, nothing)
            tilt = every(total(second) / features, nothing)
            for j in range(0, features, WIDE):
                normal = mul(sub(load(x, start + j, WIDE), middle), factor)
                slope = mul(load(g, start + j, WIDE), load(gamma, j, WIDE))
                store(dx, start + j, mul(factor, sub(sub(slope, shift), mul(normal, tilt))))

    return norm_backward
