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

The elementwise halves, forward and backward, are torch's or compiled (`halves.py`). Both do the
same on tensors of the same shapes, so that products around them are written once: of pairs (here)
and of time steps (`rnn_grc.py`). h, o, u and du/dh are (M, 4 d), l, r, y and their gradients
(M, d), norm (M, 2).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lrbench.encoders.base import Dropout, draw_bits, dropping
from lrbench.encoders.grc.halves import Loops, loops_for
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.kernels.normalisation import LayerNorm

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
    loops_of = partial(loops_for, drop=drop, epsilon=epsilon)
    forward, backward = partial(_forward, loops_of), partial(_backward, loops_of)
    return ClosedForm(forward, backward, one_by_one, needs_result=False)


def _forward(loops_of: Callable[[Tensor, int], Loops], *inputs: Tensor) -> Tensors:
    w1, b1, w2, b2, gamma, beta, pairs, *drawn = inputs
    bits = drawn[0] if drawn else None
    rows, width = len(pairs), len(gamma)
    loops = loops_of(pairs, width)
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


def _backward(loops_of: Callable[[Tensor, int], Loops], *tensors: Tensor) -> Tensors:
    w1, b1, w2, _b2, gamma, _beta, pairs, *drawn, h, o, norm, gradient = tensors
    bits = drawn[0] if drawn else None
    rows, width, gradient = len(pairs), len(gamma), gradient.contiguous()
    loops = loops_of(pairs, width)
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
