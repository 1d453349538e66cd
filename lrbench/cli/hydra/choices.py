"""What Hydra composes of a command line's choices, kept; values are set in a copy of it.

Hydra reads the files and makes the settings that the choices name (task, model, protocol, optim),
which takes a tenth of a second, and then sets each value that was typed, which takes none. Only
the second is done where the choices were composed before in this process.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lrbench.cli.hydra.overrides import GROUPS, NAME, parsed
from lrbench.config import Config
from lrbench.locations import conf_dir
from lrbench.registry import ENCODERS, MIXERS, PROTOCOLS, TASKS
from lrbench.schema import model_node, task_node

# Hydra's own groups, which say how it starts programs and prints its help: a quarter of the time
# of a composition that has no use for them.
WITHOUT_ITS_OWN = tuple(
    f"~hydra/{group}"
    for group in (
        *("env", "help", "hydra_help", "hydra_logging", "job_logging"),
        *("launcher", "output", "sweeper"),
    )
)

WORD = re.compile(r"(\+\+)?(?P<key>(?P<top>[a-z]\w*)(\.\w+)*)=")
VALUES = {field.name for field in fields(Config)}  # what a value is of, or below; but for groups

MOST_KEPT = 64

Stamp = tuple[tuple[str, int, int], ...]
_kept: dict[tuple[str, ...], tuple[Stamp, Any]] = {}


def composed_node(words: Sequence[str]) -> Any:
    """Return what Hydra composes of these words, before anything in it is resolved or checked."""
    split = _split(words)
    if split is None:
        return by_hydra(words)
    choices, values = split
    node = _of_choices(choices)
    try:
        for word in values:
            value = parsed(word)
            key, added = value.key_or_group, value.is_force_add()
            OmegaConf.update(node, key, value.value(), merge=True, force_add=added)
    except OmegaConfBaseException:  # Hydra's way has the message
        return by_hydra(words)
    return node


def by_hydra(words: Sequence[str]) -> Any:
    """Return what Hydra composes of these words, all anew."""
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(config_dir=str(conf_dir()), version_base="1.3"):
        return compose(config_name="config", overrides=[*words, *WITHOUT_ITS_OWN])


def _split(words: Sequence[str]) -> tuple[tuple[str, ...], list[str]] | None:
    """Return the choices and the values, which Hydra sets in this order; None for other words."""
    choices, values = [], []
    for word in words:
        found = WORD.match(word)
        if found is None or found["top"] not in VALUES:
            return None
        if found["key"] not in GROUPS:
            values.append(word)
        elif found[1] or not NAME.fullmatch(word.partition("=")[2].partition("+")[0]):
            return None
        else:
            choices.append(word)
    return tuple(choices), values


def _of_choices(choices: tuple[str, ...]) -> Any:
    stamp = _stamp()
    before, node = _kept.get(choices, (None, None))
    if before != stamp or not _is_of_what_is_registered(node):
        node = by_hydra(choices)
        while len(_kept) >= MOST_KEPT:
            del _kept[next(iter(_kept))]
        _kept[choices] = stamp, node
    return copy.deepcopy(node)


def _stamp() -> Stamp:
    """Return the configuration files as they are: somebody may write one between two calls."""
    found = []
    for folder, _, names in os.walk(conf_dir()):
        for name in names:
            path = os.path.join(folder, name)
            state = os.stat(path)
            found.append((path, state.st_mtime_ns, state.st_size))
    return tuple(sorted(found))


def _is_of_what_is_registered(node: Any) -> bool:
    """Whether the parts' settings are still those: a plug-in may register a name again."""
    task, model, protocol = node.task.name, node.model.name, node.protocol.name
    if task not in TASKS or protocol not in PROTOCOLS or not (model in MIXERS or model in ENCODERS):
        return False
    backbone = node.model.backbone.name if model in MIXERS else None
    made_from = {
        "task": task_node(task),
        "model": model_node(model, backbone),
        "protocol": PROTOCOLS.get(protocol).config,
    }
    return all(OmegaConf.get_type(node, part) is kind for part, kind in made_from.items())
