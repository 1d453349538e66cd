"""Short vectors held in registers, for compiled loops: what can be done with such lanes.

numba turns a loop over eight numbers into vector instructions only where it can prove that the
arrays read and written do not overlap, and it keeps no small array in registers. So loops say
themselves what a vector is: `count` numbers that lie side by side in a contiguous array, at an
offset that is counted from the array's first number. LLVM splits vectors that are wider than the
processor's, and pads those that are narrower.

`fma` may round once or twice as the processor allows; which, is settled when it is compiled.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from lrbench.kernels.compiler import instruction, part

WIDEST, NARROWEST = 16, 4  # numbers side by side in a loop that takes any; fewer are not worth it


def side_by_side(numbers: int) -> int:
    """Return how many of some numbers go side by side: a power of two, at most `WIDEST`."""
    return min(numbers & -numbers, WIDEST)


@cache
def lanes_type() -> Any:
    """Return the class of numba types: vectors of `count` numbers of a numba number type."""
    from llvmlite import ir
    from numba.core import types
    from numba.core.datamodel.models import PrimitiveModel
    from numba.extending import register_model

    class Lanes(types.Type):
        def __init__(self, dtype: Any, count: int) -> None:
            self.dtype, self.count = dtype, count
            super().__init__(f"Lanes({dtype}, {count})")

        @property
        def suffix(self) -> str:
            """How LLVM names functions of this type."""
            return f"v{self.count}f{self.dtype.bitwidth}"

        def vector(self) -> Any:
            """Return LLVM's name of the type."""
            number = ir.FloatType() if self.dtype == types.float32 else ir.DoubleType()
            return ir.VectorType(number, self.count)

    @register_model(Lanes)
    class LanesModel(PrimitiveModel):
        def __init__(self, manager: Any, lanes: Any) -> None:
            super().__init__(manager, lanes, lanes.vector())

    return Lanes


