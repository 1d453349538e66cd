"""Causal convolution y_t = sum_{s <= t} k_{t-s} u_s of each channel with a kernel of its own.

Up to about a hundred positions the T x T triangular Toeplitz matrix of a channel is small: one
batched matrix product for all strings beats the transforms. From then on, FFTs.

Layout: channels first, (D, B, T), which is what a batched product over channels wants. With numba,
short strings are convolved as the sum is written, in the layout they come in, with neither.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.scan.closed_form import ClosedForm, one_by_one
from lrbench.scan.compiled.compiler import DTYPES, array, usable

LONGEST_TOEPLITZ = (
    128  # measured on one CPU core, forward and backward: equal at 128, FFT 4x at 256
)
WIDE = 16  # the compiled loops take so many channels at a time


def convolve(u: Tensor, kernel: Tensor) -> Tensor:
    """Return y (B, T, D) for inputs u (B, T, D) and kernels (D, T)."""
    fits = 0 < u.shape[1] <= LONGEST_TOEPLITZ and u.shape[2] % WIDE == 0 and u.numel() > 0
    if fits and u.dtype == kernel.dtype and usable(u, "convolution"):
        return DIRECT(u, kernel)
    return channels_last(causal_convolution(channels_first(u), kernel))


def causal_convolution(u: Tensor, kernel: Tensor) -> Tensor:
    """Return y (D, B, T) for inputs u (D, B, T) and kernels (D, T)."""
    if u.shape[-1] <= LONGEST_TOEPLITZ:
        return u @ toeplitz(kernel)
    return fft_convolution(u, kernel)


def toeplitz(kernel: Tensor) -> Tensor:
    """Return the upper triangular U (D, T, T), U[s, t] = kernel[t - s], for kernels (D, T).

    Repeating (kernel, T zeros) in rows that are one short shifts each row by one more.
    """
    rows, length = kernel.shape
    padded = pad(kernel, (0, length))[:, None].expand(rows, length, 2 * length)
    flat = padded.reshape(rows, -1)[:, : length * (2 * length - 1)]
    return flat.view(rows, length, 2 * length - 1)[..., :length].contiguous()


def fft_convolution(u: Tensor, kernel: Tensor) -> Tensor:
    """Return what `causal_convolution` does, by FFT: 2T points, or the end would wrap around."""
    length = u.shape[-1]
    points = 2 * length
    spectrum = torch.fft.rfft(u, points) * torch.fft.rfft(kernel, points)[:, None]
    y: Tensor = torch.fft.irfft(spectrum, points)[..., :length]
    return y


def reference_convolution(u: Tensor, kernel: Tensor) -> Tensor:
    """Return the same as the sum is written: the slow truth the others are tested by."""
    outputs = []
    for t in range(u.shape[-1]):
        past = u[..., : t + 1].flip(-1)
        outputs.append((past * kernel[:, None, : t + 1]).sum(-1))
    return torch.stack(outputs, -1)


def delayed(kernel: Tensor) -> Tensor:
    """Return (0, k_0, .., k_{T-2}) for kernels (D, T)."""
    return pad(kernel, (1, 0))[..., :-1]


def channels_first(u: Tensor) -> Tensor:
    """Copy (B, T, D) to (D, B, T)."""
    return TO_CHANNELS(u)


def channels_last(y: Tensor) -> Tensor:
    """Copy (D, B, T) to (B, T, D)."""
    return FROM_CHANNELS(y)


def _first(u: Tensor) -> Tensor:
    """Copy (B, T, D) to (D, B, T), flattened first: torch is twice as fast in two axes."""
    return u.flatten(0, 1).T.contiguous().view(-1, *u.shape[:2])


def _last(y: Tensor) -> Tensor:
    return y.flatten(1).T.contiguous().view(*y.shape[1:], -1)


# Autograd's own gradient of a copy is a view in the other order, and batched products copy such
# views matrix by matrix
TO_CHANNELS = ClosedForm(lambda u: (_first(u),), lambda u, y, g: (_last(g),), one_by_one)
FROM_CHANNELS = ClosedForm(lambda y: (_last(y),), lambda y, u, g: (_first(g),), one_by_one)


def _direct(u: Tensor, kernel: Tensor) -> tuple[Tensor]:
    return (_run(u, kernel, 0, 1),)


def _direct_backward(u: Tensor, kernel: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    from lrbench.scan.compiled.scans.convolution import slope_loop

    length, width = u.shape[1:]
    dkernel = u.new_zeros(length, width)
    slope_loop(DTYPES[u.dtype])(array(u), array(gradient), array(dkernel))
    return _run(gradient, kernel, length - 1, -1), dkernel.T


def _run(u: Tensor, kernel: Tensor, first: int, step: int) -> Tensor:
    from lrbench.scan.compiled.scans.convolution import MARGIN, convolution_loop

    y = torch.empty_like(u, memory_format=torch.contiguous_format)
    padded = pad(kernel.T, (0, 0, MARGIN, MARGIN))
    loop = convolution_loop(DTYPES[u.dtype])
    loop(array(u), array(padded), array(y), first, step)
    return y


DIRECT = ClosedForm(_direct, _direct_backward, one_by_one, needs_result=False)
