"""The two-level scan: all chunks side by side, then from chunk to chunk, then both together.

With chunks of c positions, P_j = A_j ... A_1 the products from a chunk's start, and z_j its states
from a zero state,

    z_j = A_j z_{j-1} + b_j                   c steps, in all chunks at once
    x_c = P_c x_0 + z_c                       T / c steps, from the end of one chunk to the next
    x_j = P_j x_0 + z_j                       one product

Depth c + T / c, work 2 T products and T joins; with a constant transition c joins, its powers.
"""

from __future__ import annotations

from math import isqrt

from torch import Tensor

from lrbench.scan.algorithms.adjoint import Action, scan_by
from lrbench.scan.transitions import Transition


def chunked(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    return scan_by(solve, transition, inputs, initial)


def solve(a: Tensor, b: Tensor, action: Action) -> None:
    """Turn inputs b (T, B, ...) into states, in place; see `adjoint.Solve`."""
    size = isqrt(len(b))
    whole = len(b) // size * size
    partial = b[:whole].unflatten(0, (-1, size)).unbind(1)  # c times (T / c, B, ...)
    if action.constant:
        steps: tuple[Tensor, ...] = (a,) * size
    else:
        steps = a[:whole].unflatten(0, (-1, size)).unbind(1)
    products = [steps[0]]
    for j in range(1, size):
        action.add(partial[j], steps[j], partial[j - 1])
        products.append(action.join(steps[j], products[-1]))
    ends = partial[-1]
    for i in range(1, len(ends)):
        action.add(ends[i : i + 1], _of_chunks(products[-1], i, i + 1, action), ends[i - 1 : i])
    for value, product in zip(partial[:-1], products[:-1], strict=True):
        action.add(value[1:], _of_chunks(product, 1, len(ends), action), ends[:-1])
    for k in range(whole, len(b)):
        action.add(b[k : k + 1], a if action.constant else a[k : k + 1], b[k - 1 : k])


def _of_chunks(product: Tensor, first: int, stop: int, action: Action) -> Tensor:
    """Return the products of chunks first..stop, one for all where transitions are constant."""
    return product if action.constant else product[first:stop]
