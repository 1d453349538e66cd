"""Elementary functions in lanes: log2, 2^x, the logistic function and the normal distribution.

A number x = 2^e m with m in [1/sqrt 2, sqrt 2) is taken apart by its bits. With s = (m-1) / (m+1),

    log2 x = e + 2 (s + s^3 / 3 + s^5 / 5 + ...) / log 2,   |s| < 0.172,

and with y = n + r, n whole and |r| <= 1/2, 2^y = 2^n (1 + (r log 2) + (r log 2)^2 / 2! + ...). Both
series are as long as the number type can show: errors are about one unit in the last place of the
result, for log2 of the larger of the result and 1.

What C's pow does one number at a time is two of these. GELU is made of the normal distribution.
With a = |x| and t = 1 / (1 + a / 4) in (0, 1], the upper tail is

    Q(a) = (1 - erf(a / sqrt 2)) / 2 = e^{-a^2 / 2} t R(2 t - 1),

where R is smooth and between 0.08 and 0.5. Its Chebyshev interpolant, written in powers, is below:
Q is off by at most 3 units in the last place, besides what rounding a^2 / 2 does to e^{-a^2 / 2}.
The distribution Phi is Q on the left of zero, where 1 + erf would lose what is left, and 1 - Q on
the right.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from lrbench.kernels.compiler import instruction, part
from lrbench.kernels.lanes import (
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

# bits of the fraction, bias of the exponent, terms of log2's and of exp2's series
FORMATS = {32: (23, 127, 5, 8), 64: (52, 1023, 11, 14)}
LOW = math.sqrt(0.5)  # what m is at least


@instruction
def log2(_: Any, x: Any) -> Any:
    """Return the logarithm of x >= 0 to base 2; zero and what is not normal give about -bias."""
    fraction, _bias, terms, _exp = FORMATS[x.dtype.bitwidth]

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = _integers(x)
        bits = builder.bitcast(arguments[0], whole)
        above = builder.sub(bits, constant(whole, _bits_of_root(x)))
        exponent = builder.ashr(above, constant(whole, fraction))
        scaled = builder.sub(bits, builder.shl(exponent, constant(whole, fraction)))
        m, one = builder.bitcast(scaled, x.vector()), constant(x.vector(), 1.0)
        s = builder.fdiv(builder.fsub(m, one), builder.fadd(m, one))
        series = [2 / math.log(2) / (2 * term + 1) for term in range(terms)]
        p = _polynomial(builder, x, builder.fmul(s, s), series)
        result = call(builder, "fmuladd", x, s, p, builder.sitofp(exponent, x.vector()))
        return _or_not_a_number(builder, arguments[0], result)

    return x(x), code


@instruction
def exp2(_: Any, y: Any) -> Any:
    """Return 2^y; zero or infinity where that is no normal number."""
    fraction, bias, _log, terms = FORMATS[y.dtype.bitwidth]

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, vector = _integers(y), y.vector()
        low, high = constant(vector, float(-bias)), constant(vector, float(bias + 1))
        within = call(builder, "minnum", y, call(builder, "maxnum", y, arguments[0], low), high)
        near = call(builder, "rint", y, within)
        series = [math.log(2) ** term / math.factorial(term) for term in range(terms)]
        power = _polynomial(builder, y, builder.fsub(within, near), series)
        exponent = builder.add(builder.fptosi(near, whole), constant(whole, bias))
        scale = builder.bitcast(builder.shl(exponent, constant(whole, fraction)), vector)
        return _or_not_a_number(builder, arguments[0], builder.fmul(power, scale))

    return y(y), code


def _or_not_a_number(builder: Any, x: Any, result: Any) -> Any:
    """Return the result, or x where x is not a number: its bits would pass for those of one."""
    return builder.select(builder.fcmp_unordered("uno", x, x), x, result)


def _polynomial(builder: Any, lanes: Any, x: Any, coefficients: list[float]) -> Any:
    """Return c_0 + c_1 x + c_2 x^2 + ... (Horner's rule)."""
    *lower, last = coefficients
    result = constant(lanes.vector(), last)
    for coefficient in reversed(lower):
        result = call(builder, "fmuladd", lanes, result, x, constant(lanes.vector(), coefficient))
    return result


def _integers(lanes: Any) -> Any:
    from llvmlite import ir

    return ir.VectorType(ir.IntType(lanes.dtype.bitwidth), lanes.count)


def _bits_of_root(lanes: Any) -> int:
    forms = ("<f", "<i") if lanes.dtype.bitwidth == 32 else ("<d", "<q")
    return int(struct.unpack(forms[1], struct.pack(forms[0], LOW))[0])


LOG2_E = 1 / math.log(2)


@part
def sigmoid(x):  # type: ignore[no-untyped-def]
    """Return 1 / (1 + e^{-x}) in each lane."""
    return reciprocal(add(every(1.0, x), exp2(mul(x, every(-LOG2_E, x)))))


HALF_LOG2_E = 0.5 / math.log(2)
DENSITY_AT_ZERO = 1 / math.sqrt(2 * math.pi)
STRETCH = 0.25  # of t: the value that needs fewest terms
# R in powers of 2 t - 1
TAIL = {
    32: (
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
    64: (
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


@instruction
def _smooth(_: Any, u: Any) -> Any:
    """Return R(u) in each lane (Horner's rule)."""
    *lower, highest = TAIL[u.dtype.bitwidth]

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
