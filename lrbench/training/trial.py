"""One run of a cell while it trains: its weights, optimiser, data and how far it has come."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from lrbench.config import Config
from lrbench.models.build import build_model, count_parameters
from lrbench.models.exact.weights import write_exact
from lrbench.records import Look, LookStep
from lrbench.tasks import make_task
from lrbench.tasks.base import Batch, TaskBase
from lrbench.tasks.stream import Stream
from lrbench.training.hardening import Hardening, ramp
from lrbench.training.optim import learning_rate, make_optimiser, set_learning_rate
from lrbench.training.precision import FLOAT32, precision_of, round_outputs, round_weights
from lrbench.training.telemetry import Telemetry


class Check(Protocol):
    """Called during long examinations: it hears how far they are, and may raise to stop."""

    def __call__(self, read: int = 0, planned: int = 0) -> None:
        """Take note of `read` symbols that are read next, and of `planned` ones to come.

        Each symbol that is read was planned before, as far as that was known. `planned` is below 0
        for planned symbols that nobody has to read after all.
        """


def unwatched(read: int = 0, planned: int = 0) -> None:
    """Check nothing: the `Check` of an examination that nobody follows or stops."""


def model_for(config: Config, task: TaskBase, seed: int) -> nn.Module:
    """Return the model of a configuration for a task, with the weights of a seed, on CPU.

    With `model.mixer.init=exact` they are those of the task's automaton. Raises ValueError for
    settings that do not go together.
    """
    sizes = len(task.vocabulary), task.num_classes, seed, task.features
    model = build_model(config, *sizes, sides=task.sides)
    mixer = getattr(config.model, "mixer", None)  # an encoder has none
    if getattr(mixer, "init", "random") == "exact":
        write_exact(model, config.model, task.machine())
    if precision_of(config) != FLOAT32:
        round_weights(model)
        round_outputs(model)
    return model


class Rules(ABC):
    """The look each rule believes so far: a dict {rule: look}.

    What the rules are is up to the protocol (its declaration has their legends). Each rule keeps
    the checkpoint of its look; on equal scores the earlier look stays.
    """

    def __init__(self, kept: dict[str, Look] | None = None) -> None:
        self.kept: dict[str, Look] = dict(kept or {})

    @abstractmethod
    def consider(self, look: Look) -> list[str]:
        """Weigh a new look; return the rules that now believe it."""

    @property
    def updates_kept(self) -> int:
        """How many different updates the rules kept: as many checkpoints are examined."""
        return len(set(self.steps().values()))

    def steps(self) -> dict[str, int]:
        """Return the update at which each rule's look was taken."""
        return {rule: look["step"] for rule, look in self.kept.items()}

    def state(self) -> dict[str, Look]:
        """Return what a checkpoint keeps."""
        return dict(self.kept)