@partial(instruction, prefer_literal=True)
def load(_: Any, array: Any, offset: Any, count: Any) -> Any:
    """Return the `count` numbers of a contiguous array that start at `offset`."""
    from numba.core.types import intp

    lanes = lanes_type()(array.dtype, count.literal_value)

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _address(context, builder, array, arguments, lanes)
        return builder.load(at, align=array.dtype.bitwidth // 8)

    return lanes(array, intp, count), code


@instruction
def store(_: Any, array: Any, offset: Any, lanes: Any) -> Any:
    """Write lanes into a contiguous array from `offset` on."""
    from numba.core.types import intp, void

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        at = _address(context, builder, array, arguments, lanes)
        builder.store(arguments[2], at, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return void(array, intp, lanes), code


@instruction
def fma(_: Any, a: Any, b: Any, c: Any) -> Any:
    """Return a b + c in each lane."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return call(builder, "fmuladd", a, *arguments)

    return a(a, a, a), code


@instruction
def add(_: Any, a: Any, b: Any) -> Any:
    """Return a + b in each lane."""
    return a(a, a), lambda context, builder, signature, arguments: builder.fadd(*arguments)


@instruction
def sub(_: Any, a: Any, b: Any) -> Any:
    """Return a - b in each lane."""
    return a(a, a), lambda context, builder, signature, arguments: builder.fsub(*arguments)


@instruction
def mul(_: Any, a: Any, b: Any) -> Any:
    """Return a b in each lane."""
    return a(a, a), lambda context, builder, signature, arguments: builder.fmul(*arguments)


@instruction
def reciprocal(_: Any, a: Any) -> Any:
    """Return 1 / a in each lane."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fdiv(constant(a.vector(), 1.0), *arguments)

    return a(a), code


@instruction
def greater(_: Any, a: Any, b: Any) -> Any:
    """Return the greater of a and b in each lane; b where either is not a number."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *arguments), *arguments)

    return a(a, a), code


@instruction
def where_positive(_: Any, a: Any, b: Any) -> Any:
    """Return zero where a <= 0 and b elsewhere: where a is not a number, that has to be seen."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = constant(a.vector(), 0.0)
        out = builder.fcmp_ordered("<=", arguments[0], nothing)
        return builder.select(out, nothing, arguments[1])

    return a(a, a), code


@instruction
def spread(_: Any, lanes: Any, position: Any) -> Any:
    """Return lanes that all hold what is at `position`."""
    from numba.core.types import intp

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _in_all(builder, builder.extract_element(*arguments), lanes)

    return lanes(lanes, intp), code


@instruction
def every(_: Any, number: Any, lanes: Any) -> Any:
    """Return lanes, as many and of the type of `lanes`, that all hold a number."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _in_all(builder, arguments[0], lanes)

    return lanes(lanes.dtype, lanes), code


@instruction
def zero(_: Any, lanes: Any) -> Any:
    """Return lanes of zeros, as many and of the type of `lanes`."""
    return lanes(lanes), lambda *_: constant(lanes.vector(), 0.0)


@instruction
def total(_: Any, lanes: Any) -> Any:
    """Return the sum over lanes, a power of two of them: halves are added to each other."""
    from llvmlite import ir

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (left,), count, integer = arguments, lanes.count, ir.IntType(32)
        while count > 1:
            count //= 2
            halves = [
                ir.Constant(ir.VectorType(integer, count), list(range(first, first + count)))
                for first in (0, count)
            ]
            low, high = (builder.shuffle_vector(left, left, half) for half in halves)
            left = builder.fadd(low, high)
        return builder.extract_element(left, ir.Constant(integer, 0))

    return lanes.dtype(lanes), code


@instruction
def magnitude(_: Any, a: Any) -> Any:
    """Return |a| in each lane."""
    return a(a), lambda context, builder, signature, arguments: call(builder, "fabs", a, *arguments)


@instruction
def signed(_: Any, a: Any, b: Any) -> Any:
    """Return a with the sign of b in each lane; zero where b is zero or not normal."""
    tiny = constant(a.vector(), 2.0 ** (-126 if a.dtype.bitwidth == 32 else -1022))

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size = call(builder, "fabs", a, arguments[1])
        with_sign = call(builder, "copysign", a, *arguments)
        is_normal = builder.fcmp_unordered(">=", size, tiny)
        return builder.select(is_normal, with_sign, constant(a.vector(), 0.0))

    return a(a, a), code


@instruction
def where_at_least(_: Any, a: Any, bound: Any, b: Any) -> Any:
    """Return b where a >= bound and zero elsewhere; b where a is not a number."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        is_so = builder.fcmp_unordered(">=", *arguments[:2])
        return builder.select(is_so, arguments[2], constant(a.vector(), 0.0))

    return a(a, a, a), code


@part
def copy(source, first, target, at, count):  # type: ignore[no-untyped-def]
    """Copy `count` numbers from one contiguous array, from `first` on, into another, from `at` on.

    An assignment of slices says the same, and numba compiles the text of its error with it, which
    takes longer than many a loop around it.
    """
    for i in range(count):
        target[at + i] = source[first + i]


def call(builder: Any, name: str, lanes: Any, *arguments: Any) -> Any:
    """Emit a call of one of LLVM's functions on vectors."""
    from llvmlite import ir
    from numba.core import cgutils

    signature = ir.FunctionType(lanes.vector(), [lanes.vector()] * len(arguments))
    function = cgutils.get_or_insert_function(
        builder.module, signature, f"llvm.{name}.{lanes.suffix}"
    )
    return builder.call(function, arguments)


def constant(vector: Any, value: float) -> Any:
    """Return LLVM's constant with a value in each lane."""
    from llvmlite import ir

    return ir.Constant(vector, [value] * vector.count)


def _address(context: Any, builder: Any, array: Any, arguments: Any, lanes: Any) -> Any:
    first = context.make_array(array)(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(first, [arguments[1]]), lanes.vector().as_pointer())


def _in_all(builder: Any, number: Any, lanes: Any) -> Any:
    from llvmlite import ir

    nothing, integer = ir.Constant(lanes.vector(), ir.Undefined), ir.IntType(32)
    one = builder.insert_element(nothing, number, ir.Constant(integer, 0))
    mask = ir.Constant(ir.VectorType(integer, lanes.count), None)  # lane 0, everywhere
    return builder.shuffle_vector(one, nothing, mask)
