"""The logistic function in lanes."""

from __future__ import annotations

import math

from lrbench.scan.compiled.compiler import part
from lrbench.scan.compiled.lanes import add, every, mul, reciprocal
from lrbench.scan.compiled.power import exp2

LOG2_E = 1 / math.log(2)


@part
def sigmoid(x):  # type: ignore[no-untyped-def]
    """Return 1 / (1 + e^{-x}) in each lane."""
    return reciprocal(add(every(1.0, x), exp2(mul(x, every(-LOG2_E, x)))))
