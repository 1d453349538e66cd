"""What `lrbench show` is asked for: KEY=VALUE words, checked as `lrbench train` checks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from typing import TYPE_CHECKING, Any

from lrbench.checks import at_least, between, nearest, shown
from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.registry import Entry

LIMITS = {"length": 1000, "count": 100, "seed": 2**63 - 1}  # for reading; the oracle is quadratic


@dataclass
class Request:
    """What to show; the field `task`, added for the task that was named, has its settings."""

    length: int | None = None
    count: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for key, limit in LIMITS.items():
            low, value = int(key != "seed"), getattr(self, key)
            if isinstance(value, int) and not low <= value <= limit:
                raise ValueError(f"{key} must be from {low} to {limit}, not {value}")


@dataclass
class SplitRequest:
    """What to show of a corpus: `count` rows of a split, from row `first` on."""

    split: str = "train"
    count: int = 3
    first: int = 1

    def __post_init__(self) -> None:
        between("count", self.count, 1, LIMITS["count"])
        at_least("first", self.first, 1)


def pairs(words: Sequence[str]) -> dict[str, str]:
    """Return KEY=VALUE words as a dict, the last of equal keys; UserError for another word."""
    for word in words:
        if not word.partition("=")[0] or "=" not in word:
            raise UserError(f"cannot read '{word}'\nwrite KEY=VALUE, such as task=sum length=12")
    return dict(word.split("=", 1) for word in words)


def requested(entry: Entry, values: dict[str, str], kind: type) -> Any:
    """Return the checked Request (or another `kind`) of `values`, texts as typed, for one task.

    Raises UserError for an unknown key, a wrong type or a value out of range.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    own = [f"task.{one.name}" for one in fields(entry.config) if one.name != "name"]
    known = ["task", *(one.name for one in fields(kind)), *own]
    schema: Any = make_dataclass(
        "ShowRequest",
        [("task", entry.config, field(default_factory=entry.config))],
        bases=(kind,),
    )
    node = OmegaConf.structured(schema)
    for key, value in values.items():
        if key not in known:
            raise UserError(
                f"there is no setting '{key}'.{nearest(key, known)}\nthere are: {', '.join(known)}"
            )
        _set(node, key, value)
    try:
        return OmegaConf.to_object(node)
    except OmegaConfBaseException as error:
        raise UserError(str(error).partition("\n")[0]) from error
    except ValueError as error:
        raise UserError(str(error)) from error


def _set(node: Any, key: str, value: str) -> None:
    """Set one value in `node`, read as `lrbench train` reads it; UserError for another type."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        override = OverridesParser.create().parse_override(f"{key}={value}")
        OmegaConf.update(node, key, override.value())
    except (OmegaConfBaseException, HydraException, ValueError) as error:
        kinds = {"Integer": "a whole number", "Float": "a number", "Boolean": "true or false"}
        kind = next((kinds[kind] for kind in kinds if f"converted to {kind}" in str(error)), "")
        wanted = f"\nit must be {kind}" if kind else ""
        raise UserError(f"{key} cannot be '{shown(value)}'{wanted}") from error
