"""A model from its configuration, initialised from a seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from lrbench.registry import BACKBONES, MIXERS


def build_model(config: Any, symbols: int, classes: int, seed: int, features: int = 0) -> nn.Module:
    """Return the model `config.model` describes, in float32 on CPU.

    It reads one of `symbols` tokens, or a signal of `features` numbers, a position. Weights depend
    on `seed` alone, whatever the device: they are drawn on CPU and moved later. Raises ValueError
    for settings that do not go together.
    """
    model = config.model
    mixer, backbone = MIXERS.get(model.name), BACKBONES.get(model.backbone.name)
    signal = {"features": features} if features else {}  # a plugin's stack may know symbols only
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built: nn.Module = backbone.cls(
            model.backbone,
            symbols=symbols,
            classes=classes,
            width=model.width,
            layers=model.layers,
            make_mixer=lambda width=model.width: mixer.cls(model.mixer, width),
            **signal,
        )
    return built


def count_parameters(model: nn.Module) -> int:
    """Return how many trainable numbers a model has."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
