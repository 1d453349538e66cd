"""A small model in any backbone, and strings for it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from lrbench.models.build import build_model
from lrbench.schema import model_node

Build = Callable[..., Any]


@pytest.fixture
def build() -> Build:
    """Return build(model, backbone, symbols=7, ...): a model of width 16 and 5 classes, float64."""

    def build(
        name: str,
        backbone: str,
        symbols: int = 7,
        classes: int = 5,
        layers: int = 2,
        features: int = 0,
        seed: int = 0,
        stack: dict[str, Any] | None = None,
    ) -> Any:
        model = model_node(name, backbone)(layers=layers, width=16)
        for key, value in (stack or {}).items():
            setattr(model.backbone, key, value)
        made = build_model(SimpleNamespace(model=model), symbols, classes, seed, features)
        return made.double()

    return build


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(7, (4, 11), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def signal() -> torch.Tensor:
    return torch.randn(4, 11, 3, generator=torch.Generator().manual_seed(0))
