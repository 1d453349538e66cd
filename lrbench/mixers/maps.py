"""Functions g(u) that make the coefficients of a recurrence from its input."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

MAPS = ("linear", "mlp")


def input_map(kind: str, width: int, hidden: int, out: int) -> nn.Sequential:
    """Return the map D -> out: linear, or Linear-ReLU-Linear with `hidden` units."""
    if kind == "linear":
        return nn.Sequential(nn.Linear(width, out))
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, out))


def batch_last(layers: nn.Sequential, u: Tensor) -> Tensor:
    """Return layers(u) for u (B, T, D) as (T, out, B): the layout that the scan works in.

    Only the last and by far the largest product is done in that layout, [W b] x [z; 1], with the
    bias as one more column so that neither pass walks the result a second time.
    """
    hidden: Tensor = layers[:-1](u)
    last = layers[-1]
    assert isinstance(last, nn.Linear)
    columns = pad(hidden, (0, 1), value=1.0).permute(1, 2, 0).contiguous()  # (T, in + 1, B)
    weight = torch.cat([last.weight, last.bias[:, None]], dim=1)
    return torch.bmm(weight.expand(len(columns), -1, -1), columns)


def blocks_of(width: int, size: int) -> int:
    """Return how many blocks of `size` make a state of `width`; ValueError if that is no number."""
    if width % size:
        raise ValueError(
            f"model.width {width} is not a multiple of model.mixer.block_size {size};"
            " change one of them or set model.mixer.blocks"
        )
    return width // size
