"""Products of float32 matrices on processors to whom torch's BLAS gives half of what they can do.

torch multiplies matrices with MKL, which takes AVX2 on every processor that is not Intel's, and
training is mostly such products. oneDNN, which is part of torch as well, takes AVX-512 where it is,
and is then about twice as fast once a product is large (`benchmarks/product_speed.py`). Which of
the two multiplies depends on the machine and the sizes alone, so that a run has the same bits each
time. Everything else (a GPU, other numbers, other processors) is torch's.

None of these functions has a gradient: they are for the closed forms of the scans and perceptrons.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torch
from torch import Tensor

# Multiplications from which oneDNN is faster: its preparation takes some ten microseconds a call
LARGE = 1 << 20
PROCESSOR = Path("/proc/cpuinfo")  # Linux's; elsewhere torch multiplies


def product(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return a b, (M, N) for a (M, K) and b (K, N), in `out` where that is given."""
    if not _better(a, b):
        return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)
    result = _by_onednn(a, b)
    return result if out is None else out.copy_(result)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Add a b to `total` (M, N), in place, and return it; a (M, K), b (K, N)."""
    return total.add_(_by_onednn(a, b)) if _better(a, b) else total.addmm_(a, b)


@cache
def onednn_is_faster() -> bool:
    """Tell whether this processor has AVX-512 and is not one that MKL would use it on."""
    if not (torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()):
        return False
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and _maker() != "GenuineIntel"


def _maker() -> str:
    """Return who made the processor, as it says itself; Intel where it does not say."""
    lines = PROCESSOR.read_text().splitlines() if PROCESSOR.is_file() else []
    said = (line.partition(":")[2].strip() for line in lines if line.startswith("vendor_id"))
    return next(said, "GenuineIntel")


def _better(a: Tensor, b: Tensor) -> bool:
    return (
        len(a) * b.numel() >= LARGE
        and a.dtype == b.dtype == torch.float32
        and a.device.type == b.device.type == "cpu"
        and onednn_is_faster()
    )


def _by_onednn(a: Tensor, b: Tensor) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.T, None, "none", [], "")
    return result
