"""Optimisers and learning-rate schedules: a pure function of the update number."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lrbench.config import OptimConfig


def make_optimiser(config: OptimConfig, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
    """Return Adam (L2 weight decay) or AdamW (decoupled), fused into one pass over the weights."""
    kind = torch.optim.AdamW if config.name == "adamw" else torch.optim.Adam
    first, second = config.betas
    return kind(
        parameters,
        lr=config.lr,
        betas=(first, second),
        weight_decay=config.weight_decay,
        fused=True,
    )


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """Return the rate of update `step` (1, 2, ..., `steps`).

    Linear warm-up over `config.warmup` updates, then constant, or down to zero at the end of the
    budget along half a cosine or a line.
    """
    if step <= config.warmup:
        return config.lr * step / config.warmup
    if config.schedule == "constant":
        return config.lr
    done = (step - config.warmup) / max(1, steps - config.warmup)
    left = 0.5 * (1 + math.cos(math.pi * done)) if config.schedule == "cosine" else 1 - done
    return config.lr * left


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Use `rate` for every parameter group from the next update on."""
    for group in optimiser.param_groups:
        group["lr"] = rate
