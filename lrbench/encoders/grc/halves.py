"""The elementwise halves of a gated recursive cell: what stands between its products.

    h = W_1 (l, r) + b_1,   u = gelu(h) k,   o = W_2 u + b_2,   (a, b, g, c) = o
    s = sigmoid(a) l + sigmoid(b) r + sigmoid(g) c,   n = (s - mean) scale,   y = n gamma + beta

k is 0 where a hidden number is dropped, and its scale elsewhere. With ds the gradient of s, as
layer normalisation gives it (`normalisation.py`), and G for sigmoid(g),

    dc = ds G,   dg = ds c G (1 - G),   da = ds l A (1 - A),   dh = du k gelu'(h),

likewise for b, and dl = ds A, dr = ds B besides what comes through h.

Shapes: h, u and o (N, 4 d), o holding first products and then (A, B, G, c); l and r (.., d) are
rows of arrays in which one begins every `step` numbers, from `first` on; mean and scale (N,); d a
multiple of `wide`, the count of numbers handled together. Rows are 0 .. `rows` of all arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import gelu

from lrbench.encoders.base import Dropout
from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.compiler import Loop, array, compiled, instruction
from lrbench.kernels.elementary import DENSITY_AT_ZERO, bell, distribution, sigmoid
from lrbench.kernels.lanes import add, every, fma, load, mul, store, sub, total, zero

WIDTHS = (16, 8)  # how many features the compiled loops may take at a time
ROOT_HALF = 0.5**0.5
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class TorchLoops:
    """Plain torch: what runs on a GPU, in half precision and without numba."""

    drop: Dropout | None
    epsilon: float

    def activate(self, h: Tensor, b1: Tensor, u: Tensor, bits: Tensor | None) -> None:
        """Add b_1 to h and fill u with gelu(h), some of it dropped."""
        u.copy_(gelu(h.add_(b1)))
        if bits is not None and self.drop is not None:
            u *= self.drop.kept(bits, u)

    def slope(self, h: Tensor, u: Tensor, slope: Tensor, bits: Tensor | None) -> None:
        """Fill u again, and du/dh, from h with its b_1."""
        share = torch.erf(h * ROOT_HALF).add_(1).mul_(0.5)
        torch.addcmul(share, h * DENSITY_AT_ZERO, torch.exp(-0.5 * h * h), out=slope)
        torch.mul(h, share, out=u)
        if bits is not None and self.drop is not None:
            kept = self.drop.kept(bits, u)
            u *= kept
            slope *= kept

    def combine(
        self, o: Tensor, b2: Tensor, pair: Pair, affine: Pair, y: Tensor, norm: Tensor
    ) -> None:
        """Turn o, without b_2, into (A, B, G, c); fill y and norm: mean and scale."""
        width = y.shape[1]
        o += b2
        o[:, : 3 * width].sigmoid_()
        s = _sum(o, *pair)
        variance, mean = torch.var_mean(s, 1, correction=0)
        norm[:, 0] = mean
        norm[:, 1] = (variance + self.epsilon).rsqrt()
        torch.addcmul(affine[1], _normal(s, norm), affine[0], out=y)

    def combine_backward(
        self, o: Tensor, pair: Pair, gamma: Tensor, norm: Tensor, g: Tensor, *gradients: Tensor
    ) -> None:
        """Fill do and dpair (M, 2 d); add to sums (6 d): gradients of b_2, gamma and beta."""
        do, dpair, sums = gradients
        width = g.shape[1]
        normal, d = _normal(_sum(o, *pair), norm), g * gamma
        tilt = (d * normal).mean(1, keepdim=True)
        ds = (d - d.mean(1, keepdim=True) - normal * tilt) * norm[:, 1:]
        a, b, gate, c = o.chunk(4, 1)
        sides = torch.stack([ds * a, ds * b, ds * gate], 1)
        partners = torch.stack([*pair, c], 1)
        gates = o[:, : 3 * width].unflatten(1, (3, width))
        torch.mul(sides * partners, 1 - gates, out=do[:, : 3 * width].unflatten(1, (3, width)))
        do[:, 3 * width :] = sides[:, 2]
        dpair.copy_(sides[:, :2].flatten(1))
        sums += torch.cat([do.sum(0), (g * normal).sum(0), g.sum(0)])


@dataclass(frozen=True)
class CompiledLoops:
    """The same by numba: one pass over memory each, `wide` features at a time."""

    drop: Dropout | None
    epsilon: float
    wide: int

    def activate(self, h: Tensor, b1: Tensor, u: Tensor, bits: Tensor | None) -> None:
        loop = activate_loop(self.wide, bits is not None, DTYPES[h.dtype])
        loop(len(h), array(h), array(b1), array(u), *self._drawn(bits))

    def slope(self, h: Tensor, u: Tensor, slope: Tensor, bits: Tensor | None) -> None:
        loop = slope_loop(self.wide, bits is not None, DTYPES[h.dtype])
        loop(len(h), array(h), array(u), array(slope), *self._drawn(bits))

    def combine(self, o: Tensor, b2: Tensor, pair: Pair, affine: Pair, *filled: Tensor) -> None:
        sides = _placed(pair[0]) + _placed(pair[1])
        operands = (*map(array, (*affine, *filled)), self.epsilon)
        combine_loop(self.wide, DTYPES[o.dtype])(len(o), array(o), array(b2), *sides, *operands)

    def combine_backward(self, o: Tensor, pair: Pair, *rest: Tensor) -> None:
        sides = _placed(pair[0]) + _placed(pair[1])
        loop = combine_backward_loop(self.wide, DTYPES[o.dtype])
        loop(len(o), array(o), *sides, *map(array, rest))

    def _drawn(self, bits: Tensor | None) -> tuple[Any, int, float]:
        if bits is None or self.drop is None:
            return array(torch.empty(0, dtype=torch.int16)), 0, 1.0
        return array(bits), self.drop.threshold, self.drop.scale


Loops = TorchLoops | CompiledLoops


def loops_for(like: Tensor, width: int, drop: Dropout | None, epsilon: float) -> Loops:
    """Return the compiled loops where they can be used on numbers such as `like`, or torch's."""
    wide = next((wide for wide in WIDTHS if width % wide == 0), None)
    if wide is not None and usable(like, "grc_cell", wide, int(drop is not None)):
        return CompiledLoops(drop, epsilon, wide)
    return TorchLoops(drop, epsilon)


