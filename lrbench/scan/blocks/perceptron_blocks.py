"""The generated scan together with the hidden layer that its features come from.

    z_k = relu(W_1 u_k + c_1),    v_k = W (z_k, 1)

z and its gradient are as large as the blocks, and going to memory with them costs as much as a step
does. Here z_k goes into its product when it was just made, and dz_k into those of dW_1 and du_k.
Only what the compiled loops of `generated.py` cover is done in this way; otherwise z is made first,
and `generated_scan` does the rest.

Kept for the backward: u (T, D + 1, B), with a 1 for the bias; z (T, n + 1, B), likewise; and what
`generated.py` keeps. The batch is the last axis, as there.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import array
from lrbench.kernels.products import add_product, product
from lrbench.scan.blocks.generated import (
    AT_ONCE,
    backward_loop,
    compiles,
    forward_loop,
    generated_scan,
)
from lrbench.scan.blocks.hidden import with_ones
from lrbench.scan.blocks.indexed import strings_first, strings_last
from lrbench.scan.transitions import PerceptronBlocks


def perceptron_scan(blocks: PerceptronBlocks, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states (B, T, h, b) for `inputs` (B, T, h, b) and `initial` (B, h, b)."""
    if not compiles(blocks, initial):
        return generated_scan(blocks.generated(), inputs, initial)
    constraint, p, keep = blocks.constraint, blocks.p, torch.is_grad_enabled()
    forward = partial(_forward, keep=keep, constraint=constraint, p=p)
    backward = partial(_backward, constraint=constraint, p=p)
    loop = ClosedForm(forward, backward, one_by_one)
    return loop(blocks.weight, blocks.first_weight, blocks.first_bias, blocks.u, inputs, initial)


def _forward(*tensors: Tensor, keep: bool, constraint: str, p: float) -> tuple[Tensor, ...]:
    weight, first_weight, first_bias, u, inputs, initial = tensors
    batch, length, heads, size = inputs.shape
    matrix = by_rows(weight, constraint)
    computed, slots, hidden = len(matrix), length if keep else 1, len(first_weight)
    matrix, first = matrix.flatten(0, 2), torch.cat([first_weight, first_bias[:, None]], 1)
    columns, states = with_ones(u), strings_last(inputs)
    z = u.new_empty(slots, hidden + 1, batch)
    z[:, -1] = 1
    v = u.new_empty(slots, size, heads, size, batch)
    powers, scales = torch.empty_like(states), torch.empty_like(states)
    loop = forward_loop(size, constraint, DTYPES[v.dtype])
    arrays = list(map(array, (v, states, initial.permute(1, 2, 0), powers, scales)))
    for k, column in enumerate(columns):
        slot = k % slots
        product(first, column, out=z[slot, :-1]).relu_()
        product(matrix, z[slot], out=v[slot, :computed].view(-1, batch))
        loop(*arrays, k, slot, p, torch.finfo(v.dtype).tiny)
    return strings_first(states), columns, z, states, v, powers, scales


def _backward(*tensors: Tensor, constraint: str, p: float) -> tuple[Tensor, ...]:
    weight, first_weight, _first_bias, _u, _inputs, initial = tensors[:6]
    _result, columns, z, states, v, powers, scales, gradient = tensors[6:]
    matrix = by_rows(weight, constraint)
    computed, dmatrix = len(matrix), torch.zeros_like(matrix)
    transposed, back = matrix.flatten(0, 2)[:, :-1].T.contiguous(), first_weight.T.contiguous()
    flat, dfirst = dmatrix.flatten(0, 2), columns.new_zeros(len(first_weight), columns.shape[1])
    adjoints, carried = strings_last(gradient), torch.zeros_like(states[0])
    dv, dz = v.new_empty(min(AT_ONCE, len(v)), *v.shape[1:]), torch.empty_like(z[0, :-1])
    du = torch.empty_like(columns[:, :-1], memory_format=torch.contiguous_format)
    loop = backward_loop(v.shape[1], constraint, DTYPES[v.dtype])
    first = initial.permute(1, 2, 0)
    arrays = list(map(array, (v, states, first, powers, scales, adjoints, carried, dv)))
    for stop in range(len(v), 0, -AT_ONCE):
        start = max(0, stop - AT_ONCE)
        loop(*arrays, start, stop, p, torch.finfo(v.dtype).tiny)
        rows = [each[:computed].view(-1, each.shape[-1]) for each in dv[: stop - start]]
        for k, row in enumerate(rows, start):
            add_product(flat, row, z[k].T)
        for k, row in enumerate(rows, start):
            product(transposed, row, out=dz)
            torch.ops.aten.threshold_backward(dz, z[k, :-1], 0, grad_input=dz)
            add_product(dfirst, dz, columns[k].T)
            product(back, dz, out=du[k])
    return (
        by_heads(dmatrix, constraint),
        dfirst[:, :-1],
        dfirst[:, -1],
        du.permute(2, 0, 1),
        strings_first(adjoints),
        carried.permute(2, 0, 1),
    )


def by_rows(weight: Tensor, constraint: str) -> Tensor:
    """Return the rows of weight (h, b, b, n) that are computed, centred, as (b or b - 1, h, b, n).

    Where columns are centred, the last row of a block is minus the sum of the others.
    """
    if constraint != "max_column_centred":
        return weight.transpose(0, 1).contiguous()
    kept = weight[:, :-1].transpose(0, 1)
    return torch.sub(kept, weight.mean(1), out=weight.new_empty(kept.shape))


def by_heads(gradient: Tensor, constraint: str) -> Tensor:
    """Return the gradient of a weight (h, b, b, n) from that of `by_rows` of it."""
    if constraint != "max_column_centred":
        return gradient.transpose(0, 1)
    rows, heads, size, features = gradient.shape
    mean = gradient.sum(0).div_(rows + 1)
    result = gradient.new_empty(heads, rows + 1, size, features)
    torch.sub(gradient.transpose(0, 1), mean[:, None], out=result[:, :-1])
    torch.neg(mean, out=result[:, -1])
    return result
