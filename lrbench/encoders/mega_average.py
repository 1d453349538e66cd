"""MEGA's moving average: sixteen damped exponential averages a feature, from both ends of a string.

Ma et al. 2023 (arXiv:2209.10655), with p = sigmoid(delta) and q = 1 - p sigmoid(alpha):

    K_t = sum_n p_n beta_n gamma_n q_n^t / sqrt(16),      K' likewise, with numbers of its own
    y_t = sum_{s <= t} K_{t-s} x_s + sum_{s >= t} K'_{s-t} x_s + omega x_t
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from lrbench.encoders.two_sided import two_sided
from lrbench.scan.convolution import channels_first, channels_last

AVERAGES = 16


class MovingAverage(nn.Module):
    """Two-sided exponential averages of d features."""

    def __init__(self, width: int) -> None:
        super().__init__()
        shape = 2 * width, AVERAGES
        signs = torch.tensor([1.0, -1.0]).repeat(AVERAGES // 2)
        self.delta = nn.Parameter(torch.randn(shape) * 0.2)
        self.alpha = nn.Parameter(torch.randn(shape) * 0.2)
        self.beta = nn.Parameter(torch.randn(shape) * 0.02 + signs)
        self.gamma = nn.Parameter(torch.randn(shape))
        self.omega = nn.Parameter(torch.randn(width))

    def kernels(self, length: int) -> tuple[Tensor, Tensor]:
        """Return K and K' (d, length)."""
        p = self.delta.sigmoid()
        log_q = torch.log1p(-p * self.alpha.sigmoid())
        weights = p * self.beta * self.gamma / math.sqrt(AVERAGES)
        times = torch.arange(length, dtype=p.dtype, device=p.device)
        powers = (log_q[..., None] * times).exp()
        both = (weights[:, None] @ powers).squeeze(1)
        ahead, behind = both.chunk(2)
        return ahead, behind

    def forward(self, x: Tensor) -> Tensor:
        """Map x (N, S, d), zero at padding, to y (N, S, d)."""
        ahead, behind = self.kernels(x.shape[1])
        past = torch.cat([ahead[:, :1] + behind[:, :1], ahead[:, 1:]], 1)
        y = two_sided(channels_first(x), past, pad(behind[:, 1:], (0, 1)))
        return torch.addcmul(channels_last(y), x, self.omega)
