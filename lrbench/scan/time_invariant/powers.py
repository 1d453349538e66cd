"""The powers 1, a, a^2, .. of many numbers, with a closed-form backward.

Written by doubling: log2 T products of growing size. Complex exp(n log a) is thirty times slower on
CPU, and autograd through the doubling keeps and walks every stage, where the derivative needs one
pass: da = sum_n conj(n a^(n-1)) dp_n.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from lrbench.kernels.closed_form import ClosedForm, fold


def powers(base: Tensor, count: int) -> Tensor:
    """Return p (D, count, M), p[:, n] = base^n, for a real or complex base (D, M); count >= 1."""
    return ClosedForm(partial(_forward, count=count), _backward, fold)(base)


def _forward(base: Tensor, *, count: int) -> tuple[Tensor]:
    table = base.new_empty(base.shape[0], count, base.shape[1])
    table[:, 0] = 1
    filled, step = 1, base[:, None]
    while filled < count:
        more = min(filled, count - filled)
        torch.mul(table[:, :more], step, out=table[:, filled : filled + more])
        filled, step = filled + more, step * step
    return (table,)


def _backward(base: Tensor, table: Tensor, gradient: Tensor) -> tuple[Tensor]:
    count = table.shape[1]
    n = torch.arange(1, count, dtype=base.real.dtype, device=base.device)
    slopes = table[:, :-1].conj() * gradient[:, 1:]
    return ((slopes * n[:, None]).sum(1),)
