"""Linear maps into complex states and back, as one real product each.

Complex weights are parameters (..., 2), real and imaginary parts; a complex tensor (..., N) and its
real rows (..., 2N), parts in turn, are the same memory.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear


def to_complex(u: Tensor, weight: Tensor) -> Tensor:
    """Return B u, complex (..., N), for real u (..., D) and complex B (N, D)."""
    rows = torch.view_as_real(weight.resolve_conj()).mT.flatten(0, 1)  # (2N, D)
    return as_complex(linear(u, rows))


def real_part(x: Tensor, weight: Tensor) -> Tensor:
    """Return Re(C x), (..., D), for complex x (..., N) and C (D, N)."""
    return linear(as_rows(x), as_rows(weight.conj()))


def as_rows(x: Tensor) -> Tensor:
    """Return complex (..., N) as real (..., 2N)."""
    return torch.view_as_real(x.resolve_conj()).flatten(-2)


def as_complex(rows: Tensor) -> Tensor:
    """Return real (..., 2N) as complex (..., N)."""
    return torch.view_as_complex(rows.contiguous().unflatten(-1, (-1, 2)))


def pairs(x: Tensor) -> Tensor:
    """Return complex x as single-precision pairs (..., 2) on the default device."""
    return torch.view_as_real(x).to(torch.get_default_device(), torch.float32)
