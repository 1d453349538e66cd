"""The arithmetic of column constraints on lanes; `scan/blocks/constraints.py` says what it means.

A loop gives the elements of a column one after the other, each in lanes: the same element of
several columns of a block, or of several strings. What is kept of a column is P = sum_r |v_r|^p,
the p-th power of its norm: a column below or above norm one has P below or above one, the longest
column has the largest P, and m^(-p) in the gradient is 1 / P.
"""

from __future__ import annotations

from lrbench.kernels.compiler import part
from lrbench.kernels.elementary import exp2, log2
from lrbench.kernels.lanes import (
    every,
    greater,
    magnitude,
    mul,
    reciprocal,
    signed,
    sub,
    where_at_least,
    where_positive,
)

CLIP, UNIT, MAX = 0, 1, 2
RULES = {"column_clip": CLIP, "column_unit": UNIT, "max_column_centred": MAX}


@part
def power_of(v, p):  # type: ignore[no-untyped-def]
    """Return |v|^p."""
    return exp2(mul(p, log2(magnitude(v))))


@part
def slope_of(v, p_less_1):  # type: ignore[no-untyped-def]
    """Return sign(v) |v|^(p-1); zero where v is."""
    return signed(exp2(mul(p_less_1, log2(magnitude(v)))), v)


@part
def inverse_of(powers, rule, minus_1_over_p, tiny):  # type: ignore[no-untyped-def]
    """Return 1 / m from the P that m is made of; zero where that is no normal number."""
    if rule == CLIP:
        powers = greater(every(1.0, powers), powers)  # what is not a number stays so
    scale = exp2(mul(minus_1_over_p, log2(powers)))
    return where_at_least(powers, tiny, scale)


@part
def pull_of(powers, s, rule, tiny):  # type: ignore[no-untyped-def]
    """Return c of a column from the P that m is made of and s."""
    ratio = where_at_least(powers, tiny, mul(reciprocal(powers), s))
    if rule == CLIP:
        return where_positive(sub(powers, every(1.0, powers)), ratio)
    return ratio
