"""A delay network and what is read from it, some positions of some strings at a time.

    o_t = f(W_m m_t + W_x x_t + b)              (Chilkuri & Eliasmith, arXiv:2102.11417, Eq. 20)

The states m_1 .. m_n of all strings are (B, n, c, d): for 468 numbers, 784 positions and 100
strings 147 MB for each channel. Nothing but o is needed of them, so they exist for one piece at
a time, and the backward computes them a second time rather than keep them. Memory is then that of x
and o, and on CPU a piece stays in the cache from its inputs to its outputs.

Shapes: u (B, n, c), x (B, n, D), m_0 (B, c, d), W_m (O, c d) with the channel first, o (B, n, O).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.mixers.legendre.delay_modes import DelayMode
from lrbench.mixers.legendre.nonlinearity import NONLINEARITIES, pull_back

NUMBERS = 1 << 20  # of states at once: 4 MB in float32


@dataclass(frozen=True)
class DelayReadout:
    """Call it as readout(u, x, m_0, W_m, W_x, b): o, differentiable once in each of them.

    `fresh` says that m_0 is zero and not to be worked with; no gradient goes to it then.
    """

    mode: DelayMode
    nonlinearity: str
    fresh: bool

    def __call__(self, *inputs: Tensor) -> Tensor:
        return ClosedForm(self._forward, self._backward, one_by_one)(*inputs)

    def _forward(
        self, u: Tensor, x: Tensor, start: Tensor, memory: Tensor, skip: Tensor, bias: Tensor
    ) -> tuple[Tensor, Tensor]:
        apply = NONLINEARITIES[self.nonlinearity]
        result = x.new_empty(*x.shape[:2], len(memory))
        pieces = list(self._pieces(u.shape[1]))
        before = start.new_zeros(len(pieces), *start.shape)
        for rows in self._rows(start):
            carried = None if self.fresh else start[rows]
            for kept, piece in zip(before, pieces, strict=True):
                if carried is not None:
                    kept[rows] = carried
                states = self._states(u[rows, piece], carried)
                out = torch.addmm(bias, x[rows, piece].flatten(0, 1), skip.T)
                out.addmm_(_flat(states), memory.T)
                result[rows, piece] = apply(out).view(*states.shape[:2], -1)
                carried = states[:, -1]
        return result, before

    def _backward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        u, x, start, memory, skip, bias, result, before, gradient = tensors
        du, dx, dstart = torch.empty_like(u), torch.empty_like(x), torch.zeros_like(start)
        dmemory, dskip, dbias = map(torch.zeros_like, (memory, skip, bias))
        pieces = list(self._pieces(u.shape[1]))
        for rows in self._rows(start):
            later: Tensor | None = None
            for k in reversed(range(len(pieces))):
                part = rows, pieces[k]
                carried = None if self.fresh and k == 0 else before[k, rows]
                states = self._states(u[part], carried)
                slope = pull_back(self.nonlinearity, gradient[part], result[part]).flatten(0, 1)
                inputs = x[part].flatten(0, 1)
                dmemory.addmm_(slope.T, _flat(states))
                dskip.addmm_(slope.T, inputs)
                dbias += slope.sum(0)
                dx[part] = (slope @ skip).view(dx[part].shape)
                dstates = (slope @ memory).view(states.shape)
                if later is not None:
                    dstates[:, -1] += later
                du[part], later = self._adjoint(dstates, carried is not None)
            if later is not None:
                dstart[rows] = later
        return du, dx, dstart, dmemory, dskip, dbias

    def _states(self, u: Tensor, before: Tensor | None) -> Tensor:
        """Return the states of a piece u (R, p, c): (R, p, c, d)."""
        v = u.transpose(1, 2).flatten(0, 1)
        flat = self.mode.states(v, None if before is None else before.flatten(0, 1))
        states: Tensor = flat.unflatten(0, (len(u), -1))
        return states.transpose(1, 2)

    def _adjoint(self, gradient: Tensor, carried: bool) -> tuple[Tensor, Tensor | None]:
        """Return the gradients of u (R, p, c) and of the memory before it (R, c, d)."""
        flat = gradient.transpose(1, 2).flatten(0, 1)
        dv, before = self.mode.adjoint(flat, carried)
        du = dv.unflatten(0, (len(gradient), -1)).transpose(1, 2)
        return du, None if before is None else before.unflatten(0, (len(gradient), -1))

    def _pieces(self, length: int) -> Iterator[slice]:
        for first in range(0, length, self.mode.piece):
            yield slice(first, first + self.mode.piece)

    def _rows(self, start: Tensor) -> Iterator[slice]:
        size = max(1, NUMBERS // (start.shape[1] * start.shape[2] * self.mode.piece))
        for first in range(0, len(start), size):
            yield slice(first, first + size)


def _flat(states: Tensor) -> Tensor:
    """Return states (R, p, c, d) as (R p, c d)."""
    return states.reshape(-1, states.shape[2] * states.shape[3])
