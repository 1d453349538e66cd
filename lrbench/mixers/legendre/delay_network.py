"""The delay network: a linear system whose state holds a window of its input.

Voelker & Eliasmith, Neural Computation 30(3), 2018, as in Chilkuri & Eliasmith, "Parallelizing
Legendre Memory Unit Training", arXiv:2102.11417, Eq. 5-14:

    dm/dt = A m + B u,    A_ij = (2i+1)/theta (-1 if i < j else (-1)^(i-j+1)),
                          B_i  = (2i+1)/theta (-1)^i,              i, j = 0 .. d-1
    m_t = A_bar m_{t-1} + B_bar u_t,    A_bar = e^A,   B_bar = A^-1 (e^A - I) B
    u(t - r theta) = C(r)^T m_t,        C_i(r) = P_i(2r - 1)       (shifted Legendre polynomials)

Glossary
    d           order      numbers the window is held in
    theta       theta      length of the window, in positions
    m           memory     (..., d)
    H           response   (n, d): A_bar^0 B_bar, A_bar^1 B_bar, ..; Eq. 23 has it transposed
    P_k         doublings  A_bar^(2^k)
    r           fraction   how far back, in windows: 0 is now, 1 is theta positions ago

Both discrete matrices come from one exponential, e^[[A, B], [0, 0]] = [[A_bar, B_bar], [0, 1]]:
A is too badly conditioned (1e5 at d = 468) for its inverse. The exponential is scipy's; torch's is
off by 8e-11 at d = 1, theta = 25. Eq. 10 and 14 have a misprint (binom(i+l, j) is binom(i+l, l)),
and as sums of monomials they lose all digits from i = 30 on: the decoder uses the three-term
recurrence of Legendre polynomials.
Held over the step that ends at t, a sample stands for the input half a position earlier: m_t
decodes u(t + 1/2 - r theta).

Constants are kept in float64 outside the module's buffers, and rounded once for each dtype they are
asked in: cast buffers would be float32 numbers in a float64 model, which powers amplify.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

EXACT = torch.float64


def delay_matrices(order: int, theta: float) -> tuple[Tensor, Tensor]:
    """Return A (d, d) and B (d) of Eq. 8-9 in float64, for a window of `theta` positions."""
    i = torch.arange(order, dtype=EXACT, device="cpu")
    scale = (2 * i + 1) / theta
    sign = 1 - 2 * (i % 2)
    lower = -sign[:, None] * sign[None, :]
    a = scale[:, None] * torch.where(i[:, None] < i[None, :], -torch.ones_like(lower), lower)
    return a, scale * sign


@lru_cache(maxsize=16)
def discretised(order: int, theta: float) -> tuple[Tensor, Tensor]:
    """Return A_bar (d, d) and B_bar (d), zero-order hold over one position, in float64."""
    from scipy.linalg import expm  # slow to import: only where such a model is built

    a, b = delay_matrices(order, theta)
    joint = torch.zeros(order + 1, order + 1, dtype=EXACT, device="cpu")
    joint[:order, :order], joint[:order, order] = a, b
    exponential = torch.from_numpy(expm(joint.numpy()))
    return exponential[:order, :order].contiguous(), exponential[:order, order].contiguous()


def decoder(order: int, fractions: Tensor) -> Tensor:
    """Return C(r) (..., d) in float64 for delays of r windows, r (...) in [0, 1]."""
    x = 2 * fractions.to("cpu", EXACT) - 1
    values = [torch.ones_like(x), x]
    for i in range(1, order - 1):
        values.append(((2 * i + 1) * x * values[i] - i * values[i - 1]) / (i + 1))
    return torch.stack(values[:order], -1)


class DelayNetwork:
    """The constants of one delay network, rounded to the dtype and device of a given tensor."""

    def __init__(self, order: int, theta: float) -> None:
        self.order = order
        self.theta = theta
        self._kept: dict[tuple[object, ...], Tensor] = {}

    def matrices(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return A_bar (d, d) and B_bar (d)."""
        return self.doubling(0, like), self.response(1, like)[0]

    def response(self, length: int, like: Tensor) -> Tensor:
        """Return H (n, d), the states after a unit impulse: computed anew only when n grows."""
        size = _rounded_up(length)
        return self._once("response", size, like, lambda: self._response(size))[:length]

    def spectrum(self, length: int, like: Tensor) -> Tensor:
        """Return the rfft of H over 2n positions, (d, n + 1); see `transform_length` for n."""
        return self._once(
            "spectrum", length, like, lambda: torch.fft.rfft(self._response(length).T, 2 * length)
        )

    def doubling(self, k: int, like: Tensor) -> Tensor:
        """Return A_bar^(2^k), (d, d)."""
        return self._once("doubling", k, like, lambda: _doubling(self.order, self.theta, k))

    def chunk(self, count: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the maps (c, c d) of v_1 .. v_c and (d, c d) of m_0 to m_1 .. m_c in a row."""

        def maps() -> Tensor:
            carry = _powers(discretised(self.order, self.theta)[0], count)
            inputs = _toeplitz(self._response(count)).flatten(1)
            return torch.cat([inputs, carry.flatten(0, 1).T])  # rows j: entry i, j of A_bar^t

        both = self._once("chunk", count, like, maps)
        return both[:count], both[count:]

    def _response(self, length: int) -> Tensor:
        return _response(self.order, self.theta, _rounded_up(length))[:length]

    def _once(self, name: str, size: int, like: Tensor, make: Callable[[], Tensor]) -> Tensor:
        """Return make(), in float64, as `like` is; made at the first call.

        Made outside of torch.func and inference mode: what is made within them is theirs, and of
        no use once they are over.
        """
        key = (name, size, like.dtype, like.device)
        if key not in self._kept:
            with torch._C._DisableFuncTorch(), torch.inference_mode(False):
                exact = make()
                dtype = like.dtype.to_complex() if exact.is_complex() else like.dtype
                self._kept[key] = exact.to(like.device, dtype)
        return self._kept[key]

    def fade(self, memory: Tensor, steps: int) -> Tensor:
        """Return A_bar^steps m for m (..., d): the memory after `steps` inputs of zero."""
        for k in range(steps.bit_length()):
            if steps >> k & 1:
                memory = memory @ self.doubling(k, memory).T
        return memory

    def __deepcopy__(self, _: object) -> DelayNetwork:
        return DelayNetwork(self.order, self.theta)

    def __reduce__(self) -> tuple[type[DelayNetwork], tuple[int, float]]:
        return DelayNetwork, (self.order, self.theta)


def transform_length(length: int) -> int:
    """Return the least n >= length that is quick to transform: 1, 3, 5 or 9 times a power of 2."""
    sizes = [odd << max(0, (-(-length // odd) - 1).bit_length()) for odd in (1, 3, 5, 9)]
    return min(sizes)


def _rounded_up(length: int) -> int:
    return 1 << max(0, length - 1).bit_length()


def _powers(a: Tensor, count: int) -> Tensor:
    """Return a^1 .. a^count, (count, d, d)."""
    powers = [a]
    while len(powers) < count:
        powers.append(powers[-1] @ a)
    return torch.stack(powers)


def _toeplitz(response: Tensor) -> Tensor:
    """Return what v_j adds to m_t, [j, t, :], of H (c, d): H_{t-j}, zero for t < j."""
    late = torch.arange(len(response), device="cpu")
    behind = late[None, :] - late[:, None]
    return response[behind.clamp(min=0)] * (behind >= 0)[:, :, None]


@lru_cache(maxsize=64)
def _doubling(order: int, theta: float, k: int) -> Tensor:
    if k == 0:
        return discretised(order, theta)[0]
    half = _doubling(order, theta, k - 1)
    return half @ half


@lru_cache(maxsize=8)
def _response(order: int, theta: float, length: int) -> Tensor:
    """Return H (n, d) in float64 for n a power of two: the second half is A_bar^(n/2) the first."""
    if length == 1:
        return discretised(order, theta)[1][None]
    half = _response(order, theta, length // 2)
    shift = _doubling(order, theta, (length // 2).bit_length() - 1)
    return torch.cat([half, half @ shift.T])
