"""The arithmetic of runs, wherever they are trained or scored: full float32, no subnormal numbers.

Below 1.2e-38 (float32) a number has no leading one any more, and processors take a detour for each
operand of that kind. Weight decay makes them: a weight that no gradient holds shrinks with every
update, and after some thousand of them a tenth of a network may be there. Forward and backward then
take several times as long (`benchmarks/subnormal_speed.py`), and the answers are the same.

On a GPU cuDNN rounds the operands of convolutions and of torch's RNN, GRU and LSTM to TF32, ten
bits behind the point, unless it is told not to. A run there would be another than on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def run_arithmetic() -> Iterator[None]:
    """Compute as runs do: `full_float32` and `flushed`."""
    with full_float32(), flushed():
        yield


@contextmanager
def flushed() -> Iterator[None]:
    """Take numbers that small for zero, on the CPU, in this thread and in those it starts inside.

    Threads that were there before keep their ways: with `threads` above one that is torch's pool,
    which a program starts at its first parallel operation. Where a processor cannot, everything
    stays as it is.
    """
    before = are_flushed()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def are_flushed() -> bool:
    """Whether this thread takes them for zero."""
    smallest = torch.full((1,), torch.finfo(torch.float32).tiny)
    return float(smallest * 0.5) == 0


@contextmanager
def full_float32() -> Iterator[None]:
    """Let nothing round the operands of products to TF32 or bfloat16.

    cuDNN does by default on a GPU; torch.set_float32_matmul_precision below "highest" lets matrix
    products do it, on a CPU as well.
    """
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    precision, before = torch.get_float32_matmul_precision(), [b.allow_tf32 for b in backends]
    torch.set_float32_matmul_precision("highest")
    for backend in backends:
        backend.allow_tf32 = False
    try:
        yield
    finally:
        for backend, allowed in zip(backends, before, strict=True):
            backend.allow_tf32 = allowed
        torch.set_float32_matmul_precision(precision)
