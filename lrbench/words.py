"""Meanings, defaults and ranges of settings, from the dataclasses of a configuration.

A dataclass of settings says what its own fields mean in its docstring, below the first line, as
`name: meaning.`, where a sentence begins; equal ones together as `a, b: meaning.` A class takes
over the words of its bases. The values allowed are those that its `__post_init__` checks
(lrbench/checks.py), so that nothing is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from inspect import cleandoc
from typing import Any

from lrbench.checks import Range, limits

# What a setting takes, by its type as it is written.
KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a name",
    "list[int]": "whole numbers: [1,2]",
    "list[float]": "numbers: [0.5,2]",
    "list[str]": "names: [a,b]",
    "dict[str, Any]": "settings: {a: 1, b: 2}",
}


@dataclass(frozen=True)
class SettingCard:
    """A setting as it is typed: its whole key, what it means, its default and what it may be.

    meaning: "" where nothing says it. limits: none that a check names where all are None.
    kind: of its values, in words.
    """

    key: str
    meaning: str
    default: Any
    limits: Range
    kind: str = ""

    @property
    def allowed(self) -> str:
        """What it may be, in words: the values that a check allows, or their kind."""
        return self.limits.text() or self.kind


def settings(schema: type, prefix: str = "") -> list[SettingCard]:
    """Return every setting of a dataclass, those of dataclasses inside it too, in their order.

    prefix: what stands before each key, such as "task.". A `name` without words is left out: it
    is what chose the dataclass.
    """
    with limits() as found:
        made = schema()
    return list(_settings(made, prefix, found))


def _settings(made: Any, prefix: str, found: dict[str, Range]) -> Iterator[SettingCard]:
    said = words(type(made))
    for one in fields(made):
        value, key = getattr(made, one.name), f"{prefix}{one.name}"
        if is_dataclass(value):
            yield from _settings(value, f"{key}.", found)
        elif one.name != "name" or "name" in said:
            allowed = found.get(key, Range())
            declared = one.type.__name__ if isinstance(one.type, type) else str(one.type)
            yield SettingCard(key, said.get(one.name, ""), value, allowed, kind(declared))


def kind(annotation: str) -> str:
    """Return in words what a field of such a type takes; "" of any other type."""
    words = KINDS.get(annotation.removesuffix(" | None"), "")
    return f"{words}, or null" if words and annotation.endswith(" | None") else words


def words(schema: type) -> dict[str, str]:
    """Return {field: what it means} of a dataclass; fields without words are left out."""
    known = [one.name for one in fields(schema)]
    found: dict[str, str] = {}
    for cls in reversed(schema.__mro__):
        found |= glossary(cls.__dict__.get("__doc__") or "", known)
    return {name: found[name] for name in known if name in found}


def glossary(docstring: str, names: list[str]) -> dict[str, str]:
    """Return what the prose of a docstring says of some of `names`: `name: meaning.`"""
    found: dict[str, str] = {}
    if not names:
        return found
    name = f"(?:{'|'.join(map(re.escape, names))})"
    start = re.compile(rf"(?:^|(?<=[.!?]\s))({name}(?:, {name})*)(, [^:.]*)?: ")
    for paragraph in cleandoc(docstring).split("\n\n")[1:]:
        text = " ".join(paragraph.split())
        starts = list(start.finditer(text))
        ends = [*(one.start() for one in starts), len(text)][1:]
        for one, end in zip(starts, ends, strict=True):
            qualifier = f"({one[2].removeprefix(', ')}) " if one[2] else ""
            meaning = qualifier + text[one.end() : end].strip()
            found |= dict.fromkeys(one[1].split(", "), meaning)
    return found
