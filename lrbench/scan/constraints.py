"""Constraints on the columns of a block, with a closed-form backward.

Each constraint divides the columns v_j of a block by a number m_j made from their p-norms
n_j = (sum_r |v_rj|^p)^(1/p):

    column_clip         m_j = max(1, n_j)        Fan, Chi & Rudnicky 2024, Eq. 6
    column_unit         m_j = n_j                norm exactly one (SD-SSM, Terzic et al. 2025)
    max_column_centred  m_j = max_i n_i          the released code of Fan et al., after subtracting
                                                 each column's mean
    none                m_j = 1

With slopes w = sign(v) |v|^(p-1) the gradient of a norm is dn/dv = w n^(1-p). For y = v / m and an
upstream gradient g the gradient of v is therefore

    dv = g / m + w c,      c_j = pull_j s_j,      s_j = sum_r g_rj y_rj,

where `pull` is a function of the norms alone (for max_column_centred s is summed over columns).

torch's own vector_norm with p = 1.2 is not vectorised on CPU, and autograd through a hand-written
power keeps five copies of the largest tensor of the model. Blocks come with the batch as their last
axis, (..., b, b, B), so that sums over rows run along contiguous memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import inf

import torch
from torch import Tensor

from lrbench.scan.closed_form import ClosedForm, fold

CONSTRAINTS = ("column_clip", "column_unit", "max_column_centred", "none")

PIECE = 1 << 16  # numbers worked on at a time on CPU: 256 KiB in float32, inside a level-2 cache


def constrain(blocks: Tensor, constraint: str, p: float) -> Tensor:
    """Return `blocks` (..., b, b, B), [row, column, string], under a column constraint; p >= 1."""
    if constraint == "none":
        return blocks
    blocks = centred(blocks, constraint)
    forward = partial(_forward, constraint=constraint, p=p)
    backward = partial(_backward, constraint=constraint, p=p)
    flat = blocks.flatten(0, -4)
    return ClosedForm(forward, backward, fold)(flat).view(blocks.shape)


def centred(blocks: Tensor, constraint: str) -> Tensor:
    """Subtract the mean over rows from blocks (..., b, b, B) where the constraint says so.

    It is linear: applied to the weights that make a block, it need not be applied to the block.
    """
    if constraint == "max_column_centred":
        return blocks - blocks.mean(-3, keepdim=True)
    return blocks


def column_norms(blocks: Tensor, p: float, scratch: Tensor) -> Tensor:
    """Return the p-norms (..., b, B) of the columns of blocks (..., b, b, B), overwriting scratch."""
    size = torch.abs(blocks, out=scratch)
    if p == 1:
        return size.sum(-3)
    if p == 2:
        return size.square_().sum(-3).sqrt_()
    if p == inf:
        return size.amax(-3)
    # exp(p log|v|) is vectorised, pow is not; log 0 = -inf gives back 0
    return size.log_().mul_(p).exp_().sum(-3).log_().mul_(1 / p).exp_()


def slopes(blocks: Tensor, p: float, out: Tensor) -> Tensor:
    """Write w = sign(v) |v|^(p-1) into `out`; for p = inf a share of sign(v) at the largest."""
    if p == 1:
        return torch.sign(blocks, out=out)
    if p == 2:
        return out.copy_(blocks)
    size = torch.abs(blocks, out=out)
    if p == inf:
        at_largest = (size == size.amax(-3, keepdim=True)).to(size.dtype)
        return out.copy_(at_largest.div_(at_largest.sum(-3, keepdim=True)).mul_(blocks.sign()))
    return size.log_().mul_(p - 1).exp_().copysign_(blocks)


def inverse_divisors(n: Tensor, constraint: str) -> Tensor:
    """Return 1 / m (..., b or 1, B), always finite, from the norms n (..., b, B)."""
    if constraint == "none":
        return torch.ones_like(n)
    if constraint == "column_clip":
        return n.clamp(min=1).reciprocal_()
    if constraint == "max_column_centred":
        n = n.amax(-2, keepdim=True)
    return n.clamp(min=torch.finfo(n.dtype).tiny).reciprocal_()


def pull(n: Tensor, inverse: Tensor, constraint: str, p: float) -> Tensor:
    """Return what multiplies s in c (..., b, B), from the norms n and 1 / m; always finite."""
    if constraint == "none":
        return torch.zeros_like(n)
    if constraint == "column_clip":
        share = (n > 1).to(n.dtype).mul_(inverse).neg_()
    elif constraint == "max_column_centred":
        largest = (n == n.amax(-2, keepdim=True)).to(n.dtype)
        share = largest.div_(largest.sum(-2, keepdim=True)).mul_(inverse).neg_()
    else:
        share = inverse.neg()
    if p == inf:
        return share
    # below this a norm's p-th power is not a normal number, and n^(1-p) could overflow
    smallest = torch.finfo(n.dtype).tiny ** (1 / p)
    return share.mul_(n.clamp(min=smallest).log_().mul_(1 - p).exp_())


def coefficient(pulled: Tensor, s: Tensor, constraint: str) -> Tensor:
    """Return c (..., b, B) from `pull` and s (..., b, B)."""
    return pulled * (s.sum(-2, keepdim=True) if constraint == "max_column_centred" else s)


def _forward(blocks: Tensor, *, constraint: str, p: float) -> tuple[Tensor, Tensor]:
    """Map (n, b, b, B) to (blocks / m, norms)."""
    scaled, n = torch.empty_like(blocks), blocks.new_empty(len(blocks), *blocks.shape[2:])
    for v, out, lengths in _pieces(blocks, scaled, n):
        lengths.copy_(column_norms(v, p, out))
        torch.mul(v, inverse_divisors(lengths, constraint).unsqueeze(-3), out=out)
    return scaled, n


def _backward(
    blocks: Tensor, scaled: Tensor, n: Tensor, gradient: Tensor, *, constraint: str, p: float
) -> tuple[Tensor]:
    result = torch.empty_like(scaled)
    for v, y, lengths, g, out in _pieces(blocks, scaled, n, gradient, result):
        inverse = inverse_divisors(lengths, constraint)
        c = coefficient(pull(lengths, inverse, constraint, p), (g * y).sum(-3), constraint)
        slopes(v, p, out).mul_(c.unsqueeze(-3))
        out.addcmul_(g, inverse.unsqueeze(-3))
    return (result,)


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Walk tensors with a common leading axis together, in pieces that fit the cache on CPU."""
    first = tensors[0]
    rows = max(1, PIECE // max(1, first[0].numel())) if first.device.type == "cpu" else len(first)
    return zip(*(tensor.split(rows) for tensor in tensors), strict=True)
