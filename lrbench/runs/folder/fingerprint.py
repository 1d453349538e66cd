"""The name of a cell: twelve hex digits over everything that can change the meaning of a number.

Two spellings of one configuration get one fingerprint. Key order, `1e-3` or `0.001` and defaults
spelt out are settled by composition and by sorting; a float field holds 1.0 whether 1 or 1.0 was
typed, and to be safe an integral float is hashed like the integer (so -0.0 is 0 as well).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from lrbench.records import IRRELEVANT

DIGITS = 12


def fingerprint(config: dict[str, Any], versions: dict[str, Any]) -> str:
    """Return the fingerprint of a resolved configuration and of the code that gives it meaning.

    versions: {'task': int, 'model': int, 'protocol': int, 'plugins': {module: sha256}}.
    """
    content = {"config": relevant(config), "versions": _canonical(versions)}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def relevant(config: dict[str, Any]) -> dict[str, Any]:
    """Return what of a configuration is hashed, numbers in canonical form.

    `data_seed` None means each run's own seed and is left out; so is a `data_seed` that spells
    out the seed of a single run. With several trials it stays: then it does set all runs but
    the first apart from the default.
    """
    kept = {key: value for key, value in config.items() if key not in IRRELEVANT}
    spelt_out = config.get("trials", 1) == 1 and config.get("data_seed") == config.get("seed")
    if config.get("data_seed") is None or spelt_out:
        kept.pop("data_seed", None)
    return {key: _canonical(value) for key, value in kept.items()}


def differing_keys(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Return the dotted keys whose values differ, or that only one of the two has, sorted."""
    return sorted(_differences(_canonical(a), _canonical(b), ""))


def _differences(a: dict[str, Any], b: dict[str, Any], prefix: str) -> list[str]:
    found = []
    for key in {*a, *b}:
        if key not in a or key not in b:
            found.append(prefix + key)
        elif isinstance(a[key], dict) and isinstance(b[key], dict):
            found += _differences(a[key], b[key], f"{prefix}{key}.")
        elif json.dumps(a[key], sort_keys=True) != json.dumps(b[key], sort_keys=True):
            found.append(prefix + key)  # compared as text: True is not 1
    return found


def _canonical(obj: Any) -> Any:
    if isinstance(obj, float) and obj.is_integer():
        return int(obj)
    if isinstance(obj, dict):
        return {key: _canonical(value) for key, value in obj.items()}
    if isinstance(obj, list | tuple):
        return [_canonical(value) for value in obj]
    return obj
