"""Positions of the scan that makes its blocks as it goes: what `scan/blocks/generated.py` computes.

WIDE strings lie side by side in lanes. For one block of theirs, all that is done between the
products with W is done at once, so that v is read from the cache and a step's other numbers stay
in the first level of it:

    forward    the last row, where columns are centred; P and 1 / m; x_k = b_k + v (x_{k-1} / m)
    backward   lambda_k; what it carries on, (A^T lambda)_j = (v^T lambda)_j / m_j;
               s_j = (A^T lambda)_j x_j;  dv_rj = lambda_r x_j / m_j - w(v_rj) c_j.

Of `max_column_centred` only the largest column has c and needs a power: it is picked out of each
string's block first, and all columns are bent only where two columns of one string are equal.

Shapes: v and dv (slots, b, h, b, B), [row, head, column, string]; states, adjoints and what is kept
of columns (T, h, b, B); initial and carried (h, b, B). P as in `column.py`.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from lrbench.scan.compiled.compiler import Loop, compiled
from lrbench.scan.compiled.lanes import (
    add,
    at_least,
    every,
    fma,
    greater,
    load,
    mul,
    reciprocal,
    store,
    sub,
    total,
    zero,
)
from lrbench.scan.compiled.scans.column import MAX, RULES, inverse, power, pull, slope

WIDE = 16


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
                        own = add(own, power(one, exponent))
                        last = sub(last, one)
                    if rule == MAX:
                        store(v, block + computed * row + c * batch, last)
                        own = add(own, power(last, exponent))
                        highest = greater(own, highest)
                    store(powers, here + c * batch, own)
                scale = inverse(highest, rule, root, smallest)
                for c in range(b):
                    if rule != MAX:
                        own = load(powers, here + c * batch, WIDE)
                        scale = inverse(own, rule, root, smallest)
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
                            store(bends, c * WIDE, pull(own, s, rule, smallest))
                    equal = False
                    if rule == MAX:
                        for c in range(b):
                            own = load(powers, here + c * batch, WIDE)
                            is_largest = at_least(own, highest, one)
                            sharing = add(sharing, is_largest)
                            store(bends, c * WIDE, is_largest)
                        equal = total(sharing) > WIDE
                        bend = pull(highest, mul(of_all, reciprocal(sharing)), rule, smallest)
                        for r in range(b):
                            picked = nothing
                            for c in range(b):
                                element = load(v, block + r * row + c * batch, WIDE)
                                picked = fma(element, load(bends, c * WIDE, WIDE), picked)
                            store(slopes, r * WIDE, mul(slope(picked, less), bend))
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
                                bent = mul(slope(element, less), bend)
                            d = sub(mul(load(lam, r * WIDE, WIDE), x), bent)
                            if r == computed:
                                last = d
                            else:
                                store(dv, out + r * row + c * batch, sub(d, last))

    return generated_backward
