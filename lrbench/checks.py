"""Range checks for settings; they raise ValueError, which the edge translates."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def at_least(key: str, value: object, low: float) -> None:
    """Refuse a number below `low` or one that is not a number; None and '???' mean: not set."""
    if isinstance(value, int | float) and not value >= low:
        raise ValueError(f"{key} must be at least {low:g}, not {value}")


def one_of(key: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a word that is not one of `allowed`."""
    if isinstance(value, str) and value != "???" and value not in allowed:
        raise ValueError(f"{key} must be one of {', '.join(allowed)}, not '{value}'")


def nearest(word: str, known: Sequence[str]) -> str:
    """Return " Did you mean 'x'?" for the known word closest to a misspelt one, or nothing."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f" Did you mean '{near[0]}'?" if near else ""
