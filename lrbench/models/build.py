"""A model from its configuration, initialised from a seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from lrbench.models.classifier import Classifier, ClassifierConfig, PairClassifier, PairConfig
from lrbench.registry import BACKBONES, ENCODERS, MIXERS


def build_model(
    config: Any, symbols: int, classes: int, seed: int, features: int = 0, sides: int = 1
) -> nn.Module:
    """Return the model `config.model` describes, in float32 on CPU.

    It reads one of `symbols` tokens, or a signal of `features` numbers, a position; an encoder
    reads strings whole, or pairs of them (`sides` = 2). Weights depend on `seed` alone, whatever
    the device: they are drawn on CPU and moved later. Raises ValueError for settings that do not go
    together.
    """
    model = config.model
    if model.name in ENCODERS:
        return build_reader(model, symbols, classes, seed, sides)
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


def build_reader(model: Any, symbols: int, classes: int, seed: int, sides: int) -> nn.Module:
    """Return an encoder with what stands around it: a classifier of strings, or of pairs."""
    stands = model.framework
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        encoder = ENCODERS.get(model.name).cls(model.encoder, model.width)
        if sides == 2:
            pairs = PairConfig(stands.in_dropout, stands.out_dropout, stands.hidden)
            return PairClassifier(pairs, encoder, symbols, classes)
        strings = ClassifierConfig(stands.in_dropout, stands.out_dropout, stands.head)
        return Classifier(strings, encoder, symbols, classes)


def count_parameters(model: nn.Module) -> int:
    """Return how many trainable numbers a model has."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
