"""The odd-even recursive scan: half the positions, then half of those, for any T.

    x_{2j+1} = (A_{2j+1} A_{2j}) x_{2j-1} + (A_{2j+1} b_{2j} + b_{2j+1})     a scan of length T / 2
    x_{2j}   = A_{2j} x_{2j-1} + b_{2j}                                      all of them at once

with positions numbered from 0. Depth 2 log2 T, work T joins and 2 T products (Blelloch 1990, in the
recursive form of Ladner & Fischer 1980). A constant transition is squared at each level.
"""

from __future__ import annotations

from torch import Tensor

from lrbench.scan.algorithms.adjoint import Action, scan_by
from lrbench.scan.transitions import Transition


def tree(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    return scan_by(solve, transition, inputs, initial)


def solve(a: Tensor, b: Tensor, action: Action) -> None:
    """Turn inputs b (T, B, ...) into states, in place; see `adjoint.Solve`."""
    length = len(b)
    pairs = length // 2
    if pairs == 0:
        return
    odd = action.positions(a, 1, 2)
    action.add(b[1::2], odd, b[0 : 2 * pairs : 2])
    if pairs > 1:
        even = action.positions(a, 0, 2)
        joined = action.join(odd, even if action.constant else even[:pairs])
        solve(joined, b[1::2], action)
    if length > 2:
        action.add(b[2::2], action.positions(a, 2, 2), b[1 : length - 1 : 2])
