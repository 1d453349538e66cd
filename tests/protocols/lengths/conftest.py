"""A run on several lengths that is small enough to train in a moment."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config

SMALL = [
    "task=nnch_parity_check",
    "model=lstm",
    "model.width=8",
    "protocol=deletang2022_short",
    "protocol.train_lengths=[1,6]",
    "protocol.look.lengths=[7,9]",
    "protocol.look.strings=12",
    "protocol.band=[7,8]",
    "protocol.test.lengths=[7,11]",
    "protocol.test.stride=2",
    "protocol.test.strings=16",
    "protocol.batch_size=8",
    "protocol.look_every=4",
    "protocol.validation_size=16",
    "protocol.max_steps=8",
]


@pytest.fixture
def small() -> Callable[..., Config]:
    """A function from extra overrides to a small configuration."""

    def make(*arguments: str) -> Config:
        chosen = dict(argument.split("=", 1) for argument in [*SMALL, *arguments])
        return composed([f"{key}={value}" for key, value in chosen.items()])

    return make
