"""The schema of a run: what can be set, its type, its default and its range.

Hydra composes these dataclasses with presets and overrides; `to_config` turns the result into
plain dataclass instances once, at the edge, and nothing inside knows Hydra or OmegaConf. They are
not frozen, because OmegaConf would refuse overrides of a frozen dataclass; nobody changes them.

The `task` and `model` nodes are made from whatever is registered, so a plugin's dataclass is
checked exactly as a built-in one is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from typing import Any

from omegaconf import MISSING

from lrbench.checks import at_least, between, one_of, shown
from lrbench.errors import UserError
from lrbench.registry import BACKBONES, DEFAULT_BACKBONE, MIXERS, TASKS

SCHEDULES = ("constant", "cosine", "linear")
OPTIMISERS = ("adam", "adamw")
STOPS = ("perfect", "never")
PROTOCOLS = ("fan2024",)

MOST = 10**9  # of anything that is counted: strings, updates, symbols
WIDEST_BAND = 10**6  # its lengths are listed at each look
MOST_LOOKS = 10_000  # guessing under a rule simulates every look
MOST_THREADS = 1024
LARGEST_SEED = 2**63 - 1


@dataclass
class TaskConfig:
    """Which task; its registered dataclass adds its own settings."""

    name: str = MISSING


@dataclass
class ModelConfig:
    """Which mixer in which stack; `backbone` and `mixer` are the registered dataclasses."""

    name: str = MISSING
    layers: int = 1
    width: int = 64

    def __post_init__(self) -> None:
        between("model.layers", self.layers, 1, MOST)
        between("model.width", self.width, 1, MOST)


@dataclass
class ProtocolConfig:
    """How a model is trained and looked at (design: protocols and rules).

    Lengths are in symbols; a length a task does not have is an error, except in `band` and
    `further_lengths`, where the nearest valid length below is taken.
    """

    name: str = "fan2024"
    train_length: int = 40
    test_lengths: list[int] = field(default_factory=lambda: [500])
    further_lengths: list[int] = field(default_factory=lambda: [43, 211, 503, 997, 2003, 4999])
    band: list[int] = field(default_factory=lambda: [60, 120])
    max_steps: int = 40_000
    batch_size: int = 128
    supervision: str = "all"
    look_every: int = 1000
    look_size: int = 128
    validation_size: int = 1024
    test_size: int = 10_000
    stop: str = "perfect"

    def __post_init__(self) -> None:
        for key in ("train_length", "max_steps", "batch_size", "look_every"):
            between(f"protocol.{key}", getattr(self, key), 1, MOST)
        for key in ("look_size", "validation_size", "test_size"):
            between(f"protocol.{key}", getattr(self, key), 1, MOST)
        one_of("protocol.name", self.name, PROTOCOLS)
        one_of("protocol.stop", self.stop, STOPS)
        one_of("protocol.supervision", self.supervision, ("all", "last"))
        _check_lengths(self)
        _check_looks(self)


@dataclass
class OptimConfig:
    """The optimiser: adam has L2 weight decay, adamw decoupled; `warmup` in updates.

    Weight decay is for all parameters, norms and biases included, as in the released code, but for
    those a mixer exempts (`Mixer.parameter_rules`: transitions, steps).
    """

    name: str = "adam"
    lr: float = 1e-4
    weight_decay: float = 0.0
    clip: float | None = None
    warmup: int = 0
    schedule: str = "constant"
    betas: list[float] = field(default_factory=lambda: [0.9, 0.999])
    label_smoothing: float = 0.0

    def __post_init__(self) -> None:
        one_of("optim.name", self.name, OPTIMISERS)
        one_of("optim.schedule", self.schedule, SCHEDULES)
        _check_positive("optim.lr", self.lr)
        _check_positive("optim.clip", self.clip)
        at_least("optim.weight_decay", self.weight_decay, 0)
        smoothing = self.label_smoothing
        if isinstance(smoothing, float) and not 0 <= smoothing < 1:
            raise ValueError(f"optim.label_smoothing must be in [0, 1), not {smoothing}")
        between("optim.warmup", self.warmup, 0, MOST)
        betas = self.betas
        if isinstance(betas, list) and not (len(betas) == 2 and all(map(_is_share, betas))):
            raise ValueError(f"optim.betas must be two numbers in [0, 1), not {shown(betas)}")


@dataclass
class Config:
    """One cell: everything that `lrbench train` can be told."""

    task: TaskConfig = field(default_factory=TaskConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    seed: int = 0
    data_seed: int | None = None
    trials: int = 1
    device: str = "auto"
    threads: int = 1
    force: bool = False
    output_dir: str = "outputs"
    tuning_runs: int | None = None  # that the settings were chosen from; presets of `tune` say so

    def __post_init__(self) -> None:
        between("seed", self.seed, 0, LARGEST_SEED)
        between("data_seed", self.data_seed, 0, LARGEST_SEED)
        between("trials", self.trials, 1, MOST)
        between("threads", self.threads, 1, MOST_THREADS)
        between("tuning_runs", self.tuning_runs, 1, MOST)
        if isinstance(self.seed, int) and isinstance(self.trials, int):
            between("seed + trials", self.seed + self.trials, 1, LARGEST_SEED)
        if not self.output_dir.strip() or "\0" in self.output_dir:
            raise ValueError(f"output_dir must name a folder, not '{shown(self.output_dir)}'")


def _check_positive(key: str, value: object) -> None:
    if isinstance(value, int | float) and not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{key} must be a positive number, not {shown(value)}")


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < 1


def _check_lengths(protocol: ProtocolConfig) -> None:
    for key in ("test_lengths", "further_lengths", "band"):
        most = WIDEST_BAND if key == "band" else MOST
        for length in getattr(protocol, key):
            between(f"protocol.{key}", length, 1, most)
    if not protocol.test_lengths:
        raise ValueError("protocol.test_lengths must name at least one length, such as [500]")
    band = protocol.band
    if len(band) != 2 or band[0] > band[1]:
        raise ValueError(f"protocol.band must be [shortest, longest], not {shown(band)}")


def _check_looks(protocol: ProtocolConfig) -> None:
    steps, every = protocol.max_steps, protocol.look_every
    if isinstance(steps, int) and isinstance(every, int) and steps > every * MOST_LOOKS:
        raise ValueError(
            f"protocol.look_every {every} with protocol.max_steps {steps} makes more than"
            f" {MOST_LOOKS:,} looks; take a larger look_every"
        )


def task_node(name: str) -> Any:
    """Return the schema of `task=name`: that task's settings, as a kind of TaskConfig."""
    settings = TASKS.get(name).config
    return make_dataclass(f"Task_{name}", [], bases=(settings, TaskConfig))


