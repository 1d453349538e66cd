"""One-hot columns and rows in compiled loops: the scan of `one_hot.py`, position by position.

A string is followed with its state in the first-level cache. At a position of symbol s, which sends
number j to place i_j and scales it by d_j,

    columns:  x_k[i_j] += d_j x_{k-1}[j],   rows:  x_k[j] += d_j x_{k-1}[i_j],   from x_k = b_s.

On the way back, with lambda_k the adjoint of x_k, both factors of the gradient of each matrix,
lambda_k (D_k x_{k-1})^T for columns, are put where all positions of a symbol lie together: their
sum is then one product of matrices a symbol.

Shapes: B strings, T length, S symbols, K = N; places i (S, N); d and b (S, N, 2), real and
imaginary part; states (B, T, N, 2), x_0 (B, N, 2); index (B, T), the symbol at each position;
`slot` (B, T), where a position's factors go, (B T, 2, N).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES
from lrbench.kernels.compiler import Loop, array, compiled


def one_hot_states(
    places: Tensor, d: Tensor, b: Tensor, initial: Tensor, index: Tensor, orientation: str
) -> Tensor:
    """Return the states (B, T, N), complex. d and b (S, N) and initial (B, N) are complex."""
    d, b, start = (torch.view_as_real(x.resolve_conj()) for x in (d, b, initial))
    states = d.new_empty(*index.shape, *d.shape[1:])
    loop = forward_loop(DTYPES[d.dtype], orientation)
    loop(*map(array, (places, d, b, start, index)), states.numpy())
    return torch.view_as_complex(states)


def one_hot_adjoints(
    places: Tensor,
    d: Tensor,
    initial: Tensor,
    index: Tensor,
    order: Tensor,
    states: Tensor,
    gradient: Tensor,
    orientation: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of d, b (S, N) and of x_0 (B, N), and the factors of those of matrices.

    Factors (B T, 2, N), real and imaginary parts, lie as `order` (B T) sorts the positions: those
    of what a number chooses from, and those of the numbers.
    """
    slot = torch.empty_like(order)
    slot[order] = torch.arange(len(slot))
    inputs = [torch.view_as_real(x.resolve_conj()) for x in (d, initial, states, gradient)]
    dd, db = torch.zeros_like(inputs[0]), torch.zeros_like(inputs[0])
    dinitial = torch.empty_like(inputs[1], memory_format=torch.contiguous_format)
    lines, numbers = (dd.new_empty(len(slot), 2, d.shape[1]) for _ in range(2))
    loop = backward_loop(DTYPES[dd.dtype], orientation)
    given = [array(x) for x in (places, *inputs, index, slot.view_as(index))]
    loop(*given, *(x.numpy() for x in (dd, db, dinitial, lines, numbers)))
    dd, db, dinitial = (torch.view_as_complex(x) for x in (dd, db, dinitial))
    return dd, db, dinitial, lines, numbers


@cache
def forward_loop(dtype: str, orientation: str) -> Loop:
    """Return the loop (i, d, b, x_0, index, states to fill)."""
    columns = orientation == "column"

    @compiled(dtype, orientation)
    def one_hot_forward(places, d, b, start, index, states):  # type: ignore[no-untyped-def]
        strings, length = index.shape
        size = places.shape[1]
        before = np.empty((size, 2), d.dtype)
        for string in range(strings):
            for j in range(size):
                before[j, 0], before[j, 1] = start[string, j, 0], start[string, j, 1]
            for t in range(length):
                symbol = index[string, t]
                if symbol < 0 or symbol >= places.shape[0]:
                    raise IndexError("a symbol is not in the table")
                x = states[string, t]
                for j in range(size):
                    x[j, 0], x[j, 1] = b[symbol, j, 0], b[symbol, j, 1]
                for j in range(size):
                    place = places[symbol, j]
                    to, source = (place, j) if columns else (j, place)
                    re, im = d[symbol, j, 0], d[symbol, j, 1]
                    x[to, 0] += re * before[source, 0] - im * before[source, 1]
                    x[to, 1] += re * before[source, 1] + im * before[source, 0]
                for j in range(size):
                    before[j, 0], before[j, 1] = x[j, 0], x[j, 1]

    return one_hot_forward


@cache
def backward_loop(dtype: str, orientation: str) -> Loop:
    """Return the loop back: (i, d, x_0, states, gradient, index, slot, what to fill).

    It adds to dd and db, and fills dx_0 and the factors.
    """
    columns = orientation == "column"

    @compiled(dtype, orientation)
    def one_hot_backward(  # type: ignore[no-untyped-def]
        places, d, start, states, gradient, index, slot, dd, db, dstart, lines, numbers
    ):
        strings, length = index.shape
        size = places.shape[1]
        adjoint, earlier = np.empty((size, 2), d.dtype), np.empty((size, 2), d.dtype)
        for string in range(strings):
            earlier[:] = 0
            for back in range(length):
                t = length - 1 - back
                symbol, at = index[string, t], slot[string, t]
                x = states[string, t - 1] if t > 0 else start[string]
                for j in range(size):
                    for part in range(2):
                        adjoint[j, part] = earlier[j, part] + gradient[string, t, j, part]
                        db[symbol, j, part] += adjoint[j, part]
                        earlier[j, part] = 0
                for j in range(size):
                    place = places[symbol, j]
                    to, source = (place, j) if columns else (j, place)
                    re, im = d[symbol, j, 0], d[symbol, j, 1]
                    x_re, x_im = x[source, 0], x[source, 1]
                    l_re, l_im = adjoint[to, 0], adjoint[to, 1]
                    dd[symbol, j, 0] += l_re * x_re + l_im * x_im
                    dd[symbol, j, 1] += l_im * x_re - l_re * x_im
                    earlier[source, 0] += re * l_re + im * l_im
                    earlier[source, 1] += re * l_im - im * l_re
                    if columns:  # lambda, and D x
                        lines[at, 0, j], lines[at, 1, j] = adjoint[j, 0], adjoint[j, 1]
                        numbers[at, 0, j] = re * x[j, 0] - im * x[j, 1]
                        numbers[at, 1, j] = re * x[j, 1] + im * x[j, 0]
                    else:  # x, and D^H lambda
                        lines[at, 0, j], lines[at, 1, j] = x[j, 0], x[j, 1]
                        numbers[at, 0, j] = re * adjoint[j, 0] + im * adjoint[j, 1]
                        numbers[at, 1, j] = re * adjoint[j, 1] - im * adjoint[j, 0]
            for j in range(size):
                dstart[string, j, 0], dstart[string, j, 1] = earlier[j, 0], earlier[j, 1]

    return one_hot_backward
