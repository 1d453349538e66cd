"""A configuration small enough to train in a moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config

TINY = [
    "task=sum",
    "model=blockdiag",
    "model.width=8",
    "model.mixer.block_size=4",
    "model.mixer.hidden=8",
    "model.backbone.noise=0",
    "optim.warmup=0",
    "optim.label_smoothing=0",
    "optim.schedule=constant",
    "protocol.train_length=6",
    "protocol.test_lengths=[9]",
    "protocol.further_lengths=[12]",
    "protocol.band=[7,8]",
    "protocol.batch_size=8",
    "protocol.look_every=4",
    "protocol.look_size=8",
    "protocol.validation_size=16",
    "protocol.test_size=20",
    "protocol.max_steps=10",
    "protocol.stop=never",
]


@pytest.fixture
def tiny() -> Callable[..., Config]:
    """A function from extra overrides to a tiny configuration."""

    def make(*arguments: str) -> Config:
        chosen = dict(argument.split("=", 1) for argument in [*TINY, *arguments])
        return composed([f"{key}={value}" for key, value in chosen.items()])

    return make