def model_node(name: str, backbone: str | None = None) -> Any:
    """Return the schema of `model=name`: ModelConfig with that mixer's and backbone's settings.

    `backbone` None is the stack the mixer is registered with, and the settings it wants there.
    """
    entry = MIXERS.get(name)
    usual = dict(entry.backbone)
    usual_name = usual.pop("name", DEFAULT_BACKBONE)
    settings = usual if backbone in (None, usual_name) else {}
    stack = BACKBONES.get(backbone or usual_name).config
    schema: Any = make_dataclass(
        f"Model_{name}",
        [
            ("name", str, field(default=name)),
            ("backbone", stack, field(default_factory=partial(stack, **settings))),
            ("mixer", entry.config, field(default_factory=entry.config)),
        ],
        bases=(ModelConfig,),
    )
    return schema


def in_backbone(model: str, backbone: str) -> str:
    """Return what to write after `model=` for a mixer in a stack; make it known to Hydra.

    A preset belongs to a model in its own stack, so this is another name where it is another one.
    """
    if backbone == MIXERS.get(model).backbone.get("name", DEFAULT_BACKBONE):
        return model
    from hydra.core.config_store import ConfigStore

    BACKBONES.get(backbone)
    name = f"{model}+{backbone}"
    ConfigStore.instance().store(name, model_node(model, backbone), group="model")
    return name


def register_schema() -> None:
    """Tell Hydra about every registered task and model, and the shape of everything else."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    store.store("run", Config, group="schema")
    store.store("protocol", ProtocolConfig, group="schema")
    store.store("optim", OptimConfig, group="schema")
    for name in TASKS.names():
        store.store(name, task_node(name), group="task")
    for name in MIXERS.names():
        store.store(name, model_node(name), group="model")


def config_from(settings: dict[str, Any]) -> Config:
    """Return the Config of a resolved configuration that was written to disk.

    Raises UserError for settings this version does not have, and for unknown names.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    task, model = settings["task"]["name"], settings["model"]["name"]
    backbone = settings["model"]["backbone"]["name"]
    schema = OmegaConf.structured(Config)
    try:
        schema.task = task_node(task)()
        schema.model = model_node(model, backbone)()
        config = OmegaConf.to_object(OmegaConf.merge(schema, settings))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"a configuration of another version: {error}") from error
    assert isinstance(config, Config)
    return config
