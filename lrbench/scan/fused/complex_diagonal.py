"""Kernels of x_k = a_k x_{k-1} + b_k with complex elementwise a_k, and of its adjoint.

As `real_diagonal.py`, with the same arguments; numbers are pairs (real, imaginary) beside each
other in memory and two registers inside. Where the real adjoint has a, this one has conj(a).
"""

import triton
import triton.language as tl

from lrbench.scan.fused.addresses import diagonal_tile, table_row

NAN = tl.constexpr(float("nan"))


@triton.jit
def pair(numbers, mask, other):  # type: ignore[no-untyped-def]
    """Return the real and the imaginary parts of the complex numbers at `numbers`, pointers."""
    return tl.load(numbers, mask=mask, other=other), tl.load(numbers + 1, mask=mask, other=other)


@triton.jit
def store_pair(numbers, re, im, mask):  # type: ignore[no-untyped-def]
    """Store complex numbers at pointers."""
    tl.store(numbers, re, mask=mask)
    tl.store(numbers + 1, im, mask=mask)


@triton.jit
def times_conjugate(re, im, other_re, other_im):  # type: ignore[no-untyped-def]
    """Return the product of a number and the conjugate of another."""
    return re * other_re + im * other_im, im * other_re - re * other_im


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
    x_re, x_im = pair(initial + 2 * (string * WIDTH + channel), inside, 0)
    if KIND == "constant":
        a_re, a_im = pair(values + 2 * (group * WIDTH + channel), used, 0)
    for k in tl.range(0, length, num_stages=STAGES):
        place = 2 * ((string * length + k) * WIDTH + channel)
        at, known = place, inside
        if KIND == "table":
            _, row, found = table_row(index, string * length + k, group, present, SYMBOLS)
            at, known = 2 * (row * WIDTH + channel), found & used
        if KIND != "constant":
            a_re, a_im = pair(values + at, known, NAN)
        b_re, b_im = pair(inputs + at, known, NAN)
        next_re = a_re * x_re - a_im * x_im + b_re
        x_im = a_re * x_im + a_im * x_re + b_im
        x_re = next_re
        store_pair(states + place, x_re, x_im, inside)


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
    inside, start = present & used, 2 * (string * WIDTH + channel)
    re = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    im = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    if KIND == "constant":
        a_re, a_im = pair(values + 2 * (group * WIDTH + channel), used, 0)
        sums_re = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
        sums_im = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    for step in tl.range(0, length, num_stages=STAGES):
        k = length - 1 - step
        place = 2 * ((string * length + k) * WIDTH + channel)
        x_re, x_im = pair(tl.where(k > 0, states + (place - 2 * WIDTH), initial + start), inside, 0)
        g_re, g_im = pair(gradient + place, inside, 0)
        re, im = re + g_re, im + g_im
        slope_re, slope_im = times_conjugate(re, im, x_re, x_im)
        store_pair(dinputs + place, re, im, inside)
        if KIND == "constant":
            sums_re += slope_re
            sums_im += slope_im
        else:
            a_re, a_im = pair(values + place, inside, 0)
            store_pair(dvalues + place, slope_re, slope_im, inside)
        re, im = times_conjugate(re, im, a_re, a_im)
    store_pair(dinitial + start, re, im, inside)
    if KIND == "constant":
        program = group * tl.num_programs(0) + tl.program_id(0)
        total_re, total_im = tl.sum(sums_re, axis=0)[None, :], tl.sum(sums_im, axis=0)[None, :]
        store_pair(dvalues + 2 * (program * WIDTH + channel), total_re, total_im, used)


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
    inside, start = present & used, 2 * (string * WIDTH + channel)
    re = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    im = tl.zeros((STRINGS, CHANNELS), values.dtype.element_ty)
    values_re = tl.zeros((PADDED, STRINGS, CHANNELS), values.dtype.element_ty)
    values_im = tl.zeros((PADDED, STRINGS, CHANNELS), values.dtype.element_ty)
    inputs_re = tl.zeros((PADDED, STRINGS, CHANNELS), values.dtype.element_ty)
    inputs_im = tl.zeros((PADDED, STRINGS, CHANNELS), values.dtype.element_ty)
    for step in tl.range(0, length, num_stages=STAGES):
        k = length - 1 - step
        place = 2 * ((string * length + k) * WIDTH + channel)
        symbol, row, found = table_row(index, string * length + k, group, present, SYMBOLS)
        a_re, a_im = pair(values + 2 * (row * WIDTH + channel), found & used, NAN)
        x_re, x_im = pair(tl.where(k > 0, states + (place - 2 * WIDTH), initial + start), inside, 0)
        g_re, g_im = pair(gradient + place, inside, 0)
        re, im = re + g_re, im + g_im
        slope_re, slope_im = times_conjugate(re, im, x_re, x_im)
        mark = tl.arange(0, PADDED)[:, None, None] == symbol[None]
        values_re += tl.where(mark, slope_re[None], 0)
        values_im += tl.where(mark, slope_im[None], 0)
        inputs_re += tl.where(mark, re[None], 0)
        inputs_im += tl.where(mark, im[None], 0)
        re, im = times_conjugate(re, im, a_re, a_im)
    store_pair(dinitial + start, re, im, inside)
    symbols = tl.arange(0, PADDED)[:, None]
    program = group * tl.num_programs(0) + tl.program_id(0)
    entry = 2 * ((program * SYMBOLS + symbols) * WIDTH + channel)
    real = (symbols < SYMBOLS) & used
    store_pair(dvalues + entry, tl.sum(values_re, axis=1), tl.sum(values_im, axis=1), real)
    store_pair(dinputs + entry, tl.sum(inputs_re, axis=1), tl.sum(inputs_im, axis=1), real)
