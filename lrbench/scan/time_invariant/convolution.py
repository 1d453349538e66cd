"""Causal convolution y_t = sum_{s <= t} k_{t-s} u_s of each channel with a kernel of its own.

Up to about a hundred positions the T x T triangular Toeplitz matrix of a channel is small: one
batched matrix product for all strings beats the transforms. From then on, FFTs.

Layout: channels first, (D, B, T), which is what a batched product over channels wants. With numba,
short strings are convolved as the sum is written, in the layout they come in, with neither.

Four outputs are added up at once there: each number of a kernel that comes into registers serves
four of them in turn, and each input as well. Shapes: u, y and g (B, T, D), D a multiple of WIDE;
padded (T + 2 MARGIN, D), a kernel between rows of zeros; dkernel (T, D).
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.kernels.choice import DTYPES, usable
from lrbench.kernels.closed_form import ClosedForm, one_by_one
from lrbench.kernels.compiler import Loop, array, compiled
from lrbench.kernels.lanes import fma, load, store, zero

LONGEST_TOEPLITZ = (
    128  # measured on one CPU core, forward and backward: equal at 128, FFT 4x at 256
)
WIDE = 16  # the compiled loops take so many channels at a time


def convolve(u: Tensor, kernel: Tensor) -> Tensor:
    """Return y (B, T, D) for inputs u (B, T, D) and kernels (D, T)."""
    fits = 0 < u.shape[1] <= LONGEST_TOEPLITZ and u.shape[2] % WIDE == 0 and u.numel() > 0
    same = u.dtype == kernel.dtype and u.shape[1] == kernel.shape[1]
    if fits and same and usable(u, "convolution"):
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
    length, width = u.shape[1:]
    dkernel = u.new_zeros(length, width)
    slope_loop(DTYPES[u.dtype])(array(u), array(gradient), array(dkernel))
    return _run(gradient, kernel, length - 1, -1), dkernel.T


def _run(u: Tensor, kernel: Tensor, first: int, step: int) -> Tensor:
    y = torch.empty_like(u, memory_format=torch.contiguous_format)
    padded = pad(kernel.T, (0, 0, MARGIN, MARGIN))
    loop = convolution_loop(DTYPES[u.dtype])
    loop(array(u), array(padded), array(y), first, step)
    return y


DIRECT = ClosedForm(_direct, _direct_backward, one_by_one, needs_result=False)


MARGIN = 4


@cache
def convolution_loop(dtype: str) -> Loop:
    """Return the loop (u, padded, y to fill, first, step): time runs as it is read, from `first`.

    first, step: 0 and 1, or T - 1 and -1, which is the adjoint.
    """

    @compiled(dtype)
    def convolution(u, padded, y, first, step):  # type: ignore[no-untyped-def]
        length, features = u.shape[1:]
        nothing = zero(load(u, 0, WIDE))
        for string in range(u.shape[0]):
            for d in range(0, features, WIDE):
                start = (string * length + first) * features + d
                for t in range(0, length, 4):
                    y0, y1, y2, y3 = nothing, nothing, nothing, nothing
                    at = (MARGIN + t) * features + d
                    k1 = load(padded, at + features, WIDE)
                    k2 = load(padded, at + 2 * features, WIDE)
                    k3 = load(padded, at + 3 * features, WIDE)
                    for s in range(min(t + 4, length)):
                        k0 = load(padded, at - s * features, WIDE)
                        one = load(u, start + step * s * features, WIDE)
                        y0, y1 = fma(one, k0, y0), fma(one, k1, y1)
                        y2, y3 = fma(one, k2, y2), fma(one, k3, y3)
                        k3, k2, k1 = k2, k1, k0
                    out, on = start + step * t * features, step * features
                    store(y, out, y0)
                    if t + 1 < length:
                        store(y, out + on, y1)
                    if t + 2 < length:
                        store(y, out + 2 * on, y2)
                    if t + 3 < length:
                        store(y, out + 3 * on, y3)

    return convolution


@cache
def slope_loop(dtype: str) -> Loop:
    """Return the loop (u, g, zeros for dkernel): dk_l = sum_s g_{s+l} u_s, over all strings."""

    @compiled(dtype)
    def convolution_slope(u, g, dkernel):  # type: ignore[no-untyped-def]
        length, features = u.shape[1:]
        for string in range(u.shape[0]):
            for d in range(0, features, WIDE):
                start = string * length * features + d
                for lag in range(0, length - 3, 4):
                    at = lag * features + d
                    k0, k1 = load(dkernel, at, WIDE), load(dkernel, at + features, WIDE)
                    k2 = load(dkernel, at + 2 * features, WIDE)
                    k3 = load(dkernel, at + 3 * features, WIDE)
                    here = start + lag * features
                    g0, g1 = load(g, here, WIDE), load(g, here + features, WIDE)
                    g2 = load(g, here + 2 * features, WIDE)
                    for s in range(length - lag - 3):
                        g3 = load(g, here + (s + 3) * features, WIDE)
                        one = load(u, start + s * features, WIDE)
                        k0, k1 = fma(one, g0, k0), fma(one, g1, k1)
                        k2, k3 = fma(one, g2, k2), fma(one, g3, k3)
                        g0, g1, g2 = g1, g2, g3
                    left = start + (length - lag - 3) * features  # where g_{s+lag+3} has run out
                    u0, u1 = load(u, left, WIDE), load(u, left + features, WIDE)
                    u2 = load(u, left + 2 * features, WIDE)
                    k0 = fma(u2, g2, fma(u1, g1, fma(u0, g0, k0)))
                    k1, k2 = fma(u1, g2, fma(u0, g1, k1)), fma(u0, g2, k2)
                    store(dkernel, at, k0)
                    store(dkernel, at + features, k1)
                    store(dkernel, at + 2 * features, k2)
                    store(dkernel, at + 3 * features, k3)
                for lag in range(length - length % 4, length):
                    summed = load(dkernel, lag * features + d, WIDE)
                    for s in range(length - lag):
                        later = load(g, start + (s + lag) * features, WIDE)
                        summed = fma(load(u, start + s * features, WIDE), later, summed)
                    store(dkernel, lag * features + d, summed)

    return convolution_slope
