"""Kernels of x_k = a_k x_{k-1} + b_k with real elementwise a_k, and of its adjoint.

A program takes STRINGS x CHANNELS recurrences, a few a thread, and walks over time with their
states in registers. Loads do not depend on the state, so the loop is pipelined: those of the next
STAGES - 1 positions are on their way while one position is computed.

KIND is "step" (values (G, B, T, N)), "constant" (values (G, N)) or "table" (values and inputs
(G, S, N), index (G, B, T)). Gradients of tables and constants are summed in registers over the
positions and strings of a program; `diagonal.py` sums over programs.
"""

import triton
import triton.language as tl

from lrbench.scan.fused.addresses import diagonal_tile, table_row

NAN = tl.constexpr(float("nan"))


@triton.jit(do_not_specialize=["batch", "length"])
def forward(  # type: ignore[no-untyped-def]
    values,
    inputs,
    index,
    initial,
    states,
    batch,
    length,
    KIND: tl.constexpr,
    WIDTH: tl.constexpr,
    SYMBOLS: tl.constexpr,
    STRINGS: tl.constexpr,
    CHANNELS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Fill states from x_0 in `initial`."""
    group, string, channel, present, used = diagonal_tile(batch, WIDTH, STRINGS, CHANNELS)
    inside = present & used
    x = tl.load(initial + string * WIDTH + channel, mask=inside, other=0)
    if KIND == "constant":
        a = tl.load(values + group * WIDTH + channel, mask=used, other=0)
    for k in tl.range(0, length, num_stages=STAGES):
        place = (string * length + k) * WIDTH + channel
        at, known = place, inside
        if KIND == "table":
            _, row, found = table_row(index, string * length + k, group, present, SYMBOLS)
            at, known = row * WIDTH + channel, found & used
        if KIND != "constant":
            a = tl.load(values + at, mask=known, other=NAN)
        x = a * x + tl.load(inputs + at, mask=known, other=NAN)
        tl.store(states + place, x, mask=inside)


@triton.jit(do_not_specialize=["batch", "length"])
def backward(  # type: ignore[no-untyped-def]
    values,
    initial,
    states,
    gradient,
    dvalues,
    dinputs,
    dinitial,
    batch,
    length,
    KIND: tl.constexpr,
    WIDTH: tl.constexpr,
    STRINGS: tl.constexpr,
    CHANNELS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Fill the gradients of values, inputs and x_0; those of constant values (G, programs, N)."""
    group, string, channel, present, used = diagonal_tile(batch, WIDTH, STRINGS, CHANNELS)
    inside, start = present & used, string * WIDTH + channel
    carried = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    if KIND == "constant":
        a = tl.load(values + group * WIDTH + channel, mask=used, other=0)
        sums = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    for step in tl.range(0, length, num_stages=STAGES):
        k = length - 1 - step
        place = (string * length + k) * WIDTH + channel
        before = tl.where(k > 0, states + (place - WIDTH), initial + start)
        adjoint = carried + tl.load(gradient + place, mask=inside, other=0)
        slope = adjoint * tl.load(before, mask=inside, other=0)
        tl.store(dinputs + place, adjoint, mask=inside)
        if KIND == "constant":
            sums += slope
        else:
            a = tl.load(values + place, mask=inside, other=0)
            tl.store(dvalues + place, slope, mask=inside)
        carried = a * adjoint
    tl.store(dinitial + start, carried, mask=inside)
    if KIND == "constant":
        program = group * tl.num_programs(0) + tl.program_id(0)
        tl.store(dvalues + program * WIDTH + channel, tl.sum(sums, axis=0)[None, :], mask=used)


@triton.jit(do_not_specialize=["batch", "length"])
def table_backward(  # type: ignore[no-untyped-def]
    values,
    index,
    initial,
    states,
    gradient,
    dvalues,
    dinputs,
    dinitial,
    batch,
    length,
    WIDTH: tl.constexpr,
    SYMBOLS: tl.constexpr,
    PADDED: tl.constexpr,
    STRINGS: tl.constexpr,
    CHANNELS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Fill dvalues and dinputs (G, programs, S, N), a sum each over strings, and dinitial."""
    group, string, channel, present, used = diagonal_tile(batch, WIDTH, STRINGS, CHANNELS)
    inside, start = present & used, string * WIDTH + channel
    carried = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    value_sums = tl.zeros((PADDED, STRINGS, CHANNELS), values.dtype.element_ty)
    input_sums = tl.zeros((PADDED, STRINGS, CHANNELS), values.dtype.element_ty)
    for step in tl.range(0, length, num_stages=STAGES):
        k = length - 1 - step
        place = (string * length + k) * WIDTH + channel
        symbol, row, found = table_row(index, string * length + k, group, present, SYMBOLS)
        a = tl.load(values + row * WIDTH + channel, mask=found & used, other=NAN)
        before = tl.where(k > 0, states + (place - WIDTH), initial + start)
        adjoint = carried + tl.load(gradient + place, mask=inside, other=0)
        slope = adjoint * tl.load(before, mask=inside, other=0)
        mark = tl.arange(0, PADDED)[:, None, None] == symbol[None]
        value_sums += tl.where(mark, slope[None], 0)
        input_sums += tl.where(mark, adjoint[None], 0)
        carried = a * adjoint
    tl.store(dinitial + start, carried, mask=inside)
    symbols = tl.arange(0, PADDED)[:, None]
    program = group * tl.num_programs(0) + tl.program_id(0)
    entry = (program * SYMBOLS + symbols) * WIDTH + channel
    real = (symbols < SYMBOLS) & used
    tl.store(dvalues + entry, tl.sum(value_sums, axis=1), mask=real)
    tl.store(dinputs + entry, tl.sum(input_sums, axis=1), mask=real)
