"""Kernels of x_k = A_k x_{k-1} + b_k with blocks A_k of b x b numbers, and of its adjoint.

A program takes CHAINS recurrences of one block each and walks over time with their states in
registers. A_k is read once, b numbers beside each other a row, multiplied and summed over columns;
its gradient lambda_k x_{k-1}^T is written once, without ever being read. Neither loads depend on
the state, so the loop is pipelined: those of the next STAGES - 1 positions are on their way to
shared memory while one position is computed.

KIND is "step" (blocks (G, B, T, h, b, b)), "constant" (blocks (G, h, b, b)) or "table" (blocks
(G, S, h, b, b), inputs (G, S, h, b), index (G, B, T)).
"""

import triton
import triton.language as tl

from lrbench.scan.fused.addresses import block_tile, table_row


@triton.jit
def squares(base, at, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return pointers (.., row, column) to the blocks numbered `at` behind `base`."""
    row, column = tl.arange(0, SIZE)[:, None], tl.arange(0, SIZE)[None, :]
    return base + (at[:, None, None] * (SIZE * SIZE) + (row * SIZE + column)[None])


@triton.jit
def columns(base, at, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return pointers (.., entry) to the vectors numbered `at` behind `base`."""
    return base + (at[:, None] * SIZE + tl.arange(0, SIZE)[None, :])


@triton.jit(do_not_specialize=["batch", "length"])
def forward(  # type: ignore[no-untyped-def]
    blocks,
    inputs,
    index,
    initial,
    states,
    batch,
    length,
    KIND: tl.constexpr,
    HEADS: tl.constexpr,
    SYMBOLS: tl.constexpr,
    SIZE: tl.constexpr,
    CHAINS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Fill states from x_0 in `initial`."""
    group, string, head, inside = block_tile(batch, HEADS, CHAINS)
    x = tl.load(columns(initial, string * HEADS + head, SIZE), mask=inside[:, None], other=0)
    if KIND == "constant":
        own = squares(blocks, group * HEADS + head, SIZE)
        a = tl.load(own, mask=inside[:, None, None], other=0)
    for k in tl.range(0, length, num_stages=STAGES):
        place = (string * length + k) * HEADS + head
        at, known = place, inside
        if KIND == "table":
            _, row, known = table_row(index, string * length + k, group, inside, SYMBOLS)
            at = row * HEADS + head
        if KIND != "constant":
            a = tl.load(squares(blocks, at, SIZE), mask=known[:, None, None], other=float("nan"))
        b = tl.load(columns(inputs, at, SIZE), mask=known[:, None], other=float("nan"))
        x = tl.sum(a * x[:, None, :], axis=2) + b
        tl.store(columns(states, place, SIZE), x, mask=inside[:, None])


@triton.jit(do_not_specialize=["batch", "length"])
def backward(  # type: ignore[no-untyped-def]
    blocks,
    initial,
    states,
    gradient,
    dblocks,
    dinputs,
    dinitial,
    batch,
    length,
    KIND: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    CHAINS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Fill the gradients of blocks, inputs and x_0; those of constant blocks (G, B, h, b, b)."""
    group, string, head, inside = block_tile(batch, HEADS, CHAINS)
    vector, square = inside[:, None], inside[:, None, None]
    start = string * HEADS + head
    carried = tl.zeros((CHAINS, SIZE), blocks.dtype.element_ty)
    if KIND == "constant":
        a = tl.load(squares(blocks, group * HEADS + head, SIZE), mask=square, other=0)
        sums = tl.zeros((CHAINS, SIZE, SIZE), blocks.dtype.element_ty)
    for step in tl.range(0, length, num_stages=STAGES):
        k = length - 1 - step
        place = (string * length + k) * HEADS + head
        source = tl.where(
            k > 0, columns(states, place - HEADS, SIZE), columns(initial, start, SIZE)
        )
        before = tl.load(source, mask=vector, other=0)
        adjoint = carried + tl.load(columns(gradient, place, SIZE), mask=vector, other=0)
        tl.store(columns(dinputs, place, SIZE), adjoint, mask=vector)
        slope = adjoint[:, :, None] * before[:, None, :]
        if KIND == "constant":
            sums += slope
        else:
            a = tl.load(squares(blocks, place, SIZE), mask=square, other=0)
            tl.store(squares(dblocks, place, SIZE), slope, mask=square)
        carried = tl.sum(a * adjoint[:, :, None], axis=1)
    tl.store(columns(dinitial, start, SIZE), carried, mask=vector)
    if KIND == "constant":
        tl.store(squares(dblocks, start, SIZE), sums, mask=square)


@triton.jit(do_not_specialize=["batch", "length"])
def table_backward(  # type: ignore[no-untyped-def]
    blocks,
    index,
    initial,
    states,
    gradient,
    dblocks,
    dinputs,
    dinitial,
    batch,
    length,
    HEADS: tl.constexpr,
    SYMBOLS: tl.constexpr,
    PADDED: tl.constexpr,
    SIZE: tl.constexpr,
    CHAINS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Fill dblocks (G, B, S, h, b, b) and dinputs (G, B, S, h, b), of each string, and dinitial."""
    group, string, head, inside = block_tile(batch, HEADS, CHAINS)
    vector, start = inside[:, None], string * HEADS + head
    carried = tl.zeros((CHAINS, SIZE), blocks.dtype.element_ty)
    block_sums = tl.zeros((PADDED, CHAINS, SIZE, SIZE), blocks.dtype.element_ty)
    input_sums = tl.zeros((PADDED, CHAINS, SIZE), blocks.dtype.element_ty)
    symbols = tl.arange(0, PADDED)[:, None]
    for step in tl.range(0, length, num_stages=STAGES):
        k = length - 1 - step
        place = (string * length + k) * HEADS + head
        symbol, row, known = table_row(index, string * length + k, group, inside, SYMBOLS)
        found = squares(blocks, row * HEADS + head, SIZE)
        a = tl.load(found, mask=known[:, None, None], other=float("nan"))
        source = tl.where(
            k > 0, columns(states, place - HEADS, SIZE), columns(initial, start, SIZE)
        )
        before = tl.load(source, mask=vector, other=0)
        adjoint = carried + tl.load(columns(gradient, place, SIZE), mask=vector, other=0)
        slope = adjoint[:, :, None] * before[:, None, :]
        mark = symbols == symbol[None, :]
        block_sums += tl.where(mark[:, :, None, None], slope[None], 0)
        input_sums += tl.where(mark[:, :, None], adjoint[None], 0)
        carried = tl.sum(a * adjoint[:, :, None], axis=1)
    tl.store(columns(dinitial, start, SIZE), carried, mask=vector)
    entry = (string[None, :] * SYMBOLS + symbols) * HEADS + head[None, :]  # (PADDED, CHAINS)
    real = (symbols < SYMBOLS) & inside[None, :]
    each = tl.arange(0, SIZE)
    within = each[:, None] * SIZE + each[None, :]
    at = entry[:, :, None, None] * (SIZE * SIZE) + within[None, None]
    tl.store(dblocks + at, block_sums, mask=real[:, :, None, None])
    at = entry[:, :, None] * SIZE + each[None, None, :]
    tl.store(dinputs + at, input_sums, mask=real[:, :, None])
