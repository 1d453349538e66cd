"""Products of float32 matrices by oneDNN, on processors where torch's BLAS reaches half the speed.

Training is mostly such products. oneDNN is faster there (`choice.py`) once a product is large and
no single row (`benchmarks/product_speed.py`, by size and for whole models). Which of the two
multiplies depends on the machine and the sizes alone, so that a run has the same bits each time.
Everything else (a GPU, other numbers, other processors) is torch's, and so is this under
LRBENCH_COMPILED=0.

No product by oneDNN has a gradient, so these functions are for the closed forms of the scans and
perceptrons; where a gradient is asked for, torch multiplies.
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.kernels.choice import Means, usable

# Multiplications from which oneDNN is faster (its preparation takes some ten microseconds a call),
# and rows and columns of the result: a matrix and few vectors are read once, whoever multiplies
LARGE = 1 << 20
FEWEST = 4


def product(a: Tensor, b: Tensor, out: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """Return a b + bias, (M, N) for a (M, K) and b (K, N), in `out` (M, N) where that is given.

    bias: (N,) or (M, 1). Raises RuntimeError or ValueError for shapes that do not go together.
    """
    if not _better(a, b):
        if bias is None:
            return torch.mm(a, b) if out is None else torch.mm(a, b, out=out)
        return torch.addmm(bias, a, b) if out is None else torch.addmm(bias, a, b, out=out)
    result = _by_onednn(a, b)
    if bias is not None:
        result.add_(bias)
    return result if out is None else _same_shape(out, result).copy_(result)


def add_product(total: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Add a b to `total` (M, N), in place, and return it; a (M, K), b (K, N)."""
    if not _better(a, b):
        return total.addmm_(a, b)
    result = _by_onednn(a, b)
    return _same_shape(total, result).add_(result)


def _better(a: Tensor, b: Tensor) -> bool:
    return (
        len(a) * b.numel() >= LARGE
        and min(len(a), b.shape[1]) >= FEWEST
        and a.dtype == b.dtype
        and a.device == b.device
        and not (torch.is_grad_enabled() and (a.requires_grad or b.requires_grad))
        and usable(a, "onednn_product", _lie(a), _lie(b), by=Means.ONEDNN)
    )


def _lie(matrix: Tensor) -> str:
    """Return what lies together in memory: a row's numbers, a column's, or neither's."""
    return "row" if matrix.stride(1) == 1 else "column" if matrix.stride(0) == 1 else "neither"


def _by_onednn(a: Tensor, b: Tensor) -> Tensor:
    if not (b.is_contiguous() or b.T.is_contiguous()):  # oneDNN would take it number by number
        b = b.contiguous()
    result: Tensor = torch.ops.mkldnn._linear_pointwise(a, b.T, None, "none", [], "")
    return result


def _same_shape(place: Tensor, result: Tensor) -> Tensor:
    if place.shape != result.shape:
        raise ValueError(f"a product {tuple(result.shape)} for {tuple(place.shape)} numbers")
    return place
