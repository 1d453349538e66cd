"""The settings of a run: what can be set, its type, its default and its range.

Hydra composes these dataclasses with presets and overrides (`lrbench.schema`); `to_config` turns
the result into plain dataclass instances once, at the edge, and nothing inside knows Hydra or
OmegaConf. They are not frozen, because OmegaConf would refuse overrides of a frozen dataclass;
nobody changes them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lrbench.checks import at_least, between, fraction, one_of, shown
from lrbench.protocols.base import MISSING, MOST, ProtocolConfig
from lrbench.records import added, unrecorded
from lrbench.registry import DEFAULT_PROTOCOL, PROTOCOLS

if TYPE_CHECKING:
    AnyProtocol = Any  # the settings of one of PROTOCOLS, each with its own
else:
    AnyProtocol = ProtocolConfig

SCHEDULES = ("constant", "cosine", "linear", "plateau")
FALLING = ("cosine", "linear")  # to optim.final_lr
OPTIMISERS = ("adam", "adamw", "ranger")
TRACKERS = ("tensorboard", "wandb", "trackio")  # each is also its package, and its extra

MOST_THREADS = 1024
LARGEST_SEED = 2**63 - 1


@dataclass
class TaskConfig:
    """Which task; its registered dataclass adds its own settings."""

    name: str = MISSING


@dataclass
class ModelConfig:
    """Which model, and how wide. What else there is to set depends on what it is made of.

    width: D, features of a position.
    """

    name: str = MISSING
    width: int = 64

    def __post_init__(self) -> None:
        between("model.width", self.width, 1, MOST)


@dataclass
class StackConfig(ModelConfig):
    """A mixer in a stack; the nodes `backbone` and `mixer` are of the registered dataclasses.

    layers: how many mixers stand one above another.
    """

    layers: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        between("model.layers", self.layers, 1, MOST)


@dataclass
class FrameworkConfig:
    """What stands around an encoder: dropout of symbols, and the head.

    in_dropout: of the embedded symbols. out_dropout: before each layer of the head, but for a
    linear one. head, for single strings: mlp, linear, or published, the one the encoder was
    published with. hidden, for pairs: units of the head's first layer.
    """

    in_dropout: float = 0.1
    out_dropout: float = 0.1
    head: str = "published"
    hidden: int = 200

    def __post_init__(self) -> None:
        for key in ("in_dropout", "out_dropout"):
            fraction(f"model.framework.{key}", getattr(self, key))
        one_of("model.framework.head", self.head, ("mlp", "linear", "published"))
        between("model.framework.hidden", self.hidden, 1, MOST)


@dataclass
class ReaderConfig(ModelConfig):
    """An encoder and what stands around it; `encoder`, which comes with it, is a registered one's.

    Tasks decide the framework: a classifier of strings, or one of pairs.

    framework: what stands around the encoder.
    """

    width: int = 128
    framework: FrameworkConfig = field(default_factory=FrameworkConfig)


@dataclass
class OptimConfig:
    """The optimiser and how its rate goes.

    The schedules `cosine` and `linear` fall to `final_lr` at the end of the budget; `plateau`
    halves the rate when the dev score has not become better for more than two epochs, and is for
    corpora. What `saturate` and `forget` add to the loss is in lrbench/training/hardening.py.

    Weight decay is for all parameters, norms and biases included, as in the released code, but for
    those a mixer exempts (`Mixer.parameter_rules`: transitions, steps), and for embeddings where
    `decay_embeddings` is false.

    name: adam (L2 weight decay), adamw or ranger (decoupled). lr: the learning rate. weight_decay:
    its strength. clip: the norm that gradients are cut to; unset not. warmup: updates over which
    the rate rises from zero; a run that is no longer than that never gets to the schedule.
    schedule: how the rate goes on after that. betas: of Adam's averages of gradients and their
    squares. label_smoothing: the share of a target that all classes get. final_lr: the rate that
    `cosine` and `linear` end at. decay_embeddings: whether embeddings decay too. saturate: weight
    of a term that pushes the units of a state to -1 and 1. forget: weight of a term that closes the
    gates by which `gru` and `lstm` keep theirs.
    """

    name: str = "adam"
    lr: float = 1e-4
    weight_decay: float = 0.0
    clip: float | None = None
    warmup: int = 0
    schedule: str = "constant"
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    label_smoothing: float = 0.0
    final_lr: float = added(0.0)
    decay_embeddings: bool = added(True)
    saturate: float = added(0.0)
    forget: float = added(0.0)

    def __post_init__(self) -> None:
        one_of("optim.name", self.name, OPTIMISERS)
        one_of("optim.schedule", self.schedule, SCHEDULES)
        _check_positive("optim.lr", self.lr)
        _check_positive("optim.clip", self.clip)
        at_least("optim.weight_decay", self.weight_decay, 0)
        fraction("optim.label_smoothing", self.label_smoothing)
        between("optim.warmup", self.warmup, 0, MOST)
        at_least("optim.saturate", self.saturate, 0)
        at_least("optim.forget", self.forget, 0)
        self._check_final_rate()
        if self.schedule == "plateau" and isinstance(self.warmup, int) and self.warmup:
            raise ValueError(
                f"optim.warmup {self.warmup} does not go with optim.schedule=plateau, which begins"
                " at optim.lr\nleave one of them out"
            )
        betas = self.betas
        if isinstance(betas, list) and not (len(betas) == 2 and all(map(_is_share, betas))):
            raise ValueError(f"optim.betas must be two numbers in [0, 1), not {shown(betas)}")

    def _check_final_rate(self) -> None:
        at_least("optim.final_lr", self.final_lr, 0)
        numbers = isinstance(self.final_lr, int | float) and isinstance(self.lr, int | float)
        if numbers and self.final_lr > self.lr:
            raise ValueError(
                f"optim.final_lr must be at most optim.lr, {self.lr:g}, not {shown(self.final_lr)}"
            )
        if self.final_lr and self.schedule in SCHEDULES and self.schedule not in FALLING:
            raise ValueError(
                f"optim.final_lr {shown(self.final_lr)} goes with a rate that falls:"
                f" write optim.schedule={FALLING[0]}, not {self.schedule}"
            )


def _usual_protocol() -> AnyProtocol:
    return PROTOCOLS.get(DEFAULT_PROTOCOL).config()


@dataclass
class Config:
    """One cell: every setting of `lrbench train`.

    task: what is asked. model: what answers. protocol: how it is trained, looked at and tested.
    optim: the optimiser. seed: of the weights and of training. data_seed: of the strings; unset the
    seed. trials: runs of the cell, with seeds from `seed` on. device: auto, cpu or cuda. threads:
    of torch, on a CPU. force: train again what is finished. output_dir: the folder that runs are
    written to. tuning_runs: how many runs the settings were chosen from; presets of `tune` say so.
    track: a program that is given the numbers while they come: tensorboard, wandb or trackio.
    """

    task: TaskConfig = field(default_factory=TaskConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    protocol: AnyProtocol = field(default_factory=_usual_protocol)
    optim: OptimConfig = field(default_factory=OptimConfig)
    seed: int = 0
    data_seed: int | None = None
    trials: int = 1
    device: str = "auto"
    threads: int = 1
    force: bool = False
    output_dir: str = "outputs"
    tuning_runs: int | None = None
    track: str | None = unrecorded(None)

    def __post_init__(self) -> None:
        between("seed", self.seed, 0, LARGEST_SEED)
        between("data_seed", self.data_seed, 0, LARGEST_SEED)
        between("trials", self.trials, 1, MOST)
        between("threads", self.threads, 1, MOST_THREADS)
        between("tuning_runs", self.tuning_runs, 1, MOST)
        one_of("track", self.track, TRACKERS)
        if isinstance(self.seed, int) and isinstance(self.trials, int):
            between("seed + trials", self.seed + self.trials, 1, LARGEST_SEED)
        if not self.output_dir.strip() or "\0" in self.output_dir:
            raise ValueError(f"output_dir must name a folder, not '{shown(self.output_dir)}'")


def _check_positive(key: str, value: object) -> None:
    if isinstance(value, int | float) and not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{key} must be a positive number, not {shown(value)}")


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1
