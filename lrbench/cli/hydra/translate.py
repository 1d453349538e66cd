"""Hydra's and OmegaConf's exceptions in our words: the thing, the value, what is allowed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from hydra.errors import MissingConfigException
from omegaconf import DictConfig
from omegaconf import errors as omega

from lrbench.checks import kind_of, nearest, shown
from lrbench.cli.hydra.overrides import GROUPS
from lrbench.errors import UserError, listed
from lrbench.registry import OWN

EVERY_SETTING = "`lrbench train --cfg job` prints every setting with its value"


def translated(error: BaseException, typed: Mapping[str, str] | None = None) -> UserError:
    """Return a UserError for what Hydra or OmegaConf refused; `typed` are the values by key."""
    for cause in _causes(error):
        if isinstance(cause, UserError):
            return cause
        if isinstance(cause, MissingConfigException) and cause.missing_cfg_file:
            return UserError(_unknown_choice(cause))
        if isinstance(cause, omega.OmegaConfBaseException) and cause.full_key:
            return UserError(_about_setting(cause, typed or {}))
    return UserError(_other(error))


def unknown_setting(full_key: str, node_type: Any, root: Any = None) -> str:
    """Return the message for a key that the dataclass above it does not have.

    root: the composed configuration, where a setting of that name may be elsewhere.
    """
    prefix, dot, key = full_key.rpartition(".")
    names = [one.name for one in dataclasses.fields(node_type)] if _is_schema(node_type) else []
    known = sorted(name for name in names if not (dot and name == "name"))
    near = nearest(key, known)
    if near:
        near = near.replace("'", f"'{prefix}{dot}", 1)
    others = (place for place in _places(root) if place != full_key)
    elsewhere = sorted(place for place in others if place.rpartition(".")[2] == key)
    if elsewhere:
        near = f" Did you mean {' or '.join(map(repr, elsewhere[:3]))}?"
    there = f"\n{prefix + ' has' if dot else 'there are'}: {', '.join(known)}" if known else ""
    return f"there is no setting '{shown(full_key)}'.{near}{there}\n{EVERY_SETTING}"


def _places(node: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of all values of a composed configuration, but for names of parts."""
    if not isinstance(node, DictConfig) or node._is_none() or node._is_missing():
        return
    for key in node:
        if key == "name" or (key == "hydra" and not prefix):
            continue
        place, child = prefix + str(key), node._get_node(key)
        if isinstance(child, DictConfig):
            yield from _places(child, f"{place}.")
        else:
            yield place


def _is_schema(node_type: Any) -> bool:
    return isinstance(node_type, type) and dataclasses.is_dataclass(node_type)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield what was raised and what it was raised from, the innermost last."""
    while error is not None:
        yield error
        error = error.__cause__


def _unknown_choice(error: MissingConfigException) -> str:
    group, _, name = str(error.missing_cfg_file).removesuffix(".yaml").partition("/")
    known = [one for one in error.options or () if one != group]
    if not name:
        return f"there is no configuration '{shown(group)}'\ngroups: {', '.join(GROUPS)}"
    there = f"\n{listed(group, known)}" if known else ""
    own = f"\n{OWN}" if group in ("task", "model") else ""
    return f"{group} '{shown(name)}' unknown.{nearest(name, known)}{there}{own}"


def _about_setting(error: omega.OmegaConfBaseException, typed: Mapping[str, str]) -> str:
    full_key = re.sub(r"\[\d+\]$", "", str(error.full_key))
    key = full_key.rpartition(".")[2]
    text = str(error).partition("\n")[0]
    if isinstance(error, omega.ConfigKeyError | omega.ConfigAttributeError):
        above = error.parent_node
        root = None if above is None else above._get_root()
        return unknown_setting(full_key, error.object_type, root)
    if isinstance(error, omega.MissingMandatoryValue):
        return f"{full_key} is not set; write {full_key}=VALUE"
    below = [name for name in typed if name.startswith(f"{full_key}.")]
    if below and full_key not in typed:
        return f"there is no setting '{shown(below[0])}': {full_key} is a value of its own"
    given = typed.get(full_key)
    value = _value_of(error) if given in (None, "null") else f"'{shown(given)}'"
    if isinstance(error, omega.InterpolationResolutionError):
        return f"{full_key} cannot be {value}: {shown(text, 200)}"
    owner: Any = error.parent_node._metadata.object_type if error.parent_node is not None else None
    hints = get_type_hints(owner) if _is_schema(owner) else _hints_above(error)
    if dataclasses.is_dataclass(hints.get(key, error.object_type)):
        return f"{full_key} is a group of settings: write {full_key}.KEY=VALUE, not {value}"
    if key not in hints:
        return f"{full_key} cannot be {value}: {shown(text, 200)}"
    return f"{full_key} must be {kind_of(hints[key])}, not {value}"


def _value_of(error: omega.OmegaConfBaseException) -> str:
    return "null" if error.value is None else f"'{shown(error.value)}'"


def _hints_above(error: omega.OmegaConfBaseException) -> dict[str, Any]:
    """Return the types of the settings around a list, one element of which was refused."""
    node = error.parent_node
    above = node._get_parent() if node is not None else None
    owner = above._metadata.object_type if above is not None else None
    return get_type_hints(owner) if _is_schema(owner) else {}


def _other(error: BaseException) -> str:
    """Return what is left: the first lines of Hydra's own text that are not about its insides."""
    text = str(error)
    if found := re.search(r"An item is already at '([^']*)'", text):
        return f"'{found[1]}' is there already: write {found[1]}=VALUE, without the +"
    if found := re.search(r"Could not override '([^']*)'", text):
        near = nearest(found[1], GROUPS)
        known = ", ".join(GROUPS)
        return f"there is no group of settings '{shown(found[1])}'.{near}\ngroups: {known}"
    if found := re.search(r"In '([^']*)': .* raised while composing config:\n(.*)", text):
        key = re.search(r"full_key: (\S+)", text)
        where = f"{found[1]}.yaml" + (f", {key[1]}" if key else "")
        lacks = re.match(r"Key '[^']*' not in 'Model_([^']*)'", found[2])
        if lacks and key:
            model, models = shown(lacks[1]), "`lrbench models` lists the others"
            return f"{found[1]}.yaml sets {key[1]}, which model {model} does not have\n{models}"
        return f"{shown(where)}: {shown(found[2], 200)}"
    lines = [shown(line.strip(), 200) for line in text.splitlines() if line.strip()]
    return "\n".join(["these settings cannot be put together", *lines[:3]])
