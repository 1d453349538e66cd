"""The gated recursive cell along a string: a recurrent network (`rnn_grc`).

Ray Chowdhury & Caragea 2023 (arXiv:2311.04449), "RNN-GRC" of their Table 1:

    h_0 = 0,    h_t = R(h_{t-1}, x_t)  (t = 1 .. L_n),    output h_{L_n}

The state is the left argument of R (`cell.py`), the input the right one, as it is: no leaf
transform and no learnt h_0, which the recurrent GRC of the authors' earlier repository has.

The product of W_1's right half with all inputs is one; strings are sorted by length, and step t
runs on those that are still going. Gradients of the weights are three products after the loop back
through time. `reference` is the masked loop over all positions.

Layout: inputs and states of step t for the n_t strings that have one, one step after the other:
(n_1 + .. + n_S, d), n_1 >= n_2 >= .. ("packed").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from lrbench.checks import fraction
from lrbench.encoders.base import Dropout, Encoder, lengths_of
from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.grc.halves import Loops, loops_for
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.registry import register_encoder


@dataclass
class RnnGrcConfig:
    """Settings of `rnn_grc`.

    dropout: of the cell's hidden layer.
    """

    dropout: float = 0.1

    def __post_init__(self) -> None:
        fraction("model.encoder.dropout", self.dropout)


@register_encoder("rnn_grc", RnnGrcConfig, "gated recursive cell, left to right (2023)")
class RnnGrc(Encoder):
    """The gated recursive cell as a recurrent network (Ray Chowdhury & Caragea 2023)."""

    config: RnnGrcConfig

    def __init__(self, config: RnnGrcConfig, width: int) -> None:
        super().__init__(config, width)
        self.cell = GatedRecursiveCell(width, config.dropout)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        plan = Packing.of(lengths_of(mask))
        positions, last = plan.positions.to(x.device), plan.last.to(x.device)
        packed = x.flatten(0, 1).index_select(0, positions + plan.rows.to(x.device) * x.shape[1])
        bits, drop = self.cell.draw(len(packed), generator, x.device)
        run = recurrence(self.cell.norm.eps, drop, plan.counts, keep=torch.is_grad_enabled())
        states = run(*self.cell.weights(), packed, *([] if bits is None else [bits]))
        return states.index_select(0, last)

    def reference(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return what `forward` does without dropout, position by position."""
        h = torch.zeros_like(x[:, 0])
        for now, real in zip(x.unbind(1), mask.unbind(1), strict=True):
            h = torch.where(real[:, None], self.cell.reference(torch.cat([h, now], 1)), h)
        return h


@dataclass(frozen=True)
class Packing:
    """How N strings are packed: what lies where, from their lengths alone.

    counts: n_t. rows, positions (packed): of each packed vector, which string and which position of
    it. last (N,): where the last state of each string is.
    """

    counts: tuple[int, ...]
    rows: Tensor
    positions: Tensor
    last: Tensor

    @classmethod
    def of(cls, lengths: list[int]) -> Packing:
        """Return the plan of strings of these lengths, at least 1."""
        sizes = torch.tensor(lengths)
        ordered, order = sizes.sort(descending=True, stable=True)
        steps = torch.arange(int(ordered[0]))
        counts = (ordered > steps[:, None]).sum(1)
        first = counts.cumsum(0) - counts
        positions = steps.repeat_interleave(counts)
        rank = torch.arange(len(positions)) - first[positions]
        last = torch.empty_like(sizes)
        last[order] = first[ordered - 1] + torch.arange(len(sizes))
        return cls(tuple(counts.tolist()), order[rank], positions, last)


def recurrence(
    epsilon: float, drop: Dropout | None, counts: tuple[int, ...], keep: bool = True
) -> ClosedForm:
    """Return (W_1, b_1, W_2, b_2, gamma, beta, inputs[, bits]) -> states, both packed (.., d).

    Without `keep` a step's numbers are written over those of the step before: no gradient then.
    """
    loops_of = partial(loops_for, drop=drop, epsilon=epsilon)
    forward = partial(_forward, loops_of, counts, keep)
    return ClosedForm(forward, partial(_backward, loops_of, counts), one_by_one)


def _forward(
    loops_of: Callable[[Tensor, int], Loops], counts: tuple[int, ...], keep: bool, *inputs: Tensor
) -> Tensors:
    w1, b1, w2, b2, gamma, beta, x, *drawn = inputs
    bits = drawn[0] if drawn else None
    rows, width = len(x) if keep else counts[0], x.shape[1]
    loops = loops_of(x, width)
    from_left, from_right = w1[:, :width].T, w1[:, width:].T
    h = x @ from_right if keep else x.new_empty(rows, len(w1))
    o, norm = x.new_empty(rows, len(w2)), x.new_empty(rows, 2)
    y, u = torch.empty_like(x), x.new_empty(counts[0], len(w1))
    before = x.new_zeros(counts[0], width)
    for at, alive in zip(_steps(counts), counts, strict=True):
        here = at if keep else slice(0, alive)
        state, hidden = before[:alive], u[:alive]
        if not keep:
            torch.mm(x[at], from_right, out=h[here])
        h[here].addmm_(state, from_left)
        loops.activate(h[here], b1, hidden, None if bits is None else bits[at])
        torch.mm(hidden, w2.T, out=o[here])
        loops.combine(o[here], b2, (state, x[at]), (gamma, beta), y[at], norm[here])
        before = y[at]
    return y, h, o, norm


def _backward(
    loops_of: Callable[[Tensor, int], Loops], counts: tuple[int, ...], *tensors: Tensor
) -> Tensors:
    w1, _b1, w2, _b2, gamma, _beta, x, *drawn, y, h, o, norm, gradient = tensors
    total, width = x.shape
    loops = loops_of(x, width)
    upstream, before = gradient.clone(), _before(y, counts)
    u, slope = torch.empty_like(h), torch.empty_like(h)
    loops.slope(h, u, slope, drawn[0] if drawn else None)
    do, dh = torch.empty_like(o), torch.empty_like(h)
    dpairs, sums = x.new_empty(total, 2 * width), gamma.new_zeros(6 * width)
    left = w1[:, :width]
    steps = _steps(counts)
    for step in reversed(range(len(steps))):
        at = steps[step]
        loops.combine_backward(
            o[at], (before[at], x[at]), gamma, norm[at], upstream[at], do[at], dpairs[at], sums
        )
        torch.mm(do[at], w2, out=dh[at]).mul_(slope[at])
        if step > 0:
            earlier = upstream[steps[step - 1]][: counts[step]]
            earlier.add_(dpairs[at, :width]).addmm_(dh[at], left)
    dw1 = torch.cat([dh.T @ before, dh.T @ x], 1)
    dx = torch.addmm(dpairs[:, width:], dh, w1[:, width:])
    db2, dgamma, dbeta = sums.split([4 * width, width, width])
    return dw1, dh.sum(0), do.T @ u, db2, dgamma, dbeta, dx


def _before(y: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Return the state before each packed position."""
    before = torch.empty_like(y)
    before[: counts[0]] = 0
    for (earlier, now), alive in zip(pairwise(_steps(counts)), counts[1:], strict=True):
        before[now] = y[earlier][:alive]
    return before


def _steps(counts: tuple[int, ...]) -> list[slice]:
    """Return where each step's vectors lie."""
    ends = list(accumulate(counts))
    return [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
