"""Four ways from the inputs of a delay network to its states, each with its adjoint.

Chilkuri & Eliasmith, arXiv:2102.11417. For a scalar input v_1 .. v_n and a memory m_0 before it,

    m_t = A_bar^t m_0 + sum_{j <= t} H_{t-j} v_j

    lti     Eq. 19, position by position             n steps, n d^2 multiplications
    matmul  Eq. 24, m = H U with U Toeplitz          n^2 d
    fft     Eq. 26, a transform over 2n positions    n log n d
    chunk   ours: the map of c positions at once,    n/c steps, n (c + d) d
            (m_0, v_1 .. v_c) -> m_1 .. m_c, is one constant matrix

The paper starts from m_0 = 0. With a carried state its Eq. 24 and 26 lack A_bar^t m_0, which is
added here. `adjoint` is the transposed map; together they let a backward recompute the states,
which are the largest tensor of these models, instead of keeping them.

Shapes: v (N, n), m_0 (N, d), states (N, n, d), N strings times channels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import pad

from lrbench.mixers.legendre.delay_network import DelayNetwork, transform_length

CHUNK = 32
STEPS = 64  # of the recurrence whose states are read out together
TILE = 128  # rows of Eq. 24's matrix that are written out at once


class DelayMode(ABC):
    """A linear map (v, m_0) -> states. `piece` is how many positions are best mapped at once."""

    piece: int

    def __init__(self, network: DelayNetwork, like: Tensor, length: int) -> None:
        self.network = network
        self.like = like
        self.piece = length

    @abstractmethod
    def states(self, v: Tensor, before: Tensor | None) -> Tensor:
        """Return m_1 .. m_n; `before` is m_0, None for zero."""

    @abstractmethod
    def adjoint(self, gradient: Tensor, carried: bool) -> tuple[Tensor, Tensor | None]:
        """Return d/dv (N, n) and, if a memory was carried in, d/dm_0 (N, d)."""


class Steps(DelayMode):
    """The recurrence, Eq. 19."""

    def __init__(self, network: DelayNetwork, like: Tensor, length: int) -> None:
        super().__init__(network, like, min(STEPS, length))
        self.a, self.b = network.matrices(like)

    def states(self, v: Tensor, before: Tensor | None) -> Tensor:
        states = v.T[:, :, None] * self.b
        for at in states:
            if before is not None:
                at.addmm_(before, self.a.T)
            before = at
        return states.transpose(0, 1)

    def adjoint(self, gradient: Tensor, carried: bool) -> tuple[Tensor, Tensor | None]:
        slopes = gradient.transpose(0, 1).clone(memory_format=torch.contiguous_format)
        for at, later in zip(
            reversed(slopes[:-1].unbind()), reversed(slopes.unbind()), strict=False
        ):
            at.addmm_(later, self.a)
        return (slopes @ self.b).T, slopes[0] @ self.a if carried else None


class Chunks(DelayMode):
    """The map of a whole chunk as one product with a constant matrix."""

    def __init__(self, network: DelayNetwork, like: Tensor, length: int) -> None:
        super().__init__(network, like, CHUNK)
        # of a whole chunk even for a shorter string: the map of fewer positions is its corner
        self.inputs, self.carry = network.chunk(CHUNK, like)

    def states(self, v: Tensor, before: Tensor | None) -> Tensor:
        count = v.shape[1]
        numbers = count * self.network.order
        states = v @ self.inputs[:count, :numbers]
        if before is not None:
            states.addmm_(before, self.carry[:, :numbers])
        return states.view(len(v), count, -1)

    def adjoint(self, gradient: Tensor, carried: bool) -> tuple[Tensor, Tensor | None]:
        count, slopes = gradient.shape[1], gradient.flatten(1)
        numbers = slopes.shape[1]
        dv = slopes @ self.inputs[:count, :numbers].T
        return dv, slopes @ self.carry[:, :numbers].T if carried else None


class Convolution(DelayMode):
    """Input response and fading memory apart, as a convolution has it."""

    def states(self, v: Tensor, before: Tensor | None) -> Tensor:
        states = self.convolved(v)
        return states if before is None else states.add_(self._faded(before, v.shape[1]))

    def adjoint(self, gradient: Tensor, carried: bool) -> tuple[Tensor, Tensor | None]:
        return self.correlated(gradient), self._unfaded(gradient) if carried else None

    @abstractmethod
    def convolved(self, v: Tensor) -> Tensor:
        """Return sum_j H_{t-j} v_j, (N, n, d)."""

    @abstractmethod
    def correlated(self, gradient: Tensor) -> Tensor:
        """Return sum_t H_{t-j}^T gradient_t, (N, n)."""

    def _faded(self, before: Tensor, length: int) -> Tensor:
        """Return A_bar^t m_0 for t = 1 .. n by doubling: (N, n, d)."""
        faded = (before @ self.network.doubling(0, before).T)[:, None]
        while faded.shape[1] < length:
            k = faded.shape[1].bit_length() - 1
            faded = torch.cat([faded, faded @ self.network.doubling(k, before).T], 1)
        return faded[:, :length]

    def _unfaded(self, gradient: Tensor) -> Tensor:
        """Return sum_t (A_bar^t)^T gradient_t by halving: (N, d)."""
        length = gradient.shape[1]
        k = max(0, length - 1).bit_length()
        total = pad(gradient, (0, 0, 0, (1 << k) - length))
        for half in reversed(range(k)):
            early, late = total.chunk(2, 1)
            total = early + late @ self.network.doubling(half, gradient)
        return total[:, 0] @ self.network.doubling(0, gradient)


class Toeplitz(Convolution):
    """The product with the Toeplitz matrix of the inputs, Eq. 24, some rows of it at a time."""

    def convolved(self, v: Tensor) -> Tensor:
        length = v.shape[1]
        states = v.new_empty(len(v), length, self.network.order)
        for first in range(0, length, TILE):
            end = min(first + TILE, length)
            rows = pad(v[:, :end], (end - first - 1, 0)).unfold(1, end, 1)
            states[:, first:end] = rows @ self._reversed(end)
        return states

    def correlated(self, gradient: Tensor) -> Tensor:
        length = gradient.shape[1]
        dv = gradient.new_zeros(len(gradient), length)
        for first in range(0, length, TILE):
            end = min(first + TILE, length)
            rows = gradient[:, first:end] @ self._reversed(end).T
            dv[:, :end] += _sheared_sum(rows)[:, end - first - 1 :]
        return dv

    def _reversed(self, length: int) -> Tensor:
        return self.network.response(length, self.like).flip(0)


class Fourier(Convolution):
    """The convolution by a transform over twice the length, so that no end wraps round, Eq. 26."""

    def __init__(self, network: DelayNetwork, like: Tensor, length: int) -> None:
        super().__init__(network, like, length)
        self.half = transform_length(length)
        self.spectrum = network.spectrum(self.half, like)

    def convolved(self, v: Tensor) -> Tensor:
        product = torch.fft.rfft(v, 2 * self.half)[:, None] * self.spectrum
        states: Tensor = torch.fft.irfft(product, 2 * self.half)
        return states[..., : v.shape[1]].transpose(1, 2)

    def correlated(self, gradient: Tensor) -> Tensor:
        product = torch.fft.rfft(gradient.transpose(1, 2), 2 * self.half) * self.spectrum.conj()
        dv: Tensor = torch.fft.irfft(product.sum(1), 2 * self.half)
        return dv[:, : gradient.shape[1]]


MODES: dict[str, type[DelayMode]] = {
    "lti": Steps,
    "matmul": Toeplitz,
    "fft": Fourier,
    "chunk": Chunks,
}


def _sheared_sum(rows: Tensor) -> Tensor:
    """Return the sum of rows (N, r, m), row i moved right by i: (N, m + r - 1)."""
    count, length = rows.shape[1:]
    flat = pad(rows, (0, count)).flatten(1)[:, : count * (length + count - 1)]
    return flat.reshape(len(rows), count, -1).sum(1)
