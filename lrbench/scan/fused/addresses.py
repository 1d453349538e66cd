"""Addresses in fused kernels: the tile of a program, and the table's row at a position."""

import triton
import triton.language as tl


@triton.jit
def diagonal_tile(  # type: ignore[no-untyped-def]
    batch, WIDTH: tl.constexpr, STRINGS: tl.constexpr, CHANNELS: tl.constexpr
):
    """Return group, strings (STRINGS, 1) counted over groups, channels (1, CHANNELS), both in use.

    The grid is (tiles of strings, tiles of channels, groups).
    """
    group = tl.program_id(2).to(tl.int64)
    own = tl.program_id(0) * STRINGS + tl.arange(0, STRINGS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    string = (group * batch + own)[:, None]
    return group, string, channel[None, :], (own < batch)[:, None], (channel < WIDTH)[None, :]


@triton.jit
def block_tile(  # type: ignore[no-untyped-def]
    batch, HEADS: tl.constexpr, CHAINS: tl.constexpr
):
    """Return group, strings (CHAINS) counted over groups, heads (CHAINS), which are in use.

    A chain is one block's recurrence in one string. The grid is (tiles of chains, groups).
    """
    group = tl.program_id(1).to(tl.int64)
    chain = tl.program_id(0) * CHAINS + tl.arange(0, CHAINS)
    return group, group * batch + chain // HEADS, chain % HEADS, chain < batch * HEADS


@triton.jit
def table_row(index, position, group, inside, SYMBOLS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Return the symbol, its row in the tables of all groups, and whether there is such a row.

    What is loaded for a symbol outside the table is to be not a number, so that it shows. Places
    of a program beyond the last string have no symbol: -1.
    """
    symbol = tl.load(index + position, mask=inside, other=-1)
    return symbol, group * SYMBOLS + symbol, inside & (symbol >= 0) & (symbol < SYMBOLS)
