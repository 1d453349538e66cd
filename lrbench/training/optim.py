"""Optimisers and learning-rate schedules: a pure function of the update number."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from lrbench.encoders.base import Encoder
from lrbench.mixers.base import Mixer, ParameterRule
from lrbench.training.optimisers import Adam, AdamW, Ranger

if TYPE_CHECKING:
    from lrbench.config import OptimConfig


def make_optimiser(config: OptimConfig, model: nn.Module) -> torch.optim.Optimizer:
    """Return Adam (L2 weight decay) or AdamW (decoupled), fused into one pass over the weights.

    `ranger` is RAdam (decoupled weight decay) with Lookahead. Parameters go in groups by the rules
    of the mixers or encoders they belong to.
    """
    first, second = config.betas
    groups = [
        {
            "params": parameters,
            "lr": min(config.lr * rule.lr, rule.cap),
            "multiplier": min(rule.lr, rule.cap / config.lr),
            "weight_decay": config.weight_decay if rule.decay else 0.0,
        }
        for rule, parameters in by_rule(model, config.decay_embeddings).items()
    ]
    if config.name == "ranger":
        return Ranger(groups, lr=config.lr, betas=(first, second))
    optimiser = AdamW if config.name == "adamw" else Adam
    return optimiser(groups, lr=config.lr, betas=(first, second), fused=True)


def by_rule(
    model: nn.Module, decay_embeddings: bool = True
) -> dict[ParameterRule, list[nn.Parameter]]:
    """Return the trainable parameters by their rule, in the model's order within each."""
    kept = () if decay_embeddings else _of_embeddings(model)
    rules = {
        f"{path}.{name}" if path else name: rule
        for path, module in model.named_modules()
        if isinstance(module, Mixer | Encoder)
        for name, rule in module.parameter_rules().items()
    }
    groups: dict[ParameterRule, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        rule = rules.pop(name, ParameterRule())
        if name in kept:
            rule = replace(rule, decay=False)
        if parameter.requires_grad:
            groups.setdefault(rule, []).append(parameter)
    if rules:
        raise ValueError(f"parameter_rules names what is no parameter: {', '.join(rules)}")
    return groups


def _of_embeddings(model: nn.Module) -> set[str]:
    """Return the names of the parameters of embeddings."""
    return {
        f"{path}.{name}" if path else name
        for path, module in model.named_modules()
        if isinstance(module, nn.Embedding)
        for name, _ in module.named_parameters(recurse=False)
    }


def learning_rate(config: OptimConfig, step: int, steps: int) -> float:
    """Return the rate of update `step` (1, 2, ..., `steps`).

    Linear warm-up over `config.warmup` updates, then constant, or down to `config.final_lr` at the
    end of the budget along half a cosine or a line.
    """
    if step <= config.warmup:
        return config.lr * step / config.warmup
    if config.schedule == "constant":
        return config.lr
    done = (step - config.warmup) / max(1, steps - config.warmup)
    left = 0.5 * (1 + math.cos(math.pi * done)) if config.schedule == "cosine" else 1 - done
    return config.lr * left + config.final_lr * (1 - left)


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Use `rate`, times the multiplier of each parameter group, from the next update on."""
    for group in optimiser.param_groups:
        value = rate * group.get("multiplier", 1.0)  # older checkpoints have none
        if isinstance(group["lr"], torch.Tensor):  # that of a captured graph stays where it is
            group["lr"].fill_(value)
        else:
            group["lr"] = value
