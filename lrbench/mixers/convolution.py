"""The short causal convolution that stands between a projection and a recurrence.

    y_t = f(c + sum_{j=0}^{w-1} W_j x_{t-w+1+j})        each feature by itself

W_{w-1} acts on the present position, as in a padded `torch.nn.Conv1d` with a group for each
feature; what stands before a string is zero. Mamba, DeltaNet and their relatives use w = 4 with a
SiLU (Gu & Dao 2023, arXiv:2312.00752). It lets a model look back w - 1 positions, so its size is a
setting of each of them.

State: the last w - 1 inputs, after the projection and before f, (B, w - 1, C).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from lrbench.errors import unknown

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"identity": lambda x: x, "silu": silu}


class CausalConvolution(nn.Module):
    """A depth-wise causal convolution of C features over `size` = w positions.

    Weights and bias are drawn as torch draws those of a convolution, uniform in +-1/sqrt(w).
    Raises UserError for an activation that is not one of ACTIVATIONS, ValueError for w < 1.
    """

    def __init__(
        self, features: int, size: int, activation: str = "silu", bias: bool = False
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise unknown("activation", activation, ACTIVATIONS)
        if size < 1:
            raise ValueError(f"a convolution of {size} positions; it takes at least one")
        self.features, self.size = features, size
        self.activation = ACTIVATIONS[activation]
        bound = size**-0.5
        self.weight = nn.Parameter(torch.empty(features, size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(features).uniform_(-bound, bound)) if bias else None

    @property
    def state_size(self) -> int:
        """Real numbers kept of one string."""
        return self.features * (self.size - 1)

    def initial_state(self, batch: int) -> Tensor:
        """Return what stands before a string: zeros (B, w - 1, C)."""
        return self.weight.new_zeros(batch, self.size - 1, self.features)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Map x (B, T, C) and the inputs before it, (B, w - 1, C), to y (B, T, C) and the state."""
        before = self.initial_state(len(x)) if state is None else state
        known, length = torch.cat([before, x], 1), x.shape[1]
        total = x * self.weight[:, -1]
        for j in range(self.size - 1):
            total = torch.addcmul(total, known[:, j : j + length], self.weight[:, j])
        if self.bias is not None:
            total = total + self.bias
        return self.activation(total), known[:, length:]