class Trial(ABC):
    """A model in training. Weights depend on `seed`, data on `data_seed`, both on nothing else.

    What a protocol adds: how much is trained (`steps`), what an update learns from (`descend`),
    when and how it looks (`look_due`, `look`), which looks are believed (`rules`), and when it ends
    (`ending`).
    """

    rules: Rules
    # why trials cannot be stacked into one program (lrbench/training/group/stacked.py); if they can
    # be, they are `BatchTrial`s
    one_by_one: ClassVar[str] = "runs of this protocol are trained one by one"

    def __init__(self, config: Config, seed: int, device: torch.device | str = "cpu") -> None:
        self.config = config
        self.seed = seed
        self.data_seed = seed if config.data_seed is None else config.data_seed
        self.device = torch.device(device)
        self.task = make_task(config.task)
        self.model: nn.Module = model_for(config, self.task, seed).to(self.device)
        self.optimiser = make_optimiser(config.optim, self.model)
        self.rounding = precision_of(config) != FLOAT32
        self.generator = torch.Generator(self.device).manual_seed(seed)  # of training noise
        self.step = 0
        self.stopped: str | None = None  # why training ended: perfect, patience, budget, diverged
        self.seconds = 0.0  # spent in updates only
        self.loss_sum = torch.zeros((), device=self.device)
        self.loss_count = 0
        self.telemetry = Telemetry()
        self.perfect_look: LookStep | None = None

    @property
    @abstractmethod
    def steps(self) -> int:
        """How many updates it is trained for at most."""

    @property
    @abstractmethod
    def look_due(self) -> bool:
        """Whether the last update is to be followed by a look."""

    @abstractmethod
    def look(self, check: Check) -> Look:
        """Examine it as it is now; return plain numbers."""

    @abstractmethod
    def descend(self) -> Tensor:
        """Add the gradients of the update's loss to the weights'; return the loss, detached."""

    def ending(self, look: Look) -> str | None:
        """Return why training ends with a look that the rules have considered, if it does."""
        return "budget" if self.step == self.steps else None

    @property
    def epoch(self) -> float | None:
        """How often it went through its training split; None where strings are drawn."""
        return None

    @property
    def parameters(self) -> int:
        """How many numbers are trained."""
        return count_parameters(self.model)

    @property
    def dtype(self) -> str:
        """The name of the weights' type, such as float32."""
        return str(next(self.model.parameters()).dtype).removeprefix("torch.")

    @property
    def rate(self) -> float:
        """The learning rate of the current update."""
        return learning_rate(self.config.optim, self.step, self.steps)

    def stream(self, *purpose: str | int) -> Stream:
        """Return this run's random stream for a purpose, such as "train" or ("test", 500)."""
        stream: Stream = self.task.stream(self.data_seed, *purpose)
        return stream

    def update(self) -> Tensor:
        """Do the next update; return its loss, detached and still on the device."""
        self.step += 1
        set_learning_rate(self.optimiser, self.rate)
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.descend()
        if self.config.optim.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.optim.clip)
        self.optimiser.step()
        if self.rounding:
            round_weights(self.model)
        self.loss_sum += loss
        self.loss_count += 1
        return loss

    def take_loss(self) -> float:
        """Return the mean loss since the last call; only here is the device waited for.

        What mixers told in the same time is in `telemetry` then.
        """
        self.telemetry.take(self.model, self.step)
        mean = float(self.loss_sum) / max(1, self.loss_count)
        self.loss_sum.zero_()
        self.loss_count = 0
        return mean

    def heed(self, look: Look) -> list[str]:
        """Let the rules consider a look; return those that believe it, and end where it says so."""
        if not math.isfinite(look["validation_loss"]):
            self.stopped = "diverged"
            return []
        believed = self.rules.consider(look)
        self.stopped = self.ending(look)
        return believed

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
        """Go on from what `state` kept. A protocol loads its rules as well."""
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
        self.perfect_look = state["perfect_look"]


class BatchTrial(Trial):
    """A trial whose update is one batch that goes through the model once: many can be stacked."""

    one_by_one = ""

    def __init__(self, config: Config, seed: int, device: torch.device | str = "cpu") -> None:
        super().__init__(config, seed, device)
        self.hardening = Hardening(config.optim, self.model)

    @property
    def read(self) -> str:
        """Which positions the model answers at in training: all, or the last."""
        return "all"

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """Return the training strings of update `step` (1, 2, ..)."""

    @abstractmethod
    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a batch; `logits` (B, C) are those of the last position alone."""

    def descend(self) -> Tensor:
        batch = self.batch(self.step)
        if self.hardening:
            loss = self._hardened(batch)
        else:
            logits, _ = self.model(batch.tokens, read=self.read, generator=self.generator)
            loss = self.loss(logits, batch.targets)
        loss.backward()
        return loss.detach()

    def _hardened(self, batch: Batch) -> Tensor:
        share = ramp(self.step, self.steps)
        with self.hardening.reading(share, self.generator):
            logits, _ = self.model(batch.tokens, read=self.read, generator=self.generator)
        return self.loss(logits, batch.targets) + self.hardening.penalty(share)


class Watcher(Protocol):
    """Whoever wants to know: keeps records and checkpoints, shows progress, may raise to stop."""

    @property
    def stopping(self) -> bool:
        """Whether `updated` is going to raise Interrupted."""

    def logged(self, trial: Trial, loss: float) -> None:
        """Take note of the mean loss since the last time."""

    def looked(self, trial: Trial, look: Look, believed: list[str]) -> None:
        """Take note of a look and of the rules that now believe it."""

    def updated(self, trial: Trial) -> None:
        """Take note of a finished update; raise Interrupted to stop here."""

    def failed(self, trial: Trial, error: Exception) -> None:
        """Take note that a trial failed and leaves the group; raise what concerns all of it."""

    def check(self, read: int = 0, planned: int = 0) -> None:
        """Raise Interrupted if the program should stop; the `Check` of looks."""


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
