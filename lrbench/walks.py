"""Walks from one paper's protocol to another's: a factor a step, and how each number is read.

Two papers print different numbers for what seems to be one model on one task. A walk begins with
the settings and the reading of the first and ends with those of the second; each step changes one
factor. The number after each step tells what that factor is worth, going one way; the end with one
step left out tells what the factor alone is worth from the other side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from lrbench.errors import UserError, unknown

FACTORS = ("arithmetic", "testing", "function", "precision", "training", "model")
CHOICES = {"of": ("test", "look"), "over": ("mean", "max"), "scale": ("raw", "scaled")}
PARTS = {"model": "model.mixer.", "model.backbone.name": "model.backbone."}


@dataclass(frozen=True)
class StationReading:
    """How runs become one number.

    rule: which checkpoint of a run. of: its test on fresh strings, or the look that chose it. over:
    the mean of the runs, or the best. scale: accuracy as it is, or with chance at 0.
    """

    rule: str = "last"
    of: str = "test"
    over: str = "mean"
    scale: str = "raw"


@dataclass(frozen=True)
class Station:
    """A place on a walk: the overrides of its runs, and how its number is read off them."""

    label: str
    factor: str
    overrides: tuple[str, ...]
    reading: StationReading


@dataclass(frozen=True)
class Step:
    """One changed factor: overrides of runs, fields of the reading, or both."""

    label: str
    factor: str
    overrides: tuple[str, ...] = ()
    reading: tuple[tuple[str, str], ...] = ()

    def applied(self, at: Station) -> Station:
        """Return where it leads. Another mixer or backbone has none of the last one's settings."""
        words = _by_key(at.overrides)
        own = _by_key(self.overrides)
        for key, settings in PARTS.items():
            if own.get(key, words.get(key)) != words.get(key):
                words = {k: word for k, word in words.items() if not k.startswith(settings)}
        reading = replace(at.reading, **dict(self.reading))
        return Station(self.label, self.factor, _sorted(words | own), reading)


@dataclass(frozen=True)
class Claim:
    """What a paper prints for one end of a walk, by its own reading."""

    value: float
    source: str


@dataclass(frozen=True)
class Walk:
    """A start, steps, and what the papers print at both ends."""

    label: str
    start: Station
    steps: tuple[Step, ...]
    claims: tuple[Claim, Claim]

    @property
    def stations(self) -> list[Station]:
        """The start, and where each step leads."""
        found = [self.start]
        for step in self.steps:
            found.append(step.applied(found[-1]))
        return found

    def without(self, left_out: int) -> Station:
        """Return the end of the walk with one step left out."""
        at = self.start
        for place, step in enumerate(self.steps):
            at = at if place == left_out else step.applied(at)
        return replace(at, label=f"end without: {self.steps[left_out].label}")

    @property
    def every_station(self) -> Iterator[Station]:
        """Yield the stations of the walk, then its end without each step."""
        yield from self.stations
        yield from (self.without(place) for place in range(len(self.steps)))


def read_walk(place: str, content: Any, common: Iterable[str], rules: Iterable[str]) -> Walk:
    """Return a walk of a table's YAML; `place` names it in errors.

    Raises UserError for a walk that is not whole, a key that is not one, and a step that changes a
    setting which the start does not name: its end could not be told from other runs.
    """
    keys = ("label", "start", "reading", "steps", "claims")
    _check_keys(place, content, keys, ("label", "start", "steps", "claims"))
    label = str(content["label"])
    here = f"{place}, walk '{label}'"
    reading = _reading(here, content.get("reading", {}), rules)
    begun = _by_key((*common, *_words(here, content["start"])))
    start = Station("as the first paper", "", _sorted(begun), StationReading(**reading))
    known = set(begun)
    steps = []
    for each in _list(here, content["steps"], "steps"):
        _check_keys(here, each, ("label", "factor", "overrides", "reading"), ("label", "factor"))
        words = _words(here, each.get("overrides", []))
        changed = _reading(here, each.get("reading", {}), rules)
        step = Step(str(each["label"]), str(each["factor"]), words, tuple(changed.items()))
        if step.factor not in FACTORS:
            raise unknown(f"factor of a step of {here}", step.factor, list(FACTORS))
        if not words and not changed:
            raise UserError(
                f"{here}: step '{step.label}' changes nothing: no overrides, no reading"
            )
        new = set(_by_key(words)) - known
        if not set(PARTS) & set(_by_key(words)) and new:
            raise UserError(
                f"{here}: step '{step.label}' sets {', '.join(sorted(new))}, which the start does"
                " not name\nfix: give the start a value for it"
            )
        known |= new
        steps.append(step)
    claims = [
        Claim(_number(here, one["value"]), str(one["source"]))
        for one in _list(here, content["claims"], "claims")
        if _check_keys(here, one, ("value", "source"), ("value", "source"))
    ]
    if len(claims) != 2:
        raise UserError(f"{here} has {len(claims)} claims; a walk has one for each end")
    return Walk(label, start, tuple(steps), (claims[0], claims[1]))


def _by_key(words: Iterable[str]) -> dict[str, str]:
    """The overrides by key; of two for one key the last, at the place of the first."""
    return {word.lstrip("+").partition("=")[0]: word for word in words}


def _sorted(words: Mapping[str, str]) -> tuple[str, ...]:
    """One order for one set of settings, whichever way it was reached."""
    return tuple(words[key] for key in sorted(words))


def _check_keys(
    place: str, content: Any, keys: tuple[str, ...], needed: tuple[str, ...]
) -> Mapping[str, Any]:
    if not isinstance(content, dict) or not set(needed) <= set(content):
        missing = ", ".join(f"'{key}'" for key in needed or keys)
        raise UserError(f"{place}: expected a mapping with {missing}, not {content}")
    for key in content:
        if key not in keys:
            raise unknown(f"key of {place}", str(key), list(keys))
    return content


def _number(place: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{place}: the value of a claim must be a number, not {value!r}")
    return float(value)


def _reading(place: str, content: Any, rules: Iterable[str]) -> dict[str, str]:
    names = [field.name for field in fields(StationReading)]
    for key, value in _check_keys(place, content, tuple(names), ()).items():
        allowed = list(rules) if key == "rule" else list(CHOICES[key])
        if value not in allowed:
            raise unknown(f"{key} of a reading of {place}", str(value), allowed)
    return dict(content)


def _list(place: str, content: Any, what: str) -> list[Any]:
    if not isinstance(content, list) or not content:
        raise UserError(f"{place}: '{what}' is a list, not {content}")
    return content


def _words(place: str, content: Any) -> tuple[str, ...]:
    if not isinstance(content, list) or not all(
        isinstance(word, str) and "=" in word for word in content
    ):
        raise UserError(f"{place}: overrides are a list of KEY=VALUE, not {content}")
    return tuple(content)
