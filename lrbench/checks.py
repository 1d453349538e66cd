"""Range checks for settings; they raise ValueError, which the edge translates."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence


def at_least(key: str, value: object, low: float) -> None:
    """Refuse a number below `low`, nan and infinity; None and '???' mean: not set."""
    if isinstance(value, int | float) and not (value >= low and value < math.inf):
        raise ValueError(f"{key} must be at least {low:g}, not {shown(value)}")


def between(key: str, value: object, low: int, high: int) -> None:
    """Refuse a number outside low..high and nan; None and '???' mean: not set."""
    at_least(key, value, low)
    if isinstance(value, int | float) and value > high:
        raise ValueError(f"{key} must be at most {high:,}, not {shown(value)}")


def fraction(key: str, value: object) -> None:
    """Refuse a number outside [0, 1) and nan; None and '???' mean: not set."""
    if isinstance(value, int | float) and not 0 <= value < 1:
        raise ValueError(f"{key} must be in [0, 1), not {shown(value)}")


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
    if isinstance(value, str) and value != "???" and value not in allowed:
        hint = nearest(value, allowed)
        raise ValueError(f"{key} must be one of {', '.join(allowed)}, not '{shown(value)}'.{hint}")


def nearest(name: str, known: Sequence[str]) -> str:
    """Return " Did you mean 'x'?" for the known word closest to a misspelt one, or nothing."""
    near = difflib.get_close_matches(name[:100].lower(), list(known), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def shown(value: object, limit: int = 80) -> str:
    """Return a value on one line, as it may be printed: cut short, control characters escaped."""
    text = str(value)
    short = text if len(text) <= limit else f"{text[: limit - 20]}...{text[-10:]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in short)
