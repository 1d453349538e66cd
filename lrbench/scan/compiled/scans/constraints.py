"""Column constraints on a few blocks, the columns of a block side by side in lanes.

What `scan/blocks/constraints.py` computes on blocks with the batch last, for blocks as a product
with weights gives them: (N, b, b), [row, column]. `max_column_centred` is given blocks that are yet
to be centred. P is that of `column.py`, (N, b).
"""

from __future__ import annotations

from functools import cache

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
    spread,
    store,
    sub,
    zero,
)
from lrbench.scan.compiled.scans.column import MAX, RULES, inverse, power, pull, slope


@cache
def forward_loop(b: int, constraint: str, dtype: str) -> Loop:
    """Return the loop (v to centre, y, P, 1 / m to fill, p, tiny) with y = v / m."""
    rule = RULES[constraint]

    @compiled(b, constraint, dtype)
    def blocks_forward(v, y, powers, scales, p, tiny):  # type: ignore[no-untyped-def]
        nothing = zero(load(powers, 0, b))
        exponent, root, share = every(p, nothing), every(-1 / p, nothing), every(1 / b, nothing)
        for block in range(powers.shape[0]):
            start = block * b * b
            if rule == MAX:
                mean = nothing
                for r in range(b):
                    mean = fma(load(v, start + r * b, b), share, mean)
                for r in range(b):
                    store(v, start + r * b, sub(load(v, start + r * b, b), mean))
            own = nothing
            for r in range(b):
                own = add(own, power(load(v, start + r * b, b), exponent))
            decisive = own
            if rule == MAX:
                for c in range(b):
                    decisive = greater(decisive, spread(own, c))
            scale = inverse(decisive, rule, root, every(tiny, nothing))
            store(powers, block * b, own)
            store(scales, block * b, scale)
            for r in range(b):
                store(y, start + r * b, mul(load(v, start + r * b, b), scale))

    return blocks_forward


@cache
def backward_loop(b: int, constraint: str, dtype: str) -> Loop:
    """Return the loop (v, y, P, 1 / m, gradient of y, gradient of v to fill, p, tiny)."""
    rule = RULES[constraint]

    @compiled(b, constraint, dtype)
    def blocks_backward(v, y, powers, scales, gradient, dv, p, tiny):  # type: ignore[no-untyped-def]
        nothing = zero(load(powers, 0, b))
        one, less, share = every(1.0, nothing), every(p - 1, nothing), every(1 / b, nothing)
        for block in range(powers.shape[0]):
            start = block * b * b
            own, scale, s = load(powers, block * b, b), load(scales, block * b, b), nothing
            for r in range(b):
                s = fma(load(gradient, start + r * b, b), load(y, start + r * b, b), s)
            if rule == MAX:
                highest, of_all, sharing = own, nothing, nothing
                for c in range(b):
                    highest = greater(highest, spread(own, c))
                    of_all = add(of_all, spread(s, c))
                is_largest = at_least(own, highest, one)
                for c in range(b):
                    sharing = add(sharing, spread(is_largest, c))
                s = mul(mul(is_largest, of_all), reciprocal(sharing))
            bend, mean = pull(own, s, rule, every(tiny, nothing)), nothing
            for r in range(b):
                at = start + r * b
                bent = mul(slope(load(v, at, b), less), bend)
                d = sub(mul(load(gradient, at, b), scale), bent)
                mean = fma(d, share, mean)
                store(dv, at, d)
            if rule == MAX:
                for r in range(b):
                    store(dv, start + r * b, sub(load(dv, start + r * b, b), mean))

    return blocks_backward
