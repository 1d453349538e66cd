"""The arithmetic of runs, wherever they are trained or scored: full float32, no subnormal numbers.

Below 1.2e-38 (float32) a number has no leading one any more, and processors take a detour for each
operand of that kind. Weight decay makes them: a weight that no gradient holds shrinks with every
update, and after some thousand of them a tenth of a network may be there. Forward and backward then
take several times as long (`benchmarks/subnormal_speed.py`), and the answers are the same.

On a GPU cuDNN rounds what it multiplies to TF32, which keeps ten bits after the binary point. It
does so in convolutions and in torch's RNN, GRU and LSTM, and runs there would differ from a CPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from threading import Lock
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
    products do it, on a CPU as well. These are settings of the process: while several threads are
    inside they stay, and the last to leave puts back what the first found.
    """
    with _lock:
        _inside.append(_inside[0] if _inside else _put_full())
    try:
        yield
    finally:
        with _lock:
            put_back = _inside.pop()
            if not _inside:
                put_back()


_lock = Lock()
_inside: list[Callable[[], None]] = []  # for each that is inside, what puts back the settings


def _put_full() -> Callable[[], None]:
    """Set everything to full float32; return what undoes it."""
    try:
        return _put_full_by_flags()
    except RuntimeError:  # once `fp32_precision` was set, torch refuses the older names
        return _put_full_by_operation()


def _put_full_by_flags() -> Callable[[], None]:
    backends: tuple[Any, ...] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    precision, before = torch.get_float32_matmul_precision(), [b.allow_tf32 for b in backends]

    def put(precision: str, allowed: Sequence[bool]) -> None:
        for backend, one in zip(backends, allowed, strict=True):
            backend.allow_tf32 = one
        torch.set_float32_matmul_precision(precision)

    put("highest", [False, False])
    return partial(put, precision, before)


OPERATIONS = (
    "cuda.matmul",
    "cudnn.conv",
    "cudnn.rnn",
    "mkldnn.matmul",
    "mkldnn.conv",
    "mkldnn.rnn",
)


def _put_full_by_operation() -> Callable[[], None]:
    operations = [attrgetter(name)(torch.backends) for name in OPERATIONS]
    before = [operation.fp32_precision for operation in operations]

    def put(precisions: Sequence[str]) -> None:
        for operation, one in zip(operations, precisions, strict=True):
            operation.fp32_precision = one

    put(["ieee"] * len(operations))
    return partial(put, before)