def _sum(gates: Tensor, left: Tensor, right: Tensor) -> Tensor:
    a, b, g, c = gates.chunk(4, 1)
    return torch.addcmul(a * left, b, right).addcmul_(g, c)


def _normal(s: Tensor, norm: Tensor) -> Tensor:
    return (s - norm[:, :1]) * norm[:, 1:]


def _placed(side: Tensor) -> tuple[Any, tuple[int, int]]:
    """Return the numbers of one side of pairs and where a row of it begins: (first, step)."""
    step = side.stride(0)
    if side.stride(1) != 1:
        side, step = side.contiguous(), side.shape[1]
    rows = len(side)
    length = (rows - 1) * step + side.shape[1] if rows else 0
    flat = side.detach().as_strided((length,), (1,), side.storage_offset())
    return flat.numpy(), (0, step)


@instruction
def only_kept(_: Any, lanes: Any, bits: Any, offset: Any, threshold: Any) -> Any:
    """Return lanes with zeros where the int16 of `bits` from `offset` on are below `threshold`."""
    from llvmlite import ir

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values, array, at, least = arguments
        short = ir.VectorType(ir.IntType(16), lanes.count)
        first = context.make_array(bits)(context, builder, array).data
        address = builder.bitcast(builder.gep(first, [at]), short.as_pointer())
        drawn = builder.load(address, align=2)
        least = builder.trunc(least, ir.IntType(16))
        one = builder.insert_element(
            ir.Constant(short, ir.Undefined), least, ir.Constant(ir.IntType(32), 0)
        )
        mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes.count), None)
        limits = builder.shuffle_vector(one, one, mask)
        nothing = ir.Constant(lanes.vector(), None)
        return builder.select(builder.icmp_signed(">=", drawn, limits), values, nothing)

    return lanes(lanes, bits, offset, threshold), code


@cache
def activate_loop(wide: int, drops: bool, dtype: str) -> Loop:
    """Return the loop (rows, h to add b_1 to, b_1, u to fill, bits, threshold, scale)."""

    @compiled(wide, int(drops), dtype)
    def grc_activate(rows, h, b1, u, bits, threshold, scale):  # type: ignore[no-untyped-def]
        features = b1.shape[0]
        factor = every(scale, load(b1, 0, wide))
        for row in range(rows):
            for j in range(0, features, wide):
                at = row * features + j
                one = add(load(h, at, wide), load(b1, j, wide))
                store(h, at, one)
                value = mul(one, distribution(one, bell(one)))
                if drops:
                    value = only_kept(mul(value, factor), bits, at, threshold)
                store(u, at, value)

    return grc_activate


@cache
def slope_loop(wide: int, drops: bool, dtype: str) -> Loop:
    """Return the loop (rows, h, arrays to fill: u and du/dh, bits, threshold, scale)."""

    @compiled(wide, int(drops), dtype)
    def grc_slope(rows, h, u, slope, bits, threshold, scale):  # type: ignore[no-untyped-def]
        features = h.shape[1]
        factor = every(scale, load(h, 0, wide))
        density = every(DENSITY_AT_ZERO, load(h, 0, wide))
        for at in range(0, rows * features, wide):
            one = load(h, at, wide)
            falls = bell(one)
            share = distribution(one, falls)
            value, rise = mul(one, share), fma(one, mul(falls, density), share)
            if drops:
                value = only_kept(mul(value, factor), bits, at, threshold)
                rise = only_kept(mul(rise, factor), bits, at, threshold)
            store(u, at, value)
            store(slope, at, rise)

    return grc_slope


