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

    dv = g / m - w c,      c_j = [m_j depends on n_j] m_j^(-p) s_j,      s_j = sum_r g_rj y_rj

(for max_column_centred s is summed over columns; for p = inf the power is -1).

torch's own vector_norm with p = 1.2 is not vectorised on CPU, and autograd through a hand-written
power keeps five copies of the largest tensor of the model. Blocks come with the batch as their last
axis, (..., b, b, B), so that sums over rows run along contiguous memory.

For a table's few blocks, (N, b, b), [row, column], as a product with weights gives them, there are
compiled loops, with the columns of a block side by side in lanes. `max_column_centred` is given
blocks that are yet to be centred. P (N, b) is that of `column.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from math import inf

import torch
from torch import Tensor

from lrbench.checks import at_least, shown
from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, fold, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import (
    add,
    every,
    fma,
    greater,
    load,
    mul,
    reciprocal,
    spread,
    store,
    sub,
    where_at_least,
    zero,
)
from lrbench.kernels.perceptron import PIECE
from lrbench.scan.blocks.column import MAX, RULES, inverse_of, power_of, pull_of, slope_of

CONSTRAINTS = ("column_clip", "column_unit", "max_column_centred", "none")

LARGEST_COMPILED = 32  # block size: a block's loops are unrolled, which takes LLVM long beyond
LARGEST_P = 16.0  # float32 holds this power of entries from 0.005 to 250


def check_p(p: object) -> None:
    """Refuse a setting model.mixer.p that is no norm, or no norm in float32; None: not set."""
    at_least("model.mixer.p", p, 1.0)
    if isinstance(p, int | float) and p > LARGEST_P:  # columns would be 0, or above their norm
        raise ValueError(f"model.mixer.p must be at most {LARGEST_P:g} (float32), not {shown(p)}")


def constrain(blocks: Tensor, constraint: str, p: float) -> Tensor:
    """Return `blocks` (..., b, b, B), [row, column, string], under a column constraint; p >= 1."""
    if constraint == "none":
        return blocks
    blocks = centred(blocks, constraint)
    forward = partial(_forward, constraint=constraint, p=p)
    backward = partial(_backward, constraint=constraint, p=p)
    flat = blocks.reshape(-1, *blocks.shape[-3:])
    return ClosedForm(forward, backward, fold)(flat).view(blocks.shape)


def constrain_few(blocks: Tensor, constraint: str, p: float) -> Tensor:
    """Return `blocks` (N, b, b), [row, column], under a column constraint: a table's."""
    size = blocks.shape[-1]
    fits = size <= LARGEST_COMPILED and p < inf and constraint != "none"
    if fits and usable(blocks, "constrained_blocks", size, constraint):
        return compiled_few(constraint, p)(blocks)
    return constrain(blocks.permute(1, 2, 0), constraint, p).permute(2, 0, 1)


def centred(blocks: Tensor, constraint: str) -> Tensor:
    """Subtract the mean over rows from blocks (..., b, b, B) where the constraint says so.

    It is linear: applied to the weights that make a block, it need not be applied to the block.
    """
    if constraint == "max_column_centred":
        return blocks - blocks.mean(-3, keepdim=True)
    return blocks


def column_norms(blocks: Tensor, p: float, scratch: Tensor) -> Tensor:
    """Return the p-norms (..., b, B) of the columns of blocks (..., b, b, B); scratch is lost."""
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


def smallest_norm(dtype: torch.dtype, p: float) -> float:
    """Return the norm below which a column counts as zero: its p-th power is no normal number."""
    return float(torch.finfo(dtype).tiny ** (1 if p == inf else 1 / p))


def inverse_divisors(n: Tensor, constraint: str, p: float) -> Tensor:
    """Return 1 / m (..., b or 1, B) from the norms n (..., b, B); zero where m is zero."""
    if constraint == "none":
        return torch.ones_like(n)
    if constraint == "column_clip":
        return n.clamp(min=1).reciprocal_()
    if constraint == "max_column_centred":
        n = n.amax(-2, keepdim=True)
    smallest = smallest_norm(n.dtype, p)
    return n.clamp(min=smallest).reciprocal_().mul_(_as_numbers(torch.ge, n, smallest))


def pull_factor(n: Tensor, inverse: Tensor, constraint: str, p: float) -> Tensor | None:
    """Return what s is multiplied by in c, (..., b, B), from n and 1 / m; None where m is constant.

    What pulls on a column is m^(-p) s, for m is its own norm wherever it has a gradient at all.
    Columns of equal, largest norm share the pull of `max_column_centred`.
    """
    if constraint == "none":
        return None
    power = inverse if p in (1, inf) else inverse.log().mul_(p).exp_()
    if constraint == "column_unit":
        return power
    if constraint == "column_clip":
        return _as_numbers(torch.gt, n, 1.0).mul_(power)
    largest = _as_numbers(torch.ge, n, n.amax(-2, keepdim=True))
    return largest.mul_(power / largest.sum(-2, keepdim=True))


def pull(factor: Tensor, s: Tensor, constraint: str) -> Tensor:
    """Return c (..., b, B) from `pull_factor` and s; s is lost."""
    if constraint == "max_column_centred":
        return factor * s.sum(-2, keepdim=True)
    return s.mul_(factor)


def _as_numbers(compare: Callable[..., Tensor], n: Tensor, bound: Tensor | float) -> Tensor:
    """Return a comparison as 0.0 and 1.0: seven times faster on CPU than a cast of booleans."""
    return compare(n, bound, out=torch.empty_like(n))


def _forward(blocks: Tensor, *, constraint: str, p: float) -> tuple[Tensor, Tensor]:
    """Map (n, b, b, B) to (blocks / m, norms)."""
    scaled, n = torch.empty_like(blocks), blocks.new_empty(len(blocks), *blocks.shape[2:])
    for v, out, lengths in _pieces(blocks, scaled, n):
        lengths.copy_(column_norms(v, p, out))
        torch.mul(v, inverse_divisors(lengths, constraint, p).unsqueeze(-3), out=out)
    return scaled, n


def _backward(
    blocks: Tensor, scaled: Tensor, n: Tensor, gradient: Tensor, *, constraint: str, p: float
) -> tuple[Tensor]:
    result = torch.empty_like(scaled)
    for v, y, lengths, g, out in _pieces(blocks, scaled, n, gradient, result):
        inverse = inverse_divisors(lengths, constraint, p)
        torch.mul(g, inverse.unsqueeze(-3), out=out)
        factor = pull_factor(lengths, inverse, constraint, p)
        if factor is not None:
            c = pull(factor, (g * y).sum(-3), constraint)
            out.addcmul_(slopes(v, p, torch.empty_like(v)), c.unsqueeze(-3), value=-1)
    return (result,)


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Walk tensors with a common leading axis together, in pieces that fit the cache on CPU."""
    first = tensors[0]
    rows = max(1, PIECE // max(1, first[0].numel())) if first.device.type == "cpu" else len(first)
    return zip(*(tensor.split(rows) for tensor in tensors), strict=True)


@cache
def compiled_few(constraint: str, p: float) -> ClosedForm:
    """Return the function of blocks (N, b, b) to blocks under a constraint."""

    def forward(blocks: Tensor) -> tuple[Tensor, ...]:
        v = blocks.clone(memory_format=torch.contiguous_format)
        kept = v, torch.empty_like(v), v.new_empty(v.shape[:2]), v.new_empty(v.shape[:2])
        loop = forward_loop(v.shape[-1], constraint, DTYPES[v.dtype])
        loop(*map(array, kept), p, torch.finfo(v.dtype).tiny)
        v, y, powers, inverse = kept
        return y, v, powers, inverse

    def backward(_: Tensor, y: Tensor, v: Tensor, *saved: Tensor) -> tuple[Tensor]:
        dv = torch.empty_like(v)
        loop = backward_loop(v.shape[-1], constraint, DTYPES[v.dtype])
        loop(*map(array, (v, y, *saved, dv)), p, torch.finfo(v.dtype).tiny)
        return (dv,)

    return ClosedForm(forward, backward, one_by_one)


@cache
def forward_loop(b: int, constraint: str, dtype: str) -> Loop:
    """Return the loop (v to centre, y, P, 1 / m to fill, p, tiny) with y = v / m."""
    rule = RULES[constraint]

    @compiled(b, constraint, dtype)
    def blocks_forward(v, y, powers, scales, p, tiny):  # type: ignore[no-untyped-def]
        nothing = zero(load(powers, 0, b))
        exponent, root, share = every(p, nothing), every(-1 / p, nothing), every(1 / b, nothing)
        for block in range(powers.shape[0]):
            start = block * b * b
            if rule == MAX:
                mean = nothing
                for r in range(b):
                    mean = fma(load(v, start + r * b, b), share, mean)
                for r in range(b):
                    store(v, start + r * b, sub(load(v, start + r * b, b), mean))
            own = nothing
            for r in range(b):
                own = add(own, power_of(load(v, start + r * b, b), exponent))
            decisive = own
            if rule == MAX:
                for c in range(b):
                    decisive = greater(decisive, spread(own, c))
            scale = inverse_of(decisive, rule, root, every(tiny, nothing))
            store(powers, block * b, own)
            store(scales, block * b, scale)
            for r in range(b):
                store(y, start + r * b, mul(load(v, start + r * b, b), scale))

    return blocks_forward


@cache
def backward_loop(b: int, constraint: str, dtype: str) -> Loop:
    """Return the loop (v, y, P, 1 / m, gradient of y, gradient of v to fill, p, tiny)."""
    rule = RULES[constraint]

    @compiled(b, constraint, dtype)
    def blocks_backward(v, y, powers, scales, gradient, dv, p, tiny):  # type: ignore[no-untyped-def]
        nothing = zero(load(powers, 0, b))
        one, less, share = every(1.0, nothing), every(p - 1, nothing), every(1 / b, nothing)
        for block in range(powers.shape[0]):
            start = block * b * b
            own, scale, s = load(powers, block * b, b), load(scales, block * b, b), nothing
            for r in range(b):
                s = fma(load(gradient, start + r * b, b), load(y, start + r * b, b), s)
            if rule == MAX:
                highest, of_all, sharing = own, nothing, nothing
                for c in range(b):
                    highest = greater(highest, spread(own, c))
                    of_all = add(of_all, spread(s, c))
                is_largest = where_at_least(own, highest, one)
                for c in range(b):
                    sharing = add(sharing, spread(is_largest, c))
                s = mul(mul(is_largest, of_all), reciprocal(sharing))
            bend, mean = pull_of(own, s, rule, every(tiny, nothing)), nothing
            for r in range(b):
                at = start + r * b
                bent = mul(slope_of(load(v, at, b), less), bend)
                d = sub(mul(load(gradient, at, b), scale), bent)
                mean = fma(d, share, mean)
                store(dv, at, d)
            if rule == MAX:
                for r in range(b):
                    store(dv, start + r * b, sub(load(dv, start + r * b, b), mean))

    return blocks_backward
