"""Outputs of a time-invariant system read off its responses to single symbols.

A system that starts from zero and reads one of S symbols a position answers with a sum,

    y_t = sum_{j <= t} K_{t-j}[s_j],        K_l[s] the output l positions after symbol s alone,

a product of one-hot marks (B, t S) with kernels (t S, D) for each t. Neither states nor inputs of
all positions exist, and the backward is one product as well. Worth it while T S is no more than a
few times the size of a state.

With numba, rows of the kernels, which stay in the cache, are added up instead: a string reads 40
symbols or so, which is less work than the product with marks that are nearly all zero. Shapes
there: kernel and its gradient (S, T, D); index (B, T); y and g (B, T, D); D a multiple of `wide`.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import add, load, store, zero

LANES = (64, 32, 16)  # how many features the compiled loops take at a time: the most that fit


def superpose(kernel: Tensor, index: Tensor) -> Tensor:
    """Return y (B, T, D) for responses `kernel` (S, T, D) and symbols `index` (B, T)."""
    fits = kernel.shape[2] % LANES[-1] == 0 and kernel.numel() > 0
    fits = fits and kernel.shape[1] == index.shape[1]
    compiles = fits and usable(kernel, "responses", _sizes(kernel)[0])
    return (COMPILED if compiles else SUPERPOSE)(kernel, index)


def superpose_last(kernel: Tensor, index: Tensor) -> Tensor:
    """Return y_T (B, D) alone; arguments as for `superpose`."""
    return _marks(kernel, index) @ _newest_last(kernel)


def _marks(kernel: Tensor, index: Tensor) -> Tensor:
    """Return one-hot symbols (B, T S)."""
    symbols = torch.arange(len(kernel), device=index.device)
    return (index[..., None] == symbols).to(kernel.dtype).flatten(1)


def _newest_last(kernel: Tensor) -> Tensor:
    """Return K_{T-1}, .., K_0 below each other: (T S, D)."""
    return kernel.transpose(0, 1).flip(0).flatten(0, 1)


def _forward(kernel: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    symbols, length, width = kernel.shape
    marks, stacked = _marks(kernel, index), _newest_last(kernel)
    y = kernel.new_empty(len(index), length, width)
    for t, out in enumerate(y.unbind(1), 1):
        torch.mm(marks[:, : t * symbols], stacked[(length - t) * symbols :], out=out)
    return y, marks


def _backward(
    kernel: Tensor, index: Tensor, _: Tensor, marks: Tensor, gradient: Tensor
) -> tuple[Tensor]:
    symbols, length, width = kernel.shape
    dstacked, transposed = kernel.new_zeros(length * symbols, width), marks.T
    for t, upstream in enumerate(gradient.unbind(1), 1):
        dstacked[(length - t) * symbols :].addmm_(transposed[: t * symbols], upstream)
    return (dstacked.view(length, symbols, width).flip(0).transpose(0, 1),)


def _compiled_forward(kernel: Tensor, index: Tensor) -> tuple[Tensor]:
    y = kernel.new_empty(*index.shape, kernel.shape[2])
    forward_loop(*_sizes(kernel))(array(kernel), array(index), array(y))
    return (y,)


def _compiled_backward(kernel: Tensor, index: Tensor, gradient: Tensor) -> tuple[Tensor]:
    dkernel = torch.zeros_like(kernel, memory_format=torch.contiguous_format)
    backward_loop(*_sizes(kernel))(array(index), array(gradient), array(dkernel))
    return (dkernel,)


def _sizes(kernel: Tensor) -> tuple[int, str]:
    wide = next(wide for wide in LANES if kernel.shape[2] % wide == 0)
    return wide, DTYPES[kernel.dtype]


SUPERPOSE = ClosedForm(_forward, _backward, one_by_one)
COMPILED = ClosedForm(_compiled_forward, _compiled_backward, one_by_one, needs_result=False)


@cache
def forward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (kernel, index, y to fill)."""

    @compiled(wide, dtype)
    def responses_forward(kernel, index, y):  # type: ignore[no-untyped-def]
        symbols, length, features = kernel.shape
        nothing = zero(load(kernel, 0, wide))
        starts = np.empty(length, np.int64)  # where the row for position 0 would be
        for string in range(index.shape[0]):
            for j in range(length):
                symbol = index[string, j]
                if symbol < 0 or symbol >= symbols:
                    raise IndexError("a symbol is not in the table")
                starts[j] = (symbol * length - j) * features
            for t in range(length):
                for d in range(0, features, wide):
                    row, summed = t * features + d, nothing
                    for j in range(t + 1):
                        summed = add(summed, load(kernel, starts[j] + row, wide))
                    store(y, string * length * features + row, summed)

    return responses_forward


@cache
def backward_loop(wide: int, dtype: str) -> Loop:
    """Return the loop (index, g, zeros for dkernel)."""

    @compiled(wide, dtype)
    def responses_backward(index, g, dkernel):  # type: ignore[no-untyped-def]
        length, features = dkernel.shape[1:]
        for string in range(index.shape[0]):
            for j in range(length):
                here = (string * length + j) * features
                there = index[string, j] * length * features
                for at in range(0, (length - j) * features, wide):
                    upstream = load(g, here + at, wide)
                    store(dkernel, there + at, add(load(dkernel, there + at, wide), upstream))

    return responses_backward
