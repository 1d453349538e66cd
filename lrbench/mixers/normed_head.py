"""The end of a stack: layer normalisation, then a linear map to a few classes.

    y = W (gamma n + beta) + b,   n = (x - mean(x)) / sqrt(variance(x) + epsilon)

With numba both are one pass over the positions (`lrbench.scan.compiled.layers.normed_head`), with
W gamma and b + W beta for weights. Kept for the backward: mean and scale of each position.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable

WIDE = 16  # the compiled loop takes so many features at a time
MOST_OUTPUTS = 16  # with more, BLAS is better at the product


def normed_head(norm: nn.Module, head: nn.Linear, x: Tensor) -> Tensor:
    """Return head(norm(x)), (..., C), for x (..., D).

    Where it is compiled the result lies in memory as (C, ...), which is what a softmax over few
    classes wants.
    """
    if isinstance(norm, nn.LayerNorm) and _compiles(norm, head, x):
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
        from lrbench.scan.compiled.layers.normed_head import forward_loop

        rows = x.flatten(0, -2)
        mean, scale = rows.new_empty(2, len(rows))
        y = rows.new_empty(len(weight), len(rows))
        loop = forward_loop(DTYPES[x.dtype])
        folded = weight * gamma, torch.addmv(bias, weight, beta)
        loop(*map(array, (rows, *folded, y, mean, scale)), epsilon)
        return y.T.unflatten(0, x.shape[:-1]), mean, scale

    return ClosedForm(forward, _backward, one_by_one, needs_result=False)


def _backward(
    gamma: Tensor,
    beta: Tensor,
    weight: Tensor,
    bias: Tensor,
    x: Tensor,
    mean: Tensor,
    scale: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, ...]:
    from lrbench.scan.compiled.layers.normed_head import backward_loop

    rows, upstream = x.flatten(0, -2), gradient.flatten(0, -2).T
    dx = rows.new_empty(rows.shape)
    dfolded, dbias = torch.zeros_like(weight), torch.zeros_like(bias)
    loop = backward_loop(DTYPES[x.dtype])
    tensors = rows, weight * gamma, mean, scale, upstream, dx, dfolded, dbias
    loop(*map(array, tensors))
    dweight = torch.addr(dfolded * gamma, dbias, beta)
    dgamma, dbeta = (dfolded * weight).sum(0), dbias @ weight
    return dgamma, dbeta, dweight, dbias, dx.view(x.shape)
