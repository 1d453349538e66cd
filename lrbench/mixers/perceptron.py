"""A two-layer perceptron, worked through in pieces that stay in the cache.

    z = relu(W_1 x + c_1),   y = W_2 z + c_2

The arithmetic of a small perceptron is nothing; reading and writing (B, T, D) numbers for each of
its operations and their gradients is what costs on CPU. So a piece of some hundred positions goes
through all of them before the next one does. Kept for the backward: x and z.

`input_map` makes the functions g(u) that the coefficients of a recurrence come from: this
perceptron, or an affine map.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrbench.scan import BlockDiagonal, GeneratedBlocks
from lrbench.scan.blocks.constraints import PIECE, constrain_few
from lrbench.scan.blocks.indexed import LARGEST_TABLE
from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable
from lrbench.scan.products import add_product, product
from lrbench.scan.transitions import PerceptronBlocks

WIDE = 16  # the compiled loops take so many hidden units at a time
MOST_COMPILED_OUTPUTS = 16  # with more, BLAS is better at the second product too


def perceptron(layers: nn.Sequential, x: Tensor, start: int = 0) -> Tensor:
    """Return layers[start:](x), (..., C) for x (..., D), where those are Linear, ReLU, Linear.

    On CPU the result lies in memory as (C, ...), which is what a softmax over few classes wants.
    """
    first, last = layers[start], layers[start + 2]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    if x.device.type != "cpu":
        result: Tensor = last(torch.relu(first(x)))
        return result
    loop = COMPILED_TWO_LAYERS if _compiles(first, last, x) else TWO_LAYERS
    return loop(first.weight, first.bias, last.weight, last.bias, x)


def _forward(w1: Tensor, c1: Tensor, w2: Tensor, c2: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    rows = x.flatten(0, -2)
    z, logits = rows.new_empty(len(rows), len(w1)), rows.new_empty(len(w2), len(rows))
    piece = _rows_at_a_time(z)
    for xs, zs, out in zip(
        rows.split(piece), z.split(piece), logits.split(piece, dim=1), strict=True
    ):
        product(xs, w1.T, out=zs, bias=c1).relu_()
        product(w2, zs.T, out=out, bias=c2[:, None])
    return logits.T.unflatten(0, x.shape[:-1]), z


def _backward(
    w1: Tensor,
    c1: Tensor,
    w2: Tensor,
    c2: Tensor,
    x: Tensor,
    result: Tensor,
    z: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, ...]:
    rows, upstream = x.flatten(0, -2), gradient.flatten(0, -2)
    dx = torch.empty_like(rows, memory_format=torch.contiguous_format)
    dw1, dc1, dw2 = torch.zeros_like(w1), torch.zeros_like(c1), torch.zeros_like(w2)
    piece = _rows_at_a_time(z)
    split = (t.split(piece) for t in (rows, z, upstream, dx))
    for xs, zs, g, out in zip(*split, strict=True):
        add_product(dw2, g.T, zs)
        before = torch.ops.aten.threshold_backward(product(g, w2), zs, 0)
        dc1 += before.sum(0)
        add_product(dw1, before.T, xs)
        product(before, w1, out=out)
    return dw1, dc1, dw2, upstream.sum(0), dx.view(x.shape)


def _compiles(first: nn.Linear, last: nn.Linear, x: Tensor) -> bool:
    few = last.out_features <= MOST_COMPILED_OUTPUTS
    fits = few and first.out_features % WIDE == 0
    return fits and usable(x, "perceptron", first.out_features, last.out_features)


def _compiled_forward(
    w1: Tensor, c1: Tensor, w2: Tensor, c2: Tensor, x: Tensor
) -> tuple[Tensor, Tensor]:
    from lrbench.scan.compiled.layers.perceptron import forward_loop

    rows = x.flatten(0, -2)
    z, logits = rows.new_empty(len(rows), len(w1)), rows.new_empty(len(w2), len(rows))
    loop = forward_loop(len(w1), len(w2), DTYPES[x.dtype])
    arrays = [array(tensor) for tensor in (z, c1, w2, c2, logits)]
    piece, done = _rows_at_a_time(z), 0
    for xs, zs in zip(rows.split(piece), z.split(piece), strict=True):
        product(xs, w1.T, out=zs)
        loop(*arrays, done, done + len(xs))
        done += len(xs)
    return logits.T.unflatten(0, x.shape[:-1]), z


def _compiled_backward(
    w1: Tensor,
    c1: Tensor,
    w2: Tensor,
    c2: Tensor,
    x: Tensor,
    result: Tensor,
    z: Tensor,
    gradient: Tensor,
) -> tuple[Tensor, ...]:
    from lrbench.scan.compiled.layers.perceptron import backward_loop

    rows, upstream = x.flatten(0, -2), gradient.flatten(0, -2).T.contiguous()
    dx = torch.empty_like(rows, memory_format=torch.contiguous_format)
    dw1, sums = (
        torch.zeros_like(w1),
        (torch.zeros_like(w2), torch.zeros_like(c1), torch.zeros_like(c2)),
    )
    piece, done = _rows_at_a_time(z), 0
    dz = z[:piece].clone()
    loop = backward_loop(len(w1), len(w2), DTYPES[x.dtype])
    arrays = [array(tensor) for tensor in (z, w2, upstream, dz, *sums)]
    for xs, out in zip(rows.split(piece), dx.split(piece), strict=True):
        loop(*arrays, done, done + len(xs))
        done += len(xs)
        before = dz[: len(xs)]
        add_product(dw1, before.T, xs)
        product(before, w1, out=out)
    dw2, dc1, dc2 = sums
    return dw1, dc1, dw2, dc2, dx.view(x.shape)


def _rows_at_a_time(z: Tensor) -> int:
    return max(1, PIECE // max(1, z.shape[1]))


TWO_LAYERS = ClosedForm(_forward, _backward, one_by_one)
COMPILED_TWO_LAYERS = ClosedForm(_compiled_forward, _compiled_backward, one_by_one)


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
