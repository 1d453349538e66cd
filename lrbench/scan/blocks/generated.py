"""The sequential block scan that makes its blocks as it goes.

A_k = v_k / m_k by columns, with v_k = W z_k and m_k a function of the column norms of v_k
(`constraints.py`, whose names this file uses). All work on a position is done while its blocks are
in the cache, and three products with blocks-sized operands never happen:

- columns are not divided: A_k x = v_k (x / m_k);
- s_j = sum_r dA_rj A_rj needs no dA: as dA_k = lambda_k x_{k-1}^T, it is x_{k-1} A_k^T lambda_k,
  and A_k^T lambda_k is what the adjoint recurrence carries on;
- dv_k goes straight into dW and dz_k and is forgotten.

Where columns are centred, the last row of a block is minus the sum of the others, and one product
in b is saved.

Kept for the backward: v (T, b, h, b, B), [row, head, column, string], its column norms n, 1 / m and
the states; without gradients v is one position long. The batch is the last axis, as in
`sequential.py`; rows come first, so that the rows that are computed lie together.
"""

from __future__ import annotations

from functools import partial
from math import inf

import torch
from torch import Tensor

from lrbench.scan.blocks.constraints import (
    LARGEST_COMPILED,
    centred,
    column_norms,
    inverse_divisors,
    pull,
    pull_factor,
    slopes,
)
from lrbench.scan.blocks.indexed import strings_first, strings_last
from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable
from lrbench.scan.products import add_product, product
from lrbench.scan.transitions import GeneratedBlocks, PerceptronBlocks

# Positions whose blocks' gradients wait for the products: W, dW and a position's operands together
# are more than a level-2 cache, so that going from one to the other at each position is slower
AT_ONCE = 8
WIDE = 16  # strings that a compiled loop takes at a time


