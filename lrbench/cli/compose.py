"""From the words a user typed to a Config, with Hydra's and OmegaConf's errors in our words."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf

from lrbench.checks import nearest
from lrbench.config import Config, register_schema
from lrbench.errors import UserError
from lrbench.locations import conf_dir
from lrbench.plugins import load_plugins

GROUPS = ("task", "model", "protocol", "optim")


def run_hydra(words: list[str], job: Callable[[Config], None]) -> None:
    """Compose the configuration from `words` and hand it, checked, to `job`.

    Every word goes to `hydra.main`: overrides, --cfg, --config-dir, launchers. Raises UserError
    for whatever Hydra or the schema does not accept.
    """
    import hydra
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    load_plugins()
    register_schema()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # let exceptions through, to be told in our words
    sys.argv = ["lrbench train", *words]

    raised: list[BaseException] = []

    def task(composed: Any) -> None:
        try:  # kept until Hydra is done, which would print a line of its own about it
            job(to_config(composed))
        except Exception as error:
            raised.append(error)

    version = {} if hydra.__version__ >= "1.4" else {"version_base": "1.3"}
    try:
        hydra.main(config_path=str(conf_dir()), config_name="config", **version)(task)()
    except (HydraException, OmegaConfBaseException) as error:
        raise translated(error) from error
    if raised:
        raise raised[0]


def to_config(composed: Any) -> Config:
    """Return the dataclasses of a composed configuration; a value out of range is a UserError."""
    from omegaconf.errors import OmegaConfBaseException

    _refuse_extra_keys(composed)
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        raise translated(error) from error
    except ValueError as error:
        raise UserError(str(error)) from error
    assert isinstance(config, Config)
    return config


def _refuse_extra_keys(node: Any, prefix: str = "") -> None:
    """Refuse keys that were added with +key=value: nothing reads them."""
    known = {field.name for field in fields(OmegaConf.get_type(node))}
    for key in node:
        if key not in known:
            raise UserError(
                f"there is no setting '{prefix}{key}'.{nearest(str(key), sorted(known))}\n"
                f"there are: {', '.join(sorted(known))}"
            )
        if OmegaConf.is_dict(node) and OmegaConf.is_dict(child := node._get_node(key)):
            _refuse_extra_keys(child, f"{prefix}{key}.")


def translated(error: Exception) -> UserError:
    """Return a UserError for what Hydra or OmegaConf refused: the thing, the value, the fix."""
    text = _whole_text(error)
    for pattern, tell in TRANSLATIONS:
        if found := re.search(pattern, text):
            return UserError(tell(found))
    return UserError("\n".join(line for line in text.splitlines() if line.strip()))


def _whole_text(error: BaseException) -> str:
    parts = [str(error)]
    while error.__cause__ is not None:
        error = error.__cause__
        parts.append(str(error))
    return "\n".join(parts)


def _unknown_choice(found: re.Match[str]) -> str:
    group, name = found["group"], found["name"]
    known = [w for w in re.findall(r"^\t(\S+)$", found.string, re.M) if w != group]
    if group not in GROUPS:
        return f"there is no group of settings called '{group}'\ngroups: {', '.join(GROUPS)}"
    return f"{group} '{name}' unknown.{nearest(name, known)}\nknown: {', '.join(known)}"


def _unknown_key(found: re.Match[str]) -> str:
    key, full = found["key"], _full_key(found)
    known = _known_keys(full)
    return (
        f"there is no setting '{full}'.{nearest(key, known)}"
        + (f"\nthere are: {', '.join(known)}" if known else "")
        + "\n`lrbench train --cfg job` prints every setting with its value"
    )


def _full_key(found: re.Match[str]) -> str:
    full = re.search(r"full_key: (\S+)", found.string)
    return full[1] if full else found["key"]


def _known_keys(full: str) -> list[str]:
    """Return the settings beside a misspelt one, as far as the schema alone can tell."""
    node: Any = OmegaConf.structured(Config)
    for part in full.split(".")[:-1]:
        if part not in node or not OmegaConf.is_config(node[part]):
            return []
        node = node[part]
    parents = full.split(".")[:-1]
    if parents[:1] in (["task"], ["model"]):
        node = _composed_node(parents)
    return sorted(str(key) for key in node) if node is not None else []


def _composed_node(parents: list[str]) -> Any:
    """Return the node of the task or model the user chose, from the words on the command line."""
    from hydra.core.config_store import ConfigStore

    words = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    default = {"task": "sum", "model": "blockdiag"}[parents[0]]
    node: Any = ConfigStore.instance().load(f"{parents[0]}/{words.get(parents[0], default)}.yaml").node
    for part in parents[1:]:
        if part not in node or not OmegaConf.is_config(node[part]):
            return None
        node = node[part]
    return node


def _wrong_type(found: re.Match[str]) -> str:
    kinds = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}
    kind = kinds.get(found["kind"], f"of type {found['kind']}")
    return f"{_full_key(found) if 'full_key' in found.string else 'setting'} must be {kind}, not '{found['value']}'"


TRANSLATIONS: list[tuple[str, Callable[[re.Match[str]], str]]] = [
    (r"Could not find '(?P<group>[\w/]+)/(?P<name>[^/']*)'", _unknown_choice),
    (r"Could not override '(?P<group>[\w/]+)'\.\s*No match in the defaults list", _unknown_choice),
    (r"Key '(?P<key>[^']*)' (?:is )?not in '", _unknown_key),
    (r"Value '(?P<value>.*)' of type '.*' could not be converted to (?P<kind>\w+)", _wrong_type),
    (
        r"full_key: (?P<key>\S+)[\s\S]*is not a ListConfig|is not a ListConfig[\s\S]*full_key: (?P<same>\S+)",
        lambda found: f"{found['key'] or found['same']} must be a list, such as [500,1000]",
    ),
    (
        r"Ambiguous value for argument '(?P<word>.*)'",
        lambda found: (
            f"'{found['word']}' names several values; train takes one\n"
            "write a list as key=[1,2], and quote a value with commas: key=\\'a,b\\'"
        ),
    ),
    (
        r"Error resolving interpolation|Could not delete",
        lambda found: "task, model, protocol and optim cannot be taken away; choose others instead",
    ),
    (
        r"(?s)(?:missing EQUAL|mismatched input|no viable alternative|token recognition error|extraneous input).*",
        lambda found: _cannot_read(found),
    ),
]


def _cannot_read(found: re.Match[str]) -> str:
    word = re.search(r"(?:parsing|parse) override '(.*)'", found.string)
    shown = f" '{word[1]}'" if word else ""
    return (
        f"cannot read the override{shown}\n"
        "write KEY=VALUE, such as optim.lr=3e-4; quote values with special characters"
    )