@cache
def combine_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (rows, o, b_2, l, its place, r, its place, gamma, beta, y, norm, epsilon).

    A place is (first, step). o, products without b_2, becomes (A, B, G, c); filled are y and norm
    (N, 2): mean and scale.
    """

    @compiled(wide, dtype)
    def grc_combine(  # type: ignore[no-untyped-def]
        rows, o, b2, left, at_left, right, at_right, gamma, beta, y, norm, epsilon
    ):
        width = gamma.shape[0]
        nothing = zero(load(gamma, 0, wide))
        for row in range(rows):
            first, out = row * 4 * width, row * width
            l_row, r_row = at_left[0] + row * at_left[1], at_right[0] + row * at_right[1]
            summed, squares = nothing, nothing
            for j in range(0, width, wide):
                at = first + j
                a = sigmoid(add(load(o, at, wide), load(b2, j, wide)))
                b = sigmoid(add(load(o, at + width, wide), load(b2, j + width, wide)))
                g = sigmoid(add(load(o, at + 2 * width, wide), load(b2, j + 2 * width, wide)))
                c = add(load(o, at + 3 * width, wide), load(b2, j + 3 * width, wide))
                store(o, at, a)
                store(o, at + width, b)
                store(o, at + 2 * width, g)
                store(o, at + 3 * width, c)
                s = fma(a, load(left, l_row + j, wide), mul(g, c))
                s = fma(b, load(right, r_row + j, wide), s)
                store(y, out + j, s)
                summed = add(summed, s)
            mean = total(summed) / width
            middle = every(mean, nothing)
            for j in range(0, width, wide):
                distance = sub(load(y, out + j, wide), middle)
                squares = fma(distance, distance, squares)
            scale = 1 / np.sqrt(total(squares) / width + epsilon)
            norm[row, 0] = mean
            norm[row, 1] = scale
            factor = every(norm[row, 1], nothing)
            for j in range(0, width, wide):
                normal = mul(sub(load(y, out + j, wide), middle), factor)
                store(y, out + j, fma(normal, load(gamma, j, wide), load(beta, j, wide)))

    return grc_combine


@cache
def combine_backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (rows, o, l, its place, r, its place, gamma, norm, g, do, dl, dr, sums).

    Filled are do (N, 4 d) and dl, dr (N, d) in an array (N, 2 d); added to: sums (6 d), of b_2,
    gamma and beta.
    """

    @compiled(wide, dtype)
    def grc_combine_backward(  # type: ignore[no-untyped-def]
        rows, o, left, at_left, right, at_right, gamma, norm, upstream, do, dpair, sums
    ):
        width = gamma.shape[0]
        nothing = zero(load(gamma, 0, wide))
        one = every(1.0, nothing)
        for row in range(rows):
            first, out, pair = row * 4 * width, row * width, row * 2 * width
            l_row, r_row = at_left[0] + row * at_left[1], at_right[0] + row * at_right[1]
            middle, factor = every(norm[row, 0], nothing), every(norm[row, 1], nothing)
            shift, tilt = nothing, nothing
            for j in range(0, width, wide):
                at = first + j
                s = mul(load(o, at + 2 * width, wide), load(o, at + 3 * width, wide))
                s = fma(load(o, at, wide), load(left, l_row + j, wide), s)
                s = fma(load(o, at + width, wide), load(right, r_row + j, wide), s)
                normal = mul(sub(s, middle), factor)
                g = load(upstream, out + j, wide)
                at_gamma, at_beta = 4 * width + j, 5 * width + j
                store(sums, at_gamma, fma(g, normal, load(sums, at_gamma, wide)))
                store(sums, at_beta, add(load(sums, at_beta, wide), g))
                d = mul(g, load(gamma, j, wide))
                shift, tilt = add(shift, d), fma(d, normal, tilt)
                store(dpair, pair + j, normal)
            shift = every(total(shift) / width, nothing)
            tilt = every(total(tilt) / width, nothing)
            for j in range(0, width, wide):
                at = first + j
                normal = load(dpair, pair + j, wide)
                d = mul(load(upstream, out + j, wide), load(gamma, j, wide))
                ds = mul(factor, sub(sub(d, shift), mul(normal, tilt)))
                a, b = load(o, at, wide), load(o, at + width, wide)
                gate, c = load(o, at + 2 * width, wide), load(o, at + 3 * width, wide)
                dl, dr, dc = mul(ds, a), mul(ds, b), mul(ds, gate)
                da = mul(mul(dl, load(left, l_row + j, wide)), sub(one, a))
                db = mul(mul(dr, load(right, r_row + j, wide)), sub(one, b))
                dg = mul(mul(dc, c), sub(one, gate))
                store(dpair, pair + j, dl)
                store(dpair, pair + width + j, dr)
                store(do, at, da)
                store(do, at + width, db)
                store(do, at + 2 * width, dg)
                store(do, at + 3 * width, dc)
                store(sums, j, add(load(sums, j, wide), da))
                store(sums, j + width, add(load(sums, j + width, wide), db))
                store(sums, j + 2 * width, add(load(sums, j + 2 * width, wide), dg))
                store(sums, j + 3 * width, add(load(sums, j + 3 * width, wide), dc))

    return grc_combine_backward