def generated_scan(blocks: GeneratedBlocks, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states (B, T, h, b) for `inputs` (B, T, h, b) and `initial` (B, h, b)."""
    weight = centred(blocks.weight, blocks.constraint).transpose(0, 1)  # (row, h, column, n)
    if blocks.constraint == "max_column_centred":
        weight = weight[:-1]
    constraint, p, keep = blocks.constraint, blocks.p, torch.is_grad_enabled()
    compiled = compiles(blocks, initial)
    forward = partial(
        _compiled_forward if compiled else _forward, keep=keep, constraint=constraint, p=p
    )
    backward = partial(_compiled_backward if compiled else _backward, constraint=constraint, p=p)
    loop = ClosedForm(forward, backward, one_by_one)
    return loop(weight, blocks.features, inputs, initial)


def compiles(blocks: GeneratedBlocks | PerceptronBlocks, initial: Tensor) -> bool:
    """Tell whether there is a compiled loop for blocks that act on states (B, h, b)."""
    batch, _, size = initial.shape
    fits = batch > 0 and batch % WIDE == 0 and size <= LARGEST_COMPILED and blocks.p < inf
    name = "generated_blocks" if isinstance(blocks, GeneratedBlocks) else "perceptron_blocks"
    return fits and blocks.constraint != "none" and usable(initial, name, size, blocks.constraint)


def _forward(
    weight: Tensor,
    features: Tensor,
    inputs: Tensor,
    initial: Tensor,
    *,
    keep: bool,
    constraint: str,
    p: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, length, heads, size = inputs.shape
    matrix, computed = weight.flatten(0, 2), len(weight)
    z = features.permute(1, 2, 0).contiguous()
    states = inputs.permute(1, 2, 3, 0).clone(memory_format=torch.contiguous_format)
    v = inputs.new_empty(length if keep else 1, size, heads, size, batch)
    scratch = torch.empty_like(v[0])
    norms, inverses = [], []
    state = initial.permute(1, 2, 0)
    for k in range(length):
        blocks = v[k % len(v)]
        product(matrix, z[k], out=blocks[:computed].view(-1, batch))
        if computed < size:
            torch.sum(blocks[:computed], 0, out=blocks[-1]).neg_()
        norms.append(column_norms(blocks.flatten(1, 2), p, scratch.flatten(1, 2)).view_as(state))
        inverses.append(inverse_divisors(norms[k], constraint, p))
        torch.mul(blocks, state * inverses[k], out=scratch)
        state = states[k].add_(scratch.sum(2).transpose(0, 1))
    return states.permute(3, 0, 1, 2), v, torch.stack(norms), torch.stack(inverses)


def _backward(
    weight: Tensor,
    features: Tensor,
    inputs: Tensor,
    initial: Tensor,
    states: Tensor,
    v: Tensor,
    n: Tensor,
    inverse: Tensor,
    gradient: Tensor,
    *,
    constraint: str,
    p: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    matrix, computed, size = weight.flatten(0, 2), len(weight), inputs.shape[-1]
    z = features.permute(1, 2, 0).contiguous()
    adjoint = gradient.permute(1, 2, 3, 0).clone(memory_format=torch.contiguous_format)
    x = states.permute(1, 2, 3, 0)
    first = initial.permute(1, 2, 0)
    dmatrix, dz, transposed = torch.zeros_like(matrix), torch.empty_like(z), matrix.T.contiguous()
    factor = pull_factor(n, inverse, constraint, p)
    carried = torch.zeros_like(adjoint[0])
    dv, w = v.new_empty(min(AT_ONCE, len(v)), *v.shape[1:]), torch.empty_like(v[0])
    for stop in range(len(v), 0, -AT_ONCE):
        piece = range(max(0, stop - AT_ONCE), stop)
        for k in reversed(piece):
            lam = adjoint[k].add_(carried).transpose(0, 1)[:, :, None]
            before, out = x[k - 1] if k else first, dv[k - piece.start]
            carried = torch.mul(v[k], lam, out=w).sum(0).mul_(inverse[k])
            torch.mul(lam, before * inverse[k], out=out)
            if factor is not None:
                c = pull(factor[k], carried * before, constraint)
                slope = slopes(v[k].flatten(1, 2), p, w.flatten(1, 2)).view_as(out)
                out.addcmul_(slope, c, value=-1)
            if computed < size:
                out[:computed].sub_(out[-1])
        rows = [each[:computed].view(-1, each.shape[-1]) for each in dv[: len(piece)]]
        for k, row in zip(piece, rows, strict=True):
            add_product(dmatrix, row, z[k].T)
        for k, row in zip(piece, rows, strict=True):
            product(transposed, row, out=dz[k])
    return (
        dmatrix.view(weight.shape),
        dz.permute(2, 0, 1),
        adjoint.permute(3, 0, 1, 2),
        carried.permute(2, 0, 1),
    )


def _compiled_forward(
    weight: Tensor,
    features: Tensor,
    inputs: Tensor,
    initial: Tensor,
    *,
    keep: bool,
    constraint: str,
    p: float,
) -> tuple[Tensor, ...]:
    from lrbench.scan.compiled.scans.generated import forward_loop

    batch, length, heads, size = inputs.shape
    matrix, computed = weight.flatten(0, 2), len(weight)
    z = features.permute(1, 2, 0).contiguous()
    states = strings_last(inputs)
    v = inputs.new_empty(length if keep else 1, size, heads, size, batch)
    powers, scales = torch.empty_like(states), torch.empty_like(states)
    loop = forward_loop(size, constraint, DTYPES[v.dtype])
    arrays = list(map(array, (v, states, initial.permute(1, 2, 0), powers, scales)))
    for k in range(length):
        slot = k % len(v)
        product(matrix, z[k], out=v[slot, :computed].view(-1, batch))
        loop(*arrays, k, slot, p, torch.finfo(v.dtype).tiny)
    return strings_first(states), states, v, powers, scales


def _compiled_backward(
    weight: Tensor,
    features: Tensor,
    inputs: Tensor,
    initial: Tensor,
    result: Tensor,
    states: Tensor,
    v: Tensor,
    powers: Tensor,
    scales: Tensor,
    gradient: Tensor,
    *,
    constraint: str,
    p: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from lrbench.scan.compiled.scans.generated import backward_loop

    matrix, computed, size = weight.flatten(0, 2), len(weight), inputs.shape[-1]
    z = features.permute(1, 2, 0).contiguous()
    adjoints, carried = strings_last(gradient), torch.zeros_like(states[0])
    dmatrix, dz, transposed = torch.zeros_like(matrix), torch.empty_like(z), matrix.T.contiguous()
    dv = v.new_empty(min(AT_ONCE, len(v)), *v.shape[1:])
    loop = backward_loop(size, constraint, DTYPES[v.dtype])
    first = initial.permute(1, 2, 0)
    arrays = list(map(array, (v, states, first, powers, scales, adjoints, carried, dv)))
    for stop in range(len(v), 0, -AT_ONCE):
        start = max(0, stop - AT_ONCE)
        loop(*arrays, start, stop, p, torch.finfo(v.dtype).tiny)
        rows = [each[:computed].view(-1, each.shape[-1]) for each in dv[: stop - start]]
        for k, row in enumerate(rows, start):
            add_product(dmatrix, row, z[k].T)
        for k, row in enumerate(rows, start):
            product(transposed, row, out=dz[k])
    return (
        dmatrix.view(weight.shape),
        dz.permute(2, 0, 1),
        strings_first(adjoints),
        carried.permute(2, 0, 1),
    )
