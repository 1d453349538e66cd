"""Logarithms and powers of two in lanes: what C's pow does one number at a time.

A number x = 2^e m with m in [1/sqrt 2, sqrt 2) is taken apart by its bits. With s = (m-1) / (m+1),

    log2 x = e + 2 (s + s^3 / 3 + s^5 / 5 + ...) / log 2,   |s| < 0.172,

and with y = n + r, n whole and |r| <= 1/2, 2^y = 2^n (1 + (r log 2) + (r log 2)^2 / 2! + ...). Both
series are as long as the number type can show: errors are about one unit in the last place of the
result, for log2 of the larger of the result and 1.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from lrbench.scan.compiled.lanes import Lanes, call, constant

# bits of the fraction, bias of the exponent, terms of log2's and of exp2's series
FORMATS = {types.float32: (23, 127, 5, 8), types.float64: (52, 1023, 11, 14)}
LOW = math.sqrt(0.5)  # what m is at least


@intrinsic
def log2(_: Any, x: Any) -> Any:
    """Return the logarithm of x >= 0 to base 2; zero and what is not normal give about -bias."""
    fraction, _bias, terms, _exp = FORMATS[x.dtype]

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


@intrinsic
def exp2(_: Any, y: Any) -> Any:
    """Return 2^y; zero or infinity where that is no normal number."""
    fraction, bias, _log, terms = FORMATS[y.dtype]

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


def _polynomial(builder: Any, lanes: Lanes, x: Any, coefficients: list[float]) -> Any:
    """Return c_0 + c_1 x + c_2 x^2 + ... (Horner's rule)."""
    *lower, last = coefficients
    result = constant(lanes.vector(), last)
    for coefficient in reversed(lower):
        result = call(builder, "fmuladd", lanes, result, x, constant(lanes.vector(), coefficient))
    return result


def _integers(lanes: Lanes) -> Any:
    return ir.VectorType(ir.IntType(lanes.dtype.bitwidth), lanes.count)


def _bits_of_root(lanes: Lanes) -> int:
    forms = ("<f", "<i") if lanes.dtype == types.float32 else ("<d", "<q")
    return int(struct.unpack(forms[1], struct.pack(forms[0], LOW))[0])
