"""The elementwise halves of a gated recursive cell, forward and backward: torch's, or compiled.

`lrbench/scan/compiled/grc.py` has the equations. Both kinds do the same on tensors of the same
shapes, so that products around them are written once: of pairs (`grc.py`) and of time steps
(`rnn_grc.py`). h, o, u and du/dh are (M, 4 d), l, r, y and their gradients (M, d), norm (M, 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from lrbench.encoders.dropout import Dropout
from lrbench.scan.compiled.compiler import DTYPES, array, usable

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
        others = torch.stack([*pair, c], 1)
        gates = o[:, : 3 * width].unflatten(1, (3, width))
        torch.mul(sides * others, 1 - gates, out=do[:, : 3 * width].unflatten(1, (3, width)))
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
        from lrbench.scan.compiled.grc import activate_loop

        loop = activate_loop(self.wide, bits is not None, DTYPES[h.dtype])
        loop(len(h), array(h), array(b1), array(u), *self._drawn(bits))

    def slope(self, h: Tensor, u: Tensor, slope: Tensor, bits: Tensor | None) -> None:
        from lrbench.scan.compiled.grc import slope_loop

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
        from lrbench.scan.compiled.grc import combine_loop

        sides = _placed(pair[0]) + _placed(pair[1])
        others = (*map(array, affine), array(y), array(norm), self.epsilon)
        combine_loop(self.wide, DTYPES[o.dtype])(len(o), array(o), array(b2), *sides, *others)

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
        from lrbench.scan.compiled.grc import combine_backward_loop

        sides = _placed(pair[0]) + _placed(pair[1])
        others = map(array, (gamma, norm, g, do, dpair, sums))
        combine_backward_loop(self.wide, DTYPES[o.dtype])(len(o), array(o), *sides, *others)

    def _drawn(self, bits: Tensor | None) -> tuple[Any, int, float]:
        if bits is None or self.drop is None:
            return array(torch.empty(0, dtype=torch.int16)), 0, 1.0
        return array(bits), self.drop.threshold, self.drop.scale


Loops = TorchLoops | CompiledLoops


def loops_for(like: Tensor, width: int, drop: Dropout | None, epsilon: float) -> Loops:
    """Return the compiled loops where they can be used on numbers such as `like`, or torch's."""
    wide = next((wide for wide in WIDTHS if width % wide == 0), None)
    if wide is not None and usable(like):
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
