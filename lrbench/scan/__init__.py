"""Scans: evaluate x_k = A_k x_{k-1} + b_k. One entry, `scan`, and the algorithms behind it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from lrbench.errors import unknown
from lrbench.scan.algorithms.automatic import automatic
from lrbench.scan.algorithms.chunked import chunked
from lrbench.scan.algorithms.fused import fused
from lrbench.scan.algorithms.sequential import sequential
from lrbench.scan.algorithms.tree import tree
from lrbench.scan.reference import reference
from lrbench.scan.transitions import (
    BlockDiagonal,
    ConstantBlocks,
    ConstantDiagonal,
    Diagonal,
    GeneratedBlocks,
    Indexed,
    Structured,
    Transition,
)

Algorithm = Callable[[Transition, Tensor, Tensor], Tensor]

ALGORITHMS: dict[str, Algorithm] = {
    "reference": reference,
    "sequential": sequential,
    "tree": tree,
    "chunked": chunked,
    "fused": fused,
    "auto": automatic,
}


def scan(
    transition: Transition, inputs: Tensor, initial: Tensor, algorithm: str = "sequential"
) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...), of x_k = A_k x_{k-1} + b_k.

    Args:
        transition: A_1..A_T as `Diagonal`, `BlockDiagonal`, `GeneratedBlocks`,
            `ConstantDiagonal`, `ConstantBlocks`, `Indexed` or a `Structured` one.
        inputs: b_1..b_T, (B, T, ...); for `Indexed` the table (1, S, ...) it comes with.
        initial: x_0, (B, ...).
        algorithm: a name in `ALGORITHMS`; all agree up to rounding, gradients included.
    """
    if algorithm not in ALGORITHMS:
        raise unknown("scan algorithm", algorithm, ALGORITHMS)
    return ALGORITHMS[algorithm](transition, inputs, initial)


__all__ = [
    "ALGORITHMS",
    "BlockDiagonal",
    "ConstantBlocks",
    "ConstantDiagonal",
    "Diagonal",
    "GeneratedBlocks",
    "Indexed",
    "Structured",
    "Transition",
    "scan",
]
