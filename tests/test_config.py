"""Ranges of settings that hold without any task or model."""

from __future__ import annotations

from typing import Any

import pytest

from lrbench.config import Config, ModelConfig, OptimConfig, StackConfig
from lrbench.protocols.fan2024.declaration import Fan2024Config


@pytest.mark.parametrize(
    ("kind", "settings", "said"),
    [
        (Config, {"seed": -1}, "seed must be at least 0, not -1"),
        (Config, {"seed": 2**63}, "seed must be at most 9,223,372,036,854,775,807"),
        (Config, {"seed": 2**63 - 1}, r"seed \+ trials must be at most"),
        (Config, {"data_seed": -1}, "data_seed must be at least 0"),
        (Config, {"trials": 0}, "trials must be at least 1"),
        (Config, {"threads": 2000}, "threads must be at most 1,024"),
        (Config, {"output_dir": " "}, "output_dir must name a folder"),
        (Config, {"output_dir": "a\0b"}, r"output_dir must name a folder, not 'a\\x00b'"),
        (StackConfig, {"layers": 0}, "model.layers must be at least 1"),
        (ModelConfig, {"width": -1}, "model.width must be at least 1"),
        (Fan2024Config, {"batch_size": 0}, "protocol.batch_size must be at least 1"),
        (Fan2024Config, {"max_steps": 10**10}, "protocol.max_steps must be at most"),
        (Fan2024Config, {"look_every": 3}, "more than 10,000 looks"),
        (Fan2024Config, {"test_lengths": []}, "name at least one length"),
        (Fan2024Config, {"test_lengths": [0]}, "protocol.test_lengths must be at least 1"),
        (Fan2024Config, {"band": [2, 1]}, "shortest, longest"),
        (Fan2024Config, {"band": [1, 2, 3]}, "shortest, longest"),
        (Fan2024Config, {"stop": "later"}, "protocol.stop must be one of"),
        (OptimConfig, {"lr": 0.0}, "optim.lr must be a positive number, not 0.0"),
        (OptimConfig, {"lr": float("nan")}, "optim.lr must be a positive number, not nan"),
        (OptimConfig, {"clip": 0.0}, "optim.clip must be a positive number"),
        (OptimConfig, {"weight_decay": float("inf")}, "optim.weight_decay must be at least 0"),
        (OptimConfig, {"betas": [0.9, 1.0]}, "optim.betas must be two numbers in"),
        (OptimConfig, {"betas": [0.9, float("nan")]}, "optim.betas must be two numbers in"),
        (OptimConfig, {"label_smoothing": 1.0}, "optim.label_smoothing must be in"),
        (OptimConfig, {"lr": 0.1, "final_lr": 0.2}, "optim.final_lr must be at most optim.lr, 0.1"),
        (OptimConfig, {"lr": 0.1, "final_lr": 0.01}, "write optim.schedule=cosine, not constant"),
        (OptimConfig, {"warmup": -1}, "optim.warmup must be at least 0"),
    ],
)
def test_ranges(kind: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        kind(**settings)
