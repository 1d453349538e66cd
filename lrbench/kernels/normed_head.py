"""The end of a stack: layer normalisation, then a linear map to a few classes.

    y = W (gamma n + beta) + b,   n = (x - mean) scale,   scale = 1 / sqrt(variance + epsilon)

With numba both are one pass over the positions, row by row in registers, with w = W gamma and
b + W beta for weights. Kept for the backward: mean and scale of each position. For an upstream
gradient g, over D features,

    d = w^T g,   dx = scale (d - sum(d) / D - n sum(d n) / D),   dw = g n^T,   db = g.

Shapes in loops: x and dx (N, D), D a multiple of WIDE; w and dw (C, D); b and db (C); y and g
(C, N); mean and scale (N).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor, nn

from lrbench.kernels.choice import DTYPES, heard, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import add, every, fma, load, mul, store, sub, total, zero

WIDE = 16  # the compiled loop takes so many features at a time
MOST_OUTPUTS = 16  # with more, BLAS is better at the product


def normed_head(norm: nn.Module, head: nn.Linear, x: Tensor) -> Tensor:
    """Return head(norm(x)), (..., C), for x (..., D).

    Where it is compiled the result lies in memory as (C, ...), which is what a softmax over few
    classes wants.
    """
    if isinstance(norm, nn.LayerNorm) and not heard(norm, head) and _compiles(norm, head, x):
        return compiled_head(norm.eps)(norm.weight, norm.bias, head.weight, head.bias, x)
    result: Tensor = head(norm(x))
    return result


def _compiles(norm: nn.LayerNorm, head: nn.Linear, x: Tensor) -> bool:
    plain = norm.bias is not None and norm.normalized_shape == x.shape[-1:]
    small = head.out_features <= MOST_OUTPUTS and x.shape[-1] % WIDE == 0 and x.numel() > 0
    same = norm.weight.dtype == head.weight.dtype == x.dtype and head.bias is not None
    return plain and small and same and usable(x, "normed_head")


@cache
def compiled_head(epsilon: float) -> ClosedForm:
    """Return the function (gamma, beta, W, b, x) -> y that adds `epsilon` to the variance."""

    def forward(
        gamma: Tensor, beta: Tensor, weight: Tensor, bias: Tensor, x: Tensor
    ) -> tuple[Tensor, ...]:
        rows = x.flatten(0, -2)
        mean, scale = rows.new_empty(2, len(rows))
        y = rows.new_empty(len(weight), len(rows))
        loop = forward_loop(DTYPES[x.dtype])
        folded = weight * gamma, torch.addmv(bias, weight, beta)
        loop(*map(array, (rows, *folded, y, mean, scale)), epsilon)
        return y.T.unflatten(0, x.shape[:-1]), mean, scale

    return ClosedForm(forward, _backward, one_by_one, needs_result=False)


def _backward(*tensors: Tensor) -> tuple[Tensor, ...]:
    gamma, beta, weight, bias, x, mean, scale, gradient = tensors
    rows, upstream = x.flatten(0, -2), gradient.flatten(0, -2).T
    dx = rows.new_empty(rows.shape)
    dfolded, dbias = weight.new_zeros(weight.shape), torch.zeros_like(bias)
    loop = backward_loop(DTYPES[x.dtype])
    loop(*map(array, (rows, weight * gamma, mean, scale, upstream, dx, dfolded, dbias)))
    dweight = torch.addr(dfolded * gamma, dbias, beta)
    dgamma, dbeta = (dfolded * weight).sum(0), dbias @ weight
    return dgamma, dbeta, dweight, dbias, dx.view(x.shape)


@cache
def forward_loop(dtype: str) -> Loop:
    """Return the loop (x, w, b; y, mean and scale to fill; epsilon)."""

    @compiled(dtype)
    def normed_head_forward(x, w, b, y, mean, scale, epsilon):  # type: ignore[no-untyped-def]
        (outputs, features), nothing = w.shape, zero(load(x, 0, WIDE))
        distances = np.empty(features, x.dtype)
        for row in range(x.shape[0]):
            start, summed, squares = row * features, nothing, nothing
            for j in range(0, features, WIDE):
                summed = add(summed, load(x, start + j, WIDE))
            mean[row] = total(summed) / features
            middle = every(mean[row], nothing)
            for j in range(0, features, WIDE):
                distance = sub(load(x, start + j, WIDE), middle)
                store(distances, j, distance)
                squares = fma(distance, distance, squares)
            scale[row] = 1 / np.sqrt(total(squares) / features + epsilon)
            for c in range(outputs):
                products = nothing
                for j in range(0, features, WIDE):
                    one = load(w, c * features + j, WIDE)
                    products = fma(one, load(distances, j, WIDE), products)
                y[c, row] = total(products) * scale[row] + b[c]

    return normed_head_forward


@cache
def backward_loop(dtype: str) -> Loop:
    """Return the loop (x, w, mean, scale, g; dx to fill, zeros for dw and db)."""

    @compiled(dtype)
    def normed_head_backward(x, w, mean, scale, g, dx, dw, db):  # type: ignore[no-untyped-def]
        (outputs, features), nothing = w.shape, zero(load(x, 0, WIDE))
        normals, slopes = np.empty(features, x.dtype), np.empty(features, x.dtype)
        for row in range(x.shape[0]):
            start, first, second = row * features, nothing, nothing
            middle, factor = every(mean[row], nothing), every(scale[row], nothing)
            for c in range(outputs):
                db[c] += g[c, row]
            for j in range(0, features, WIDE):
                normal = mul(sub(load(x, start + j, WIDE), middle), factor)
                slope = nothing
                for c in range(outputs):
                    upstream, at = every(g[c, row], nothing), c * features + j
                    slope = fma(upstream, load(w, at, WIDE), slope)
                    store(dw, at, fma(upstream, normal, load(dw, at, WIDE)))
                store(normals, j, normal)
                store(slopes, j, slope)
                first, second = add(first, slope), fma(slope, normal, second)
            shift = every(total(first) / features, nothing)
            tilt = every(total(second) / features, nothing)
            for j in range(0, features, WIDE):
                slope = sub(load(slopes, j, WIDE), shift)
                left = sub(slope, mul(load(normals, j, WIDE), tilt))
                store(dx, start + j, mul(factor, left))

    return normed_head_backward
