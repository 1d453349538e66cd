"""The normal distribution in lanes, of which GELU is made.

With a = |x| and t = 1 / (1 + a / 4) in (0, 1], the upper tail is

    Q(a) = (1 - erf(a / sqrt 2)) / 2 = e^{-a^2 / 2} t R(2 t - 1),

where R is smooth and between 0.08 and 0.5. Its Chebyshev interpolant, written in powers, is below:
Q is off by at most 3 units in the last place, besides what rounding a^2 / 2 does to e^{-a^2 / 2}.
The distribution Phi is Q on the left of zero, where 1 + erf would lose what is left, and 1 - Q on
the right.
"""

from __future__ import annotations

import math
from typing import Any

from numba.core import types
from numba.extending import intrinsic

from lrbench.scan.compiled.compiler import part
from lrbench.scan.compiled.lanes import (
    add,
    call,
    constant,
    every,
    fma,
    magnitude,
    mul,
    reciprocal,
    sub,
    where_positive,
)
from lrbench.scan.compiled.power import exp2

HALF_LOG2_E = 0.5 / math.log(2)
DENSITY_AT_ZERO = 1 / math.sqrt(2 * math.pi)
STRETCH = 0.25  # of t: the value that needs fewest terms
# R in powers of 2 t - 1
TAIL = {
    types.float32: (
        0.18882128180910995,
        0.15197414889943234,
        0.09678438987361301,
        0.04663104607903088,
        0.01509882835754787,
        0.001880313882531309,
        -0.000869049115060796,
        -0.0003939380202934334,
        3.233503076755616e-05,
        4.0654078912992013e-05,
    ),
    types.float64: (
        0.18882128260393788,
        0.1519741604929733,
        0.0967843501855541,
        0.04663046448988947,
        0.015099143722693222,
        0.0018850472423427786,
        -0.0008699230907884223,
        -0.00040770462263327843,
        3.333606547232685e-05,
        5.7773791768489894e-05,
        -4.769814579686936e-07,
        -8.786425987552131e-06,
        1.7883515349707226e-07,
        1.4807784536920623e-06,
        -1.5658944714687526e-07,
        -2.568209248560467e-07,
        6.661136492010466e-08,
        4.062016187795747e-08,
        -2.0020093729186653e-08,
        -4.921226318395442e-09,
        4.155570667755794e-09,
        3.2500330325320434e-10,
        -4.477802790448279e-10,
    ),
}


@intrinsic
def _smooth(_: Any, u: Any) -> Any:
    """Return R(u) in each lane (Horner's rule)."""
    *lower, highest = TAIL[u.dtype]

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = constant(u.vector(), highest)
        for coefficient in reversed(lower):
            term = constant(u.vector(), coefficient)
            result = call(builder, "fmuladd", u, result, arguments[0], term)
        return result

    return u(u), code


@part
def bell(x):  # type: ignore[no-untyped-def]
    """Return e^{-x^2 / 2}."""
    return exp2(mul(mul(x, x), every(-HALF_LOG2_E, x)))


@part
def distribution(x, falls):  # type: ignore[no-untyped-def]
    """Return Phi(x), given bell(x)."""
    one, two = every(1.0, x), every(2.0, x)
    t = reciprocal(fma(magnitude(x), every(STRETCH, x), one))
    tail = mul(falls, mul(t, _smooth(sub(add(t, t), one))))
    return add(tail, where_positive(x, sub(one, mul(two, tail))))
