"""What sLSTM and mLSTM share: maps within heads, a norm of each head, small initial weights.

As in the released code of Beck et al. 2024 (arXiv:2405.04517).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import layer_norm

EPSILON = 1e-5


def small(weight: Tensor, width: int) -> Tensor:
    """Draw `weight` from N(0, 2 / (5 D)), in place (Nguyen & Salazar 2019, "small init")."""
    return nn.init.normal_(weight, std=(2 / (5 * width)) ** 0.5)


def units_of(width: int, heads: int, what: str = "model.width") -> int:
    """Return how many features each head has; ValueError where that is no whole number."""
    if width % heads:
        raise ValueError(
            f"{what} {width} is not a multiple of model.mixer.heads {heads}; change one of them"
        )
    return width // heads


class HeadNorm(nn.Module):
    """Layer normalisation of each head by itself, with a gain for each feature and no bias."""

    def __init__(self, heads: int, units: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(heads, units))

    def forward(self, x: Tensor) -> Tensor:
        """Map x (..., H, d) to the normal heads side by side, (..., H d)."""
        return (layer_norm(x, x.shape[-1:], eps=EPSILON) * self.weight).flatten(-2)
