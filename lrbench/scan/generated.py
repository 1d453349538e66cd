"""The sequential block scan that makes its blocks as it goes.

A_k = v_k / m_k by columns, with v_k = W z_k + c and m_k a function of the column norms of v_k
(`constraints.py`, whose names this file uses). All work on a position is done while its blocks are
in the cache, and three products with blocks-sized operands never happen:

- columns are not divided: A_k x = v_k (x / m_k);
- s_j = sum_r dA_rj A_rj needs no dA: as dA_k = lambda_k x_{k-1}^T, it is x_{k-1} A_k^T lambda_k,
  and A_k^T lambda_k is what the adjoint recurrence carries on;
- dv_k goes straight into dW, dc and dz_k and is forgotten.

Kept for the backward: v (T, h, b, b, B), its column norms n, 1 / m and the states; without
gradients v is one position long. Layout: the batch is the last axis, as in `sequential.py`.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.constraints import (
    centred,
    column_norms,
    inverse_divisors,
    pull,
    slopes,
)
from lrbench.scan.transitions import GeneratedBlocks


def generated_scan(blocks: GeneratedBlocks, inputs: Tensor, initial: Tensor) -> Tensor:
    """Return the states (B, T, h, b) for `inputs` (B, T, h, b) and `initial` (B, h, b)."""
    weight = centred(blocks.weight, blocks.constraint)
    bias = centred(blocks.bias.unsqueeze(-1), blocks.constraint).squeeze(-1)
    constraint, p, keep = blocks.constraint, blocks.p, torch.is_grad_enabled()
    forward = partial(_forward, keep=keep, constraint=constraint, p=p)
    backward = partial(_backward, constraint=constraint, p=p)
    loop = ClosedForm(forward, backward, one_by_one)
    return loop(weight, bias, blocks.features, inputs, initial)


def _forward(
    weight: Tensor,
    bias: Tensor,
    features: Tensor,
    inputs: Tensor,
    initial: Tensor,
    *,
    keep: bool,
    constraint: str,
    p: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    batch, length, *shape = inputs.shape
    matrix, column = weight.flatten(0, 2), bias.view(-1, 1)
    z = features.permute(1, 2, 0).contiguous()
    states = inputs.permute(1, 2, 3, 0).clone(memory_format=torch.contiguous_format)
    v = inputs.new_empty(length if keep else 1, *shape, shape[1], batch)
    scratch = torch.empty_like(v[0])
    lengths, inverses = [], []
    state = initial.permute(1, 2, 0)
    for k in range(length):
        blocks = v[k % len(v)]
        torch.addmm(column, matrix, z[k], out=blocks.view(-1, batch))
        lengths.append(column_norms(blocks, p, scratch))
        inverses.append(inverse_divisors(lengths[k], constraint, p))
        torch.mul(blocks, (state * inverses[k])[:, None], out=scratch)
        state = states[k].add_(scratch.sum(2))
    return states.permute(3, 0, 1, 2), v, torch.stack(lengths), torch.stack(inverses)


def _backward(
    weight: Tensor,
    bias: Tensor,
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
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    batch = len(features)
    matrix = weight.flatten(0, 2)
    z = features.permute(1, 2, 0).contiguous()
    adjoint = gradient.permute(1, 2, 3, 0).clone(memory_format=torch.contiguous_format)
    x = states.permute(1, 2, 3, 0)
    first = initial.permute(1, 2, 0)
    dmatrix, dcolumn = torch.zeros_like(matrix), torch.zeros_like(matrix[:, 0])
    dz, transposed = torch.empty_like(z), matrix.T.contiguous()
    ones = matrix.new_ones(batch)
    carried = torch.zeros_like(adjoint[0])
    dv, w = torch.empty_like(v[0]), torch.empty_like(v[0])
    for k in range(len(z) - 1, -1, -1):
        lam = adjoint[k].add_(carried)[:, :, None]
        before = x[k - 1] if k else first
        carried = torch.mul(v[k], lam, out=w).sum(1).mul_(inverse[k])
        torch.mul(lam, (before * inverse[k])[:, None], out=dv)
        c = pull(n[k], inverse[k], carried * before, constraint, p)
        if c is not None:
            dv.addcmul_(slopes(v[k], p, w), c[:, None], value=-1)
        flat = dv.view(-1, batch)
        dmatrix.addmm_(flat, z[k].T)
        dcolumn.addmv_(flat, ones)
        torch.mm(transposed, flat, out=dz[k])
    return (
        dmatrix.view(weight.shape),
        dcolumn.view(bias.shape),
        dz.permute(2, 0, 1),
        adjoint.permute(3, 0, 1, 2),
        carried.permute(2, 0, 1),
    )
