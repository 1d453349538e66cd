"""The schema that Hydra checks a run against, made from what is registered; the way back from disk.

The nodes `task` and `model` have the dataclasses of whatever is registered under the name, so a
plugin's settings are checked exactly as built-in ones are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import field, fields, make_dataclass
from functools import lru_cache, partial
from typing import Any

from lrbench.config import Config, OptimConfig, ReaderConfig, StackConfig, TaskConfig
from lrbench.errors import UserError
from lrbench.locations import conf_dir
from lrbench.protocols.base import ProtocolConfig
from lrbench.registry import (
    BACKBONES,
    DEFAULT_BACKBONE,
    DEFAULT_PROTOCOL,
    ENCODERS,
    MIXERS,
    PROTOCOLS,
    TASKS,
    Entry,
    Registry,
)


def task_node(name: str) -> Any:
    """Return the schema of `task=name`: that task's settings, as a kind of TaskConfig."""
    return _task_class(name, TASKS.get(name).config)


# By what a class is made from: a plug-in may register a name again, and making one takes long.
@lru_cache(maxsize=256)
def _task_class(name: str, settings: type) -> Any:
    return make_dataclass(f"Task_{name}", [], bases=(settings, TaskConfig))


def model_node(name: str, backbone: str | None = None) -> Any:
    """Return the schema of `model=name`: ModelConfig with the settings of its parts.

    A mixer has those of a backbone; None is the stack it is registered with, and the settings it
    wants there. An encoder has those of a framework.
    """
    if name in ENCODERS:
        return _reader_node(name)
    entry = MIXERS.get(name)
    usual = dict(entry.backbone)
    usual_name = usual.pop("name", DEFAULT_BACKBONE)
    settings = usual if backbone in (None, usual_name) else {}
    stack = BACKBONES.get(backbone or usual_name).config
    try:
        stack(**settings)
    except (TypeError, ValueError) as error:  # a plug-in's mistake
        raise UserError(
            f"mixer {name} is registered with settings that stack '{usual_name}' does not take:"
            f" {error}\nit has: {', '.join(one.name for one in fields(stack))}"
        ) from error
    return _model_class(name, entry.config, stack, tuple(settings.items()))


@lru_cache(maxsize=256)
def _model_class(name: str, mixer: type, stack: type, settings: tuple[tuple[str, Any], ...]) -> Any:
    parts = [
        ("name", str, field(default=name)),
        ("backbone", stack, field(default_factory=partial(stack, **dict(settings)))),
        ("mixer", mixer, field(default_factory=mixer)),
    ]
    return make_dataclass(f"Model_{name}", parts, bases=(StackConfig,))


def _reader_node(name: str) -> Any:
    return _reader_class(name, ENCODERS.get(name).config)


@lru_cache(maxsize=64)
def _reader_class(name: str, encoder: type) -> Any:
    parts = [
        ("name", str, field(default=name)),
        ("encoder", encoder, field(default_factory=encoder)),
    ]
    return make_dataclass(f"Model_{name}", parts, bases=(ReaderConfig,))


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


_stored: dict[tuple[str, str], tuple[object, ...]] = {}  # (group, name) -> what it was made from


def register_schema(typed: Mapping[str, str] | None = None) -> None:
    """Tell Hydra of every registered task, model and protocol, and the shape of all else.

    Of a group whose choice was typed, {group: name}, only that is needed, which spares a run the
    import of all others. Hydra keeps what it was given, so that a later call costs something only
    for what is new: a sweep composes every cell.
    """
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    # Hydra copies the store for each composition and changes no copy: half of the time went there.
    ConfigStore.__deepcopy__ = lambda self, memo: self  # type: ignore[attr-defined]

    def keep(group: str, name: str, node: Callable[[], Any], *made_from: object) -> None:
        if _stored.get((group, name)) != made_from:
            store.store(name, node(), group=group)
            _stored[group, name] = made_from

    keep("schema", "run", _open, Config)
    keep("schema", "optim", partial(_same, OptimConfig), OptimConfig)
    for name, entry in _entries(PROTOCOLS):
        keep("schema", f"protocol_{name}", partial(_same, entry.config), entry)
        if not (conf_dir() / "protocol" / f"{name}.yaml").is_file():
            keep("protocol", name, partial(_same, entry.config), entry)
    task, model = (typed or {}).get("task"), (typed or {}).get("model")
    for name, entry in _entries(TASKS, task):
        keep("task", name, partial(task_node, name), entry)
    for name, entry in _entries(MIXERS, model) if model not in ENCODERS else ():
        backbone = BACKBONES.get(entry.backbone.get("name", DEFAULT_BACKBONE))
        keep("model", name, partial(model_node, name), entry, backbone)
    for name, entry in _entries(ENCODERS, model) if model not in MIXERS else ():
        keep("model", name, partial(model_node, name), entry)


def _same(settings: type) -> type:
    return settings


def _entries(registry: Registry, chosen: str | None = None) -> list[tuple[str, Entry]]:
    names = [chosen] if chosen in registry else registry.names()
    return [(name, registry.get(name)) for name in names if name is not None]


def _open() -> Config:
    """Return a Config of which any protocol can become a part: of the default one none could."""
    return Config(protocol=ProtocolConfig())


def config_from(settings: dict[str, Any]) -> Config:
    """Return the Config of a resolved configuration that was written to disk.

    Raises UserError for settings this version does not have, and for unknown names.
    """
    from omegaconf.errors import OmegaConfBaseException

    task, model = settings["task"]["name"], settings["model"]["name"]
    backbone = settings["model"].get("backbone", {}).get("name")
    protocol = (settings["protocol"] or {}).get("name", DEFAULT_PROTOCOL)
    try:
        parts = task_node(task), model_node(model, backbone), PROTOCOLS.get(protocol).config
        return deepcopy(_config_of(json.dumps(settings), *parts))
    except (OmegaConfBaseException, ValueError) as error:
        raise UserError(f"a configuration of another version: {error}") from error


# A bundle is verified in steps, each of which asks for the configuration of every run.
@lru_cache(maxsize=128)
def _config_of(settings: str, task: type, model: type, protocol: type) -> Config:
    """Return the Config of settings as JSON. It is shared: who is given it makes a copy."""
    from omegaconf import OmegaConf

    merged = OmegaConf.merge(_whole_schema(task, model, protocol), json.loads(settings))
    config = OmegaConf.to_object(merged)
    assert isinstance(config, Config)
    return config


@lru_cache(maxsize=64)
def _whole_schema(task: type, model: type, protocol: type) -> Any:
    """Return the schema of a run of these parts. It is shared: a merge makes a copy of it."""
    from omegaconf import OmegaConf

    schema = OmegaConf.structured(_open())
    schema.task, schema.model, schema.protocol = task(), model(), protocol()
    return schema
