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
from lrbench.kernels.closed_form import ClosedForm, one_by_one

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
        known = torch.cat([before, x], 1)
        total = WEIGHTED_SUMS(known, self.weight)
        if self.bias is not None:
            total = total + self.bias
        return self.activation(total), known[:, x.shape[1] :]


def _forward(known: Tensor, weight: Tensor) -> tuple[Tensor]:
    """Return sum_j W_j x_(t+j), (B, T, C), for x (B, T + w - 1, C) and W (C, w)."""
    size = weight.shape[1]
    length, rows = known.shape[1] - size + 1, weight.T.contiguous()
    total = known[:, size - 1 :] * rows[-1]
    for j in range(size - 1):
        total.addcmul_(known[:, j : j + length], rows[j])
    return (total,)


def _backward(known: Tensor, weight: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Autograd would write a gradient of all of x for each j."""
    length, rows = gradient.shape[1], weight.T.contiguous()
    dknown, drows = torch.zeros_like(known), torch.empty_like(rows)
    for j, (row, drow) in enumerate(zip(rows, drows, strict=True)):
        seen = slice(j, j + length)
        dknown[:, seen].addcmul_(gradient, row)
        torch.sum((gradient * known[:, seen]).flatten(0, 1), 0, out=drow)
    return dknown, drows.T


WEIGHTED_SUMS = ClosedForm(_forward, _backward, one_by_one, needs_result=False)
