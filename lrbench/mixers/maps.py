"""Functions g(u) that make the coefficients of a recurrence from its input."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrbench.mixers.perceptron import perceptron
from lrbench.scan import BlockDiagonal, GeneratedBlocks
from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.constraints import constrain_few
from lrbench.scan.indexed import LARGEST_TABLE

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

    u is (B, T, D). In memory the result of a hidden layer lies as (T, n + 1, B), the layout of a
    block scan.
    """
    first = layers[0]
    assert isinstance(first, nn.Linear)
    if len(layers) > 1 and len(u) > 1:
        return HIDDEN_LAYER(first.weight, first.bias, u)
    few = layers[:-1](u)  # the table of a first layer
    return torch.cat([few, few.new_ones(*few.shape[:-1], 1)], -1)


def _hidden_forward(weight: Tensor, bias: Tensor, u: Tensor) -> tuple[Tensor]:
    """Map u (B, T, D) to (relu(W u + c), 1), (B, T, n + 1), position by position."""
    columns, matrix = _with_ones(u), torch.cat([weight, bias[:, None]], 1)
    z = u.new_empty(len(columns), len(weight) + 1, len(u))
    z[:, -1] = 1
    for at, out in zip(columns, z[:, :-1], strict=True):
        torch.mm(matrix, at, out=out).relu_()
    return (z.permute(2, 0, 1),)


def _hidden_backward(
    weight: Tensor, bias: Tensor, u: Tensor, result: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    columns, transposed = _with_ones(u), weight.T.contiguous()
    du = torch.empty_like(columns[:, :-1], memory_format=torch.contiguous_format)
    dmatrix = weight.new_zeros(len(weight), columns.shape[1])
    upstream = gradient.permute(1, 2, 0).contiguous()[:, :-1]
    z = result.permute(1, 2, 0)[:, :-1]
    before = torch.empty_like(z[0])
    for at, kept, g, out in zip(columns, z, upstream, du, strict=True):
        torch.ops.aten.threshold_backward(g, kept, 0, grad_input=before)
        dmatrix.addmm_(before, at.T)
        torch.mm(transposed, before, out=out)
    return dmatrix[:, :-1], dmatrix[:, -1], du.permute(2, 0, 1)


def _with_ones(u: Tensor) -> Tensor:
    """Return u (B, T, D) as (T, D + 1, B), with a 1 for the bias at the end."""
    columns = u.new_empty(u.shape[1], u.shape[2] + 1, len(u))
    columns[:, :-1] = u.permute(1, 2, 0)
    columns[:, -1] = 1
    return columns


# A loop: autograd of one batched product would make a gradient of the weights for every position
HIDDEN_LAYER = ClosedForm(_hidden_forward, _hidden_backward, one_by_one)


def generated_blocks(
    layers: nn.Sequential, u: Tensor, shape: tuple[int, int], constraint: str, p: float
) -> GeneratedBlocks | BlockDiagonal:
    """Return the transitions layers(u_k) under a constraint, as h = shape[0] blocks b x b.

    Those of a table, u (1, S, D), are made at once.
    """
    heads, size = shape
    if len(u) == 1 and u.shape[1] <= LARGEST_TABLE:
        few = constrain_few(layers(u[0]).view(-1, size, size), constraint, p)
        return BlockDiagonal(few.view(1, -1, heads, size, size))
    last = layers[-1]
    assert isinstance(last, nn.Linear)
    weight = torch.cat([last.weight, last.bias[:, None]], 1).view(heads, size, size, -1)
    return GeneratedBlocks(weight, features(layers, u), constraint, p)


def blocks_of(width: int, size: int) -> int:
    """Return how many blocks of `size` make a state of `width`; ValueError if that is no number."""
    if width % size:
        raise ValueError(
            f"model.width {width} is not a multiple of model.mixer.block_size {size};"
            " change one of them or set model.mixer.blocks"
        )
    return width // size
