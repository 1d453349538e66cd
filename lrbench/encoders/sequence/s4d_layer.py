"""The S4D layer that comes before chunks in recursion in recursion (Ray Chowdhury & Caragea 2023).

    v = (S4D(x), reversed S4D(reversed x)),   z = drop(gelu(drop(v))),   y = GLU(W z + c) + x

One system of 2d channels (`two_sided.py`, one side): d read a string from its start, d from its
end, reversed within its true length. Dropout drops a channel at all positions of a string. No
normalisation, or batch normalisation after the sum, over padded positions too: there the second
half of z is zero, as in the released code.

In the released code both reversals are outside of the graph, so that the channels that read
backwards get no gradient and pass none on: they stay what they were drawn as, but for weight decay.
The paper describes an ordinary layer. `detach_backward` is the released code's way.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, gelu, glu

from lrbench.encoders.base import draw_bits, dropping
from lrbench.encoders.sequence.two_sided import StateSpaces
from lrbench.errors import UserError


class S4dLayer(nn.Module):
    """Maps padded strings (N, S, d) to (N, S, d)."""

    def __init__(
        self,
        width: int,
        state_size: int = 64,
        dropout: float = 0.0,
        norm: bool = False,
        detach_backward: bool = True,
    ) -> None:
        super().__init__()
        self.spaces = StateSpaces(2 * width, state_size, sides=1)
        self.gate = nn.Linear(2 * width, 2 * width)
        self.norm = nn.BatchNorm1d(width) if norm else None
        self.dropout = dropout
        self.detach_backward = detach_backward

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Map x (N, S, d) with mask (N, S) to y (N, S, d); y is not zero where the mask is false.

        Whether it trains is said by the generator, where dropout is drawn from.
        """
        x = torch.where(mask[..., None], x, 0)
        order = reversal(mask)[..., None].expand_as(x)
        backward = x.detach() if self.detach_backward else x
        ahead, behind = self.spaces(torch.cat([x, backward.gather(1, order)], 2)).chunk(2, 2)
        behind = torch.where(mask[..., None], behind.gather(1, order), 0)
        if self.detach_backward:
            behind = behind.detach()
        v = torch.cat([ahead, behind], 2)
        z = tied(gelu(tied(v, self.dropout, generator)), self.dropout, generator)
        y: Tensor = glu(self.gate(z), -1) + x
        if self.norm is None:
            return y
        return normalise(self.norm, y, None, generator is not None)


def reversal(mask: Tensor) -> Tensor:
    """Return where position i of each reversed string comes from, (N, S): L-1-i, or i if i >= L."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - positions, positions)


def tied(x: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Set a share of the channels of each string of x (N, S, D) to zero and scale up the rest."""
    if generator is None or share == 0:
        return x
    bits = draw_bits((len(x), 1, x.shape[2]), generator, x.device)
    return x * dropping(share).kept(bits, x)


def normalise(norm: nn.BatchNorm1d, x: Tensor, counted: Tensor | None, training: bool) -> Tensor:
    """Normalise x (N, S, d) by statistics of the positions `counted` (N, S), or of all.

    Positions that are not counted become zero. Batch statistics are for training only. Raises
    UserError for those of one position.
    """
    rows = x.flatten(0, 1) if counted is None else x[counted]
    if training and len(rows) == 1:
        raise UserError(
            "batch normalisation: a batch of one string of one symbol has no variance\n"
            "raise protocol.batch_size, or protocol.micro_batch where that is set"
        )
    statistics = norm.running_mean, norm.running_var
    momentum = 0.1 if norm.momentum is None else norm.momentum
    normal = batch_norm(rows, *statistics, norm.weight, norm.bias, training, momentum, norm.eps)
    if counted is None:
        return normal.view_as(x)
    return torch.zeros_like(x).index_put((counted,), normal)
