"""Maps from inputs to the coefficients of a recurrence: affine, or a perceptron.

`generated_blocks` makes blocks under a constraint of what such a map returns.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrbench.kernels.choice import heard
from lrbench.kernels.perceptron import perceptron
from lrbench.scan import BlockDiagonal, GeneratedBlocks
from lrbench.scan.blocks.constraints import constrain_few
from lrbench.scan.blocks.indexed import LARGEST_TABLE
from lrbench.scan.transitions import PerceptronBlocks

MAPS = ("linear", "mlp")


def input_map(kind: str, width: int, hidden: int, out: int) -> nn.Sequential:
    """Return the map D -> out: linear, or Linear-ReLU-Linear with `hidden` units."""
    if kind == "linear":
        return nn.Sequential(nn.Linear(width, out))
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


def apply_map(layers: nn.Sequential, u: Tensor) -> Tensor:
    """Return layers(u): (B, T, out) for u (B, T, D)."""
    if len(layers) > 1 and len(u) > 1:
        return perceptron(layers, u)
    few: Tensor = layers(u)
    return few


def features(layers: nn.Sequential, u: Tensor) -> Tensor:
    """Return what the last of `layers` is applied to, and a 1 for its bias: (B, T, n + 1).

    u is (B, T, D).
    """
    few = layers[:-1](u)
    return torch.cat([few, few.new_ones(*few.shape[:-1], 1)], -1)


def generated_blocks(
    layers: nn.Sequential, u: Tensor, shape: tuple[int, int], constraint: str, p: float
) -> GeneratedBlocks | PerceptronBlocks | BlockDiagonal:
    """Return the transitions layers(u_k) under a constraint, as h = shape[0] blocks b x b.

    Those of a table, u (1, S, D), are made at once.
    """
    heads, size = shape
    if len(u) == 1 and u.shape[1] <= LARGEST_TABLE:
        few = constrain_few(layers(u[0]).view(-1, size, size), constraint, p)
        return BlockDiagonal(few.view(1, -1, heads, size, size))
    if heard(*layers):
        each = constrain_few(layers(u).view(-1, size, size), constraint, p)
        return BlockDiagonal(each.view(*u.shape[:2], heads, size, size))
    last = layers[-1]
    assert isinstance(last, nn.Linear)
    weight = torch.cat([last.weight, last.bias[:, None]], 1).view(heads, size, size, -1)
    first = layers[0]
    if len(layers) > 1 and len(u) > 1:
        assert isinstance(first, nn.Linear)
        return PerceptronBlocks(weight, first.weight, first.bias, u, constraint, p)
    return GeneratedBlocks(weight, features(layers, u), constraint, p)


def blocks_of(width: int, size: int) -> int:
    """Return how many blocks of `size` make a state of `width`; ValueError if that is no number."""
    if width % size:
        raise ValueError(
            f"model.width {width} is not a multiple of model.mixer.block_size {size};"
            " change one of them or set model.mixer.blocks"
        )
    return width // size
