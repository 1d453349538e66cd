"""The configurations of many cells, composed as rarely as they allow.

Hydra takes a tenth of a second and more for one configuration. Cells of a sweep differ in a few
choices (task, model, protocol, preset) and in many plain values (a rate, a width, a seed). Cells of
the same choices share one composition; a value that was composed once is known for all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import is_dataclass, replace
from functools import cache
from typing import Any, cast, get_type_hints

from lrbench.cli.hydra.overrides import GROUPS
from lrbench.config import Config
from lrbench.registry import FOREIGN
from lrbench.sweeps.plan.expansion import Overrides

VALUE = re.compile(r"(?P<key>[a-z]\w*(\.\w+)*)=(?P<value>[\w.,+\[\]/-]*)")
# Numbers that Hydra reads as they stand, of a field of this type.
NUMBERS = {
    int: re.compile(r"0|[1-9]\d{0,8}"),
    float: re.compile(r"\d+\.\d+(e-?\d{1,2})?|\d+e-?\d{1,2}"),
}
SEED = "seed"  # of many cells the only difference
NAME = "name"  # what is called so says which settings there are

Kind = tuple[type, str, str]  # a dataclass, one of its fields, and the word typed for it


class SharedComposition:
    """What `compose` returns, without composing again what other cells have shown already.

    Equal to composing each cell, where no value of a configuration file refers to another one.
    """

    def __init__(self, compose: Callable[[Sequence[str]], Config]) -> None:
        self._compose = compose
        self._of_choices: dict[tuple[Overrides, frozenset[str]], Config] = {}
        self._of_seeds: dict[tuple[Overrides, frozenset[tuple[str, str]]], Config] = {}
        self._values: dict[Kind, Any] = {}

    def __call__(self, overrides: Sequence[str]) -> Config:
        """Return the configuration of a cell. Raises what `compose` raises."""
        choices, values = _split(overrides)
        if values is None:
            return self._compose(overrides)
        alike = choices, frozenset((k, "" if k == SEED else v) for k, v in values.items())
        made = self._of_another_seed(self._of_seeds.get(alike), values)
        if made is not None:
            return made
        place = choices, frozenset(values)
        known = self._of_choices.get(place)
        made = None if known is None else self._with(known, values)
        if made is None:
            made = self._compose(overrides)
            if made.model.name == FOREIGN:  # its settings decide which code they name
                return made
            self._of_choices[place] = made
            for key, value in values.items():
                if found := _field(made, key):
                    self._values[type(found[0]), found[1], value] = getattr(*found)
        self._of_seeds[alike] = made
        return made

    def _of_another_seed(self, config: Config | None, values: dict[str, str]) -> Config | None:
        """Return the configuration with the seed of `values`, whose parts stay the same objects."""
        if config is None or SEED not in values:
            return config
        return self._with(config, {SEED: values[SEED]})

    def _with(self, config: Config, values: dict[str, str]) -> Config | None:
        """Return the configuration with these values, None if one of them is not known yet."""
        changes: dict[str, Any] = {}
        for key, typed in values.items():
            found = _field(config, key)
            if found is None:
                return None
            kind = (type(found[0]), found[1], typed)
            if kind not in self._values:
                number = _types(cast(Hashable, kind[0]))[found[1]]
                if number not in NUMBERS or not NUMBERS[number].fullmatch(typed):
                    return None
                self._values[kind] = number(typed)
            _put(changes, key.split("."), self._values[kind])
        try:
            made: Config = _replaced(config, changes)
        except ValueError:  # values that do not go together: Hydra's way has the message
            return None
        return made


@cache
def _types(settings: Any) -> dict[str, Any]:
    return get_type_hints(settings)


def _split(overrides: Sequence[str]) -> tuple[Overrides, dict[str, str] | None]:
    """Return the choices of a cell and its values by key; no values where one cannot tell."""
    choices, values = [], {}
    for word in overrides:
        if "${" in word:
            return (), None
        found = VALUE.fullmatch(word)
        key = found["key"] if found else ""
        if found is None or key in GROUPS or key.rpartition(".")[2] == NAME:
            choices.append(word)
        elif key in values:
            return (), None
        else:
            values[key] = found["value"]
    return tuple(choices), values


def _field(config: Any, key: str) -> tuple[Any, str] | None:
    """Return the dataclass that holds a setting and the name of its field, None if none does."""
    *path, name = key.split(".")
    for part in path:
        config = getattr(config, part, None)
    if not is_dataclass(config) or isinstance(getattr(config, name, {}), dict):
        return None
    return config, name


def _put(changes: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        changes = changes.setdefault(part, {})
    changes[path[-1]] = value


def _replaced(settings: Any, changes: dict[str, Any]) -> Any:
    """Return a dataclass with these settings, its nodes included; what it checks is checked."""
    return replace(
        settings,
        **{
            name: _replaced(getattr(settings, name), change) if isinstance(change, dict) else change
            for name, change in changes.items()
        },
    )
