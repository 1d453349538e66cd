"""Range checks for settings; they raise ValueError, which the edge translates.

Within `limits()` every check also leaves a note of what it allows, for those who explain settings.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

UNBOUNDED = 10**9  # what is as large as this is told as no limit
KINDS = {int: "whole number", float: "number", str: "word"}


@dataclass(frozen=True)
class Range:
    """What a setting may be: at least, at most, between, or one of some words; None: no limit.

    above and below are excluded.
    """

    least: float | None = None
    most: float | None = None
    below: float | None = None
    values: tuple[str, ...] | None = None
    above: float | None = None

    def text(self) -> str:
        """Say it in words; "" where there is no limit."""
        if self.values is not None:
            return " | ".join(self.values)
        if self.above is not None:
            end = f"below {self.below:g}" if self.most is None else f"at most {self.most:,}"
            return f"above {self.above:g}, {end}"
        if self.least is not None and self.least == self.most:
            return f"{self.least:g} alone"
        if self.below is not None:
            return f"{self.least or 0:g} or more, below {self.below:g}"
        if self.most is not None and self.most < UNBOUNDED:
            return f"{self.least or 0:g} to {self.most:,}"
        return "" if self.least is None else f"{self.least:g} or more"


_notes: ContextVar[dict[str, Range] | None] = ContextVar("_notes", default=None)


@contextmanager
def limits() -> Iterator[dict[str, Range]]:
    """Collect what the checks made inside allow, by key."""
    found: dict[str, Range] = {}
    token = _notes.set(found)
    try:
        yield found
    finally:
        _notes.reset(token)


def _note(key: str, **allowed: float | tuple[str, ...]) -> None:
    if (found := _notes.get()) is not None:
        found[key] = replace(found.get(key, Range()), **allowed)  # type: ignore[arg-type]


def at_least(key: str, value: object, low: float) -> None:
    """Refuse a number below `low`, nan and infinity; None and '???' mean: not set."""
    _note(key, least=low)
    if isinstance(value, int | float) and not (value >= low and value < math.inf):
        raise ValueError(f"{key} must be at least {low:g}, not {shown(value)}")


def between(key: str, value: object, low: int, high: int) -> None:
    """Refuse a number outside low..high and nan; None and '???' mean: not set."""
    at_least(key, value, low)
    _note(key, most=high)
    if isinstance(value, int | float) and value > high:
        raise ValueError(f"{key} must be at most {high:,}, not {shown(value)}")


def fraction(key: str, value: object) -> None:
    """Refuse a number outside [0, 1) and nan; None and '???' mean: not set."""
    _note(key, least=0, below=1)
    if isinstance(value, int | float) and not 0 <= value < 1:
        raise ValueError(f"{key} must be in [0, 1), not {shown(value)}")


def inside(key: str, value: object, low: float, high: float) -> None:
    """Refuse a number that is not above `low` and below `high`; None and '???' mean: not set."""
    _note(key, above=low, below=high)
    if isinstance(value, int | float) and not low < value < high:
        raise ValueError(f"{key} must lie between {low:g} and {high:g}, not {shown(value)}")


def radii(r_min: object, r_max: object) -> None:
    """Refuse a ring of eigenvalues whose outer radius is not above the inner one, or above 1."""
    _note("model.mixer.r_max", above=0, most=1)
    if not (isinstance(r_min, int | float) and isinstance(r_max, int | float)):
        return
    if not r_min < r_max <= 1:
        raise ValueError(
            f"model.mixer.r_max must be above r_min = {r_min} and at most 1, not {r_max}"
        )


def share(
    features: int, heads: int, what: str = "model.width", fix: str = "choose heads that divide it"
) -> int:
    """Return how many of `features` each head has; refuse what is no whole number.

    what: the setting that says how many there are; fix: what a user can do.
    """
    if features % heads:
        raise ValueError(
            f"{what} of {features} cannot be shared by model.mixer.heads={heads}; {fix}"
        )
    return features // heads


def one_of(key: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a word that is not one of `allowed`."""
    _note(key, values=tuple(allowed))
    if isinstance(value, str) and value != "???" and value not in allowed:
        hint = nearest(value, allowed)
        raise ValueError(f"{key} must be one of {', '.join(allowed)}, not '{shown(value)}'.{hint}")


_typed: ContextVar[bool] = ContextVar("_typed", default=False)


@contextmanager
def from_a_user() -> Iterator[None]:
    """Take the settings made inside as a user's: `only_with` refuses there, and nowhere else.

    A run that an older version made has such settings too, and goes on being read.
    """
    token = _typed.set(True)
    try:
        yield
    finally:
        _typed.reset(token)


def only_with(
    key: str,
    value: object,
    default: object,
    condition: bool,
    other: str,
    fix: str = "leave it out",
) -> None:
    """Refuse a typed setting that nothing would read, unless it is at its default.

    condition: whether something reads it; other: with what it would be read; fix: what a user can
    do.
    """
    if _typed.get() and not condition and value != default:
        raise ValueError(f"{key}={written(value)} is for {other}; {fix}")


def kind_of(hint: Any) -> str:
    """Return what a setting of type `hint` must be, such as "a whole number or null"."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join("null" if a is NoneType else kind_of(a) for a in get_args(hint))
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        example = "[500,1000]" if item is int else "[0.9,0.999]" if item is float else "[a,b]"
        return f"a list of {KINDS.get(item, 'value')}s, such as {example}"
    if hint is bool:
        return "true or false"
    return f"a {KINDS[hint]}" if hint in KINDS else f"of type {getattr(hint, '__name__', hint)}"


def of_kind(key: str, value: object, hint: Any) -> None:
    """Refuse a value that a setting declared as `hint` cannot have; other types are let through."""
    if not is_of_kind(value, hint):
        given = "null" if value is None else shown(value)
        raise ValueError(f"{key} must be {kind_of(hint)}, not {given}")


def is_of_kind(value: object, hint: Any) -> bool:
    """Whether a setting declared as `hint` can be this; only plain types are looked at."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(is_of_kind(value, part) for part in parts)
    if origin is list:
        return isinstance(value, list) and all(is_of_kind(one, parts[0]) for one in value)
    if hint is float:
        return type(value) in (int, float)
    known = hint in (*KINDS, bool, NoneType)
    return not known or type(value) is hint  # True is an int to isinstance


@contextmanager
def named_as_typed(names: Mapping[str, str]) -> Iterator[None]:
    """Let a ValueError of a part name settings as they are typed: `names` by the part's own."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        for inside, typed in names.items():
            text = text.replace(inside, typed)
        raise ValueError(text) from error


def nearest(name: str, known: Sequence[str]) -> str:
    """Return " Did you mean 'x'?" for the known word closest to a misspelt one, or nothing."""
    near = difflib.get_close_matches(name[:100].lower(), list(known), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def written(value: object) -> str:
    """Return a value as it may be printed and typed: booleans as YAML has them."""
    return str(value).lower() if isinstance(value, bool) else shown(value)


def shown(value: object, limit: int = 80) -> str:
    """Return a value on one line, as it may be printed: cut short, control characters escaped."""
    text = str(value)
    short = text if len(text) <= limit else f"{text[: limit - 20]}...{text[-10:]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in short)
