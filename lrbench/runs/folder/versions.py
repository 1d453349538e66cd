"""The versions of the parts that a configuration names, which enter its fingerprint."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lrbench.config import Config
from lrbench.plugins import load_plugins
from lrbench.plugins.imports import DECLARED
from lrbench.plugins.reads import unhashed
from lrbench.plugins.sources import source_hash
from lrbench.registry import BACKBONES, ENCODERS, FOREIGN, MIXERS, PROTOCOLS, TASKS


def versions_of(config: Config) -> dict[str, Any]:
    """Return the versions of the parts a configuration names, and hashes of plugin sources.

    Of a torch module by its dotted path, those of the library too. A part inside an encoder is left
    out at version 1, since older cells were named without it. Raises UserError for a torch module
    that nobody here named.
    """
    parts, inner = {"task": TASKS.get(config.task.name)}, {}
    if config.model.name in ENCODERS:
        parts["model"] = encoder = ENCODERS.get(config.model.name)
        inner = encoder.cls.made_of(config.model.encoder)  # type: ignore[attr-defined]
    else:
        parts["model"] = MIXERS.get(config.model.name)
        stack = config.model.backbone.name  # type: ignore[attr-defined]
        parts["backbone"] = BACKBONES.get(stack)
    parts["protocol"] = PROTOCOLS.get(config.protocol.name)
    versions: dict[str, Any] = {
        name: part.cls.version  # type: ignore[attr-defined]
        for name, part in parts.items()
    }
    for name, part in inner.items():
        if part.cls.version > 1:
            versions[f"inner_{name}"] = part.cls.version
    used = {part.module for part in (*parts.values(), *inner.values()) if not part.builtin}
    plugins = {m.__name__: m for m in load_plugins().values()}
    versions["plugins"] = {
        name: source_hash(module)
        for name, module in sorted(plugins.items())
        if any(module_name == name or module_name.startswith(f"{name}.") for module_name in used)
    }
    if config.model.name == FOREIGN:
        from lrbench.mixers.foreign.target import code_of  # needs torch

        found = code_of(config.model.mixer)  # type: ignore[attr-defined]
        versions["plugins"] |= found.pop("plugins", {})
        versions |= found
    return versions


def not_hashed(versions: dict[str, Any]) -> dict[str, list[str]]:
    """Return {plugin: files beside it that its code opened here and that its hash lacks}.

    Of the plugins in the versions of a run; without those that opened nothing else.
    """
    opened = {name: unhashed(sys.modules[name]) for name in versions["plugins"]}
    return {name: files for name, files in opened.items() if files}


def told_of(opened: Mapping[str, Sequence[str]], where: str = "the run's fingerprint") -> list[str]:
    """Return a message for each plugin in `not_hashed`: which files, and how they would count."""
    return [
        f"plugin '{name}' read what is not in {where}: {', '.join(files)}\n"
        "other numbers in there would go unnoticed; to let it count, name it at the top of the"
        f' source that reads it, relative to that source: {DECLARED} = ["..."]'
        for name, files in sorted(opened.items())
    ]
