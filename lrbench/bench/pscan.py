"""The parallel scan of the block-diagonal LRNN paper (Fan, Chi & Rudnicky 2024, Appendix A.2).

The sequence is padded to L = 2^m slots: slot 0 holds x_0, slots 1..T the inputs. At stage s the
slots form groups of 2^(s+1); the second half of each group adds (product of the transitions since
the middle) x (last slot of the first half). The products for the next stage are built from pairs.
Depth log2 L, work (L/2) log2 L products: a divide-and-conquer (Sklansky) scan.

It was fastest nowhere among the algorithms of `lrbench.scan`. Models have it only inside
`added()`, for section 4.5 of the paper (`paper_speed.py`).

Glossary: x the slots (B, L, ...); products[g] the prefix products of group g's transitions,
(B, groups, size, ...), where the even groups are this stage's coefficients and the odd ones,
joined with their neighbours, the next stage's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.scan import ALGORITHMS
from lrbench.scan.transitions import BlockDiagonal, Diagonal, Transition, written_out


def pscan(transition: Transition, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states x_1..x_T, (B, T, ...); arguments as for `reference`."""
    dense, inputs = written_out(transition, inputs)
    if isinstance(dense, Diagonal):
        values = dense.values[..., None, None]
        return _pscan_blocks(values, inputs[..., None], initial[..., None]).squeeze(-1)
    assert isinstance(dense, BlockDiagonal)
    return _pscan_blocks(dense.blocks, inputs, initial)


@contextmanager
def added() -> Iterator[None]:
    """Let models be asked for mode `pscan`."""
    ALGORITHMS["pscan"] = pscan
    try:
        yield
    finally:
        del ALGORITHMS["pscan"]


def _pscan_blocks(blocks: Tensor, inputs: Tensor, initial: Tensor) -> Tensor:
    """Scan blocks (B, T, h, b, b) over inputs (B, T, h, b) from a state (B, h, b)."""
    length = inputs.shape[1]
    stages = length.bit_length()  # the smallest m with 2^m >= T + 1
    slots = 1 << stages
    x = torch.cat([initial[:, None], inputs], dim=1)
    x = pad(x, (0, 0, 0, 0, 0, slots - length - 1))
    products = pad(blocks, (0, 0, 0, 0, 0, 0, 0, slots - length - 1))[:, :, None]
    for stage in range(stages):
        x = _join_halves(x, products[:, ::2], 1 << stage)
        products = _join_pairs(products)
    return x[:, 1 : length + 1]


def _join_halves(x: Tensor, coefficients: Tensor, half: int) -> Tensor:
    """Carry the last slot of each group's first half into its second half."""
    groups = x.unflatten(1, (-1, 2 * half))
    first, second = groups[:, :, :half], groups[:, :, half:]
    carried = torch.einsum("bgchij,bghj->bgchi", coefficients, first[:, :, -1])
    return torch.cat([first, second + carried], dim=2).flatten(1, 2)


def _join_pairs(products: Tensor) -> Tensor:
    """Extend each odd group by the group after it: the prefix products of twice the length."""
    kept, following = products[:, 1::2], products[:, 2::2]
    extended = torch.einsum("bgchij,bghjk->bgchik", following, kept[:, :, -1])
    return torch.cat([kept, extended], dim=2)
