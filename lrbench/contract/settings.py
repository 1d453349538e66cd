"""The model to examine, from the words a user typed and the schema of its configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, get_origin, get_type_hints

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from lrbench.errors import UserError, unknown
from lrbench.schema import model_node

WIDTH = 16  # small, so that every check of every mode takes seconds
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def model_settings(name: str, words: Iterable[str]) -> Any:
    """Return the `model` node of `name` with `model.width=..` and `model.mixer.KEY=..` set.

    Of an encoder `model.encoder.KEY=..`.

    Raises UserError for an unknown name or setting, a value of a wrong type or out of range.
    """
    schema = model_node(name)
    try:
        node = OmegaConf.create({"model": OmegaConf.structured(schema(width=WIDTH))})
    except (OmegaConfBaseException, TypeError) as error:  # a type it does not know; no default
        first = str(error).partition("\n")[0]
        raise UserError(
            f"the configuration of model '{name}' cannot be used: {first}\n"
            "each field needs a default, and a type such as int, float, bool, str or list[int]"
        ) from error
    for word in words:
        _override(node, schema, word)
    try:
        return OmegaConf.to_object(node)["model"]  # type: ignore[call-overload, index]
    except OmegaConfBaseException as error:
        raise UserError(f"model '{name}': {str(error).partition(chr(10))[0]}") from error
    except ValueError as error:
        raise UserError(str(error)) from error


def _override(node: Any, schema: type, word: str) -> None:
    """Set one KEY=VALUE in a composed node, with our words for what OmegaConf refuses."""
    key, _, value = word.partition("=")
    kind = _type_of(schema, key)
    try:
        node.merge_with(OmegaConf.from_dotlist([word]))
    except (OmegaConfBaseException, YAMLError) as error:
        told = KINDS.get(kind, f"of type {getattr(kind, '__name__', kind)}")
        raise UserError(f"{key} must be {told}, not '{value}'") from error


def _type_of(schema: type, key: str) -> Any:
    """Return the type of the setting `key` (model.width, model.mixer.p); UserError if unknown."""
    parts = key.split(".")[1:]
    for depth, part in enumerate(parts):
        if get_origin(schema) is dict:
            return Any  # settings of something else, which knows them
        hints = get_type_hints(schema) if dataclasses.is_dataclass(schema) else {}
        if part not in hints:
            prefix = ".".join(["model", *parts[:depth]])
            raise unknown("setting", key, [f"{prefix}.{name}" for name in hints])
        schema = hints[part]
    return schema
