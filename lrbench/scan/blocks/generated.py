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

In compiled loops WIDE strings lie side by side in lanes. For one block of theirs, all that is done
between the products with W is done at once, so that v is read from the cache and a step's other
numbers stay in the first level of it:

    forward    the last row, where columns are centred; P and 1 / m; x_k = b_k + v (x_{k-1} / m)
    backward   lambda_k; what it carries on, (A^T lambda)_j = (v^T lambda)_j / m_j;
               s_j = (A^T lambda)_j x_j;  dv_rj = lambda_r x_j / m_j - w(v_rj) c_j.

Of `max_column_centred` only the largest column has c and needs a power: it is picked out of each
string's block first, and all columns are bent only where two columns of one string are equal.

Shapes there: v and dv (slots, b, h, b, B); states, adjoints and what is kept of columns
(T, h, b, B); initial and carried (h, b, B). P as in `column.py`.
"""

from __future__ import annotations

from functools import cache, partial
from math import inf

import numpy as np
import torch
from torch import Tensor

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import (
    add,
    every,
    fma,
    greater,
    load,
    mul,
    reciprocal,
    store,
    sub,
    total,
    where_at_least,
    zero,
)
from lrbench.kernels.products import add_product, product
from lrbench.scan.blocks.column import MAX, RULES, inverse_of, power_of, pull_of, slope_of
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


def _forward(*tensors: Tensor, keep: bool, constraint: str, p: float) -> Tensors:
    weight, features, inputs, initial = tensors
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


def _backward(*tensors: Tensor, constraint: str, p: float) -> Tensors:
    weight, features, inputs, initial, states, v, n, inverse, gradient = tensors
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


def _compiled_forward(*tensors: Tensor, keep: bool, constraint: str, p: float) -> Tensors:
    weight, features, inputs, initial = tensors
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


def _compiled_backward(*tensors: Tensor, constraint: str, p: float) -> Tensors:
    weight, features, inputs, initial, _result, states, v, powers, scales, gradient = tensors
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


@cache
def forward_loop(b: int, constraint: str, dtype: str) -> Loop:
    """Return the loop over one position k, whose W z lies in v at `slot` and b_k in states.

    It fills states, P and 1 / m at k, and the last row of v where columns are centred.
    """
    rule = RULES[constraint]
    computed = b - 1 if rule == MAX else b

    @compiled(b, constraint, dtype)
    def generated_forward(v, states, initial, powers, scales, k, slot, p, tiny):  # type: ignore[no-untyped-def]
        heads, batch = initial.shape[0], initial.shape[2]
        width, row = heads * b * batch, heads * b * batch
        nothing = zero(load(initial, 0, WIDE))
        exponent, root, smallest = every(p, nothing), every(-1 / p, nothing), every(tiny, nothing)
        scaled = np.empty(b * WIDE, initial.dtype)  # x_j / m_j
        for i in range(heads):
            for string in range(0, batch, WIDE):
                at, here = i * b * batch + string, k * width + i * b * batch + string
                block = slot * b * row + at
                highest = nothing
                for c in range(b):
                    own, last = nothing, nothing
                    for r in range(computed):
                        one = load(v, block + r * row + c * batch, WIDE)
                        own = add(own, power_of(one, exponent))
                        last = sub(last, one)
                    if rule == MAX:
                        store(v, block + computed * row + c * batch, last)
                        own = add(own, power_of(last, exponent))
                        highest = greater(own, highest)
                    store(powers, here + c * batch, own)
                scale = inverse_of(highest, rule, root, smallest)
                for c in range(b):
                    if rule != MAX:
                        own = load(powers, here + c * batch, WIDE)
                        scale = inverse_of(own, rule, root, smallest)
                    store(scales, here + c * batch, scale)
                    if k > 0:
                        x = load(states, here - width + c * batch, WIDE)
                    else:
                        x = load(initial, at + c * batch, WIDE)
                    store(scaled, c * WIDE, mul(x, scale))
                for r in range(b):
                    y = load(states, here + r * batch, WIDE)
                    for c in range(b):
                        one = load(v, block + r * row + c * batch, WIDE)
                        y = fma(one, load(scaled, c * WIDE, WIDE), y)
                    store(states, here + r * batch, y)

    return generated_forward


@cache
def backward_loop(b: int, constraint: str, dtype: str) -> Loop:
    """Return the loop that walks from position `stop` - 1 down to `start`.

    It is given v, states, initial, P, 1 / m, adjoints (upstream gradients, which become lambda_k),
    carried (A_{k+1}^T lambda_{k+1}, which becomes that of `start`), dv to fill from its slot 0 on
    (all but the last row where columns are centred), start, stop, p, tiny.
    """
    rule = RULES[constraint]
    computed = b - 1 if rule == MAX else b

    @compiled(b, constraint, dtype)
    def generated_backward(  # type: ignore[no-untyped-def]
        v, states, initial, powers, scales, adjoints, carried, dv, start, stop, p, tiny
    ):
        heads, batch = initial.shape[0], initial.shape[2]
        width, row = heads * b * batch, heads * b * batch
        nothing = zero(load(initial, 0, WIDE))
        one, less, smallest = every(1.0, nothing), every(p - 1, nothing), every(tiny, nothing)
        lam = np.empty(b * WIDE, initial.dtype)  # lambda_r
        scaled = np.empty(b * WIDE, initial.dtype)  # x_j / m_j
        bends = np.empty(b * WIDE, initial.dtype)  # c_j
        slopes = np.empty(b * WIDE, initial.dtype)  # w(v_r) of the largest column
        for k in range(stop - 1, start - 1, -1):
            for i in range(heads):
                for string in range(0, batch, WIDE):
                    at, here = i * b * batch + string, k * width + i * b * batch + string
                    block, out = k * b * row + at, (k - start) * b * row + at
                    for r in range(b):
                        own = load(adjoints, here + r * batch, WIDE)
                        own = add(own, load(carried, at + r * batch, WIDE))
                        store(adjoints, here + r * batch, own)
                        store(lam, r * WIDE, own)
                    highest, of_all, sharing = nothing, nothing, nothing
                    for c in range(b):
                        product = nothing
                        for r in range(b):
                            element = load(v, block + r * row + c * batch, WIDE)
                            product = fma(element, load(lam, r * WIDE, WIDE), product)
                        scale = load(scales, here + c * batch, WIDE)
                        product = mul(product, scale)
                        store(carried, at + c * batch, product)
                        if k > 0:
                            x = load(states, here - width + c * batch, WIDE)
                        else:
                            x = load(initial, at + c * batch, WIDE)
                        store(scaled, c * WIDE, mul(x, scale))
                        own, s = load(powers, here + c * batch, WIDE), mul(product, x)
                        if rule == MAX:
                            highest, of_all = greater(own, highest), add(of_all, s)
                        else:
                            store(bends, c * WIDE, pull_of(own, s, rule, smallest))
                    equal = False
                    if rule == MAX:
                        for c in range(b):
                            own = load(powers, here + c * batch, WIDE)
                            is_largest = where_at_least(own, highest, one)
                            sharing = add(sharing, is_largest)
                            store(bends, c * WIDE, is_largest)
                        equal = total(sharing) > WIDE
                        bend = pull_of(highest, mul(of_all, reciprocal(sharing)), rule, smallest)
                        for r in range(b):
                            picked = nothing
                            for c in range(b):
                                element = load(v, block + r * row + c * batch, WIDE)
                                picked = fma(element, load(bends, c * WIDE, WIDE), picked)
                            store(slopes, r * WIDE, mul(slope_of(picked, less), bend))
                        if equal:
                            for c in range(b):
                                store(bends, c * WIDE, mul(load(bends, c * WIDE, WIDE), bend))
                    for c in range(b):
                        x, bend = load(scaled, c * WIDE, WIDE), load(bends, c * WIDE, WIDE)
                        last = nothing
                        for back in range(b):
                            r = b - 1 - back
                            if rule == MAX and not equal:
                                bent = mul(load(slopes, r * WIDE, WIDE), bend)
                            else:
                                element = load(v, block + r * row + c * batch, WIDE)
                                bent = mul(slope_of(element, less), bend)
                            d = sub(mul(load(lam, r * WIDE, WIDE), x), bent)
                            if r == computed:
                                last = d
                            else:
                                store(dv, out + r * row + c * batch, sub(d, last))

    return generated_backward
