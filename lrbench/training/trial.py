"""One run of a cell while it trains: its weights, optimiser, data and how far it has come."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from lrbench.config import Config
from lrbench.models.build import build_model, count_parameters
from lrbench.tasks import make_task
from lrbench.tasks.base import Batch, Task
from lrbench.tasks.stream import Stream
from lrbench.training.cross_entropy import mean_cross_entropy
from lrbench.training.optim import learning_rate, make_optimiser, set_learning_rate
from lrbench.training.rules import Rules
from lrbench.training.telemetry import Telemetry

DRAWN_AT_ONCE = 1 << 16  # symbols: half a megabyte as int64, twelve updates of 128 strings of 40


def model_for(config: Config, task: Task, seed: int) -> nn.Module:
    """Return the model of a configuration for a task, with the weights of a seed, on CPU."""
    sizes = len(task.vocabulary), task.num_classes, seed, task.features
    return build_model(config, *sizes, sides=getattr(task, "sides", 1))


class Trial:
    """A model in training. Weights depend on `seed`, data on `data_seed`, both on nothing else."""

    def __init__(self, config: Config, seed: int, device: torch.device | str = "cpu") -> None:
        self.config = config
        self.seed = seed
        self.data_seed = seed if config.data_seed is None else config.data_seed
        self.device = torch.device(device)
        self.task = make_task(config.task)
        self.model: nn.Module = model_for(config, self.task, seed).to(self.device)
        self.optimiser = make_optimiser(config.optim, self.model)
        self.ahead: dict[int, Batch] = {}  # batches drawn for coming updates
        self.generator = torch.Generator(self.device).manual_seed(seed)  # of training noise
        self.step = 0
        self.stopped: str | None = None  # why training ended: perfect, budget or diverged
        self.seconds = 0.0  # spent in updates only
        self.loss_sum = torch.zeros((), device=self.device)
        self.loss_count = 0
        self.telemetry = Telemetry()
        self.rules = Rules(metric=self.task.metric)
        self.perfect_look: dict[str, Any] | None = None

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return count_parameters(self.model)

    @property
    def dtype(self) -> str:
        """The name of the weights' type, such as float32."""
        return str(next(self.model.parameters()).dtype).removeprefix("torch.")

    def stream(self, *purpose: str | int) -> Stream:
        """Return this run's random stream for a purpose, such as "train" or ("test", 500)."""
        return self.task.stream(self.data_seed, *purpose)

    def batch(self, step: int) -> Batch:
        """Return the training strings of update `step`; draws those of some updates at once."""
        if step not in self.ahead:
            protocol = self.config.protocol
            size, length = protocol.batch_size, protocol.train_length
            steps = range(step, step + max(1, DRAWN_AT_ONCE // (size * length)))
            drawn = self.task.samples(self.stream("train"), steps, size, length, self.device)
            self.ahead = dict(zip(steps, drawn, strict=True))
        return self.ahead[step]

    def update(self) -> Tensor:
        """Do the next update; return its loss, detached and still on the device."""
        self.step += 1
        set_learning_rate(self.optimiser, self.rate)
        batch = self.batch(self.step)
        # every answer of a whole batch of long series is not made for one that is asked for
        only_last = self.task.features and self.config.protocol.supervision == "last"
        read = "last" if only_last else "all"
        logits, _ = self.model(batch.tokens, read=read, generator=self.generator)
        loss = self.loss(logits, batch.targets)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        if self.config.optim.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optim.clip)
        self.optimiser.step()
        self.loss_sum += loss.detach()
        self.loss_count += 1
        return loss.detach()

    def take_loss(self) -> float:
        """Return the mean loss since the last call; only here is the device waited for.

        What mixers told in the same time is in `telemetry` then.
        """
        self.telemetry.take(self.model, self.step)
        mean = float(self.loss_sum) / max(1, self.loss_count)
        self.loss_sum.zero_()
        self.loss_count = 0
        return mean

    @property
    def steps(self) -> int:
        """How many updates it is trained for at most."""
        most: int = self.config.protocol.max_steps
        return most

    @property
    def look_due(self) -> bool:
        """Whether the last update is to be followed by a look."""
        every: int = self.config.protocol.look_every
        return self.step % every == 0 or self.step == self.steps

    def heed(self, look: dict[str, Any]) -> list[str]:
        """Let the rules consider a look; return those that believe it, and end where it says so."""
        if not math.isfinite(look["validation_loss"]):
            self.stopped = "diverged"
            return []
        believed = self.rules.consider(look)
        metric = self.task.metric
        perfect = metric.perfect(look[f"test_{metric.name}"])
        if perfect and self.perfect_look is None:
            self.perfect_look = {"step": self.step, "seconds": self.seconds}
        if self.config.protocol.stop == "perfect" and perfect:
            self.stopped = "perfect"
        elif self.step == self.steps:
            self.stopped = "budget"
        return believed

    @property
    def rate(self) -> float:
        """The learning rate of the current update."""
        return learning_rate(self.config.optim, self.step, self.steps)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy over the supervised positions of a batch.

        Where a number is asked for, the mean squared error. `logits` (B, C) are those of the last
        position alone.
        """
        logits = logits[:, None] if logits.dim() == 2 else logits
        if self.config.protocol.supervision == "last":
            logits, targets = logits[:, -1:], targets[:, -1:]
        if not self.task.metric.counts:
            return mse_loss(logits[..., 0], targets.to(logits.dtype))
        by_class = logits.flatten(0, 1).T.contiguous()
        smoothing = self.config.optim.label_smoothing
        return mean_cross_entropy(by_class, targets.flatten(), smoothing)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of this trial."""
        return {
            "step": self.step,
            "model": compact(self.model.state_dict()),
            "optimiser": compact(self.optimiser.state_dict()),
            "rng": self.generator.get_state(),
            "stopped": self.stopped,
            "seconds": self.seconds,
            "loss_sum": compact(self.loss_sum),
            "loss_count": self.loss_count,
            "telemetry": self.telemetry.state(self.model),
            "rules": self.rules.state(),
            "perfect_look": self.perfect_look,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` kept."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.generator.set_state(state["rng"])
        self.step = state["step"]
        self.stopped = state["stopped"]
        self.seconds = state["seconds"]
        self.loss_sum = state["loss_sum"].to(self.device)
        self.loss_count = state["loss_count"]
        self.telemetry.collect(self.model)  # of updates that are not this state's
        self.telemetry = Telemetry(state.get("telemetry"))
        self.rules = Rules(state["rules"], self.task.metric)
        self.perfect_look = state["perfect_look"]


def compact(value: Any) -> Any:
    """Return a state without views: saved, a row of a stack would take the whole stack along."""
    if isinstance(value, dict):
        return {key: compact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [compact(item) for item in value]
    if isinstance(value, Tensor) and value.numel() < value.untyped_storage().size() // max(
        1, value.element_size()
    ):
        return value.clone()
    return value
