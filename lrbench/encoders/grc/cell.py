"""The gated recursive cell R(l, r): one vector from two, tied over all of a tree.

Ray Chowdhury & Caragea, "Recursion in Recursion: Two-ChunkLevel Nested Recursion for Length
Generalization with Scalability", arXiv:2311.04449, after Shen et al. 2019 ("Ordered Memory"):

    u = dropout(gelu(W_1 (l, r) + b_1)),    (a, b, g, c) = W_2 u + b_2
    R(l, r) = LN(sigmoid(a) l + sigmoid(b) r + sigmoid(g) c)

Glossary
    W_1, b_1   first       4d x 2d, exact GELU
    W_2, b_2   second      4d x 4d; b_2 has 4d numbers (the paper prints d)
    LN         norm        layer normalisation, epsilon 1e-5

The products are BLAS's. What is between them is memory traffic: pairs go through all of the cell
some hundred at a time, kept are (l, r), h = W_1 (l, r) + b_1, the gates and the bits of dropout,
and the backward is written out. `reference` is the equation as autograd differentiates it.

The elementwise halves, forward and backward, are torch's or compiled
(`lrbench/scan/compiled/encoders/grc.py` has their equations). Both do the same on tensors of the
same shapes, so that products around them are written once: of pairs (here) and of time steps
(`rnn_grc.py`). h, o, u and du/dh are (M, 4 d), l, r, y and their gradients (M, d), norm (M, 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lrbench.encoders.base import Dropout, draw_bits, dropping
from lrbench.mixers.normalisation import LayerNorm
from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable

EXPANSION = 4  # hidden units over d
PIECE = 512  # pairs at a time on a CPU: a megabyte of hidden numbers at d = 128


class GatedRecursiveCell(nn.Module):
    """R(l, r) with hidden dropout."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        hidden = EXPANSION * width
        self.first = nn.Linear(2 * width, hidden)
        self.second = nn.Linear(hidden, 4 * width)
        self.norm = LayerNorm(width)
        self.dropout = dropout

    def forward(self, pairs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Map pairs (M, 2d), l beside r, to their parents (M, d)."""
        bits, _ = self.draw(len(pairs), generator, pairs.device)
        return self.parents(pairs, bits)

    def parents(self, pairs: Tensor, bits: Tensor | None) -> Tensor:
        """Map pairs (M, 2d) to their parents (M, d); bits (M, 4d) say what is dropped."""
        form = self.form(None if bits is None else dropping(self.dropout))
        rest = [] if bits is None else [bits]
        if torch.is_grad_enabled():
            return form(*self.weights(), pairs.contiguous(), *rest)
        parts = [tensor.split(_piece(pairs)) for tensor in (pairs.contiguous(), *rest)]
        return torch.cat([form(*self.weights(), *part) for part in zip(*parts, strict=True)])

    def weights(self) -> tuple[Tensor, ...]:
        """Return W_1, b_1, W_2, b_2 and the affine map of the norm."""
        first, second, norm = self.first, self.second, self.norm
        return first.weight, first.bias, second.weight, second.bias, norm.weight, norm.bias

    def draw(
        self, rows: int, generator: torch.Generator | None, device: torch.device
    ) -> tuple[Tensor | None, Dropout | None]:
        """Return the bits that say which hidden numbers of `rows` pairs are dropped, and how."""
        if generator is None or self.dropout == 0:
            return None, None
        bits = draw_bits((rows, EXPANSION * self.width), generator, device)
        return bits, dropping(self.dropout)

    def form(self, drop: Dropout | None) -> ClosedForm:
        """Return (`weights()`, pairs[, bits]) -> parents."""
        return _form(self.norm.eps, drop)

    def reference(self, pairs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Return what `forward` does, as the equation is written."""
        bits, drop = self.draw(len(pairs), generator, pairs.device)
        u = gelu(self.first(pairs))
        if bits is not None and drop is not None:
            u = u * drop.kept(bits, u)
        a, b, g, c = self.second(u).chunk(4, -1)
        left, right = pairs.chunk(2, -1)
        gates = a.sigmoid() * left + b.sigmoid() * right + g.sigmoid() * c
        parents: Tensor = self.norm(gates)
        return parents


@cache
def _form(epsilon: float, drop: Dropout | None) -> ClosedForm:
    """Return (W_1, b_1, W_2, b_2, gamma, beta, pairs[, bits]) -> parents."""

    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:
        return _forward(loops_for(inputs[6], inputs[4].numel(), drop, epsilon), *inputs)

    def backward(*tensors: Tensor) -> tuple[Tensor, ...]:
        return _backward(loops_for(tensors[6], tensors[4].numel(), drop, epsilon), *tensors)

    return ClosedForm(forward, backward, one_by_one, needs_result=False)


def _forward(
    loops: Loops,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    gamma: Tensor,
    beta: Tensor,
    pairs: Tensor,
    bits: Tensor | None = None,
) -> tuple[Tensor, ...]:
    rows, width = len(pairs), len(gamma)
    h, o = pairs.new_empty(rows, len(w1)), pairs.new_empty(rows, len(w2))
    y, norm = pairs.new_empty(rows, width), pairs.new_empty(rows, 2)
    piece = _piece(pairs)
    u = pairs.new_empty(min(piece, rows), len(w1))
    for at in _pieces(rows, piece):
        x, hidden = pairs[at], u[: len(h[at])]
        torch.mm(x, w1.T, out=h[at])
        loops.activate(h[at], b1, hidden, None if bits is None else bits[at])
        torch.mm(hidden, w2.T, out=o[at])
        sides = x[:, :width], x[:, width:]
        loops.combine(o[at], b2, sides, (gamma, beta), y[at], norm[at])
    return y, h, o, norm


def _backward(
    loops: Loops,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    gamma: Tensor,
    beta: Tensor,
    pairs: Tensor,
    *rest: Tensor,
) -> tuple[Tensor, ...]:
    *drawn, h, o, norm, gradient = rest
    bits = drawn[0] if drawn else None
    rows, width, gradient = len(pairs), len(gamma), gradient.contiguous()
    dw1, db1, dw2 = torch.zeros_like(w1), torch.zeros_like(b1), torch.zeros_like(w2)
    sums, dpairs = gamma.new_zeros(6 * width), torch.empty_like(pairs)
    piece = _piece(pairs)
    u, slope = pairs.new_empty(2, min(piece, rows), len(w1))
    do, du = pairs.new_empty(2, len(u), len(w2))
    for at in _pieces(rows, piece):
        x, here = pairs[at], slice(0, len(h[at]))
        sides = x[:, :width], x[:, width:]
        loops.combine_backward(
            o[at], sides, gamma, norm[at], gradient[at], do[here], dpairs[at], sums
        )
        loops.slope(h[at], u[here], slope[here], None if bits is None else bits[at])
        dw2.addmm_(do[here].T, u[here])
        dh = torch.mm(do[here], w2, out=du[here]).mul_(slope[here])
        db1 += dh.sum(0)
        dw1.addmm_(dh.T, x)
        dpairs[at].addmm_(dh, w1)
    db2, dgamma, dbeta = sums.split([4 * width, width, width])
    return dw1, db1, dw2, db2, dgamma, dbeta, dpairs


def _piece(pairs: Tensor) -> int:
    """Return how many pairs go through together: on a GPU all of them."""
    return PIECE if pairs.device.type == "cpu" else max(1, len(pairs))


def _pieces(rows: int, piece: int) -> list[slice]:
    return [slice(start, min(start + piece, rows)) for start in range(0, rows, piece)]


WIDTHS = (16, 8)  # how many features the compiled loops may take at a time
ROOT_HALF = 0.5**0.5
DENSITY_AT_ZERO = 0.3989422804014327  # of the normal distribution


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
        self,
        o: Tensor,
        b2: Tensor,
        pair: tuple[Tensor, Tensor],
        affine: tuple[Tensor, Tensor],
        y: Tensor,
        norm: Tensor,
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
        self,
        o: Tensor,
        pair: tuple[Tensor, Tensor],
        gamma: Tensor,
        norm: Tensor,
        g: Tensor,
        do: Tensor,
        dpair: Tensor,
        sums: Tensor,
    ) -> None:
        """Fill do and dpair (M, 2 d); add to sums (6 d): gradients of b_2, gamma and beta."""
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
        from lrbench.scan.compiled.encoders.grc import activate_loop

        loop = activate_loop(self.wide, bits is not None, DTYPES[h.dtype])
        loop(len(h), array(h), array(b1), array(u), *self._drawn(bits))

    def slope(self, h: Tensor, u: Tensor, slope: Tensor, bits: Tensor | None) -> None:
        from lrbench.scan.compiled.encoders.grc import slope_loop

        loop = slope_loop(self.wide, bits is not None, DTYPES[h.dtype])
        loop(len(h), array(h), array(u), array(slope), *self._drawn(bits))

    def combine(
        self,
        o: Tensor,
        b2: Tensor,
        pair: tuple[Tensor, Tensor],
        affine: tuple[Tensor, Tensor],
        y: Tensor,
        norm: Tensor,
    ) -> None:
        from lrbench.scan.compiled.encoders.grc import combine_loop

        sides = _placed(pair[0]) + _placed(pair[1])
        operands = (*map(array, affine), array(y), array(norm), self.epsilon)
        combine_loop(self.wide, DTYPES[o.dtype])(len(o), array(o), array(b2), *sides, *operands)

    def combine_backward(
        self,
        o: Tensor,
        pair: tuple[Tensor, Tensor],
        gamma: Tensor,
        norm: Tensor,
        g: Tensor,
        do: Tensor,
        dpair: Tensor,
        sums: Tensor,
    ) -> None:
        from lrbench.scan.compiled.encoders.grc import combine_backward_loop

        sides = _placed(pair[0]) + _placed(pair[1])
        operands = map(array, (gamma, norm, g, do, dpair, sums))
        combine_backward_loop(self.wide, DTYPES[o.dtype])(len(o), array(o), *sides, *operands)

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
