"""Kernels K_n = 2 Re sum_m w_m a_m^n of diagonal systems, with a closed-form backward.

The gradients are sums over n with the same table of powers, two products for each channel:

    S = sum_n g_n a^n,    S' = sum_n n g_n a^(n-1),    dw = 2 conj(S),    da = 2 conj(w S'),

where autograd would write the gradient of every entry of the table.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.kernels.closed_form import ClosedForm, fold
from lrbench.scan.time_invariant.powers import powers


def power_series(base: Tensor, weights: Tensor, count: int) -> Tensor:
    """Return K (D, count), real, for complex base and weights (D, M); count >= 1."""
    return ClosedForm(partial(_forward, count=count), _backward, fold, False)(base, weights)


def _forward(base: Tensor, weights: Tensor, *, count: int) -> tuple[Tensor, Tensor]:
    table = _rows(powers(base, count))
    covector = _rows(2 * weights.conj())
    return (table @ covector[..., None])[..., 0], table


def _backward(
    base: Tensor, weights: Tensor, table: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    count = table.shape[1]
    n = torch.arange(1, count, dtype=table.dtype, device=table.device)
    sloped = pad(n * gradient[:, 1:], (0, 1))
    sums = torch.stack([sloped, gradient], 1) @ table
    slopes, values = torch.view_as_complex(sums.unflatten(-1, (-1, 2))).unbind(1)
    return 2 * (weights * slopes).conj(), 2 * values.conj()


def _rows(values: Tensor) -> Tensor:
    """Return complex (..., M) as real (..., 2M)."""
    return torch.view_as_real(values.resolve_conj()).flatten(-2)
