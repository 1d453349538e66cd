"""Batch normalisation of padded strings, over all positions or over the valid ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm


def normalise(norm: nn.BatchNorm1d, x: Tensor, counted: Tensor | None, training: bool) -> Tensor:
    """Normalise x (N, S, d) by statistics of the positions `counted` (N, S), or of all.

    Positions that are not counted become zero. Batch statistics are for training only.
    """
    rows = x.flatten(0, 1) if counted is None else x[counted]
    statistics = norm.running_mean, norm.running_var
    momentum = 0.1 if norm.momentum is None else norm.momentum
    normal = batch_norm(rows, *statistics, norm.weight, norm.bias, training, momentum, norm.eps)
    if counted is None:
        return normal.view_as(x)
    return torch.zeros_like(x).index_put((counted,), normal)
