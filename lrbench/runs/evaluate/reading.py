"""A trained model to read with: tokens in, logits or states out, in eval mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.certificates.reader import SymbolReader, flat, tensors
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.models.base import Backbone
from lrbench.runs.evaluate.evaluation import take_weights
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.train.validate import resolve_device
from lrbench.training.arithmetic import run_arithmetic
from lrbench.training.procedure import procedure_for


class TrainedModel(nn.Module):
    """The model of a run's checkpoint; its weights are of update `checkpoint_step`.

    `network` is the model itself, `config` what the run was set to.
    """

    def __init__(self, network: nn.Module, config: Config, checkpoint_step: int) -> None:
        super().__init__()
        self.network = network
        self.config = config
        self.checkpoint_step = checkpoint_step
        self.eval()

    @torch.no_grad()
    @run_arithmetic()
    def forward(self, tokens: Tensor, *more: Tensor) -> Tensor:
        """Map tokens (B, T), int64, or a signal (B, T, F), to logits (B, T, C), without gradients.

        A model of whole strings takes (tokens (N, S), lengths (N,)), of pairs of them both for
        each side, and gives logits (N, C).
        """
        device = next(self.network.parameters()).device
        made = self.network(tokens.to(device), *(one.to(device) for one in more))
        logits: Tensor = made[0] if isinstance(self.network, Backbone) else made
        return logits

    @torch.no_grad()
    @run_arithmetic()
    def states(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, T), int64, to the carried state after each position, (B, T, S).

        The S real numbers are those of every layer in turn, of a complex number both parts.
        Strings are read symbol by symbol. Raises UserError for a model that carries no state or
        one that grows with the string.
        """
        network = self.network
        if not isinstance(network, Backbone) or network.state_size is None:
            why = "its state grows" if isinstance(network, Backbone) else "it reads strings whole"
            raise UserError(
                f"model {self.config.model.name} has no state of fixed size after a position: {why}"
            )
        reader = SymbolReader(network, next(network.parameters()).device)
        seen: list[Tensor] = []
        state: Any = None
        for symbol in tokens.unbind(1):
            _, state = reader.step(symbol, state)
            if not tensors(state):
                raise UserError(f"model {self.config.model.name} carries no state")
            seen.append(flat(state))
        return torch.stack(seen, 1)


def model_of(folder: Path, which: str, device_name: str = "cpu") -> TrainedModel:
    """Return the model of the checkpoint that rule `which` kept of a run.

    Raises UserError for a folder that holds no run, a rule that kept nothing, and where the run was
    trained with other code.
    """
    device = resolve_device(device_name)
    run = trained(folder, which)
    network = procedure_for(run.config).trial(run.seed, device).model
    take_weights(network, run.weights, folder, run.rule)
    return TrainedModel(network, run.config, run.step)
