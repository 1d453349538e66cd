"""Initial values of learnt time steps."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def time_bias(count: int, low: float = 1e-3, high: float = 0.1, floor: float = 1e-4) -> Tensor:
    """Return (count) numbers whose softplus is log-uniform in low..high (Gu & Dao 2023)."""
    span = torch.rand(count) * (math.log(high) - math.log(low)) + math.log(low)
    time = span.exp().clamp_min(floor)
    return time + (-(-time).expm1()).log()
