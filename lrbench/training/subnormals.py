"""Numbers near zero that a CPU computes with several times slower than with all others.

Below 1.2e-38 (float32) a number has no leading one any more, and processors take a detour for each
operand of that kind. Weight decay makes them: a weight that no gradient holds shrinks with every
update, and after some thousand of them a tenth of a network may be there. Forward and backward then
take several times as long (`benchmarks/subnormal_speed.py`), and the answers are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
