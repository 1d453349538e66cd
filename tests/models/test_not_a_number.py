"""A weight that is not a number shows in the loss, compiled or not: divergence is seen there."""

from __future__ import annotations

import math

import pytest
import torch

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial

MODELS = ["blockdiag", "blockdiag_release", "lru", "s5", "s4", "s4d", "liquid_s4", "rwkv4"]
SMALL = ["model.width=16", "model.layers=2", "protocol.batch_size=16", "protocol.train_length=5"]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_every_weight_that_is_no_number_is_seen(model: str) -> None:
    trial = LengthTrial(composed([f"model={model}", *SMALL]), 0)
    batch = trial.batch(1)
    with torch.no_grad():  # zero-initialised products would hide a weight from the answer
        for parameter in trial.model.parameters():
            parameter.add_(torch.full_like(parameter, 0.01))
    hidden = []
    for name, parameter in trial.model.named_parameters():
        kept = parameter.detach().clone()
        parameter.data.fill_(math.nan)
        loss = trial.loss(trial.model(batch.tokens)[0], batch.targets)
        if math.isfinite(loss.item()):
            hidden.append(name)
        parameter.data.copy_(kept)
    assert hidden == []
    assert math.isfinite(trial.loss(trial.model(batch.tokens)[0], batch.targets).item())
