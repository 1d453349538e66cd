"""Tile sizes of fused kernels: the part of a recurrence that one program takes.

A program is one warp: 32 threads that never wait for others. What bounds these kernels is memory,
and memory is kept busy by enough bytes on their way: about bandwidth times latency, 3.35 TB/s times
0.7 us = 2.3 MB on an H100, 18 kB for each of 132 multiprocessors. At T = 512, batch 1024, h = 8,
b = 8 one position of all strings is 1024 * 8 * (8 * 8 + 8) numbers, 2.4 MB in float32: the next
one alone, read while this one is computed, would do, and STAGES - 1 = 3 leave room for latencies of
arithmetic and for smaller batches. All 2048 programs of four blocks fit on the GPU at once, 15.5
to a multiprocessor, so there is no tail of late programs; each thread holds 8 numbers of A_k, two
loads of 16 bytes. A diagonal's programs are one number a thread up to 131,072 numbers, all of which
an H100 holds at once.

512 steps are to take at most 2 * 1.34 GB / 3.35 TB/s = 0.8 ms, forward: 1.6 us, 2,800 cycles a
step, where the arithmetic of a step (8 products a thread, a sum over 2 threads, a change of layout
within the warp) takes some hundred. Larger tiles would have fewer warps to hide that behind;
smaller ones repeat what a step costs whatever its size. Where strings are few, tiles are halved
down to one load of 16 bytes a thread, so that more of the GPU has work.

All this is reckoned, and checked only as far as a compiler can tell (registers, widths of loads):
`benchmarks/fused_bandwidth.py` measures it.
"""

from __future__ import annotations

STAGES = 4  # positions in flight, the one that is computed included
THREADS = 32
ENOUGH = 1024  # programs: about eight for each multiprocessor of a large GPU
LARGEST_TABLE = 32  # symbols: their sums are held in registers

Grid = tuple[int, ...]


def padded(number: int) -> int:
    """Return the power of two that holds a number."""
    return 1 << max(number - 1, 0).bit_length()


def sums_fit(symbols: int, width: int) -> int:
    """Return how many numbers of A_k, of `width` bytes, a thread can keep a sum for each symbol of.

    256 bytes are 64 registers, of 255: input sums, the adjoint and addresses need theirs.
    """
    return max(min(256 // (width * padded(symbols)), 8), 1)


def diagonal_grid(groups: int, batch: int, width: int, each: int = 4) -> tuple[Grid, int, int]:
    """Return the grid and a program's strings and channels, at most `each` numbers a thread.

    Channels are beside each other in memory and come first.
    """
    each = each if groups * batch * width >= ENOUGH * THREADS * each else 1
    channels = min(padded(width), THREADS * each)
    strings = min(padded(batch), THREADS * each // channels)
    return (_tiles(batch, strings), _tiles(width, channels), groups), strings, channels


def block_grid(groups: int, batch: int, heads: int, size: int, each: int = 8) -> tuple[Grid, int]:
    """Return the grid and a program's chains, at most `each` numbers of A_k a thread or one block.

    A chain is one block's recurrence in one string; those of a string are beside each other.
    """
    total = groups * batch * heads
    chains = max(each * THREADS // size**2, 1)
    while chains > 1 and total < ENOUGH * chains and chains * size**2 > 4 * THREADS:
        chains //= 2
    chains = min(chains, padded(batch * heads))
    return (_tiles(batch * heads, chains), groups), chains


def _tiles(number: int, tile: int) -> int:
    return -(-number // tile)
