"""The smallest configuration that trains."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.config import Config
from lrbench.schema import config_from


@pytest.fixture
def tiny(output_dir: Path) -> Callable[..., Config]:
    """Return a function that makes a Config of six updates; keywords override its top level."""

    def make(**changes: Any) -> Config:
        settings: dict[str, Any] = {
            "task": {"name": "sum"},
            "model": {
                "name": "blockdiag",
                "width": 8,
                "backbone": {"name": "lrnn_release"},
                "mixer": {"block_size": 2, "hidden": 4},
            },
            "protocol": {
                **{"train_length": 3, "test_lengths": [4], "further_lengths": [], "band": [5, 5]},
                **{"batch_size": 2, "look_size": 4, "validation_size": 4, "test_size": 4},
                **{"max_steps": 6, "look_every": 2, "stop": "never"},
            },
            "device": "cpu",
            "output_dir": str(output_dir),
        }
        return config_from({**settings, **changes})

    return make
