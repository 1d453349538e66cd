"""A trained model to read with: tokens in, logits or states out, in eval mode."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.certificates.reader import SymbolReader, flat
from lrbench.checks import shown
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.mixers.states import leaves
from lrbench.models.base import Backbone
from lrbench.runs.evaluate.evaluation import take_weights
from lrbench.runs.evaluate.trained import trained
from lrbench.runs.train.validate import resolve_device
from lrbench.tasks import make_task
from lrbench.tasks.base import Task
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
        each side, and gives logits (N, C). Raises UserError for tokens of another shape or type,
        and for symbols that the task does not have.
        """
        self._check(tokens, *more)
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
        one that grows with the string, and for tokens that `forward` refuses.
        """
        network = self.network
        if not isinstance(network, Backbone) or network.state_size is None:
            why = "its state grows" if isinstance(network, Backbone) else "it reads strings whole"
            raise UserError(
                f"model {self.config.model.name} has no state of fixed size after a position: {why}"
            )
        self._check(tokens)
        reader = SymbolReader(network, next(network.parameters()).device)
        seen: list[Tensor] = []
        state: Any = None
        for symbol in tokens.unbind(1):
            _, state = reader.step(symbol, state)
            if not leaves(state):
                raise UserError(f"model {self.config.model.name} carries no state")
            seen.append(flat(state))
        return torch.stack(seen, 1)

    def _check(self, tokens: Tensor, *more: Tensor) -> None:
        """Raise UserError for what the network cannot read; kernels do not look where they read."""
        task, name = make_task(self.config.task), self.config.model.name
        for one in (tokens, *more):
            if not isinstance(one, Tensor):
                raise UserError(
                    f"a model reads tensors, not a {type(one).__name__}; try torch.as_tensor(..)"
                )
        if not isinstance(self.network, Backbone):
            need = ["tokens (N, S)", "lengths (N,)"] * task.sides
            given = [tokens, *more]
            if [one.ndim for one in given] != [2, 1] * task.sides:
                raise UserError(f"model {name} takes {', '.join(need)}, not {_shapes(given)}")
            for part, lengths in zip(given[::2], given[1::2], strict=True):
                if part.shape[:1] != lengths.shape or not _within(lengths, 1, part.shape[1]):
                    raise UserError(f"model {name}: lengths must be one a string, from 1 to S")
                _check_symbols(_inside(part, lengths), task)
            return
        if more:
            raise UserError(f"model {name} takes tokens alone, not {_shapes([tokens, *more])}")
        if task.features:
            if tokens.ndim != 3 or tokens.shape[2] != task.features or not tokens.shape[1]:
                raise UserError(
                    f"task {task.name} is a signal of shape (B, T, {task.features}), not"
                    f" {_shapes([tokens])}"
                )
            return
        if tokens.ndim != 2 or not tokens.shape[1]:
            raise UserError(
                f"tokens must have the shape (B, T), T from 1 on, not {_shapes([tokens])}"
                + ("; of a single string: tokens[None]" if tokens.ndim == 1 else "")
            )
        _check_symbols(tokens, task)


def _check_symbols(tokens: Tensor, task: Task) -> None:
    """Raise UserError for what are no symbols of a task."""
    if tokens.dtype != torch.int64:
        raise UserError(f"tokens must be torch.int64, not {tokens.dtype}; try tokens.long()")
    if not _within(tokens, 0, len(task.vocabulary) - 1):
        raise UserError(
            f"tokens of {task.name} are from 0 to {len(task.vocabulary) - 1}"
            f" ({shown(' '.join(task.vocabulary))}), not {int(tokens.min())} to {int(tokens.max())}"
        )


def _within(numbers: Tensor, low: int, high: int) -> bool:
    return not numbers.numel() or bool(numbers.min() >= low and numbers.max() <= high)


def _inside(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the symbols (n,) of strings; what stands behind their ends does not matter."""
    return tokens[torch.arange(tokens.shape[1]) < lengths.cpu()[:, None]]


def _shapes(tensors: Sequence[Tensor]) -> str:
    return " and ".join(str(tuple(one.shape)) for one in tensors)


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
