"""Kernels of x_k = a_k x_{k-1} + b_k with elementwise a_k, real or complex, and of its adjoint.

A program takes STRINGS x CHANNELS recurrences, a few a thread, and walks over time with their
states in registers. Loads do not depend on the state, so the loop is pipelined: those of the next
STAGES - 1 positions are on their way while one position is computed.

KIND is "step" (values (G, B, T, N)), "constant" (values (G, N)) or "table" (values and inputs
(G, S, N), index (G, B, T)). Gradients of tables and constants are summed in registers over the
positions and strings of a program; `diagonal.py` sums over programs.

Numbers are pairs of registers, (real, imaginary). PARTS is how many of the two lie beside each
other in memory: 2, or 1 for real numbers, whose second register is the first one's name again and
is never computed with. Where the real adjoint has a, the complex one has conj(a).
"""

import triton
import triton.language as tl

from lrbench.scan.fused.addresses import diagonal_tile, table_row


@triton.jit
def load(base, at, mask, other, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the parts of the numbers `at` behind `base`."""
    re = tl.load(base + PARTS * at, mask=mask, other=other)
    im = re
    if PARTS == 2:
        im = tl.load(base + PARTS * at + 1, mask=mask, other=other)
    return re, im


@triton.jit
def store(base, at, re, im, mask, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Store numbers `at` behind `base`."""
    tl.store(base + PARTS * at, re, mask=mask)
    if PARTS == 2:
        tl.store(base + PARTS * at + 1, im, mask=mask)


@triton.jit
def load_before(k, states, place, initial, start, mask, WIDTH: tl.constexpr, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the parts of x_{k-1}: a state, or x_0."""
    before = tl.where(k > 0, states + PARTS * (place - WIDTH), initial + PARTS * start)
    re = tl.load(before, mask=mask, other=0)
    im = re
    if PARTS == 2:
        im = tl.load(before + 1, mask=mask, other=0)
    return re, im


@triton.jit
def times(re, im, other_re, other_im, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the parts of a product."""
    if PARTS == 2:
        return re * other_re - im * other_im, re * other_im + im * other_re
    product = re * other_re
    return product, product


@triton.jit
def times_conjugate(re, im, other_re, other_im, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the parts of the product of a number and the conjugate of another."""
    if PARTS == 2:
        return re * other_re + im * other_im, im * other_re - re * other_im
    product = re * other_re
    return product, product


@triton.jit
def plus(re, im, other_re, other_im, PARTS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the parts of a sum."""
    total = re + other_re
    if PARTS == 2:
        return total, im + other_im
    return total, total


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
    PARTS: tl.constexpr,
    WIDTH: tl.constexpr,
    SYMBOLS: tl.constexpr,
    STRINGS: tl.constexpr,
    CHANNELS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Fill states from x_0 in `initial`."""
    group, string, channel, present, used = diagonal_tile(batch, WIDTH, STRINGS, CHANNELS)
    inside = present & used
    x_re, x_im = load(initial, string * WIDTH + channel, inside, 0, PARTS)
    if KIND == "constant":
        a_re, a_im = load(values, group * WIDTH + channel, used, 0, PARTS)
    for k in tl.range(0, length, num_stages=STAGES):
        place = (string * length + k) * WIDTH + channel
        at, known = place, inside
        if KIND == "table":
            _, row, found = table_row(index, string * length + k, group, present, SYMBOLS)
            at, known = row * WIDTH + channel, found & used
        if KIND != "constant":
            a_re, a_im = load(values, at, known, float("nan"), PARTS)
        b_re, b_im = load(inputs, at, known, float("nan"), PARTS)
        x_re, x_im = times(a_re, a_im, x_re, x_im, PARTS)
        x_re, x_im = plus(x_re, x_im, b_re, b_im, PARTS)
        store(states, place, x_re, x_im, inside, PARTS)


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
    PARTS: tl.constexpr,
    WIDTH: tl.constexpr,
    STRINGS: tl.constexpr,
    CHANNELS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Fill the gradients of values, inputs and x_0; those of constant values (G, programs, N)."""
    group, string, channel, present, used = diagonal_tile(batch, WIDTH, STRINGS, CHANNELS)
    inside, start = present & used, string * WIDTH + channel
    re = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    im = re
    if KIND == "constant":
        a_re, a_im = load(values, group * WIDTH + channel, used, 0, PARTS)
        sums_re, sums_im = re, re
    for step in tl.range(0, length, num_stages=STAGES):
        k = length - 1 - step
        place = (string * length + k) * WIDTH + channel
        x_re, x_im = load_before(k, states, place, initial, start, inside, WIDTH, PARTS)
        g_re, g_im = load(gradient, place, inside, 0, PARTS)
        re, im = plus(re, im, g_re, g_im, PARTS)
        slope_re, slope_im = times_conjugate(re, im, x_re, x_im, PARTS)
        store(dinputs, place, re, im, inside, PARTS)
        if KIND == "constant":
            sums_re, sums_im = plus(sums_re, sums_im, slope_re, slope_im, PARTS)
        else:
            a_re, a_im = load(values, place, inside, 0, PARTS)
            store(dvalues, place, slope_re, slope_im, inside, PARTS)
        re, im = times_conjugate(re, im, a_re, a_im, PARTS)
    store(dinitial, start, re, im, inside, PARTS)
    if KIND == "constant":
        entry = (group * tl.num_programs(0) + tl.program_id(0)) * WIDTH + channel
        total_re, total_im = tl.sum(sums_re, axis=0)[None, :], tl.sum(sums_im, axis=0)[None, :]
        store(dvalues, entry, total_re, total_im, used, PARTS)


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
    PARTS: tl.constexpr,
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
    re = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    im = re
    values_re = tl.zeros((PADDED, STRINGS, CHANNELS), values.dtype.element_ty)
    values_im, inputs_re, inputs_im = values_re, values_re, values_re
    for step in tl.range(0, length, num_stages=STAGES):
        k = length - 1 - step
        place = (string * length + k) * WIDTH + channel
        symbol, row, found = table_row(index, string * length + k, group, present, SYMBOLS)
        a_re, a_im = load(values, row * WIDTH + channel, found & used, float("nan"), PARTS)
        x_re, x_im = load_before(k, states, place, initial, start, inside, WIDTH, PARTS)
        g_re, g_im = load(gradient, place, inside, 0, PARTS)
        re, im = plus(re, im, g_re, g_im, PARTS)
        slope_re, slope_im = times_conjugate(re, im, x_re, x_im, PARTS)
        mark = tl.arange(0, PADDED)[:, None, None] == symbol[None]
        values_re += tl.where(mark, slope_re[None], 0)
        inputs_re += tl.where(mark, re[None], 0)
        if PARTS == 2:
            values_im += tl.where(mark, slope_im[None], 0)
            inputs_im += tl.where(mark, im[None], 0)
        re, im = times_conjugate(re, im, a_re, a_im, PARTS)
    store(dinitial, start, re, im, inside, PARTS)
    symbols = tl.arange(0, PADDED)[:, None]
    entry = ((group * tl.num_programs(0) + tl.program_id(0)) * SYMBOLS + symbols) * WIDTH + channel
    real = (symbols < SYMBOLS) & used
    total_re, total_im = tl.sum(values_re, axis=1), tl.sum(values_im, axis=1)
    store(dvalues, entry, total_re, total_im, real, PARTS)
    total_re, total_im = tl.sum(inputs_re, axis=1), tl.sum(inputs_im, axis=1)
    store(dinputs, entry, total_re, total_im, real, PARTS)
