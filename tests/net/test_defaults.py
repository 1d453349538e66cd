"""Every setting of every built-in part has the default that it had.

A default is part of what a name means: whoever typed `model=rwkv7` has runs under the fingerprint
of its defaults. `defaults.json` holds them. Whoever means to change one changes its line, and says
so in CHANGELOG.md (**fingerprints**).

    python -m tests.net.test_defaults > tests/net/defaults.json
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from lrbench.config import Config
from lrbench.registry import BACKBONES, ENCODERS, MIXERS, PROTOCOLS, TASKS

KEPT = Path(__file__).with_name("defaults.json")


def defaults() -> dict[str, dict[str, Any]]:
    """Return the settings with a default, by kind and name of the part that has them."""
    found = {"every run": _of(Config)}
    for registry in (MIXERS, ENCODERS, BACKBONES, TASKS, PROTOCOLS):
        for name in registry.names():
            entry = registry.get(name)
            if entry.builtin:
                found[f"{registry.kind} {name}"] = _of(entry.config) | (
                    {"(backbone)": dict(entry.backbone)} if entry.backbone else {}
                )
    return found


def _of(config: type) -> dict[str, Any]:
    """Return what is asked of nobody; nested settings as dictionaries."""
    given = {}
    for one in fields(config):
        if one.default is not MISSING:
            given[one.name] = one.default
        elif one.default_factory is not MISSING:
            given[one.name] = one.default_factory()
    return {name: _plain(value) for name, value in given.items()}


def _plain(value: Any) -> Any:
    if hasattr(value, "__dataclass_fields__"):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return list(value) if isinstance(value, tuple) else value


def test_defaults_are_as_they_were() -> None:
    kept, now = json.loads(KEPT.read_text()), json.loads(json.dumps(defaults()))
    changed = {name: (now.get(name), kept[name]) for name in kept if now.get(name) != kept[name]}
    assert changed == {}, "is that meant? then see the head of this file"
    assert sorted(set(now) - set(kept)) == [], "a new part: add its lines to defaults.json"


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(of)}" for name, of in defaults().items())
    print("{\n" + ",\n".join(lines) + "\n}")
