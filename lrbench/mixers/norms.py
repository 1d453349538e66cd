"""Constraints on the columns of a block, with a closed-form backward.

Each constraint divides the columns v_j of a block by a number m_j made from their p-norms
n_j = (sum_r |v_rj|^p)^(1/p):

    column_clip         m_j = max(1, n_j)        Fan, Chi & Rudnicky 2024, Eq. 6
    column_unit         m_j = n_j                norm exactly one (SD-SSM, Terzic et al. 2025)
    max_column_centred  m_j = max_i n_i          the released code of Fan et al., after subtracting
                                                 each column's mean
    none                m_j = 1

torch's own vector_norm with p = 1.2 is not vectorised on CPU, and autograd through a hand-written
power keeps five copies of the largest tensor of the model; this keeps one, and works through it in
pieces that stay in the cache. Blocks come with the batch as their last axis, (..., b, b, B), so
that sums over rows run along contiguous memory.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

CONSTRAINTS = ("column_clip", "column_unit", "max_column_centred", "none")

PIECE = 1 << 16  # numbers worked on at a time on CPU: 256 KiB in float32, inside a level-2 cache


def constrain(blocks: Tensor, constraint: str, p: float) -> Tensor:
    """Return `blocks` (..., b, b, B), [row, column, string], under a column constraint; p >= 1."""
    if constraint == "none":
        return blocks
    if constraint == "max_column_centred":
        blocks = blocks - blocks.mean(-3, keepdim=True)
    scaled: Tensor = ScaleColumns.apply(blocks, p, constraint)[0]
    return scaled


def column_norms(blocks: Tensor, p: float) -> Tensor:
    """Return the p-norms (..., 1, b, B) of the columns of blocks (..., b, b, B)."""
    size = blocks.abs()
    if p == 1:
        return size.sum(-3, keepdim=True)
    if p == 2:
        return size.square_().sum(-3, keepdim=True).sqrt_()
    if p == float("inf"):
        return size.amax(-3, keepdim=True)
    # exp(p log|v|) is vectorised, pow is not; log 0 = -inf gives back 0
    return size.log_().mul_(p).exp_().sum(-3, keepdim=True).pow_(1 / p)


def norm_weights(blocks: Tensor, p: float) -> Tensor:
    """Return w = sign(v) |v|^(p-1), for which dn/dv = w n^(1-p)."""
    if p == 1:
        return blocks.sign()
    if p == 2:
        return blocks.clone()
    size = blocks.abs()
    if p == float("inf"):
        at = torch.zeros_like(blocks).scatter_(-3, size.argmax(-3, keepdim=True), 1.0)
        return at.mul_(blocks.sign())
    return size.log_().mul_(p - 1).exp_().copysign_(blocks)


def divisors(norms: Tensor, constraint: str) -> Tensor:
    """Return m (..., 1, b or 1, B), never zero, from the column norms n (..., 1, b, B)."""
    if constraint == "column_clip":
        return norms.clamp(min=1)
    if constraint == "max_column_centred":
        norms = norms.amax(-2, keepdim=True)
    return norms.clamp(min=torch.finfo(norms.dtype).tiny)


def norm_gradients(norms: Tensor, slope: Tensor, constraint: str) -> Tensor:
    """Return d(loss)/dn (..., 1, b, B) from slope = m d(loss)/dm of each column, still over m."""
    if constraint == "column_clip":
        return slope.mul_(norms > 1)
    if constraint == "column_unit":
        return slope
    largest = torch.zeros_like(norms).scatter_(-2, norms.argmax(-2, keepdim=True), 1.0)
    return largest.mul_(slope.sum(-2, keepdim=True))


class ScaleColumns(Function):
    """blocks (..., b, b, B) -> (blocks / m, n). Where a column is zero its norm has no gradient."""

    @staticmethod
    def forward(blocks: Tensor, p: float, constraint: str) -> tuple[Tensor, Tensor]:
        flat = blocks.contiguous().flatten(0, -4)
        scaled = torch.empty_like(flat)
        norms = flat.new_empty(len(flat), 1, *flat.shape[2:])
        for v, y, n in _pieces(flat, scaled, norms):
            n.copy_(column_norms(v, p))
            torch.div(v, divisors(n, constraint), out=y)
        return scaled.view(blocks.shape), norms

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, ctx.p, ctx.constraint = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        scaled, norms = ctx.saved_tensors
        flat = scaled.flatten(0, -4)
        gradient = torch.empty_like(flat)
        upstream = grads[0].contiguous().view(flat.shape)
        # dn/dv = w(v) n^(1-p) and w(v) = w(y) m^(p-1), so only y = v / m has to be kept
        power = 0.0 if ctx.p == float("inf") else ctx.p - 1
        for y, n, g, out in _pieces(flat, norms, upstream, gradient):
            m = divisors(n, ctx.constraint)
            slope = (g * y).sum(-3, keepdim=True).neg_().div_(m)
            through = norm_gradients(n, slope, ctx.constraint)
            safe = n.clamp(min=torch.finfo(n.dtype).tiny)
            through = torch.where(n > 0, through * (m / safe) ** power, 0)
            torch.div(g, m, out=out).addcmul_(norm_weights(y, ctx.p), through)
        return gradient.view(scaled.shape), None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> Any:
        blocks, p, constraint = inputs
        return ScaleColumns.apply(blocks.movedim(in_dims[0], 0), p, constraint), (0, None)


def _pieces(*tensors: Tensor) -> Any:
    """Walk tensors with a common leading axis together, in pieces that fit the cache on CPU."""
    first = tensors[0]
    rows = max(1, PIECE // max(1, first[0].numel())) if first.device.type == "cpu" else len(first)
    return zip(*(tensor.split(rows) for tensor in tensors), strict=True)
