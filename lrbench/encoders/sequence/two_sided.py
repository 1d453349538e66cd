"""Diagonal state spaces that read a string from both of its ends.

Each of d channels has one transition and one input vector B, and two output vectors C: the first
reads the past and the present, the second the future,

    y_t = sum_{s <= t} K_{t-s} u_s + sum_{s > t} K'_{s-t-1} u_s + D u_t
    K_n = 2 Re sum_m C_m Bbar_m Abar_m^n,   K' with C' for C

as in the released S4 (Gu, Goel & Ré 2022, arXiv:2111.00396), where the second kernel begins one
position away. Transitions are S4D's (`lrbench/mixers/state_space/s4d.py`): A_n = -1/2 + i (N / pi)
(N / (2n + 1) - 1), bilinear. With `sides` 1 there is the first sum alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lrbench.mixers.base import ParameterRule
from lrbench.mixers.state_space.s4d import first_modes
from lrbench.mixers.state_space.ssm import as_pairs, complex_normal, discretise, first_steps
from lrbench.scan.time_invariant.convolution import LONGEST_TOEPLITZ, channels_first, channels_last
from lrbench.scan.time_invariant.power_series import power_series

STEPS = 1e-3, 1e-1  # first Delta
LARGEST_RATE = 1e-3  # of learning, for all of a system's parameters


class StateSpaces(nn.Module):
    """Systems of `channels` channels with N = `state_size` numbers of state each."""

    def __init__(self, channels: int, state_size: int, sides: int) -> None:
        super().__init__()
        a, b = first_modes("inv", state_size)
        decay, frequency = (-a.real).log().float(), a.imag.float()
        self.log_step = nn.Parameter(first_steps(channels, *STEPS))
        self.log_decay = nn.Parameter(decay.repeat(channels, 1))
        self.frequency = nn.Parameter(frequency.repeat(channels, 1))
        self.input = nn.Parameter(as_pairs(b).repeat(channels, 1, 1))
        self.output = nn.Parameter(complex_normal(sides, channels, len(a)))
        self.skip = nn.Parameter(torch.randn(channels))

    def kernels(self, length: int) -> Tensor:
        """Return K and K' (sides, channels, length), without D."""
        a = torch.complex(-self.log_decay.exp(), self.frequency)
        b, c = torch.view_as_complex(self.input), torch.view_as_complex(self.output)
        bar, weight = discretise(a, b, self.log_step.exp(), "bilinear")
        weights = (c * weight).flatten(0, 1)
        series = power_series(bar.repeat(len(c), 1), weights, length)
        return series.view(len(c), -1, length)

    def forward(self, u: Tensor) -> Tensor:
        """Map u (N, S, channels) to y of that shape."""
        kernels = self.kernels(u.shape[1])
        y = two_sided(channels_first(u), *kernels.unbind(0))
        return torch.addcmul(channels_last(y), u, self.skip)

    def rules(self) -> dict[str, ParameterRule]:
        """Return the rules of these parameters: a rate of at most 1e-3, weight decay as usual."""
        return {name: ParameterRule(cap=LARGEST_RATE) for name, _ in self.named_parameters()}


def two_sided(u: Tensor, past: Tensor, future: Tensor | None = None) -> Tensor:
    """Return y (D, N, S) for u (D, N, S) and kernels K and K' (D, S)."""
    length = u.shape[-1]
    # a circular kernel: lags below zero count from its end
    circle = torch.cat([past, torch.zeros_like(past) if future is None else future.flip(-1)], -1)
    if length <= LONGEST_TOEPLITZ:
        return u @ _matrix(circle)
    points = 2 * length
    spectrum = torch.fft.rfft(u, points) * torch.fft.rfft(circle)[:, None]
    y: Tensor = torch.fft.irfft(spectrum, points)[..., :length]
    return y


def _matrix(circle: Tensor) -> Tensor:
    """Return U (D, S, S), U[s, t] = circle[t - s mod 2S], for circular kernels (D, 2S).

    Repeating a kernel in rows that are one short shifts each row by one more.
    """
    rows, points = circle.shape
    length = points // 2
    repeated = circle[:, None].expand(rows, length, points)
    flat = repeated.reshape(rows, -1)[:, : length * (points - 1)]
    return flat.view(rows, length, points - 1)[..., :length].contiguous()
