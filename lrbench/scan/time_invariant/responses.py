"""Outputs of a time-invariant system read off its responses to single symbols.

A system that starts from zero and reads one of S symbols a position answers with a sum,

    y_t = sum_{j <= t} K_{t-j}[s_j],        K_l[s] the output l positions after symbol s alone,

a product of one-hot marks (B, t S) with kernels (t S, D) for each t. Neither states nor inputs of
all positions exist, and the backward is one product as well. Worth it while T S is no more than a
few times the size of a state. With numba, rows of the kernels are added up instead
(`lrbench.scan.compiled.scans.responses`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable

LANES = (64, 32, 16)  # how many features the compiled loops take at a time: the most that fit


def superpose(kernel: Tensor, index: Tensor) -> Tensor:
    """Return y (B, T, D) for responses `kernel` (S, T, D) and symbols `index` (B, T)."""
    fits = kernel.shape[2] % LANES[-1] == 0 and kernel.numel() > 0
    compiles = fits and usable(kernel, "responses", _sizes(kernel)[0])
    return (COMPILED if compiles else SUPERPOSE)(kernel, index)


def superpose_last(kernel: Tensor, index: Tensor) -> Tensor:
    """Return y_T (B, D) alone; arguments as for `superpose`."""
    return _marks(kernel, index) @ _newest_last(kernel)


def _marks(kernel: Tensor, index: Tensor) -> Tensor:
    """Return one-hot symbols (B, T S)."""
    symbols = torch.arange(len(kernel), device=index.device)
    return (index[..., None] == symbols).to(kernel.dtype).flatten(1)


def _newest_last(kernel: Tensor) -> Tensor:
    """Return K_{T-1}, .., K_0 below each other: (T S, D)."""
    return kernel.transpose(0, 1).flip(0).flatten(0, 1)


def _forward(kernel: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    symbols, length, width = kernel.shape
    marks, stacked = _marks(kernel, index), _newest_last(kernel)
    y = kernel.new_empty(len(index), length, width)
    for t, out in enumerate(y.unbind(1), 1):
        torch.mm(marks[:, : t * symbols], stacked[(length - t) * symbols :], out=out)
    return y, marks


def _backward(
    kernel: Tensor, index: Tensor, _: Tensor, marks: Tensor, gradient: Tensor
) -> tuple[Tensor]:
    symbols, length, width = kernel.shape
    dstacked, transposed = kernel.new_zeros(length * symbols, width), marks.T
    for t, upstream in enumerate(gradient.unbind(1), 1):
        dstacked[(length - t) * symbols :].addmm_(transposed[: t * symbols], upstream)
    return (dstacked.view(length, symbols, width).flip(0).transpose(0, 1),)


def _compiled_forward(kernel: Tensor, index: Tensor) -> tuple[Tensor]:
    from lrbench.scan.compiled.scans.responses import forward_loop

    y = kernel.new_empty(*index.shape, kernel.shape[2])
    forward_loop(*_sizes(kernel))(array(kernel), array(index), array(y))
    return (y,)


def _compiled_backward(kernel: Tensor, index: Tensor, gradient: Tensor) -> tuple[Tensor]:
    from lrbench.scan.compiled.scans.responses import backward_loop

    dkernel = torch.zeros_like(kernel, memory_format=torch.contiguous_format)
    backward_loop(*_sizes(kernel))(array(index), array(gradient), array(dkernel))
    return (dkernel,)


def _sizes(kernel: Tensor) -> tuple[int, str]:
    wide = next(wide for wide in LANES if kernel.shape[2] % wide == 0)
    return wide, DTYPES[kernel.dtype]


SUPERPOSE = ClosedForm(_forward, _backward, one_by_one)
COMPILED = ClosedForm(_compiled_forward, _compiled_backward, one_by_one, needs_result=False)
